//! Packets, and what becomes of them.

use std::net::IpAddr;

use picket_net::Protocol;

/// Which way a packet goes through an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Into VPP: the input list judges.
    In,
    /// Out of VPP: the output list judges.
    Out,
}

impl Direction {
    pub(super) fn opposite(self) -> Self {
        match self {
            Self::In => Self::Out,
            Self::Out => Self::In,
        }
    }
}

/// What the ACL plugin sees of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packet {
    /// The address that it says it comes from.
    pub source: IpAddr,
    /// The address that it goes to.
    pub destination: IpAddr,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its source port, or the type of an ICMP message. 0 for protocols without.
    pub source_port: u16,
    /// Its destination port, or the code of an ICMP message.
    pub destination_port: u16,
    /// The flags of a TCP segment.
    pub tcp_flags: u8,
    /// Whether it is a fragment that is not the first: it has no ports.
    pub fragment: bool,
}

impl Packet {
    /// A packet of a protocol, `source` and `destination` with their ports, or with the type and the code of ICMP.
    /// One of TCP has the flag SYN.
    pub fn new(protocol: Protocol, source: (IpAddr, u16), destination: (IpAddr, u16)) -> Self {
        Self {
            source: source.0,
            destination: destination.0,
            protocol,
            source_port: source.1,
            destination_port: destination.1,
            tcp_flags: if protocol == Protocol::TCP { SYN } else { 0 },
            fragment: false,
        }
    }

    /// The fragment behind this packet: the same without ports and flags.
    #[must_use]
    pub fn fragment(self) -> Self {
        Self {
            source_port: 0,
            destination_port: 0,
            tcp_flags: 0,
            fragment: true,
            ..self
        }
    }

    /// What is sent back: ends exchanged, SYN answered by SYN and ACK, requests of ICMP by their replies.
    #[must_use]
    pub fn reply(self) -> Self {
        let flags = if self.tcp_flags & SYN != 0 {
            SYN | ACK
        } else {
            self.tcp_flags
        };
        Self {
            tcp_flags: flags,
            ..self.turned()
        }
    }

    /// The packet that a session which this one began lets pass the other way.
    pub(super) fn turned(self) -> Self {
        let (source_port, destination_port) = match answer_of(self.protocol, self.source_port) {
            Some(kind) => (kind, self.destination_port),
            None => (self.destination_port, self.source_port),
        };
        Self {
            source: self.destination,
            destination: self.source,
            source_port,
            destination_port,
            ..self
        }
    }
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// The type of the ICMP message that answers one of this type; types that are no requests stay what they are.
fn answer_of(protocol: Protocol, kind: u16) -> Option<u16> {
    match (protocol, kind) {
        (Protocol::ICMP, 8) => Some(0),
        (Protocol::ICMP, 13 | 15 | 17) | (Protocol::ICMPV6, 128 | 139) => Some(kind + 1),
        (Protocol::ICMP | Protocol::ICMPV6, _) => Some(kind),
        _ => None,
    }
}

/// What an interface does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Passed,
    /// It does not.
    Dropped {
        /// Because of what.
        by: DroppedBy,
    },
}

/// What drops a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DroppedBy {
    /// A rule that denies: the index of its ACL, and its place in that, from 0.
    Rule {
        /// Index of the ACL.
        acl: u32,
        /// Place of the rule.
        rule: usize,
    },
    /// No rule of a list that is not empty.
    EndOfList,
    /// A rule that reflects, while the table of sessions is full.
    SessionTableFull,
    /// The interface is down.
    InterfaceDown,
    /// There is no such interface.
    NoInterface,
}
