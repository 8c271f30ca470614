//! Values as nft prints them.

use std::net::IpAddr;

use picket_net::{AddressRange, Bound, Family, Interval, Prefix};

use super::token::{Cursor, TextError};
use crate::model::{Datatype, InterfaceName, Value};
use crate::parse::{names, value as json};

pub(super) fn datatype(text: &str) -> Option<Datatype> {
    json::DATATYPES.into_iter().find(|one| one.keyword() == text)
}

/// A value or an interval of values.
pub(super) fn value(cursor: &mut Cursor<'_, '_>, datatype: Datatype) -> Result<Value, TextError> {
    let text = cursor.text(datatype.keyword())?;
    let read = match datatype {
        Datatype::Ipv4Address | Datatype::Ipv6Address => {
            let value = addresses(text).map(Value::addresses);
            value.filter(|value| value.datatype() == datatype)
        }
        Datatype::Interface => InterfaceName::new(text).map(Value::Interface),
        Datatype::Mark => interval(text, number).map(Value::Mark),
        Datatype::Priority => interval(text, json::class_of).map(Value::Priority),
        Datatype::Protocol => interval(text, names::protocol).map(Value::Protocol),
        Datatype::Port => interval(text, |text| text.parse().ok()).map(Value::Port),
        Datatype::IcmpType => interval(text, names::icmp_type).map(Value::IcmpType),
        Datatype::Icmpv6Type => interval(text, names::icmpv6_type).map(Value::Icmpv6Type),
        Datatype::Family => match text {
            "ipv4" => Some(Value::Family(Family::Ipv4)),
            "ipv6" => Some(Value::Family(Family::Ipv6)),
            _ => None,
        },
    };
    read.ok_or_else(|| {
        cursor.error(format!(
            "`{text}` is no value of type {datatype} that picket knows"
        ))
    })
}

pub(super) fn mark(cursor: &mut Cursor<'_, '_>) -> Result<u32, TextError> {
    let text = cursor.word("a mark")?;
    number(text).ok_or_else(|| cursor.error(format!("`{text}` is no mark")))
}

pub(super) fn class(cursor: &mut Cursor<'_, '_>) -> Result<u32, TextError> {
    let text = cursor.word("a queueing priority")?;
    json::class_of(text).ok_or_else(|| cursor.error(format!("`{text}` is no queueing priority")))
}

/// Decimal, or hexadecimal after `0x`.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// One value, or two with `-` between; names have such signs as well.
fn interval<T: Bound>(text: &str, read: impl Fn(&str) -> Option<T>) -> Option<Interval<T>> {
    if let Some(single) = read(text) {
        return Some(Interval::single(single));
    }
    text.match_indices('-').find_map(|(at, _)| {
        let (first, last) = (text.get(..at)?, text.get(at + 1..)?);
        Interval::new(read(first)?, read(last)?)
    })
}

fn addresses(text: &str) -> Option<AddressRange> {
    if let Some((address, length)) = text.split_once('/') {
        let prefix = Prefix::new(address.parse().ok()?, length.parse().ok()?)?;
        return Some(prefix.range());
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (IpAddr, IpAddr) = (first.parse().ok()?, last.parse().ok()?);
    AddressRange::new(first, last)
}
