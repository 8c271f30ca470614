//! Destination ports.

use std::fmt;

use crate::interval::{Interval, IntervalSet};

/// An inclusive range of destination ports within 1–65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange(Interval<u16>);

impl PortRange {
    /// Ports 1 to 65535.
    pub const ALL: Self = Self(Interval::<u16>::ABOVE_ZERO);

    /// The range from `first` to `last`, or `None` when it is empty or holds port 0.
    pub fn new(first: u16, last: u16) -> Option<Self> {
        if first == 0 {
            None
        } else {
            Interval::new(first, last).map(Self)
        }
    }

    /// The range that holds only `port`, or `None` for port 0.
    pub fn single(port: u16) -> Option<Self> {
        Self::new(port, port)
    }

    /// The lowest port.
    pub fn first(&self) -> u16 {
        self.0.first()
    }

    /// The highest port.
    pub fn last(&self) -> u16 {
        self.0.last()
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first() == self.last() {
            write!(f, "{}", self.first())
        } else {
            write!(f, "{}-{}", self.first(), self.last())
        }
    }
}

/// Destination ports of one protocol: sorted, disjoint, non-adjacent inclusive ranges.
///
/// Port 0 is never a member: NetworkPolicy counts from 1 (`NetworkPolicyPort.port`, networking.k8s.io/v1).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortSet(IntervalSet<u16>);

impl PortSet {
    /// No port.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Every port. What a rule without `port` means for its protocol.
    pub fn all() -> Self {
        PortRange::ALL.into()
    }

    /// Whether no port is a member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every port from 1 to 65535 is a member.
    pub fn is_all(&self) -> bool {
        self.0.intervals() == [PortRange::ALL.0]
    }

    /// Whether `port` is a member.
    pub fn contains(&self, port: u16) -> bool {
        self.0.contains(port)
    }

    /// The maximal ranges, ascending.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = PortRange> + '_ {
        self.0.intervals().iter().map(|&interval| PortRange(interval))
    }

    /// The ports in either set.
    pub fn union(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0))
    }

    /// The ports in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0))
    }

    /// The ports in this set and not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0))
    }
}

impl From<PortRange> for PortSet {
    fn from(range: PortRange) -> Self {
        Self(range.0.into())
    }
}

impl FromIterator<PortRange> for PortSet {
    fn from_iter<I: IntoIterator<Item = PortRange>>(ranges: I) -> Self {
        Self(ranges.into_iter().map(|range| range.0).collect())
    }
}

impl fmt::Display for PortSet {
    /// Ranges separated by commas, as in `22,80-90`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{range}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(text: &str) -> PortSet {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            PortRange::new(first.parse().unwrap(), last.parse().unwrap()).unwrap()
        };
        text.split(',')
            .filter(|part| !part.is_empty())
            .map(range)
            .collect()
    }

    #[test]
    fn intersection_keeps_only_shared_ports() {
        for (a, b, expected) in [
            ("80", "80", "80"),
            ("80-90", "85-95", "85-90"),
            ("1-10,20-30", "5-25", "5-10,20-25"),
            ("80", "443", ""),
            ("1-65535", "22,80", "22,80"),
        ] {
            assert_eq!(ports(a).intersection(&ports(b)), ports(expected), "{a} ∩ {b}");
        }
    }

    #[test]
    fn difference_of_everything_never_yields_port_zero() {
        let rest = PortSet::all().difference(&ports("80"));
        assert_eq!(rest.to_string(), "1-79,81-65535");
        assert!(PortRange::new(0, 5).is_none() && PortRange::single(0).is_none());
        assert!(PortSet::all().is_all() && !rest.is_all());
    }
}
