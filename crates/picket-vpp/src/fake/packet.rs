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

    /// What is sent back: ends exchanged, SYN answered by SYN and ACK, requests of ICMP by their replies. Other messages of
    /// ICMP keep their type.
    #[must_use]
    pub fn reply(self) -> Self {
        let tcp_flags = if self.tcp_flags & SYN != 0 {
            SYN | ACK
        } else {
            self.tcp_flags
        };
        let (source_port, destination_port) = match self.protocol {
            Protocol::ICMP | Protocol::ICMPV6 => {
                let kind = answer_of(self.protocol, self.source_port);
                (kind.unwrap_or(self.source_port), self.destination_port)
            }
            _ => (self.destination_port, self.source_port),
        };
        Self {
            source: self.destination,
            destination: self.source,
            source_port,
            destination_port,
            tcp_flags,
            ..self
        }
    }

    /// What a session that this packet begins lets pass the other way: nothing for messages of ICMP that are no requests.
    pub(super) fn answered_by(self) -> Option<Self> {
        let is_icmp = self.has_type();
        let answered = !is_icmp || answer_of(self.protocol, self.source_port).is_some();
        answered.then(|| self.reply())
    }

    /// The packet as the plugin reads it: ports of TCP and UDP, and of SCTP where it `reads_sctp`; type and code of the ICMP
    /// that belongs to the version of IP. Otherwise there is 0 in their place.
    pub(super) fn as_read(self, reads_sctp: bool) -> Self {
        let has_ports = match self.protocol {
            Protocol::TCP | Protocol::UDP => true,
            Protocol::SCTP => reads_sctp,
            _ => self.has_type(),
        };
        if has_ports && !self.fragment {
            return self;
        }
        Self {
            source_port: 0,
            destination_port: 0,
            tcp_flags: 0,
            ..self
        }
    }

    fn has_type(&self) -> bool {
        let own = if self.source.is_ipv4() {
            Protocol::ICMP
        } else {
            Protocol::ICMPV6
        };
        self.protocol == own && !self.fragment
    }
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// The type of the ICMP message that answers a request of this type; `None` for what is no request.
fn answer_of(protocol: Protocol, kind: u16) -> Option<u16> {
    match (protocol, kind) {
        (Protocol::ICMP, 8) => Some(0),
        (Protocol::ICMP, 13 | 15 | 17) | (Protocol::ICMPV6, 128 | 139) => Some(kind + 1),
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
