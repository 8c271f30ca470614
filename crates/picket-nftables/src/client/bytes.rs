//! Values as the kernel compares them.

use crate::model::{Datatype, MapType, Value};

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

/// The number of a type in nft, which keeps it in the kernel beside a set.
fn type_number(datatype: Datatype) -> u32 {
    match datatype {
        Datatype::Family => 2,
        Datatype::Ipv4Address => 7,
        Datatype::Ipv6Address => 8,
        Datatype::Protocol => 12,
        Datatype::Port => 13,
        Datatype::IcmpType => 14,
        Datatype::Mark => 19,
        Datatype::Priority => 23,
        Datatype::Icmpv6Type => 29,
        Datatype::Interface => 41,
    }
}

/// The number of the type of a key; a concatenation has six bits for each field.
pub(super) fn key_type(key: &[Datatype]) -> u32 {
    key.iter()
        .fold(0, |number, &field| number << 6 | type_number(field))
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
