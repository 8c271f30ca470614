//! What the policies demand of whoever enforces them: for every packet at one place whether it must pass, must not, or
//! may do either. It is worked out from the compiled program alone, never from what a target made of it.

mod headers;
mod pairs;
mod place;
mod side;
mod spoofing;

pub use headers::{ABSENT_FLAGS, ABSENT_PORT, ABSENT_TYPE, Header, Headers, Split};
pub use pairs::Ends;
pub use place::{Demands, End};

use picket_net::{Family, Protocol};

use crate::{Outcome, Packet, State};

/// What the policies demand of the packets from one end to another, in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Demand {
    /// They pass, all of them.
    Accept,
    /// Nothing: such packets do not exist at this place, or policies say nothing about them.
    Anything,
    /// What these kinds of traffic have in common passes, and nothing else does.
    Traffic(Traffic),
}

/// Kinds of traffic by their numbers in [`Demands`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Traffic {
    /// What the source may send; `None` for everything.
    pub(crate) egress: Option<u32>,
    /// What the destination may receive; `None` for everything.
    pub(crate) ingress: Option<u32>,
    /// Whether what is allowed may be dropped all the same.
    pub(crate) at_most: bool,
    /// Whether TCP of connections that began before does not pass, whatever is allowed.
    pub(crate) from_its_beginning: bool,
}

impl Traffic {
    const EVERYTHING: Self = Self {
        egress: None,
        ingress: None,
        at_most: false,
        from_its_beginning: false,
    };

    fn is_everything(self) -> bool {
        self.egress.is_none() && self.ingress.is_none() && !self.from_its_beginning
    }
}

impl Demand {
    /// That `traffic` passes and nothing else does.
    fn traffic(traffic: Traffic) -> Self {
        match traffic.is_everything() && !traffic.at_most {
            true => Self::Accept,
            false => Self::Traffic(traffic),
        }
    }

    /// The same, and if it `refuses` that no TCP passes which is in the middle of a connection.
    fn refusing_mid_stream(self, refuses: bool) -> Self {
        match self {
            _ if !refuses => self,
            Self::Anything => Self::Anything,
            Self::Accept => Self::Traffic(Traffic {
                from_its_beginning: true,
                ..Traffic::EVERYTHING
            }),
            Self::Traffic(traffic) => Self::Traffic(Traffic {
                from_its_beginning: true,
                ..traffic
            }),
        }
    }

    /// What is demanded of packets in a state where this is demanded of new connections.
    #[must_use]
    pub fn in_state(self, state: State) -> Self {
        match (self, state) {
            (Self::Anything, _) => Self::Anything,
            (_, State::Established | State::Related) => Self::Accept,
            // It belongs to nothing, and may be dropped, but for an error about a packet of no known connection.
            (Self::Accept, State::Invalid) => Self::Traffic(Traffic {
                at_most: true,
                ..Traffic::EVERYTHING
            }),
            (Self::Traffic(traffic), State::Invalid) => Self::Traffic(Traffic {
                at_most: true,
                from_its_beginning: false,
                ..traffic
            }),
            // Nobody knows of it whether its connection has begun.
            (Self::Traffic(traffic), State::Untracked) => Self::traffic(Traffic {
                from_its_beginning: false,
                ..traffic
            }),
            (demand, State::New | State::Untracked) => demand,
        }
    }
}

/// What must become of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Required {
    /// It passes.
    Accept,
    /// It does not.
    Drop,
    /// Either is right.
    Either,
}

impl Required {
    /// Whether `outcome` is what is required.
    pub fn is_met_by(self, outcome: &Outcome) -> bool {
        match self {
            Self::Accept => outcome.is_accept(),
            Self::Drop => !outcome.is_accept(),
            Self::Either => true,
        }
    }
}

/// Why something is demanded of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// It belongs to a known connection.
    KnownConnection,
    /// IPv6 does not work without it.
    NecessaryIcmpv6,
    /// It comes from outside with the pod's own address.
    Spoofed,
    /// The way back to its source does not lead through the interface where it arrived.
    NoWayBack,
    /// Policies are about no such packet: those of a node itself, and those over other interfaces.
    NotJudged,
    /// A pod reaches itself.
    SamePod,
    /// It is between a pod and its own node.
    OwnNode,
    /// It is TCP that begins no connection and belongs to none that is known, of a pod that something restricts.
    MidStream,
    /// What the policies at both ends say.
    Policies,
}

/// ICMPv6 without which IPv6 does not work: packet too big (2), and neighbour discovery (133 to 137, RFC 4861).
const ALWAYS: [u8; 6] = [2, 133, 134, 135, 136, 137];

/// Whether every ruleset lets this packet pass whatever the policies say.
fn is_necessary(packet: &Packet) -> bool {
    packet.protocol == Protocol::ICMPV6 && packet.icmp_type.is_some_and(|kind| ALWAYS.contains(&kind))
}

impl Demands<'_> {
    /// Why something is demanded of a packet.
    pub fn why(&self, packet: &Packet) -> Why {
        let (source, destination) = (self.end(packet.source), self.end(packet.destination));
        let drops_without_way_back = || {
            self.without_way_back(&packet.crossing, Demand::Accept)
                .is_nothing()
        };
        match packet.state {
            _ if !packet.reverse_path && !is_necessary(packet) && drops_without_way_back() => Why::NoWayBack,
            State::Established | State::Related => Why::KnownConnection,
            _ if is_necessary(packet) => Why::NecessaryIcmpv6,
            State::New
                if packet.is_mid_stream()
                    && self.is_refused_mid_stream(&packet.crossing, &source, &destination) =>
            {
                Why::MidStream
            }
            _ => self.why_at_place(&packet.crossing, &source, &destination),
        }
    }

    /// What must become of one packet.
    pub fn required(&self, packet: &Packet) -> Required {
        let (source, destination) = (self.end(packet.source), self.end(packet.destination));
        let demand = self.demand(&packet.crossing, &source, &destination, packet.state);
        let demand = match packet.reverse_path {
            true => demand,
            false => self.without_way_back(&packet.crossing, demand),
        };
        match demand {
            Demand::Accept => Required::Accept,
            Demand::Anything => Required::Either,
            Demand::Traffic(_) if is_necessary(packet) => match packet.family() {
                Family::Ipv6 => Required::Accept,
                Family::Ipv4 => Required::Either,
            },
            Demand::Traffic(traffic) if traffic.from_its_beginning && packet.is_mid_stream() => {
                Required::Drop
            }
            Demand::Traffic(traffic) => {
                let allowed = self.allowed(traffic);
                let accept = if traffic.at_most {
                    Required::Either
                } else {
                    Required::Accept
                };
                match (allowed.ports(packet.protocol), packet.port) {
                    (None, _) if allowed.portless.contains(packet.protocol) => accept,
                    (Some(ports), Some(port)) if ports.contains(port) => accept,
                    // No connection is opened with port 0, or by a packet too short for a port.
                    (Some(ports), Some(0) | None) if ports.is_all() || self.tolerates_missing_ports() => {
                        Required::Either
                    }
                    _ => Required::Drop,
                }
            }
        }
    }
}
