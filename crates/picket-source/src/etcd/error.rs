//! Why etcd cannot be used.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tonic::{Code, Status};

use crate::kube::KubeError;

/// The most characters of etcd's own words that an error repeats.
const LONGEST_WORDS: usize = 300;

/// Why etcd cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// Nothing says where etcd is.
    #[error("no endpoint of etcd is named")]
    NoEndpoint,
    /// This is no place where etcd can be.
    #[error("the endpoint `{endpoint}` of etcd cannot be used: {why}")]
    Endpoint {
        /// As it was given.
        endpoint: String,
        /// What is wrong with it.
        why: String,
    },
    /// Keys cannot begin so.
    #[error("the prefix `{0}` cannot be used: it begins and ends with `/`, as `/picket/v1/`")]
    Prefix(String),
    /// A certificate, key or password cannot be read.
    #[error("`{}` cannot be read: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A password holds what none can.
    #[error("`{}` holds no password: it is empty or no text", .0.display())]
    Password(PathBuf),
    /// No answer was had.
    #[error("etcd at {endpoint} cannot be reached: {why}")]
    Unreachable {
        /// The endpoint.
        endpoint: String,
        /// What failed.
        why: String,
    },
    /// The answer took too long.
    #[error("etcd at {endpoint} did not answer within {} s when asked to {call}", .timeout.as_secs())]
    Timeout {
        /// The endpoint.
        endpoint: String,
        /// What it was asked.
        call: &'static str,
        /// How long it may take.
        timeout: Duration,
    },
    /// etcd says no.
    #[error("etcd at {endpoint} refuses to {call}: {why}")]
    Refused {
        /// The endpoint.
        endpoint: String,
        /// What it was asked.
        call: &'static str,
        /// The code of gRPC.
        code: i32,
        /// What it says.
        why: String,
    },
    /// The answer is none of etcd's.
    #[error("the server at {endpoint} does not answer as etcd does when asked to {call}: {why}")]
    Garbage {
        /// The endpoint.
        endpoint: String,
        /// What it was asked.
        call: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Another reflector keeps etcd as it should be.
    #[error("`{0}` leads and keeps etcd as the cluster is; nothing was written")]
    Led(String),
    /// Another reflector took over.
    #[error("another reflector has taken over")]
    Deposed,
    /// The cluster cannot be followed.
    #[error(transparent)]
    Kube(#[from] KubeError),
}

impl EtcdError {
    /// etcd answers with a status that is no success.
    pub(super) fn refused(endpoint: &str, call: &'static str, status: &Status) -> Self {
        let endpoint = endpoint.to_owned();
        let why = words(status);
        match status.code() {
            Code::Unavailable | Code::Cancelled => Self::Unreachable { endpoint, why },
            Code::Unknown | Code::Internal if status.source().is_some() => {
                Self::Unreachable { endpoint, why }
            }
            code => Self::Refused {
                endpoint,
                call,
                code: code.into(),
                why,
            },
        }
    }

    /// Whether etcd no longer knows what there was at a revision.
    pub(super) fn is_compacted(&self) -> bool {
        matches!(self, Self::Refused { why, .. } if why.contains("has been compacted"))
    }

    /// Whether an answer was longer than what is taken in at once.
    pub(super) fn is_too_long(&self) -> bool {
        matches!(self, Self::Refused { why, .. } if why.contains("message length too large"))
    }

    /// Whether etcd takes no request as large as this one.
    pub(super) fn is_too_large(&self) -> bool {
        let words = ["request is too large", "too many operations"];
        matches!(self, Self::Refused { why, .. } if words.iter().any(|word| why.contains(word)))
    }

    /// Whether it may help to say anew who asks.
    pub(super) fn is_about_token(&self) -> bool {
        let unauthenticated = i32::from(Code::Unauthenticated);
        matches!(self, Self::Refused { code, why, .. } if *code == unauthenticated
            || why.contains("auth store is old") || why.contains("invalid auth token"))
    }
}

/// What etcd says, in one line that ends.
fn words(status: &Status) -> String {
    let code = status.code().description();
    let mut deepest: &dyn Error = status;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    let text = match (status.message(), status.source()) {
        ("", None) => return code.to_owned(),
        (message, None) => message.to_owned(),
        (_, Some(_)) => deepest.to_string(),
    };
    text.escape_debug().take(LONGEST_WORDS).collect()
}

/// What lies at the bottom of an error of the transport.
pub(super) fn cause(error: &dyn Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    let text = deepest.to_string();
    text.escape_debug().take(LONGEST_WORDS).collect()
}
