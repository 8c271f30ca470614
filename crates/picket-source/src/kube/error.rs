//! Why a cluster cannot be read.

use std::error::Error;
use std::io;
use std::time::Duration;

use ::kube::config::KubeconfigError;

use crate::files::SourceError;

/// Why a cluster cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum KubeError {
    /// Nothing says where the cluster is.
    #[error(
        "no cluster is known: KUBECONFIG is not set, `{0}` does not exist, and this is no pod of a cluster"
    )]
    NoKubeconfig(String),
    /// The kubeconfig cannot be read, or lacks what it refers to.
    #[error("the kubeconfig cannot be used: {0}")]
    Kubeconfig(String),
    /// The context is none of the kubeconfig's.
    #[error("the kubeconfig has no context `{context}`: {known}")]
    UnknownContext {
        /// The name as given.
        context: String,
        /// Which there are, for people.
        known: String,
    },
    /// The kubeconfig names no current context.
    #[error("the kubeconfig has no current context, name one with `--context`: {0}")]
    NoContext(String),
    /// No answer was had.
    #[error("the API server at {server} cannot be reached: {why}")]
    Unreachable {
        /// Its address.
        server: String,
        /// What failed.
        why: String,
    },
    /// The answer took too long.
    #[error("the API server at {server} did not answer within {} s when asked to {what}", .timeout.as_secs())]
    Timeout {
        /// Its address.
        server: String,
        /// The verb and the resource.
        what: String,
        /// How long it may take.
        timeout: Duration,
    },
    /// The API server does not know who asks.
    #[error("the API server at {server} does not accept the credentials when asked to {what} (401): {why}")]
    Unauthorized {
        /// Its address.
        server: String,
        /// The verb and the resource.
        what: String,
        /// What it says.
        why: String,
    },
    /// The API server says that it cannot do it now.
    #[error("the API server at {server} fails when asked to {what} ({code}): {why}")]
    Failing {
        /// Its address.
        server: String,
        /// The verb and the resource.
        what: String,
        /// The status of HTTP.
        code: u16,
        /// What it says.
        why: String,
    },
    /// The answer is none of the Kubernetes API.
    #[error("the server at {server} does not answer as the Kubernetes API does when asked to {what}: {why}")]
    Garbage {
        /// Its address.
        server: String,
        /// The verb and the resource.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// The system gives no means to wait for answers.
    #[error("cannot wait for a server's answers")]
    Runtime(#[source] io::Error),
    /// The cluster holds nothing.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl KubeError {
    /// Nothing can be sent to `server`, or no answer comes.
    pub(super) fn unusable(server: &str, error: &::kube::Error) -> Self {
        Self::Unreachable {
            server: server.to_owned(),
            why: cause(error),
        }
    }
}

impl From<KubeconfigError> for KubeError {
    fn from(error: KubeconfigError) -> Self {
        Self::Kubeconfig(match error {
            KubeconfigError::ReadConfig(error, path) => format!("`{}`: {error}", path.display()),
            other => other.to_string(),
        })
    }
}

/// What lies at the bottom of an error: the layers above it only say that something below failed.
fn cause(error: &dyn Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
