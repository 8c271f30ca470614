//! What keeps a controller from running at all.

use picket_node::AgentError;
use picket_source::{KubeError, Refused};

use crate::Failure;

/// Why a controller does not run. What goes wrong while it runs is in its [`Status`](crate::Status).
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// Nothing says where the cluster is, or it does not answer.
    #[error(transparent)]
    Kube(#[from] KubeError),
    /// The cluster cannot be followed, or nobody can be answered.
    #[error(transparent)]
    Node(#[from] AgentError),
    /// The API server does not let the Lease be read or written.
    #[error("the Lease cannot be read or written: {0}")]
    Lease(#[source] Refused),
    /// A Lease is too short for calls.
    #[error("a Lease of {lease} s is too short for calls of {call} s: it must be at least twice as long")]
    ShortLease {
        /// Its length in seconds.
        lease: u64,
        /// How long a call may take, in seconds.
        call: u64,
    },
    /// Another controller does the work.
    #[error("another controller has the Lease{}", .0.as_ref().map(|name| format!(": {name}")).unwrap_or_default())]
    NotLeading(Option<String>),
    /// The cloud cannot be read.
    #[error("what the cloud has cannot be read: {0}")]
    Read(#[source] Failure),
    /// The cloud cannot be spoken to.
    #[error("{0}")]
    Cloud(String),
    /// Not everything is in force.
    #[error("{}", .0.join("; "))]
    Failed(Vec<String>),
    /// A thread or the machinery that waits for many things cannot be had.
    #[error("cannot start: {0}")]
    Start(std::io::Error),
}
