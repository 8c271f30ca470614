//! The objects of a cluster, reduced to what policies can see of them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use picket_net::{Family, Prefix, Protocol};
use picket_policy::{Labels, ObjectRef};
use smol_str::SmolStr;

use crate::network::{Attachment, Interface};

/// The label that the API server puts on every namespace; its value is the namespace's name.
pub const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its name.
    pub name: SmolStr,
    /// Its labels, [`NAMESPACE_NAME_LABEL`] among them.
    pub labels: Labels,
}

impl Namespace {
    /// The namespace `name` with `labels` and [`NAMESPACE_NAME_LABEL`], which overrides what `labels` say.
    pub fn new(name: &str, labels: &Labels) -> Self {
        Self {
            name: name.into(),
            labels: labels.with(NAMESPACE_NAME_LABEL, name),
        }
    }

    /// The namespace that `name` implies when nothing else is known of it.
    pub fn implied(name: &str) -> Self {
        Self::new(name, &Labels::default())
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: SmolStr,
    /// Its labels.
    pub labels: Labels,
    /// Every address of its own: `status.addresses` and the host addresses of the pods on it.
    pub addresses: BTreeSet<IpAddr>,
    /// What the addresses of its pods are from: `spec.podCIDRs`. Nothing that policies say depends on it.
    pub pod_cidrs: Vec<Prefix>,
}

/// At most one address of each family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Addresses {
    /// The IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// The IPv6 address.
    pub v6: Option<Ipv6Addr>,
}

impl Addresses {
    /// The address of one family.
    pub fn of(&self, family: Family) -> Option<IpAddr> {
        match family {
            Family::Ipv4 => self.v4.map(IpAddr::V4),
            Family::Ipv6 => self.v6.map(IpAddr::V6),
        }
    }

    /// All of them, IPv4 first.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + '_ {
        Family::BOTH.into_iter().filter_map(|family| self.of(family))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.v4.is_none() && self.v6.is_none()
    }
}

impl FromIterator<IpAddr> for Addresses {
    /// The first address of each family counts.
    fn from_iter<I: IntoIterator<Item = IpAddr>>(addresses: I) -> Self {
        addresses
            .into_iter()
            .fold(Self::default(), |found, address| match address {
                IpAddr::V4(address) => Self {
                    v4: found.v4.or(Some(address)),
                    ..found
                },
                IpAddr::V6(address) => Self {
                    v6: found.v6.or(Some(address)),
                    ..found
                },
            })
    }
}

/// A named container port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedPort {
    /// The name.
    pub name: SmolStr,
    /// The protocol it is declared for.
    pub protocol: Protocol,
    /// The number, never 0.
    pub port: u16,
}

/// A controller that an object belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The kind, as in `Deployment`.
    pub kind: SmolStr,
    /// The name; owners live in the namespace of what they own.
    pub name: SmolStr,
}

/// A pod, or a workload that stands for its pods (`object.kind` tells which).
///
/// What few pods have is kept apart: there may be 100,000 of them, twice where they are on a secondary network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// What identifies it; the kind is `Pod` or a workload kind.
    pub object: ObjectRef,
    /// Its labels (a workload: those of its pod template).
    pub labels: Labels,
    /// The node it runs on, once it is known.
    pub node: Option<SmolStr>,
    /// Its addresses on the network that is looked at: the cluster network, but in what [`Snapshot::on`](crate::Snapshot::on) gives. A
    /// hostNetwork pod has its node's.
    pub addresses: Addresses,
    /// Whether picket made the addresses up. An ipBlock matches such an address only when its prefix is /0.
    pub synthetic: bool,
    /// Its named container ports, sorted, unique. Many pods have the same, and may share them.
    pub ports: Arc<[NamedPort]>,
    /// Whether it shares its node's network. Policies neither select it nor match it by selector.
    pub host_network: bool,
    /// Whether it has run to its end (phase Succeeded or Failed). For policies it then does not exist.
    pub finished: bool,
    /// The top owner, when it is owned.
    pub owner: Option<Arc<Owner>>,
    /// Its interfaces on secondary networks, in the order in which they were added to it.
    pub attachments: Vec<Attachment>,
    /// The interface that this stands for, in what [`Snapshot::on`](crate::Snapshot::on) gives; `None` on the cluster network.
    pub interface: Option<Arc<Interface>>,
    /// What few have; `None` where there is nothing of it ([`Extra::kept`]).
    pub extra: Option<Box<Extra>>,
}

