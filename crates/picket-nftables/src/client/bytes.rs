//! Values as the kernel compares them.

use picket_net::{Bound, Family, Interval};

use crate::model::{Comment, Datatype, InterfaceName, MapType, Value};

/// In which order the bytes of marks and queueing priorities stand. Everything else is in network order or one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    /// As the machine has them: what is compared for equality.
    Host,
    /// Highest first: what is compared by size.
    Network,
}

impl ByteOrder {
    /// That of what may be an interval.
    pub(super) fn of(interval: bool) -> Self {
        if interval { Self::Network } else { Self::Host }
    }
}

/// The end of an interval that is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    First,
    Last,
}

/// The numbers of types in nft, which keeps them in the kernel beside a set.
const TYPES: [(Datatype, u32); 10] = [
    (Datatype::Family, 2),
    (Datatype::Ipv4Address, 7),
    (Datatype::Ipv6Address, 8),
    (Datatype::Protocol, 12),
    (Datatype::Port, 13),
    (Datatype::IcmpType, 14),
    (Datatype::Mark, 19),
    (Datatype::Priority, 23),
    (Datatype::Icmpv6Type, 29),
    (Datatype::Interface, 41),
];

fn type_number(datatype: Datatype) -> u32 {
    let found = TYPES.iter().find(|(one, _)| *one == datatype);
    // INVARIANT: every type is there.
    found.map_or(0, |(_, number)| *number)
}

/// The number of the type of a key; a concatenation has six bits for each field.
pub(super) fn key_type(key: &[Datatype]) -> u32 {
    key.iter()
        .fold(0, |number, &field| number << 6 | type_number(field))
}

/// The key of a type with this number, if every field of it is of a type that picket uses.
pub(super) fn key_of_type(mut number: u32) -> Option<Vec<Datatype>> {
    let mut key = Vec::new();
    while number > 0 {
        let (datatype, _) = TYPES.iter().find(|(_, one)| *one == number & 0x3f)?;
        key.insert(0, *datatype);
        number >>= 6;
    }
    Some(key)
}

/// The number and length of what a map gives.
pub(super) fn data_type(gives: MapType) -> (u32, u32) {
    match gives {
        MapType::Verdict => (0xffff_ff00, 0),
        MapType::Mark => (type_number(Datatype::Mark), 4),
        MapType::Priority => (type_number(Datatype::Priority), 4),
    }
}

/// Bytes of a value.
pub(super) fn width(datatype: Datatype) -> usize {
    match datatype {
        Datatype::Ipv6Address | Datatype::Interface => 16,
        Datatype::Ipv4Address | Datatype::Mark | Datatype::Priority => 4,
        Datatype::Port => 2,
        Datatype::Protocol | Datatype::IcmpType | Datatype::Icmpv6Type | Datatype::Family => 1,
    }
}

/// Whether the machine's own byte order is that of values of this type.
pub(super) fn is_of_host(datatype: Datatype) -> bool {
    matches!(datatype, Datatype::Mark | Datatype::Priority)
}

/// What nft writes beside a set about the byte order of a type: 1 for that of the machine, 2 for that of the network.
pub(super) fn byte_order_number(datatype: Datatype) -> u32 {
    match datatype {
        Datatype::Interface | Datatype::Mark | Datatype::Priority => 1,
        Datatype::Protocol | Datatype::Family => 0,
        Datatype::Ipv4Address
        | Datatype::Ipv6Address
        | Datatype::Port
        | Datatype::IcmpType
        | Datatype::Icmpv6Type => 2,
    }
}

/// One end of `value` as a number of which the highest byte comes first on the wire.
pub(super) fn number(value: &Value, end: End) -> u128 {
    match (value, value.ends()) {
        (Value::Interface(name), _) => name
            .as_str()
            .bytes()
            .chain(std::iter::repeat(0))
            .take(16)
            .fold(0, |number, byte| number << 8 | u128::from(byte)),
        (_, Some((first, last))) => match end {
            End::First => first,
            End::Last => last,
        },
        // INVARIANT: everything but an interface has ends.
        (_, None) => 0,
    }
}

