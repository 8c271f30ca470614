//! What keeps an agent from running at all.

use std::path::PathBuf;

use picket_linux::runtime::RuntimeError;
use picket_nftables::client::SyncError;
use picket_nftables::render::indexed::IndexedError;
use picket_source::{EtcdError, KubeError};
use smol_str::SmolStr;

/// Why an agent does not run. What goes wrong while it runs is in its [`Status`](crate::Status).
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Nothing says where the cluster is.
    #[error(transparent)]
    Kube(#[from] KubeError),
    /// Nothing says where etcd is, or it cannot be used.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// The kernel does not let it.
    #[error(transparent)]
    Kernel(#[from] picket_linux::Error),
    /// The cluster has nodes, and none of this name.
    #[error(
        "the cluster knows no node `{0}`, and no pod on it: is that its name (`--hostname-override`, or `NODE_NAME`)?"
    )]
    UnknownNode(SmolStr),
    /// The policies of a node cannot be put into the kernel.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The container runtime cannot be asked.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A file of custom rules cannot be read.
    #[error("{0}")]
    CustomRules(String),
    /// What was asked could not be done in these pods.
    #[error("{}", .0.join("; "))]
    Pods(Vec<String>),
    /// What was asked could not be done with these targets.
    #[error("{}", .0.join("; "))]
    Targets(Vec<String>),
    /// An address or a socket cannot be listened at.
    #[error("cannot listen at {at}: {source}")]
    Listen {
        /// The address or path.
        at: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Nobody answers at the socket of an agent.
    #[error("no agent answers at `{}`", path.display())]
    NoAgent {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// An agent answers something else than it was asked.
    #[error("what the agent answers cannot be read: {0}")]
    Answer(String),
    /// An agent has no answer to a question, and says why.
    #[error("{0}")]
    NoAnswer(String),
    /// A thread or the machinery that waits for many things cannot be had.
    #[error("cannot start: {0}")]
    Start(std::io::Error),
}

/// Why the table of a node is not as the policies say; it is as it was.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// It cannot be said in the layout.
    #[error(transparent)]
    Render(#[from] IndexedError),
    /// It cannot be read or written.
    #[error(transparent)]
    Sync(#[from] SyncError),
}

impl HostError {
    /// Whether another table may do better: this one cannot be said, or the kernel does not take it.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Render(_) | Self::Sync(SyncError::Apply(_)))
    }

    /// What to count it as.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Render(_) => "render",
            Self::Sync(error) => reason(error),
        }
    }
}

/// What to count a table as that is not as it should be.
pub(crate) fn reason(error: &SyncError) -> &'static str {
    match error {
        SyncError::Read(_) => "read",
        SyncError::Apply(_) => "refused",
        SyncError::Held { .. } => "held",
        SyncError::Unsettled => "unsettled",
    }
}
