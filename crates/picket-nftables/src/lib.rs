//! The nftables target: a ruleset as typed values ([`model`]), its text and JSON forms ([`mod@print`]) and the way back
//! from a listing ([`parse`]), the layouts ([`render`]), the way from one ruleset to another ([`diff`]), and what a
//! ruleset does with packets ([`meaning`]). [`custom`] reads what people add to the documented layout.
//!
//! All that computes and does nothing else. With the feature `client` there is also the module `client`, which carries
//! out plans in the kernel.

#[cfg(feature = "client")]
pub mod client;
pub mod custom;
pub mod diff;
pub mod meaning;
pub mod model;
pub mod parse;
pub mod print;
pub mod render;
pub mod verify;

use picket_dataplane::{Capability, Denial, EstablishedConnections};

/// What both layouts do beyond their verdicts. Rules alone cut nothing: replies of a connection that was accepted once
/// go on until somebody deletes its entry in connection tracking, as `client::Cutter` does on a node.
pub const CAPABILITY: Capability = Capability {
    established: &[EstablishedConnections::Keep],
    deny: Denial::Drop,
};
