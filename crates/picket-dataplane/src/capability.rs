//! What a target can and cannot do.

use picket_policy::{Diagnostic, Direction, ObjectRef, Severity};

use crate::codes;

/// What a target does with connections that were established when a change denies them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EstablishedConnections {
    /// They are cut.
    Cut,
    /// They go on until they end by themselves.
    Keep,
    /// Whatever the system behind the target does.
    Own,
}

/// What a target does with packets that are denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Denial {
    /// They vanish.
    Drop,
    /// The sender gets an error.
    Reject,
}

/// What a target declares about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// What it can do with established connections.
    pub established: &'static [EstablishedConnections],
    /// What it does with denied packets.
    pub deny: Denial,
}

/// Something that policies ask for and a target cannot express. What it renders instead is narrower, never wider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The target and layout, as in `nftables, documented layout`.
    pub target: &'static str,
    /// The policy concerned.
    pub policy: ObjectRef,
    /// The connections concerned.
    pub direction: Direction,
    /// What is missing: lower case, no full stop.
    pub what: String,
    /// What is rendered instead: lower case, no full stop.
    pub instead: String,
}

impl Shortfall {
    /// As a warning about the policy.
    pub fn diagnostic(&self) -> Diagnostic {
        let message = format!("{}: {}", self.target, self.what);
        Diagnostic::new(codes::SHORTFALL, Severity::Warning, message)
            .on(&self.policy)
            .note(&self.instead)
    }
}
