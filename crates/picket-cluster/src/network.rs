//! Secondary networks, and the cluster as one of them sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_policy::{NetworkName, Networks, ObjectRef, Policy, Tier};
use smol_str::{SmolStr, format_smolstr};

use crate::{Addresses, Pod, Snapshot};

/// The kind that defines a secondary network (k8s.cni.cncf.io/v1).
pub(crate) const NETWORK_KIND: &str = "NetworkAttachmentDefinition";

/// An interface of a pod on a secondary network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The network.
    pub network: NetworkName,
    /// The name of the interface in the pod, as in `net1`.
    pub interface: SmolStr,
    /// Its addresses.
    pub addresses: Addresses,
    /// Whether picket made the addresses up.
    pub synthetic: bool,
}

/// The interface that an endpoint on a secondary network is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The network.
    pub network: NetworkName,
    /// The name of the interface in the pod.
    pub name: SmolStr,
    /// The pod that has it.
    pub pod: ObjectRef,
    /// Whether the pod has others on the same network.
    pub one_of_several: bool,
}

impl Snapshot {
    /// The cluster as a secondary network sees it, in which everything can be judged as on the cluster network.
    ///
    /// Every interface on it is a pod of its own, with the interface's addresses. Only the policies that name the
    /// network are there. There are no nodes, services, hostNetwork pods and finished pods: no kubelet and no service
    /// translation reaches a secondary network. So peers are matched by their addresses on this network alone
    /// (multi-networkpolicy v1beta1, `policy-for`).
    #[must_use]
    pub fn on(&self, network: &NetworkName) -> Self {
        let mut seen = Self {
            namespaces: self.namespaces.clone(),
            ..Self::default()
        };
        for pod in self.pods.values().filter(|pod| pod.is_managed()) {
            let on = pod.attachments.iter().filter(|own| own.network == *network);
            let several = on.clone().count() > 1;
            for attachment in on {
                let endpoint = endpoint(pod, attachment, several);
                seen.pods.insert(endpoint.object.clone(), Arc::new(endpoint));
            }
        }
        for (object, policy) in &self.policies {
            // Custom rules hold on every network.
            if policy.networks.include(network) || policy.tier == Tier::Custom {
                let policy = Policy {
                    networks: Networks::Cluster,
                    ..Policy::clone(policy)
                };
                seen.policies.insert(object.clone(), Arc::new(policy));
            }
        }
        seen
    }

    /// Every secondary network that is defined, that a pod is on, or that a policy names.
    pub fn known_networks(&self) -> BTreeSet<NetworkName> {
        let pods = self.pods.values().flat_map(|pod| &pod.attachments);
        let policies = self
            .policies
            .values()
            .flat_map(|policy| policy.networks.attached());
        let used = pods.map(|attachment| &attachment.network).chain(policies);
        used.chain(&self.networks).cloned().collect()
    }

    /// The secondary networks that pods are on, with the number of interfaces.
    pub fn attached_networks(&self) -> BTreeMap<&NetworkName, usize> {
        let mut counts = BTreeMap::new();
        for pod in self.pods.values().filter(|pod| pod.is_managed()) {
            for attachment in &pod.attachments {
                *counts.entry(&attachment.network).or_default() += 1;
            }
        }
        counts
    }
}

/// The endpoint that an interface is. Of several interfaces the uid tells the objects apart.
fn endpoint(pod: &Pod, attachment: &Attachment, several: bool) -> Pod {
    let mut object = pod.object.clone();
    if several {
        object.uid = format_smolstr!("{}@{}", object.uid, attachment.interface);
    }
    Pod {
        object,
        labels: pod.labels.clone(),
        node: None,
        addresses: attachment.addresses,
        synthetic: attachment.synthetic,
        ports: pod.ports.clone(),
        declared_ports: pod.declared_ports.clone(),
        host_network: false,
        finished: false,
        owner: pod.owner.clone(),
        attachments: Vec::new(),
        interface: Some(Box::new(Interface {
            network: attachment.network.clone(),
            name: attachment.interface.clone(),
            pod: pod.object.clone(),
            one_of_several: several,
        })),
    }
}

#[cfg(test)]
mod tests;