/// What few pods have, or is known of few. Nothing that policies say depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// The uid by which the container runtime knows it, where that is another: the kubelet gives static pods one of its own, and
    /// their mirrors in the API server tell it.
    pub static_uid: Option<Box<str>>,
    /// Numbers of all declared container ports, named or not, sorted and unique. The lab probes them.
    pub declared_ports: Vec<(Protocol, u16)>,
    /// The interface of VPP that its annotation `picket.dev/vpp-interface` names, which its users write.
    pub vpp_interface: Option<Box<str>>,
    /// The ids of the ports of Neutron that its annotation `picket.dev/neutron-ports` names, which its users write, sorted and
    /// unique.
    pub neutron_ports: Vec<SmolStr>,
}

impl Extra {
    /// As pods keep it.
    pub fn kept(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

impl Pod {
    /// Whether this stands for the pods of a workload.
    pub fn is_workload(&self) -> bool {
        self.object.kind != "Pod"
    }

    /// [`Extra::static_uid`].
    pub fn static_uid(&self) -> Option<&str> {
        self.extra.as_ref()?.static_uid.as_deref()
    }

    /// [`Extra::declared_ports`].
    pub fn declared_ports(&self) -> &[(Protocol, u16)] {
        self.extra.as_ref().map_or(&[], |extra| &extra.declared_ports)
    }

    /// [`Extra::vpp_interface`].
    pub fn vpp_interface(&self) -> Option<&str> {
        self.extra.as_ref()?.vpp_interface.as_deref()
    }

    /// [`Extra::neutron_ports`].
    pub fn neutron_ports(&self) -> &[SmolStr] {
        self.extra.as_ref().map_or(&[], |extra| &extra.neutron_ports)
    }

    /// Whether policies can select it and selectors can match it.
    pub fn is_managed(&self) -> bool {
        !self.host_network && !self.finished
    }

    /// `namespace/name` for a pod, `namespace/Kind/name` for a workload; followed by `@interface` when it has several
    /// on the network that is looked at.
    pub fn id(&self) -> String {
        let ObjectRef {
            kind,
            namespace,
            name,
            ..
        } = &self.object;
        let id = if self.is_workload() {
            format!("{namespace}/{kind}/{name}")
        } else {
            format!("{namespace}/{name}")
        };
        match &self.interface {
            Some(interface) if interface.is_one_of_several() => format!("{id}@{}", interface.name),
            Some(_) | None => id,
        }
    }

    /// The pod that this is, or is an interface of.
    pub fn whole(&self) -> &ObjectRef {
        let interface = self.interface.as_ref();
        interface.and_then(|own| own.pod.as_ref()).unwrap_or(&self.object)
    }

    /// Whether the two are one pod: the same, or interfaces of the same. What a pod sends to itself leaves it through
    /// no interface.
    pub fn is_same_pod(&self, other: &Self) -> bool {
        self.whole() == other.whole()
    }
}

/// A service. Policies are judged after its addresses are translated, so that they explain what people see, and matter only
/// to those who judge packets before that, as VPP does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// What identifies it.
    pub object: ObjectRef,
    /// Its virtual addresses: `clusterIPs`, `externalIPs` and load-balancer addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// The labels of the pods that it leads to; without any it leads to none that picket knows of.
    pub selector: Labels,
    /// Its ports, in the order written.
    pub ports: Vec<ServicePort>,
}

/// A port of a service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServicePort {
    /// The protocol.
    pub protocol: Protocol,
    /// The number at the service's address, never 0.
    pub port: u16,
    /// Where it leads to on a pod.
    pub target: TargetPort,
}

/// Where a port of a service leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetPort {
    /// A port of the pod, never 0.
    Number(u16),
    /// The container port of that name and of the service port's protocol.
    Name(SmolStr),
}
