//! What a lab is made of: namespaces, and what sends and answers in them.

use std::fmt;
use std::net::IpAddr;

use picket_cluster::{Addresses, Endpoint};
use picket_net::Family;
use picket_policy::{NetworkName, ObjectRef};
use smol_str::SmolStr;

/// A network namespace of the lab.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The router between nodes and external hosts.
    Fabric,
    /// The router of a secondary network and of all that are on its wire, between the interfaces of pods and external hosts
    /// there; the first of them.
    Network(NetworkName),
    /// A node; hostNetwork pods live here too.
    Node(SmolStr),
    /// A pod.
    Pod(ObjectRef),
    /// A host outside the cluster, by the secondary network that it is on (`None`: behind the fabric) and its address.
    External(Option<NetworkName>, IpAddr),
}

impl fmt::Display for Place {
    /// `fabric`, `network/NAMESPACE/NAME`, `node/NAME`, `NAMESPACE/NAME` of a pod, or an address, behind its network when
    /// it is on one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fabric => f.write_str("fabric"),
            Self::Network(name) => write!(f, "network/{name}"),
            Self::Node(name) => write!(f, "node/{name}"),
            Self::Pod(object) if object.kind == "Pod" => write!(f, "{}/{}", object.namespace, object.name),
            Self::Pod(object) => write!(f, "{}/{}/{}", object.namespace, object.kind, object.name),
            Self::External(None, address) => write!(f, "{address}"),
            Self::External(Some(network), address) => write!(f, "network/{network}/{address}"),
        }
    }
}

/// What a host stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HostKind {
    /// A pod.
    Pod,
    /// A workload that stands for its pods; the lab builds one of them.
    Workload,
    /// A node.
    Node,
    /// An address outside the cluster.
    External,
}

/// Something that sends and answers probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// What it stands for.
    pub kind: HostKind,
    /// Its name, unique on its network: `namespace/name`, `namespace/Kind/name`, `node/name`, or an address. A pod with
    /// several interfaces on a secondary network is a host with each, followed by `@interface`.
    pub id: String,
    /// The secondary network that it is on, of several on one wire the first; `None` on the cluster network.
    pub network: Option<NetworkName>,
    /// The namespace it is in.
    pub place: Place,
    /// The interface that it sends and answers by; `None` where there is one only.
    pub interface: Option<SmolStr>,
    /// The addresses it sends from and answers at.
    pub addresses: Addresses,
    /// What policies know it as; a node's address is that of `addresses`.
    pub(crate) object: Endpoint,
}

impl Host {
    /// A host outside the cluster.
    pub(crate) fn external(network: Option<&NetworkName>, address: IpAddr) -> Self {
        Self {
            kind: HostKind::External,
            id: address.to_string(),
            network: network.cloned(),
            place: Place::External(network.cloned(), address),
            interface: None,
            addresses: [address].into_iter().collect(),
            object: Endpoint::External(address),
        }
    }

    /// Its name without the interface, when it is one of several of a pod.
    pub(crate) fn pod_id(&self) -> Option<&str> {
        self.network.as_ref()?;
        self.id.split_once('@').map(|(pod, _)| pod)
    }

    /// What tells it apart from every other host.
    pub(crate) fn key(&self) -> (Option<&NetworkName>, &str) {
        (self.network.as_ref(), &self.id)
    }

    /// Its name for people: that of a pod on a secondary network with the interface, as in `shop/web (net1)`.
    pub fn label(&self) -> String {
        match (&self.network, &self.interface) {
            (Some(_), Some(interface)) => format!("{} ({interface})", self.id),
            _ => self.id.clone(),
        }
    }

    /// What its TCP server says: the place, followed by `@interface` on a secondary network.
    pub(crate) fn greeting(&self) -> String {
        match (&self.network, &self.interface) {
            (Some(_), Some(interface)) => format!("{}@{interface}", self.place),
            _ => self.place.to_string(),
        }
    }

    /// What policies know it as when it uses `family`; `None` when it has no such address.
    pub fn endpoint(&self, family: Family) -> Option<Endpoint> {
        let address = self.addresses.of(family)?;
        Some(match &self.object {
            Endpoint::Node { name, .. } => Endpoint::Node {
                name: name.clone(),
                address,
            },
            Endpoint::External(_) => Endpoint::External(address),
            pod @ Endpoint::Pod(_) => pod.clone(),
        })
    }
}
