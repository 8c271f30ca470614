//! What two endpoints may exchange: protocols and destination ports.

use std::fmt;

use crate::{PortSet, Protocol, ProtocolSet};

/// A set of (protocol, destination port) pairs, and of whole protocols where there are no ports.
///
/// Two equal values allow the same packets; [`TrafficSet::all`] is the only value that allows everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrafficSet {
    /// Destination ports of TCP.
    pub tcp: PortSet,
    /// Destination ports of UDP.
    pub udp: PortSet,
    /// Destination ports of SCTP.
    pub sctp: PortSet,
    /// Protocols that have no ports, ICMP and ICMPv6 among them.
    pub portless: ProtocolSet,
}

impl TrafficSet {
    /// Nothing.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Every protocol and port. What a rule without `ports` means.
    pub fn all() -> Self {
        Self {
            tcp: PortSet::all(),
            udp: PortSet::all(),
            sctp: PortSet::all(),
            portless: ProtocolSet::all(),
        }
    }

    /// `ports` of one protocol. A protocol without ports is allowed whole unless `ports` is empty.
    pub fn of(protocol: Protocol, ports: PortSet) -> Self {
        let mut set = Self::empty();
        match protocol {
            Protocol::TCP => set.tcp = ports,
            Protocol::UDP => set.udp = ports,
            Protocol::SCTP => set.sctp = ports,
            _ if ports.is_empty() => {}
            _ => set.portless = protocol.into(),
        }
        set
    }

    /// Whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        *self == Self::empty()
    }

    /// Whether every protocol and port is allowed.
    pub fn is_all(&self) -> bool {
        self.tcp.is_all() && self.udp.is_all() && self.sctp.is_all() && self.portless == ProtocolSet::all()
    }

    /// The destination ports of a protocol with ports; `None` for every other protocol.
    pub fn ports(&self, protocol: Protocol) -> Option<&PortSet> {
        match protocol {
            Protocol::TCP => Some(&self.tcp),
            Protocol::UDP => Some(&self.udp),
            Protocol::SCTP => Some(&self.sctp),
            _ => None,
        }
    }

    /// Whether a packet of `protocol` to `port` is in the set. `port` does not matter to protocols without ports.
    pub fn contains(&self, protocol: Protocol, port: u16) -> bool {
        match self.ports(protocol) {
            Some(ports) => ports.contains(port),
            None => self.portless.contains(protocol),
        }
    }

    /// What either set allows.
    pub fn union(&self, other: &Self) -> Self {
        Self {
            tcp: self.tcp.union(&other.tcp),
            udp: self.udp.union(&other.udp),
            sctp: self.sctp.union(&other.sctp),
            portless: self.portless.union(other.portless),
        }
    }

    /// What both sets allow.
    pub fn intersection(&self, other: &Self) -> Self {
        Self {
            tcp: self.tcp.intersection(&other.tcp),
            udp: self.udp.intersection(&other.udp),
            sctp: self.sctp.intersection(&other.sctp),
            portless: self.portless.intersection(other.portless),
        }
    }

    /// What this set allows and `other` does not.
    pub fn difference(&self, other: &Self) -> Self {
        Self {
            tcp: self.tcp.difference(&other.tcp),
            udp: self.udp.difference(&other.udp),
            sctp: self.sctp.difference(&other.sctp),
            portless: self.portless.difference(other.portless),
        }
    }
}

impl From<Protocol> for TrafficSet {
    /// All of one protocol.
    fn from(protocol: Protocol) -> Self {
        Self::of(protocol, PortSet::all())
    }
}

impl fmt::Display for TrafficSet {
    /// `all`, `none`, or parts like `TCP 80,443 UDP 53 ICMP`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_all() {
            return f.write_str("all");
        }
        if self.is_empty() {
            return f.write_str("none");
        }
        let mut parts = Vec::new();
        for protocol in Protocol::WITH_PORTS {
            match self.ports(protocol) {
                Some(ports) if ports.is_all() => parts.push(protocol.to_string()),
                Some(ports) if !ports.is_empty() => parts.push(format!("{protocol} {ports}")),
                _ => {}
            }
        }
        let named = [Protocol::ICMP, Protocol::ICMPV6];
        parts.extend(
            named
                .iter()
                .filter(|&&one| self.portless.contains(one))
                .map(Protocol::to_string),
        );
        let others = named
            .iter()
            .fold(self.portless, |rest, &one| rest.difference(one.into()));
        let every_other = named
            .iter()
            .fold(ProtocolSet::all(), |rest, &one| rest.difference(one.into()));
        if others == every_other {
            parts.push("other".to_owned());
        } else {
            parts.extend(others.iter().map(|protocol| protocol.to_string()));
        }
        f.write_str(&parts.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PortRange;

    fn tcp(first: u16, last: u16) -> TrafficSet {
        TrafficSet::of(Protocol::TCP, PortRange::new(first, last).unwrap().into())
    }

    #[test]
    fn every_part_together_is_everything() {
        let parts = (0..=255).map(|number| TrafficSet::from(Protocol::from_number(number)));
        let whole = parts.fold(TrafficSet::empty(), |sum, part| sum.union(&part));
        assert!(whole.is_all());
        assert_eq!(whole, TrafficSet::all());
        assert!(!whole.difference(&tcp(80, 80)).is_all());
    }

    #[test]
    fn it_prints_as_people_write_it() {
        let some = tcp(80, 80)
            .union(&Protocol::UDP.into())
            .union(&Protocol::ICMP.into());
        assert_eq!(some.to_string(), "TCP 80 UDP ICMP");
        assert_eq!(TrafficSet::all().to_string(), "all");
        assert_eq!(TrafficSet::empty().to_string(), "none");
        let odd = TrafficSet::all().difference(&Protocol::from_number(47).into());
        assert!(!odd.to_string().contains("other") && odd.to_string().contains("proto:50"));
    }

    #[test]
    fn membership_is_per_protocol() {
        assert!(tcp(80, 90).contains(Protocol::TCP, 85));
        assert!(!tcp(80, 90).contains(Protocol::UDP, 85));
        assert!(TrafficSet::from(Protocol::ICMP).contains(Protocol::ICMP, 0));
    }
}
