//! What lists do with packets, as VPP's ACL plugin does it: worked out from the plugin's own semantics, and not from what
//! made the lists.
//!
//! Of the lists of an interface in one direction the first rule that matches decides; what none matches is dropped unless
//! there is no list at all. Before that, what belongs to a session of the interface passes, whichever way it goes through. A rule
//! that reflects makes one.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_net::Protocol;
use smol_str::SmolStr;

use super::model::{ACK, AclAction, AclRule, Acls, InterfaceLists, SYN};

/// Which way a packet goes through an interface, seen from VPP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// It enters VPP there.
    In,
    /// It leaves VPP there.
    Out,
}

/// A packet, as rules look at it. Both addresses are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Packet {
    /// Its source address.
    pub source: IpAddr,
    /// Its destination address.
    pub destination: IpAddr,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its source port, or for ICMP and ICMPv6 its type; 0 for protocols that have neither.
    pub first: u16,
    /// Its destination port, or for ICMP and ICMPv6 its code.
    pub second: u16,
    /// The flags of a TCP segment.
    pub tcp_flags: u8,
    /// Whether it is a fragment that is not the first: then nothing behind its protocol is there.
    pub is_later_fragment: bool,
}

impl Packet {
    /// The first packet of a connection: to a port, an echo request for ICMP and ICMPv6.
    pub fn opening(source: IpAddr, destination: IpAddr, protocol: Protocol, port: u16) -> Self {
        let (first, second) = match protocol {
            Protocol::ICMP => (8, 0),
            Protocol::ICMPV6 => (128, 0),
            _ if protocol.has_ports() => (40_000, port),
            _ => (0, 0),
        };
        Self {
            source,
            destination,
            protocol,
            first,
            second,
            tcp_flags: match protocol {
                Protocol::TCP => SYN,
                _ => 0,
            },
            is_later_fragment: false,
        }
    }

    /// A packet of a protocol with this destination port, or for ICMP and ICMPv6 with this type and code as one number.
    pub fn holding(source: IpAddr, destination: IpAddr, protocol: Protocol, port: u16) -> Self {
        let [kind, code] = port.to_be_bytes().map(u16::from);
        let (first, second) = match protocol {
            Protocol::ICMP | Protocol::ICMPV6 => (kind, code),
            _ => (40_000, port),
        };
        Self {
            first,
            second,
            ..Self::opening(source, destination, protocol, port)
        }
    }

    /// The fragment behind it: the same without ports, types and codes.
    #[must_use]
    pub fn later_fragment(&self) -> Self {
        Self {
            first: 0,
            second: 0,
            tcp_flags: 0,
            is_later_fragment: true,
            ..*self
        }
    }

    /// The same within a connection of TCP that has begun.
    #[must_use]
    pub fn within_connection(&self) -> Self {
        let tcp_flags = match self.protocol {
            Protocol::TCP if !self.is_later_fragment => ACK,
            _ => self.tcp_flags,
        };
        Self { tcp_flags, ..*self }
    }

    /// What answers it.
    #[must_use]
    pub fn reply(&self) -> Self {
        let (first, second) = match (self.protocol, self.first) {
            _ if self.is_later_fragment => (0, 0),
            (Protocol::ICMP, 8) => (0, self.second),
            (Protocol::ICMP, 0) => (8, self.second),
            (Protocol::ICMPV6, 128) => (129, self.second),
            (Protocol::ICMPV6, 129) => (128, self.second),
            _ => (self.second, self.first),
        };
        Self {
            source: self.destination,
            destination: self.source,
            first,
            second,
            tcp_flags: match self.tcp_flags {
                SYN => SYN | ACK,
                flags => flags,
            },
            ..*self
        }
    }

    /// Whether a session is made for it: of ICMP only for questions. Later fragments have one with ports 0, which is of all
    /// of their protocol between their two ends.
    fn makes_session(&self) -> bool {
        self.is_later_fragment
            || match self.protocol {
                Protocol::ICMP => self.first == 8,
                Protocol::ICMPV6 => self.first == 128,
                _ => true,
            }
    }
}

impl AclRule {
    /// Whether it matches a packet.
    pub fn matches(&self, packet: &Packet) -> bool {
        let within = |(first, last): (u16, u16), value| (first..=last).contains(&value);
        self.source.contains(packet.source)
            && self.destination.contains(packet.destination)
            && (self.protocol == 0
                || self.protocol == packet.protocol.number()
                    && (packet.is_later_fragment
                        || !has_layer4(packet.protocol)
                        || within(self.first, packet.first)
                            && within(self.second, packet.second)
                            && self.matches_flags(packet)))
    }

    fn matches_flags(&self, packet: &Packet) -> bool {
        let (mask, value) = self.tcp_flags;
        packet.protocol != Protocol::TCP || packet.tcp_flags & mask == value
    }
}

fn has_layer4(protocol: Protocol) -> bool {
    protocol.has_ports() || matches!(protocol, Protocol::ICMP | Protocol::ICMPV6)
}

/// What rules do with a packet that belongs to no session: the action of the first that matches.
pub fn decide<'a>(rules: impl IntoIterator<Item = &'a AclRule>, packet: &Packet) -> AclAction {
    let found = rules.into_iter().find(|rule| rule.matches(packet));
    found.map_or(AclAction::Deny, |rule| rule.action)
}

/// A VPP that has some lists, with its sessions.
#[derive(Clone, Debug)]
pub struct Interpreter<'a> {
    acls: &'a Acls,
    /// Which packets pass which interface, both ways.
    sessions: BTreeSet<(SmolStr, Packet)>,
    reads_sctp: bool,
}

impl<'a> Interpreter<'a> {
    /// One that has seen no packet.
    pub fn new(acls: &'a Acls) -> Self {
        Self {
            acls,
            sessions: BTreeSet::new(),
            reads_sctp: true,
        }
    }

    /// The same, but to which the ports of SCTP are 0, as to the plugin in the sources that were looked at.
    #[must_use]
    pub fn without_ports_of_sctp(self) -> Self {
        Self {
            reads_sctp: false,
            ..self
        }
    }

    /// Whether a packet passes an interface. One that VPP has no lists for lets everything pass.
    pub fn passes(&mut self, interface: &str, way: Way, packet: &Packet) -> bool {
        let Some(lists) = self.acls.interfaces.get(interface) else {
            return true;
        };
        let packet = &self.as_read(packet);
        // Sessions are of addresses, protocol and ports.
        let of_session = |packet: Packet| Packet {
            tcp_flags: 0,
            ..packet
        };
        let session = (SmolStr::new(interface), of_session(*packet));
        if self.sessions.contains(&session) {
            return true;
        }
        let tags = tags(lists, way);
        if tags.is_empty() {
            return true;
        }
        match decide(self.acls.rules(tags), packet) {
            AclAction::Deny => false,
            AclAction::Permit => true,
            AclAction::PermitReflect => {
                if packet.makes_session() {
                    let back = (session.0.clone(), of_session(packet.reply()));
                    self.sessions.extend([session, back]);
                }
                true
            }
        }
    }

    fn as_read(&self, packet: &Packet) -> Packet {
        let (first, second) = match packet.protocol {
            Protocol::SCTP if !self.reads_sctp => (0, 0),
            _ => (packet.first, packet.second),
        };
        Packet {
            first,
            second,
            ..*packet
        }
    }
}

fn tags(lists: &InterfaceLists, way: Way) -> &[super::model::Tag] {
    match way {
        Way::In => &lists.input,
        Way::Out => &lists.output,
    }
}
