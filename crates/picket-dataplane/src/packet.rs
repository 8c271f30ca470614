//! A packet as a target sees it, and what becomes of it.

use std::net::IpAddr;

use picket_net::{Family, Protocol};
use smol_str::SmolStr;

/// Where a packet meets the target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Crossing {
    /// It arrived on an interface and is for this machine or pod.
    Receive {
        /// The interface it arrived on.
        input: SmolStr,
    },
    /// It was made here and leaves through an interface.
    Send {
        /// The interface it leaves through.
        output: SmolStr,
    },
    /// It is sent here for somebody else, who has its source address, as the kernel's load balancer (IPVS) sends on what
    /// came for a service. It passes the hooks of what is made here.
    Relay {
        /// The interface it leaves through.
        output: SmolStr,
    },
    /// It arrives on one interface and leaves through another.
    Forward {
        /// The interface it arrived on.
        input: SmolStr,
        /// The interface it leaves through.
        output: SmolStr,
    },
}

impl Crossing {
    /// The interface it arrived on.
    pub fn input(&self) -> Option<&SmolStr> {
        match self {
            Self::Receive { input } | Self::Forward { input, .. } => Some(input),
            Self::Send { .. } | Self::Relay { .. } => None,
        }
    }

    /// The interface it leaves through.
    pub fn output(&self) -> Option<&SmolStr> {
        match self {
            Self::Send { output } | Self::Relay { output } | Self::Forward { output, .. } => Some(output),
            Self::Receive { .. } => None,
        }
    }
}

/// What connection tracking knows about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// It would open a connection.
    New,
    /// It belongs to a connection in which both ends have spoken.
    Established,
    /// It opens a connection that belongs to another, or is an error about one.
    Related,
    /// It cannot belong to any connection.
    Invalid,
    /// It is exempt from tracking, as IPv6 neighbour discovery is.
    Untracked,
}

/// One packet, reduced to what targets can look at. Both addresses are of one family.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Packet {
    /// Where it meets the target.
    pub crossing: Crossing,
    /// Its source address.
    pub source: IpAddr,
    /// Its destination address, after service translation.
    pub destination: IpAddr,
    /// Its transport protocol.
    pub protocol: Protocol,
    /// Its destination port, or for a protocol without ports the 16 bits that stand where the port would; `None` when
    /// it is too short to have them.
    pub port: Option<u16>,
    /// Its type, for ICMP and ICMPv6.
    pub icmp_type: Option<u8>,
    /// Its flags (FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32), for TCP.
    pub tcp_flags: Option<u8>,
    /// What connection tracking says about it.
    pub state: State,
    /// Its queueing priority when it reaches the target (Linux `skb->priority`).
    pub priority: u32,
    /// Its mark when it reaches the target (Linux `skb->mark`).
    pub mark: u32,
    /// The mark of its connection.
    pub connection_mark: u32,
    /// Whether the route back to its source leads through the interface it arrived on.
    pub reverse_path: bool,
}

/// The TCP flags that say whether a connection begins: FIN, SYN, RST and ACK, as bits of the TCP header.
pub const BEGINNING_MASK: u8 = 0x17;
/// Those of them that the first packet of a connection has: SYN alone.
pub const BEGINNING: u8 = 0x02;

/// Whether TCP begins a connection with these flags.
pub(crate) fn begins_connection(flags: u8) -> bool {
    flags & BEGINNING_MASK == BEGINNING
}

impl Packet {
    /// The first packet of a connection (TCP: a SYN; ICMP and ICMPv6: an echo request), unmarked.
    pub fn opening(
        crossing: Crossing,
        source: IpAddr,
        destination: IpAddr,
        protocol: Protocol,
        port: u16,
    ) -> Self {
        let icmp_type = match protocol {
            Protocol::ICMP => Some(8),
            Protocol::ICMPV6 => Some(128),
            _ => None,
        };
        Self {
            crossing,
            source,
            destination,
            protocol,
            port: Some(port),
            icmp_type,
            tcp_flags: (protocol == Protocol::TCP).then_some(2),
            state: State::New,
            priority: 0,
            mark: 0,
            connection_mark: 0,
            reverse_path: true,
        }
    }

    /// Whether it is TCP of a connection that has begun before: its flags are not those with which one begins.
    pub fn is_mid_stream(&self) -> bool {
        let flags = self.tcp_flags.filter(|_| self.protocol == Protocol::TCP);
        flags.is_some_and(|flags| !begins_connection(flags))
    }

    /// The family of its addresses.
    pub fn family(&self) -> Family {
        Family::of(self.source)
    }
}

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It passes.
    Accept,
    /// It is dropped.
    Drop {
        /// The place in the target's objects that dropped it, for people.
        place: String,
        /// The named counter that the drop was counted in.
        counter: Option<SmolStr>,
    },
}

impl Outcome {
    /// Whether the packet passes.
    pub fn is_accept(&self) -> bool {
        *self == Self::Accept
    }
}

/// What a target's objects do with packets, worked out from the target's own semantics and not from whatever made
/// the objects.
pub trait Meaning {
    /// What becomes of `packet`.
    fn outcome(&self, packet: &Packet) -> Outcome;
}
