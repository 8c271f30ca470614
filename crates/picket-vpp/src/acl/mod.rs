//! Access control lists of VPP's ACL plugin.

mod change;
mod cut;
mod global;
pub mod hold;
pub mod meaning;
mod memory;
mod model;
mod node;
mod parse;
pub mod plan;
mod print;
mod render;
mod renderer;
mod replace;
mod rules;
mod shortfall;
mod stricter;
pub mod verify;

pub use change::Change;
pub use model::{ACK, Acl, AclAction, AclRule, Acls, Beginnings, InterfaceLists, Role, SYN, Tag};
pub use node::{NodeAcls, PodLists};
pub use parse::{ParseError, parse};
pub use print::{json, text};
pub use render::{Options, render, render_lists};
pub use renderer::Renderer;
pub use shortfall::{Shortfalls, shortfalls};

use picket_dataplane::{Capability, Denial, EstablishedConnections};

/// What lists do beyond their verdicts. VPP forgets the sessions of an interface that gets other lists, and where something is
/// denied that was not, interfaces get others.
pub const CAPABILITY: Capability = Capability {
    established: &[EstablishedConnections::Cut],
    deny: Denial::Drop,
};
