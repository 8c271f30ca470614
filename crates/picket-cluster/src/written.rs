//! Objects as somebody wrote them, each on its own: what [`assemble`](crate::assemble()) makes a snapshot of.

use std::collections::BTreeMap;
use std::net::IpAddr;

use picket_net::Prefix;
use picket_policy::document::Manifest;
use picket_policy::{Labels, NetworkName, ObjectRef, Policy, Span};
use smol_str::SmolStr;

use crate::{NamedPort, Network, Owner, Service, place, places};

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Its text.
    pub span: Span,
}

/// One object of one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// What identifies it. Objects of namespaced kinds that name no namespace are in `default`.
    pub object: ObjectRef,
    /// The place to show for the whole object, such as its name.
    pub span: Span,
    /// Where the fields stand that name something by a path in the object; see [`places`].
    pub places: BTreeMap<String, Span>,
    /// The rest.
    pub spec: Spec,
}

impl Written {
    /// The policy that `manifest` was lowered to.
    pub fn policy(manifest: &Manifest, policy: Policy) -> Self {
        Self {
            object: policy.object.clone(),
            span: place(manifest),
            places: places(manifest, &policy),
            spec: Spec::Policy(policy),
        }
    }
}

/// What an object says besides its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// A namespace.
    Namespace(WrittenNamespace),
    /// A node.
    Node(WrittenNode),
    /// A pod, or a workload that may stand for its pods.
    Pod(WrittenPod),
    /// A service.
    Service(Service),
    /// A secondary network.
    Network(Network),
    /// A policy of any dialect, lowered.
    Policy(Policy),
}

/// What a Namespace says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenNamespace {
    /// `metadata.labels`.
    pub labels: Labels,
    /// The value of the label [`NAMESPACE_NAME_LABEL`](crate::NAMESPACE_NAME_LABEL), when it is written.
    pub name_label: Option<Located<SmolStr>>,
}

/// What a Node says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenNode {
    /// `metadata.labels`.
    pub labels: Labels,
    /// `status.addresses` of the types InternalIP and ExternalIP.
    pub addresses: Vec<Located<IpAddr>>,
    /// `spec.podCIDRs`, or else `spec.podCIDR`.
    pub pod_cidrs: Vec<Prefix>,
}

/// What a Pod says, or the pod template of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenPod {
    /// The labels of the pod.
    pub labels: Labels,
    /// The uid that the kubelet gave it, where its annotation `kubernetes.io/config.hash` tells one.
    pub static_uid: Option<Box<str>>,
    /// `spec.nodeName`.
    pub node: Option<SmolStr>,
    /// `spec.hostNetwork`.
    pub host_network: bool,
    /// Whether `status.phase` is Succeeded or Failed.
    pub finished: bool,
    /// `status.podIPs`, or else `status.podIP`.
    pub addresses: Vec<Located<IpAddr>>,
    /// `status.hostIPs`, or else `status.hostIP`.
    pub host_addresses: Vec<IpAddr>,
    /// Named container ports, sorted and unique.
    pub ports: Vec<NamedPort>,
    /// Numbers of all container ports, sorted and unique.
    pub declared_ports: Vec<(picket_net::Protocol, u16)>,
    /// `metadata.ownerReferences`, the controller first.
    pub owners: Vec<Owner>,
    /// Its interfaces on secondary networks, as its annotations have them.
    pub attachments: Vec<WrittenAttachment>,
    /// The interface of VPP that its annotation `picket.dev/vpp-interface` names.
    pub vpp_interface: Option<Box<str>>,
    /// The ids of the ports of Neutron that its annotation `picket.dev/neutron-ports` names, sorted and unique.
    pub neutron_ports: Vec<SmolStr>,
    /// Whether a workload asks for no pods: `replicas` is 0.
    pub scaled_to_zero: bool,
}

/// An interface on a secondary network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenAttachment {
    /// The network.
    pub network: NetworkName,
    /// The name of the interface in the pod.
    pub interface: SmolStr,
    /// Its addresses, all with the place of the annotation; none when they are not known yet.
    pub addresses: Vec<Located<IpAddr>>,
}
