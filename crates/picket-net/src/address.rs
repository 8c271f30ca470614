//! Addresses, ranges of addresses, and sets of them over both families.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Prefix;
use crate::interval::{Interval, IntervalSet};

/// An IP address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// Both families, IPv4 first.
    pub const BOTH: [Self; 2] = [Self::Ipv4, Self::Ipv6];

    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::Ipv4 } else { Self::Ipv6 }
    }
}

impl fmt::Display for Family {
    /// `ipv4` or `ipv6`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
        })
    }
}

/// The next address of the same family.
pub fn next_address(address: IpAddr) -> Option<IpAddr> {
    Some(match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits().checked_add(1)?).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits().checked_add(1)?).into(),
    })
}

/// Reads an address as the API server does: leading zeros in IPv4 are decimal, and an IPv4-mapped IPv6 address
/// (`::ffff:10.0.0.1`) is the IPv4 address it holds.
pub fn parse_address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        let address = Ipv6Addr::from_str(text).ok()?;
        return Some(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4));
    }
    parse_ipv4(text).map(IpAddr::V4)
}

/// Four decimal bytes, leading zeros allowed (Go's `netutils.ParseIPSloppy`).
pub(crate) fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut bytes = [0u8; 4];
    let mut parts = text.split('.');
    for byte in &mut bytes {
        let part = parts.next()?;
        let digits = part.trim_start_matches('0');
        let decimal = !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
        *byte = match (decimal, digits.is_empty()) {
            (true, true) => 0,
            (true, false) => digits.parse().ok()?,
            (false, _) => return None,
        };
    }
    parts.next().is_none().then(|| Ipv4Addr::from(bytes))
}

/// An inclusive range of addresses of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressRange {
    pub(crate) first: IpAddr,
    pub(crate) last: IpAddr,
}

impl AddressRange {
    /// The range from `first` to `last`, or `None` when the families differ or `last` is below `first`.
    pub fn new(first: IpAddr, last: IpAddr) -> Option<Self> {
        (first.is_ipv4() == last.is_ipv4() && first <= last).then_some(Self { first, last })
    }

    /// The lowest address.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// The highest address.
    pub fn last(&self) -> IpAddr {
        self.last
    }

    /// The family of both ends.
    pub fn family(&self) -> Family {
        Family::of(self.first)
    }

    /// The fewest prefixes that hold exactly this range, ascending.
    pub fn prefixes(&self) -> Vec<Prefix> {
        match (self.first, self.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => ipnet::Ipv4Subnets::new(first, last, 0)
                .map(|net| Prefix::from(ipnet::IpNet::V4(net)))
                .collect(),
            (IpAddr::V6(first), IpAddr::V6(last)) => ipnet::Ipv6Subnets::new(first, last, 0)
                .map(|net| Prefix::from(ipnet::IpNet::V6(net)))
                .collect(),
            // INVARIANT: `new` lets no mixed range exist.
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for AddressRange {
    /// `first-last`, also for a single address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl From<Interval<u32>> for AddressRange {
    fn from(interval: Interval<u32>) -> Self {
        Self {
            first: Ipv4Addr::from_bits(interval.first()).into(),
            last: Ipv4Addr::from_bits(interval.last()).into(),
        }
    }
}

impl From<Interval<u128>> for AddressRange {
    fn from(interval: Interval<u128>) -> Self {
        Self {
            first: Ipv6Addr::from_bits(interval.first()).into(),
            last: Ipv6Addr::from_bits(interval.last()).into(),
        }
    }
}

/// A set of addresses of both families.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressSet {
    /// The IPv4 members, as numbers in host order.
    pub v4: IntervalSet<u32>,
    /// The IPv6 members, as numbers in host order.
    pub v6: IntervalSet<u128>,
}

impl AddressSet {
    /// No address.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Every address of both families.
    pub fn all() -> Self {
        Self {
            v4: IntervalSet::all(),
            v6: IntervalSet::all(),
        }
    }

    /// Whether no address is a member.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// Whether `address` is a member.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.v4.contains(address.to_bits()),
            IpAddr::V6(address) => self.v6.contains(address.to_bits()),
        }
    }

