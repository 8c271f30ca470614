//! CIDR prefixes, read as leniently as the API server reads stored objects.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

use crate::address::{AddressRange, AddressSet, Family, parse_ipv4};

/// A CIDR prefix. Host bits are always zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(IpNet);

/// Why a CIDR string is not a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]
pub struct PrefixError;

/// How a CIDR string that the API server stores differs from the canonical spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PrefixNote {
    /// A byte of an IPv4 address or the length has leading zeros; they are read as decimal.
    LeadingZeros,
    /// Bits beyond the prefix length are set; they are masked.
    HostBits,
    /// An IPv4-mapped IPv6 address; it is read as the IPv4 prefix it holds.
    Ipv4Mapped,
    /// An IPv6 address that RFC 5952 spells otherwise.
    NotCanonical,
}

impl Prefix {
    /// The prefix of `length` bits that holds `address`, or `None` when the family has fewer bits.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        IpNet::new(address, length).ok().map(Self::from)
    }

    /// Every address of a family.
    pub fn all(family: Family) -> Self {
        Self(match family {
            Family::Ipv4 => IpNet::V4(ipnet::Ipv4Net::default()),
            Family::Ipv6 => IpNet::V6(ipnet::Ipv6Net::default()),
        })
    }

    /// The prefix that holds only `address`.
    pub fn host(address: IpAddr) -> Self {
        Self(IpNet::from(address))
    }

    /// Reads `address/length` as Go's `netutils.ParseCIDRSloppy` does, with notes on every deviation from the
    /// canonical spelling.
    pub fn parse(text: &str) -> Result<(Self, Vec<PrefixNote>), PrefixError> {
        let (address_text, length_text) = text.split_once('/').ok_or(PrefixError)?;
        if length_text.is_empty() || !length_text.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(PrefixError);
        }
        let length: u8 = length_text.parse().map_err(|_| PrefixError)?;
        let mut notes = Vec::new();
        let (address, length) = if address_text.contains(':') {
            let address = Ipv6Addr::from_str(address_text).map_err(|_| PrefixError)?;
            match (address.to_ipv4_mapped(), length.checked_sub(96)) {
                (Some(mapped), Some(length)) if length <= 32 => {
                    notes.push(PrefixNote::Ipv4Mapped);
                    (IpAddr::V4(mapped), length)
                }
                _ => {
                    if address.to_string() != address_text {
                        notes.push(PrefixNote::NotCanonical);
                    }
                    (IpAddr::V6(address), length)
                }
            }
        } else {
            (IpAddr::V4(parse_ipv4(address_text).ok_or(PrefixError)?), length)
        };
        let zero_padded = |part: &str| part.len() > 1 && part.starts_with('0');
        if zero_padded(length_text)
            || (!address_text.contains(':') && address_text.split('.').any(zero_padded))
        {
            notes.push(PrefixNote::LeadingZeros);
        }
        let prefix = Self::new(address, length).ok_or(PrefixError)?;
        if prefix.first() != address {
            notes.push(PrefixNote::HostBits);
        }
        Ok((prefix, notes))
    }

    /// The family of its addresses.
    pub fn family(&self) -> Family {
        Family::of(self.first())
    }

    /// The number of leading bits that all its addresses share.
    pub fn length(&self) -> u8 {
        self.0.prefix_len()
    }

    /// The lowest address.
    pub fn first(&self) -> IpAddr {
        self.0.network()
    }

    /// The highest address.
    pub fn last(&self) -> IpAddr {
        self.0.broadcast()
    }

    /// Its addresses as a range.
    pub fn range(&self) -> AddressRange {
        // INVARIANT: both ends come from one prefix, so families agree and the order is right.
        AddressRange {
            first: self.first(),
            last: self.last(),
        }
    }

    /// Whether `address` is one of its addresses.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Whether every address of `other` is one of its addresses; true for an equal prefix.
    pub fn contains_prefix(&self, other: &Self) -> bool {
        self.0.contains(&other.0)
    }
}

impl From<IpNet> for Prefix {
    fn from(net: IpNet) -> Self {
        Self(net.trunc())
    }
}

impl From<Prefix> for AddressSet {
    fn from(prefix: Prefix) -> Self {
        prefix.range().into()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// As [`Prefix::parse`], without the notes.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        Self::parse(text).map(|(prefix, _)| prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_spellings_are_read_and_noted() {
        use PrefixNote::{HostBits, Ipv4Mapped, LeadingZeros, NotCanonical};
        for (text, expected, notes) in [
            ("10.0.0.0/8", "10.0.0.0/8", vec![]),
            ("192.168.0.5/24", "192.168.0.0/24", vec![HostBits]),
            ("010.0.0.0/8", "10.0.0.0/8", vec![LeadingZeros]),
            ("10.0.0.0/08", "10.0.0.0/8", vec![LeadingZeros]),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8", vec![Ipv4Mapped]),
            ("::ffff:10.1.0.0/104", "10.0.0.0/8", vec![Ipv4Mapped, HostBits]),
            ("2001:DB8:0::/64", "2001:db8::/64", vec![NotCanonical]),
            ("::/0", "::/0", vec![]),
        ] {
            assert_eq!(
                Prefix::parse(text),
                Ok((expected.parse().unwrap(), notes)),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_not_a_prefix_is_refused() {
        for text in [
            "10.0.0.1",
            "x",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "10.0.0.0/+8",
            "/8",
            "10.0.0.0/",
            "10.0.0.0/8/8",
        ] {
            assert_eq!(Prefix::parse(text), Err(PrefixError), "{text}");
        }
    }

    #[test]
    fn containment_includes_the_prefix_itself() {
        let wide: Prefix = "10.0.0.0/8".parse().unwrap();
        assert!(wide.contains_prefix(&wide) && wide.contains_prefix(&"10.1.0.0/16".parse().unwrap()));
        assert!(!wide.contains_prefix(&"0.0.0.0/0".parse().unwrap()));
        assert!(wide.contains("10.255.255.255".parse().unwrap()) && !wide.contains("::1".parse().unwrap()));
    }
}
