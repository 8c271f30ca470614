//! Values and their types, as nft names them.

use std::fmt;
use std::net::IpAddr;

use picket_net::{AddressRange, Bound, Family, Interval, PortRange, Protocol};
use smallvec::{SmallVec, smallvec};

use super::InterfaceName;

/// A type of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Datatype {
    /// `ipv4_addr`.
    Ipv4Address,
    /// `ipv6_addr`.
    Ipv6Address,
    /// `ifname`.
    Interface,
    /// `mark`.
    Mark,
    /// `classid`, the type of `meta priority`.
    Priority,
    /// `inet_proto`.
    Protocol,
    /// `inet_service`.
    Port,
    /// `icmp_type`.
    IcmpType,
    /// `icmpv6_type`.
    Icmpv6Type,
    /// `nf_proto`: `ipv4` or `ipv6`.
    Family,
}

impl Datatype {
    /// As nft writes it.
    pub fn keyword(self) -> &'static str {
        match self {
            Self::Ipv4Address => "ipv4_addr",
            Self::Ipv6Address => "ipv6_addr",
            Self::Interface => "ifname",
            Self::Mark => "mark",
            Self::Priority => "classid",
            Self::Protocol => "inet_proto",
            Self::Port => "inet_service",
            Self::IcmpType => "icmp_type",
            Self::Icmpv6Type => "icmpv6_type",
            Self::Family => "nf_proto",
        }
    }

    /// Bytes that it takes in the registers of a concatenation.
    pub(super) fn register_bytes(self) -> usize {
        match self {
            Self::Ipv6Address | Self::Interface => 16,
            _ => 4,
        }
    }
}

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.keyword())
    }
}

/// One value, or an inclusive interval of values of one type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// IPv4 addresses, in host order.
    Ipv4(Interval<u32>),
    /// IPv6 addresses, in host order.
    Ipv6(Interval<u128>),
    /// An interface.
    Interface(InterfaceName),
    /// Marks.
    Mark(Interval<u32>),
    /// Queueing priorities.
    Priority(Interval<u32>),
    /// Protocols.
    Protocol(Interval<u8>),
    /// Ports.
    Port(Interval<u16>),
    /// ICMP types.
    IcmpType(Interval<u8>),
    /// ICMPv6 types.
    Icmpv6Type(Interval<u8>),
    /// An address family.
    Family(Family),
}

impl Value {
    /// One address.
    pub fn address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::Ipv4(Interval::single(address.to_bits())),
            IpAddr::V6(address) => Self::Ipv6(Interval::single(address.to_bits())),
        }
    }

    /// A range of addresses.
    pub fn addresses(range: AddressRange) -> Self {
        // INVARIANT: a range has its first address first, so that `Interval::new` succeeds.
        match (range.first(), range.last()) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                Self::Ipv4(Interval::new(first.to_bits(), last.to_bits()).unwrap_or(Interval::ALL))
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                Self::Ipv6(Interval::new(first.to_bits(), last.to_bits()).unwrap_or(Interval::ALL))
            }
            (first, _) => Self::address(first),
        }
    }

    /// One port.
    pub fn port(port: u16) -> Self {
        Self::Port(Interval::single(port))
    }

    /// A range of ports.
    pub fn ports(range: PortRange) -> Self {
        // INVARIANT: a range has its first port first.
        Self::Port(Interval::new(range.first(), range.last()).unwrap_or(Interval::single(range.first())))
    }

    /// One protocol.
    pub fn protocol(protocol: Protocol) -> Self {
        Self::Protocol(Interval::single(protocol.number()))
    }

    /// One mark.
    pub fn mark(mark: u32) -> Self {
        Self::Mark(Interval::single(mark))
    }

    /// One queueing priority.
    pub fn priority(priority: u32) -> Self {
        Self::Priority(Interval::single(priority))
    }

    /// Its type.
    pub fn datatype(&self) -> Datatype {
        match self {
            Self::Ipv4(_) => Datatype::Ipv4Address,
            Self::Ipv6(_) => Datatype::Ipv6Address,
            Self::Interface(_) => Datatype::Interface,
            Self::Mark(_) => Datatype::Mark,
            Self::Priority(_) => Datatype::Priority,
            Self::Protocol(_) => Datatype::Protocol,
            Self::Port(_) => Datatype::Port,
            Self::IcmpType(_) => Datatype::IcmpType,
            Self::Icmpv6Type(_) => Datatype::Icmpv6Type,
            Self::Family(_) => Datatype::Family,
        }
    }

    /// Its ends as numbers; `None` for an interface.
    pub fn ends(&self) -> Option<(u128, u128)> {
        fn wide<T: picket_net::Bound + Into<u128>>(interval: &Interval<T>) -> Option<(u128, u128)> {
            Some((interval.first().into(), interval.last().into()))
        }
        match self {
            Self::Ipv4(interval) | Self::Mark(interval) | Self::Priority(interval) => wide(interval),
            Self::Ipv6(interval) => wide(interval),
            Self::Protocol(interval) | Self::IcmpType(interval) | Self::Icmpv6Type(interval) => {
                wide(interval)
            }
            Self::Port(interval) => wide(interval),
            Self::Family(Family::Ipv4) => Some((2, 2)),
            Self::Family(Family::Ipv6) => Some((10, 10)),
            Self::Interface(_) => None,
        }
    }

    /// Whether it is one value and no wider interval.
    pub fn is_single(&self) -> bool {
        self.ends().is_none_or(|(first, last)| first == last)
    }

    /// Whether both are of one type and have a value in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self.ends(), other.ends()) {
            (Some((first, last)), Some((other_first, other_last))) => {
                self.datatype() == other.datatype() && first <= other_last && other_first <= last
            }
            _ => self == other,
        }
    }
}

/// The key of an element: one value for each field of a concatenation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(SmallVec<[Value; 1]>);

impl Key {
    /// A key of several fields.
    pub fn of(values: impl IntoIterator<Item = Value>) -> Self {
        Self(values.into_iter().collect())
    }

    /// The values, in the order of the concatenation.
    pub fn values(&self) -> &[Value] {
        &self.0
    }

    /// Whether every field is one value.
    pub fn is_single(&self) -> bool {
        self.0.iter().all(Value::is_single)
    }

    /// For a key of one field, a key that sorts after every interval beginning at or below its value and before all
    /// others. Intervals of one field are disjoint, so that only the last of those can hold the value.
    pub(super) fn above(&self) -> Option<Self> {
        fn open<T: Bound>(interval: Interval<T>) -> Interval<T> {
            Interval::new(interval.first(), T::MAX).unwrap_or(interval)
        }
        let [value] = self.values() else { return None };
        Some(Self::from(match value.clone() {
            Value::Ipv4(one) => Value::Ipv4(open(one)),
            Value::Ipv6(one) => Value::Ipv6(open(one)),
            Value::Mark(one) => Value::Mark(open(one)),
            Value::Priority(one) => Value::Priority(open(one)),
            Value::Protocol(one) => Value::Protocol(open(one)),
            Value::Port(one) => Value::Port(open(one)),
            Value::IcmpType(one) => Value::IcmpType(open(one)),
            Value::Icmpv6Type(one) => Value::Icmpv6Type(open(one)),
            other @ (Value::Interface(_) | Value::Family(_)) => other,
        }))
    }

    /// Whether some packet could match both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self
                .0
                .iter()
                .zip(&other.0)
                .all(|(ours, theirs)| ours.overlaps(theirs))
    }
}

impl From<Value> for Key {
    fn from(value: Value) -> Self {
        Self(smallvec![value])
    }
}
