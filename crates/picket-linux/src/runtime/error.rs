//! What keeps a runtime from being asked, and a sandbox from being entered.

use std::fmt;

use super::SandboxId;

/// Why a runtime gives no answer, or none that can be used.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// What is given is no socket that a runtime could listen at.
    #[error("`{endpoint}` is no endpoint of a container runtime: {problem}")]
    Endpoint {
        /// What was given.
        endpoint: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The machinery that waits for answers cannot be had.
    #[error("cannot start asking the container runtime")]
    Start(#[source] std::io::Error),
    /// It does not answer, or refuses.
    #[error("the container runtime at `{endpoint}` does not answer `{call}`: {problem}")]
    Call {
        /// The socket.
        endpoint: String,
        /// The name of the call, as in `ListPodSandbox`.
        call: &'static str,
        /// Why.
        problem: String,
    },
    /// The namespace of a sandbox cannot be had.
    #[error("sandbox `{sandbox}`: {problem}")]
    Sandbox {
        /// Which one.
        sandbox: SandboxId,
        /// Why not.
        problem: Problem,
    },
}

/// Why the network namespace of a sandbox is not entered.
#[derive(Debug)]
pub enum Problem {
    /// The runtime has no ready sandbox with this id, or not any more.
    NotReady,
    /// It belongs to another pod than it did when it was listed.
    OtherPod,
    /// The runtime does not say where the namespace is, or in a form that is not known.
    Unknown(String),
    /// The namespace cannot be opened at this path.
    Open(String, std::io::Error),
    /// What is at this path is no network namespace.
    NoNamespace(String),
    /// The process that the runtime names is not one of the sandbox: it ended, and another has got its number.
    OtherProcess(u32),
    /// The runtime names a namespace by its path and by a process, and they are two.
    Contradiction,
    /// It is the namespace of the node: of a pod in the network of its node, or the runtime says something wrong.
    Host,
    /// It is the namespace of this other sandbox too.
    Shared(SandboxId),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => f.write_str("it is not ready any more"),
            Self::OtherPod => f.write_str("it belongs to another pod than before"),
            Self::Unknown(what) => write!(
                f,
                "the runtime does not say where its network namespace is: {what}"
            ),
            Self::Open(path, source) => write!(f, "cannot open `{}`: {source}", path.escape_debug()),
            Self::NoNamespace(path) => write!(f, "`{}` is no network namespace", path.escape_debug()),
            Self::OtherProcess(process) => write!(f, "process {process} is not one of it"),
            Self::Contradiction => f.write_str("the runtime names two network namespaces"),
            Self::Host => f.write_str("its network namespace is the node's"),
            Self::Shared(other) => write!(f, "its network namespace is that of sandbox `{other}` too"),
        }
    }
}
