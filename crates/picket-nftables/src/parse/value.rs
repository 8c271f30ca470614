//! Values, keys and what maps give.

use std::net::IpAddr;

use picket_net::{AddressRange, Bound, Family, Interval, Prefix};
use serde_json::Value as Json;

use super::{ParseError, Result, array, interface, named, names};
use crate::model::{Datatype, Datum, Key, MapType, Value, Verdict};

/// The type of the keys of a set or map, and whether they may be intervals.
pub(super) fn key_type(object: &Json) -> Result<(Vec<Datatype>, bool)> {
    let types = object.get("type").unwrap_or(&Json::Null);
    let key = match types {
        Json::Array(several) => several.iter().map(datatype).collect::<Result<Vec<_>>>()?,
        one => vec![datatype(one)?],
    };
    let flags = object
        .get("flags")
        .and_then(Json::as_array)
        .map_or([].as_slice(), Vec::as_slice);
    if flags.iter().any(|flag| flag != "interval") {
        return Err(ParseError::unknown("flag of a set", &Json::from(flags)));
    }
    Ok((key, !flags.is_empty()))
}

/// The types of keys.
pub(super) const DATATYPES: [Datatype; 10] = [
    Datatype::Ipv4Address,
    Datatype::Ipv6Address,
    Datatype::Interface,
    Datatype::Mark,
    Datatype::Priority,
    Datatype::Protocol,
    Datatype::Port,
    Datatype::IcmpType,
    Datatype::Icmpv6Type,
    Datatype::Family,
];

fn datatype(json: &Json) -> Result<Datatype> {
    let found = DATATYPES
        .into_iter()
        .find(|one| json.as_str() == Some(one.keyword()));
    found.ok_or_else(|| ParseError::unknown("type of a set", json))
}

/// The key of an element.
pub(super) fn key(json: &Json, types: &[Datatype]) -> Result<Key> {
    match types {
        [one] => Ok(value(json, *one)?.into()),
        several => {
            let parts = array(json.get("concat").unwrap_or(&Json::Null), "concatenation")?;
            if parts.len() != several.len() {
                return Err(ParseError::unknown("concatenation", json));
            }
            let values = parts
                .iter()
                .zip(several)
                .map(|(part, &datatype)| value(part, datatype));
            Ok(Key::of(values.collect::<Result<Vec<_>>>()?))
        }
    }
}

/// What an element of a map gives.
pub(super) fn datum(json: &Json, gives: MapType) -> Result<Datum> {
    Ok(match gives {
        MapType::Verdict => Datum::Verdict(verdict(json)?),
        MapType::Mark => Datum::Mark(integer(json)?),
        MapType::Priority => Datum::Priority(class(json)?),
    })
}

/// A verdict.
pub(super) fn verdict(json: &Json) -> Result<Verdict> {
    let (kind, argument) = json
        .as_object()
        .and_then(|fields| fields.iter().next())
        .ok_or_else(|| ParseError::unknown("verdict", json))?;
    let target = || named(argument.get("target").and_then(Json::as_str).unwrap_or_default());
    Ok(match kind.as_str() {
        "accept" => Verdict::Accept,
        "drop" => Verdict::Drop,
        "return" => Verdict::Return,
        "jump" => Verdict::Jump(target()?),
        "goto" => Verdict::Goto(target()?),
        _ => return Err(ParseError::unknown("verdict", json)),
    })
}

/// A value or an interval of values.
pub(super) fn value(json: &Json, datatype: Datatype) -> Result<Value> {
    Ok(match datatype {
        Datatype::Ipv4Address | Datatype::Ipv6Address => {
            let value = Value::addresses(addresses(json)?);
            if value.datatype() != datatype {
                return Err(ParseError::unknown("address of its family", json));
            }
            value
        }
        Datatype::Interface => Value::Interface(interface(json.as_str().unwrap_or_default())?),
        Datatype::Mark => Value::Mark(interval(json, integer)?),
        Datatype::Priority => Value::Priority(interval(json, class)?),
        Datatype::Protocol => Value::Protocol(interval(json, protocol)?),
        Datatype::Port => Value::Port(interval(json, integer)?),
        Datatype::IcmpType => Value::IcmpType(interval(json, |one| named_or(one, names::icmp_type))?),
        Datatype::Icmpv6Type => Value::Icmpv6Type(interval(json, |one| named_or(one, names::icmpv6_type))?),
        Datatype::Family => Value::Family(family(json)?),
    })
}

fn interval<T: Bound>(json: &Json, read: impl Fn(&Json) -> Result<T>) -> Result<Interval<T>> {
    let Some(ends) = json.get("range") else {
        return Ok(Interval::single(read(json)?));
    };
    let found = match array(ends, "range")? {
        [first, last] => Interval::new(read(first)?, read(last)?),
        _ => None,
    };
    found.ok_or_else(|| ParseError::unknown("range", json))
}

fn addresses(json: &Json) -> Result<AddressRange> {
    let address = |json: &Json| -> Result<IpAddr> {
        let address = json.as_str().and_then(|text| text.parse().ok());
        address.ok_or_else(|| ParseError::unknown("address", json))
    };
    if let Some(prefix) = json.get("prefix") {
        let length = prefix
            .get("len")
            .and_then(Json::as_u64)
            .and_then(|length| u8::try_from(length).ok());
        let first = address(prefix.get("addr").unwrap_or(&Json::Null))?;
        let prefix = length.and_then(|length| Prefix::new(first, length));
        return prefix
            .map(|prefix| prefix.range())
            .ok_or_else(|| ParseError::unknown("prefix", json));
    }
    let (first, last) = match json.get("range").map(|ends| array(ends, "range")).transpose()? {
        Some([first, last]) => (address(first)?, address(last)?),
        Some(_) => return Err(ParseError::unknown("range", json)),
        None => (address(json)?, address(json)?),
    };
    AddressRange::new(first, last).ok_or_else(|| ParseError::unknown("range", json))
}

/// A number of any width.
pub(super) fn integer<T: TryFrom<u64>>(json: &Json) -> Result<T> {
    let number = json
        .as_u64()
        .or_else(|| json.as_str().and_then(|text| text.parse().ok()));
    number
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| ParseError::unknown("number", json))
}

/// A queueing priority.
pub(super) fn class(json: &Json) -> Result<u32> {
    json.as_str()
        .and_then(class_of)
        .ok_or_else(|| ParseError::unknown("queueing priority", json))
}

/// A queueing priority: `major:minor` in hexadecimal, `none` or `root`.
pub(super) fn class_of(text: &str) -> Option<u32> {
    if let "none" | "root" = text {
        return Some(if text == "none" { 0 } else { u32::MAX });
    }
    let (major, minor) = text.split_once(':')?;
    let half = |text: &str| u16::from_str_radix(text, 16).ok().map(u32::from);
    Some(half(major)? << 16 | half(minor)?)
}

fn protocol(json: &Json) -> Result<u8> {
    named_or(json, names::protocol)
}

/// A number, or a name for one.
fn named_or(json: &Json, read: fn(&str) -> Option<u8>) -> Result<u8> {
    match json.as_str().and_then(read) {
        Some(number) => Ok(number),
        None => integer(json),
    }
}

fn family(json: &Json) -> Result<Family> {
    match (json.as_str(), json.as_u64()) {
        (Some("ipv4"), _) | (_, Some(2)) => Ok(Family::Ipv4),
        (Some("ipv6"), _) | (_, Some(10)) => Ok(Family::Ipv6),
        _ => Err(ParseError::unknown("address family", json)),
    }
}