    /// Adds one address; says whether it was new.
    pub fn insert(&mut self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.v4.insert(address.to_bits()),
            IpAddr::V6(address) => self.v6.insert(address.to_bits()),
        }
    }

    /// The maximal ranges, ascending, IPv4 first.
    pub fn ranges(&self) -> impl Iterator<Item = AddressRange> + '_ {
        let v4 = self
            .v4
            .intervals()
            .iter()
            .map(|&interval| AddressRange::from(interval));
        v4.chain(
            self.v6
                .intervals()
                .iter()
                .map(|&interval| AddressRange::from(interval)),
        )
    }

    /// The members of one family.
    pub fn of_family(&self, family: Family) -> Self {
        match family {
            Family::Ipv4 => Self {
                v4: self.v4.clone(),
                v6: IntervalSet::empty(),
            },
            Family::Ipv6 => Self {
                v4: IntervalSet::empty(),
                v6: self.v6.clone(),
            },
        }
    }

    /// The addresses in either set.
    pub fn union(&self, other: &Self) -> Self {
        Self {
            v4: self.v4.union(&other.v4),
            v6: self.v6.union(&other.v6),
        }
    }

    /// The addresses in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        Self {
            v4: self.v4.intersection(&other.v4),
            v6: self.v6.intersection(&other.v6),
        }
    }

    /// The addresses in this set and not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        Self {
            v4: self.v4.difference(&other.v4),
            v6: self.v6.difference(&other.v6),
        }
    }
}

impl From<AddressRange> for AddressSet {
    fn from(range: AddressRange) -> Self {
        std::iter::once(range).collect()
    }
}

impl FromIterator<AddressRange> for AddressSet {
    fn from_iter<I: IntoIterator<Item = AddressRange>>(ranges: I) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for range in ranges {
            match (range.first, range.last) {
                (IpAddr::V4(first), IpAddr::V4(last)) => {
                    v4.extend(Interval::new(first.to_bits(), last.to_bits()));
                }
                (IpAddr::V6(first), IpAddr::V6(last)) => {
                    v6.extend(Interval::new(first.to_bits(), last.to_bits()));
                }
                // INVARIANT: `AddressRange::new` lets no mixed range exist.
                _ => {}
            }
        }
        Self {
            v4: v4.into_iter().collect(),
            v6: v6.into_iter().collect(),
        }
    }
}

impl FromIterator<IpAddr> for AddressSet {
    fn from_iter<I: IntoIterator<Item = IpAddr>>(addresses: I) -> Self {
        addresses
            .into_iter()
            .map(|address| AddressRange {
                first: address,
                last: address,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_api_server_reads_them() {
        for (text, expected) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("010.000.0.01", Some("10.0.0.1")),
            ("::ffff:10.0.0.1", Some("10.0.0.1")),
            ("2001:DB8::1", Some("2001:db8::1")),
            ("10.0.0", None),
            ("10.0.0.256", None),
            ("10.0.0.+1", None),
            ("10.0.0.1.2", None),
            ("", None),
            ("fe80::1%eth0", None),
        ] {
            assert_eq!(
                parse_address(text).map(|address| address.to_string()).as_deref(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn a_range_is_its_prefixes() {
        let range = AddressRange::new("10.0.0.1".parse().unwrap(), "10.0.0.6".parse().unwrap()).unwrap();
        let prefixes: Vec<_> = range.prefixes().iter().map(Prefix::to_string).collect();
        assert_eq!(
            prefixes,
            ["10.0.0.1/32", "10.0.0.2/31", "10.0.0.4/31", "10.0.0.6/32"]
        );
        assert!(AddressRange::new("10.0.0.1".parse().unwrap(), "::1".parse().unwrap()).is_none());
    }

    #[test]
    fn families_never_mix() {
        let all_v4 = AddressSet::all().of_family(Family::Ipv4);
        assert_eq!(
            AddressSet::all().difference(&all_v4),
            AddressSet::all().of_family(Family::Ipv6)
        );
        assert_eq!(
            all_v4.ranges().map(|range| range.to_string()).collect::<Vec<_>>(),
            ["0.0.0.0-255.255.255.255"]
        );
    }
}
