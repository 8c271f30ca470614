//! What VPP refuses, and what its error numbers mean.

use std::fmt;

use super::value::{Label, Transport};
use picket_net::Prefix;

/// A request that VPP has understood and not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("VPP refuses `{message}` of {subject}: {} ({code})", self.meaning())]
pub struct Refusal {
    /// The name of the request.
    pub message: &'static str,
    /// What it was about.
    pub subject: Subject,
    /// The error number that VPP gives as `retval`.
    pub code: i32,
}

impl Refusal {
    /// What VPP means by its error number (`vnet/api_errno.h`).
    pub fn meaning(&self) -> &'static str {
        match self.code {
            -1 if self.message == "session_rule_add_del" => {
                "invalid, as a tag is that another rule has, or a namespace that there is not"
            }
            -1 => "unspecified error",
            -2 => "there is no such interface",
            -6 => "there is no such entry",
            -7 => "invalid value",
            -8 => "invalid value of the second kind",
            -19 => "there is no such table of routes",
            -30 => "the feature is disabled",
            -57 => "invalid source address",
            -58 => "invalid destination address",
            -142 => "an interface has the ACL among those for input",
            -143 => "an interface has the ACL among those for output",
            -149 => "the ACL is used for lookups",
            _ => "unknown error",
        }
    }
}

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An ACL that there is not yet.
    NewAcl(Label),
    /// An ACL.
    Acl(u32),
    /// The interface of this index.
    Interface(u32),
    /// A rule of the session layer.
    SessionRule {
        /// The index of the namespace.
        namespace: u32,
        /// Its transport protocol.
        transport: Transport,
        /// The addresses of the other side.
        remote: Prefix,
        /// Its tag.
        tag: Label,
    },
    /// An application namespace.
    Namespace(Label),
    /// A part of VPP.
    Part(&'static str),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewAcl(tag) => write!(f, "the new ACL `{tag}`"),
            Self::Acl(index) => write!(f, "ACL {index}"),
            Self::Interface(index) => write!(f, "interface {index}"),
            Self::SessionRule {
                namespace,
                transport,
                remote,
                tag,
            } => write!(
                f,
                "the {transport} rule `{tag}` for {remote} in namespace {namespace}"
            ),
            Self::Namespace(id) => write!(f, "the namespace `{id}`"),
            Self::Part(name) => f.write_str(name),
        }
    }
}
