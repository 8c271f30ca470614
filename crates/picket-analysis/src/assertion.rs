//! Assertions about connectivity: what must be allowed, what must not, and what must never be reached.
//!
//! They are written in YAML (`docs/test.md`), read by [`parse()`] with a place for everything that is wrong, and judged by
//! [`run()`] for every pair of endpoints that they are about. What fails has a connection that shows it. [`record()`] writes
//! what is allowed now as such a file.

mod choose;
pub mod codes;
mod judge;
mod parse;
mod reach;
mod record;
mod run;
mod sanity;
mod wish;
mod world;
pub mod write;

#[cfg(test)]
mod tests;

use picket_net::{Family, PortRange, Prefix, Protocol};
use picket_policy::{NetworkName, Position, Selector, Span};
use smol_str::SmolStr;

pub use parse::{API_VERSION, KIND, parse};
pub use record::record;
pub use run::{Failure, Outcome, run};

/// One assertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assertion {
    /// What people call it.
    pub name: SmolStr,
    /// What must hold.
    pub claim: Claim,
    /// Who opens connections.
    pub from: Ends,
    /// To whom.
    pub to: Ends,
    /// The packets it speaks of; all of them when there are none.
    pub ports: Vec<PortSpec>,
    /// The only family that it speaks of.
    pub family: Option<Family>,
    /// The secondary network that it is about, and where that is written; `None` for the one that is looked at anyway.
    pub network: Option<(NetworkName, Span)>,
    /// Where it begins.
    pub position: Position,
    /// Its first line.
    pub span: Span,
}

/// What must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Every pair may exchange all of the packets.
    Allowed,
    /// No pair may exchange any.
    Denied,
    /// Every pair may, and nothing beyond that on some sides.
    Exactly(Sides),
    /// Nothing beyond that on some sides may be.
    Only(Sides),
    /// No destination can be reached in any number of steps, through the endpoints that are named, or else pods.
    Unreachable(Option<Ends>),
}

/// The sides on which nothing else may be. At least one is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides {
    /// Nobody else may send such packets to the destinations.
    pub from: bool,
    /// The sources may send such packets to nobody else.
    pub to: bool,
    /// The sources may send no other packets to the destinations.
    pub ports: bool,
}

/// Some ends of connections: those that any of the items names, but for those that an exception names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The items as written, each with its place.
    pub items: Vec<(End, Span)>,
    /// The exceptions, likewise.
    pub except: Vec<(End, Span)>,
}

/// What names ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything: pods, workloads, nodes and addresses outside.
    Any,
    /// Every address that no pod and no node has.
    External {
        /// Only the ones in any of these, if there are some.
        within: Vec<Prefix>,
        /// None of these.
        except: Vec<Prefix>,
    },
    /// `namespace/*`.
    Namespace(SmolStr),
    /// A pod, a workload with all of its pods, or a node.
    Named(SmolStr),
    /// Addresses, of pods and nodes too.
    Block(Prefix),
    /// Pods by labels; `None` for what is not said.
    Selected {
        /// Of namespaces.
        namespaces: Option<Selector>,
        /// Of pods.
        pods: Option<Selector>,
    },
}

/// Some packets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortSpec {
    /// All of one protocol.
    Protocol(Protocol),
    /// All of the protocols without ports, but for ICMP and ICMPv6: no policy tells them apart.
    Other,
    /// A range of ports.
    Range(Protocol, PortRange),
    /// A container port of the destination, by its name.
    Named(Protocol, SmolStr),
}
