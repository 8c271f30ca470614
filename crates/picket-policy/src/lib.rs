//! What people write: policy kinds parsed, validated and lowered to one form.
//!
//! Every dialect has a module of its own that reads its documents and lowers them to [`Policy`]; nothing above this
//! crate knows which dialect a policy came from. Reading never fails as a whole: it returns what could be read and
//! [`Diagnostic`]s for the rest, and what could not be read never widens a policy (`docs/semantics.md`).

mod admin_network_policy;
mod cluster_network_policy;
pub mod code;
mod diagnostic;
mod dialect;
pub mod document;
mod domain;
mod header;
mod hosts;
pub mod label_selector;
mod mode;
mod multi_network_policy;
pub mod name;
mod network;
mod network_policy;
mod network_policy_v1beta1;
mod object;
mod policy;
mod reader;
mod selector;
mod tiered;

pub use diagnostic::{Code, Diagnostic, Edit, Fix, Label, Severity, Span};
pub use dialect::{Lowered, Options, lower};
pub use document::{Entry, Manifest, Node, Source, Value, read};
pub use domain::DomainName;
pub use header::{Header, OwnerReference, Scope, header};
pub use hosts::Hosts;
pub use mode::MODE;
pub use network::{NetworkName, Networks};
pub use network_policy_v1beta1::{ClusterDefault, V1beta1, namespace_isolation};
pub use object::{ObjectRef, Position};
pub use policy::{
    Action, Block, Direction, List, Mode, NamespaceScope, Peer, PodSelector, Policy, PortMatch, Rule, Side,
    Tier,
};
pub use reader::{Cursor, Fields, Path, Reader, UnknownField, Unreadable};
pub use selector::{Labels, Requirement, Selector};
