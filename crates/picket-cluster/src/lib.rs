//! What exists: pods, namespaces, nodes and workloads as events, a store and snapshots; and the question that
//! everything above answers, a [`Flow`] between two [`Endpoint`]s, with its [`Judgement`].

mod assemble;
pub mod codes;
mod difference;
mod domain;
mod event;
mod flow;
mod names;
mod network;
mod object;
mod parse;
mod plugin;
mod store;
mod wire;
mod written;

pub use assemble::{SYNTHETIC_IPV4, SYNTHETIC_IPV6, assemble};
pub use domain::resolve_domains;
pub use event::{Event, Object};
pub use flow::{Cause, EndJudgement, Endpoint, Flow, Judgement, Reason, Semantics, Verdict};
pub use names::{check_names, places};
pub use network::{Attachment, Interface, Interfaces, Network, Seen};
pub use object::{
    Addresses, Extra, NAMESPACE_NAME_LABEL, NamedPort, Namespace, Node, Owner, Pod, Service, ServicePort,
    TargetPort,
};
pub use parse::{is_cluster_kind, misnamed, parse, place};
pub use plugin::NetworkConfig;
pub use store::{Snapshot, Store};
pub use wire::{NoWire, Wire};
pub use written::{Located, Spec, Written, WrittenAttachment, WrittenNamespace, WrittenNode, WrittenPod};
