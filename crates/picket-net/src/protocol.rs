//! IP protocols.

use std::fmt;

/// An IP protocol, by its IANA number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(u8);

impl Protocol {
    /// Internet Control Message Protocol, 1.
    pub const ICMP: Self = Self(1);
    /// Transmission Control Protocol, 6.
    pub const TCP: Self = Self(6);
    /// User Datagram Protocol, 17.
    pub const UDP: Self = Self(17);
    /// ICMP for IPv6, 58.
    pub const ICMPV6: Self = Self(58);
    /// Stream Control Transmission Protocol, 132.
    pub const SCTP: Self = Self(132);

    /// The protocols that have ports, in the order in which picket prints them.
    pub const WITH_PORTS: [Self; 3] = [Self::TCP, Self::UDP, Self::SCTP];

    /// The protocol with this IANA number.
    pub const fn from_number(number: u8) -> Self {
        Self(number)
    }

    /// The IANA number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Whether policies can name ports of this protocol: TCP, UDP and SCTP.
    pub fn has_ports(self) -> bool {
        Self::WITH_PORTS.contains(&self)
    }

    /// The protocol that a NetworkPolicy or container port names, exactly as the API spells it.
    pub fn from_api_name(name: &str) -> Option<Self> {
        match name {
            "TCP" => Some(Self::TCP),
            "UDP" => Some(Self::UDP),
            "SCTP" => Some(Self::SCTP),
            _ => None,
        }
    }
}

impl fmt::Display for Protocol {
    /// `TCP`, `UDP`, `SCTP`, `ICMP`, `ICMPv6`, or `proto:N`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TCP => f.write_str("TCP"),
            Self::UDP => f.write_str("UDP"),
            Self::SCTP => f.write_str("SCTP"),
            Self::ICMP => f.write_str("ICMP"),
            Self::ICMPV6 => f.write_str("ICMPv6"),
            Self(number) => write!(f, "proto:{number}"),
        }
    }
}

/// A set of protocols without ports: every protocol number but those of TCP, UDP and SCTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProtocolSet {
    /// Bit `n` stands for protocol `n`.
    low: u128,
    /// Bit `n` stands for protocol `128 + n`.
    high: u128,
}

impl ProtocolSet {
    /// No protocol.
    pub const EMPTY: Self = Self { low: 0, high: 0 };

    /// Every protocol that has no ports.
    pub const fn all() -> Self {
        Self {
            low: !(1 << Protocol::TCP.0 | 1 << Protocol::UDP.0),
            high: !(1 << (Protocol::SCTP.0 - 128)),
        }
    }

    /// Whether no protocol is a member.
    pub fn is_empty(self) -> bool {
        self == Self::EMPTY
    }

    /// Whether `protocol` is a member.
    pub fn contains(self, protocol: Protocol) -> bool {
        let word = if protocol.0 < 128 { self.low } else { self.high };
        word >> (protocol.0 % 128) & 1 == 1
    }

    /// The members, ascending by number.
    pub fn iter(self) -> impl Iterator<Item = Protocol> {
        (0..=u8::MAX)
            .map(Protocol)
            .filter(move |&protocol| self.contains(protocol))
    }

    /// The protocols in either set.
    pub fn union(self, other: Self) -> Self {
        Self {
            low: self.low | other.low,
            high: self.high | other.high,
        }
    }

    /// The protocols in both sets.
    pub fn intersection(self, other: Self) -> Self {
        Self {
            low: self.low & other.low,
            high: self.high & other.high,
        }
    }

    /// The protocols in this set and not in `other`.
    pub fn difference(self, other: Self) -> Self {
        Self {
            low: self.low & !other.low,
            high: self.high & !other.high,
        }
    }
}

impl FromIterator<Protocol> for ProtocolSet {
    /// Protocols with ports are left out: they are not members of any such set.
    fn from_iter<I: IntoIterator<Item = Protocol>>(protocols: I) -> Self {
        let mut set = Self::EMPTY;
        for protocol in protocols.into_iter().filter(|protocol| !protocol.has_ports()) {
            let word = if protocol.0 < 128 {
                &mut set.low
            } else {
                &mut set.high
            };
            *word |= 1 << (protocol.0 % 128);
        }
        set
    }
}

impl From<Protocol> for ProtocolSet {
    fn from(protocol: Protocol) -> Self {
        std::iter::once(protocol).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_with_ports_are_never_members() {
        let all = ProtocolSet::all();
        assert_eq!(all.iter().count(), 253);
        assert!(
            Protocol::WITH_PORTS
                .iter()
                .all(|&protocol| !all.contains(protocol))
        );
        assert!(ProtocolSet::from(Protocol::TCP).is_empty());
    }

    #[test]
    fn membership_follows_the_number() {
        for number in [0, 1, 47, 58, 127, 128, 255] {
            let one = ProtocolSet::from(Protocol::from_number(number));
            assert_eq!(one.iter().collect::<Vec<_>>(), [Protocol::from_number(number)]);
            assert!(
                !ProtocolSet::all()
                    .difference(one)
                    .contains(Protocol::from_number(number))
            );
        }
    }
}
