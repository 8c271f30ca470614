//! Rules of VPP's session layer, for pods whose sockets are VPP's own.

mod change;
mod edit;
mod global;
mod local;
pub mod meaning;
mod model;
mod node;
pub mod plan;
mod pods;
mod ports;
mod print;
mod render;
mod renderer;
mod table;
mod tables;
pub mod verify;

pub use change::{Change, Turn};
pub use model::{Action, SessionRule, SessionRules, Tag, Transport};
pub use node::NodeRules;
pub use print::{json, text};
pub use render::{Options, TooMany, render, render_lists, shortfalls};
pub use renderer::Renderer;
pub use tables::Tables;

use picket_dataplane::{Capability, Denial, EstablishedConnections};

/// What session rules do beyond their verdicts. They are about what is opened: what was opened nobody judges again.
pub const CAPABILITY: Capability = Capability {
    established: &[EstablishedConnections::Keep],
    deny: Denial::Drop,
};