/// Appends a number of `datatype`.
pub(super) fn write_number(bytes: &mut Vec<u8>, number: u128, datatype: Datatype, order: ByteOrder) {
    let width = width(datatype);
    let start = bytes.len();
    bytes.extend(number.to_be_bytes().iter().skip(16 - width));
    if order == ByteOrder::Host && is_of_host(datatype) && cfg!(target_endian = "little") {
        bytes.get_mut(start..).unwrap_or_default().reverse();
    }
}

/// Appends one end of `value`.
pub(super) fn write(bytes: &mut Vec<u8>, value: &Value, end: End, order: ByteOrder) {
    write_number(bytes, number(value, end), value.datatype(), order);
}

/// What [`write_number`] wrote, if it is of the length that the type has.
pub(super) fn read_number(bytes: &[u8], datatype: Datatype, order: ByteOrder) -> Option<u128> {
    if bytes.len() != width(datatype) {
        return None;
    }
    let append = |number: u128, byte: &u8| number << 8 | u128::from(*byte);
    if order == ByteOrder::Host && is_of_host(datatype) && cfg!(target_endian = "little") {
        Some(bytes.iter().rev().fold(0, append))
    } else {
        Some(bytes.iter().fold(0, append))
    }
}

/// The value with these ends, as [`number`] gives them.
pub(super) fn value(datatype: Datatype, first: u128, last: u128) -> Option<Value> {
    fn interval<T: Bound + TryFrom<u128>>(first: u128, last: u128) -> Option<Interval<T>> {
        Interval::new(first.try_into().ok()?, last.try_into().ok()?)
    }
    Some(match datatype {
        Datatype::Ipv4Address => Value::Ipv4(interval(first, last)?),
        Datatype::Ipv6Address => Value::Ipv6(interval(first, last)?),
        Datatype::Mark => Value::Mark(interval(first, last)?),
        Datatype::Priority => Value::Priority(interval(first, last)?),
        Datatype::Protocol => Value::Protocol(interval(first, last)?),
        Datatype::Port => Value::Port(interval(first, last)?),
        Datatype::IcmpType => Value::IcmpType(interval(first, last)?),
        Datatype::Icmpv6Type => Value::Icmpv6Type(interval(first, last)?),
        Datatype::Interface if first == last => Value::Interface(interface(first)?),
        Datatype::Family if first == last => {
            let of_number = |family: &Family| Value::Family(*family).ends() == Some((first, last));
            Value::Family(Family::BOTH.into_iter().find(of_number)?)
        }
        Datatype::Interface | Datatype::Family => return None,
    })
}

fn interface(number: u128) -> Option<InterfaceName> {
    let bytes = number.to_be_bytes();
    let name = std::str::from_utf8(&bytes).ok()?;
    InterfaceName::new(name.trim_end_matches('\0'))
}

/// Appends one piece of user data.
pub(super) fn write_userdata(bytes: &mut Vec<u8>, kind: u8, value: &[u8]) {
    // INVARIANT: comments have at most 128 bytes and a final zero.
    bytes.extend([kind, u8::try_from(value.len()).unwrap_or(u8::MAX)]);
    bytes.extend(value);
}

/// User data that is a comment.
pub(super) fn comment(kind: u8, text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() + 3);
    write_userdata(&mut bytes, kind, &[text.as_bytes(), &[0]].concat());
    bytes
}

/// The pieces of user data; `None` when the last is not whole.
pub(super) fn userdata(mut bytes: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let [kind, length, rest @ ..] = bytes else {
            return None;
        };
        let (value, rest) = rest.split_at_checked(usize::from(*length))?;
        pieces.push((*kind, value));
        bytes = rest;
    }
    Some(pieces)
}

/// The comment that a piece of user data is, if it is one that picket writes.
pub(super) fn comment_of(piece: &[u8]) -> Option<Comment> {
    let text = std::str::from_utf8(piece.strip_suffix(&[0])?).ok()?;
    Some(Comment::of(text)).filter(|comment| comment.as_str() == text)
}
