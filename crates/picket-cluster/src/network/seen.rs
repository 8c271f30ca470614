//! What a wire shows of each object.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use picket_policy::{NetworkName, Networks, ObjectRef, Policy, Tier};
use smol_str::format_smolstr;

use super::{Attachment, Interface};
use crate::{Addresses, Extra, Namespace, Pod, Snapshot};

/// The cluster as the networks of one wire see it ([`Snapshot::on`]), object by object: who follows it needs no second snapshot.
#[derive(Clone, Debug)]
pub struct Seen<'s> {
    pub(super) cluster: &'s Snapshot,
    /// The network whose addresses count where others have them too.
    pub(super) network: NetworkName,
    pub(super) wire: BTreeSet<NetworkName>,
    /// The addresses that are there on several of its networks.
    pub(super) contested: BTreeSet<IpAddr>,
}

impl Seen<'_> {
    /// The networks on the wire.
    pub fn wire(&self) -> &BTreeSet<NetworkName> {
        &self.wire
    }

    /// All of it.
    pub fn snapshot(&self, interfaces: &mut Interfaces) -> Snapshot {
        let pods = self.pods(interfaces);
        let pods = pods.map(|pod| (pod.object.clone(), pod)).collect();
        Snapshot {
            pods,
            ..self.without_pods()
        }
    }

    /// The namespaces and the policies.
    pub fn without_pods(&self) -> Snapshot {
        let policies = self.cluster.policies.values();
        let policies = policies.filter_map(|policy| self.says(policy));
        Snapshot {
            namespaces: self.cluster.namespaces.clone(),
            policies: policies
                .map(|policy| (policy.object.clone(), Arc::new(policy)))
                .collect(),
            ..Snapshot::default()
        }
    }

    /// Every endpoint.
    pub fn pods(&self, interfaces: &mut Interfaces) -> impl Iterator<Item = Arc<Pod>> {
        let pods = self.cluster.pods.values();
        pods.flat_map(|pod| self.endpoints(pod, interfaces))
    }

    /// The endpoints that the interfaces of a pod are; none of a pod that has none on the wire.
    pub fn endpoints(&self, pod: &Pod, interfaces: &mut Interfaces) -> Vec<Arc<Pod>> {
        let on = |own: &&Attachment| self.wire.contains(&own.network) && pod.is_managed();
        let several = pod.attachments.iter().filter(on).count() > 1;
        let on = pod.attachments.iter().filter(on);
        let endpoints = on.map(|attachment| {
            let mut endpoint = endpoint(pod, attachment, several, interfaces);
            let is_contested = endpoint.addresses.iter().any(|own| self.contested.contains(&own));
            if is_contested && attachment.network != self.network {
                endpoint.addresses = Addresses::default();
            }
            Arc::new(endpoint)
        });
        endpoints.collect()
    }

    /// The pod of the cluster that this names.
    pub fn pod(&self, object: &ObjectRef) -> Option<&Pod> {
        self.cluster.pods.get(object).map(|pod| &**pod)
    }

    /// The namespace of this name, if its object exists.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.cluster.namespaces.get(name)
    }

    /// What a policy says there; `None` when it is about none of the networks.
    pub fn policy(&self, object: &ObjectRef) -> Option<Policy> {
        self.says(self.cluster.policies.get(object)?)
    }

    fn says(&self, policy: &Policy) -> Option<Policy> {
        Some(Policy {
            networks: self.named(policy)?,
            ..Policy::clone(policy)
        })
    }

    /// Which of the networks a policy is about; `None` when it is about none of them.
    fn named(&self, policy: &Policy) -> Option<Networks> {
        // Custom rules hold on every network.
        if policy.tier == Tier::Custom {
            return Some(Networks::Cluster);
        }
        let named = policy.networks.attached().iter();
        let named: Vec<_> = named
            .filter(|network| self.wire.contains(network))
            .cloned()
            .collect();
        // Never all that is there: what joins the wire later is none of this policy, wherever it is kept.
        (!named.is_empty()).then_some(Networks::Among(named))
    }
}

/// What describes the interfaces of endpoints, once for all that are alike.
#[derive(Debug, Default)]
pub struct Interfaces {
    known: BTreeSet<Arc<Interface>>,
    /// How many to know before those are forgotten that nobody uses.
    enough: usize,
}

/// How many descriptions may always be known.
const FEW: usize = 64;

impl Interfaces {
    fn share(&mut self, interface: Interface) -> Arc<Interface> {
        if let Some(known) = self.known.get(&interface) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.enough.max(FEW) {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.enough = 2 * self.known.len();
        }
        let interface = Arc::new(interface);
        self.known.insert(Arc::clone(&interface));
        interface
    }
}

/// The endpoint that an interface is. Of several interfaces the uid tells the objects apart.
fn endpoint(pod: &Pod, attachment: &Attachment, several: bool, interfaces: &mut Interfaces) -> Pod {
    let interface = Interface {
        network: attachment.network.clone(),
        name: attachment.interface.clone(),
        pod: several.then(|| pod.object.clone()),
    };
    let mut object = pod.object.clone();
    let interface = if several {
        object.uid = format_smolstr!("{}@{}", object.uid, attachment.interface);
        Arc::new(interface)
    } else {
        interfaces.share(interface)
    };
    Pod {
        object,
        labels: pod.labels.clone(),
        node: None,
        addresses: attachment.addresses,
        synthetic: attachment.synthetic,
        ports: pod.ports.clone(),
        host_network: false,
        finished: false,
        owner: pod.owner.clone(),
        attachments: Vec::new(),
        interface: Some(interface),
        extra: Extra {
            declared_ports: pod.declared_ports().to_vec(),
            ..Extra::default()
        }
        .kept(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str) -> Interface {
        Interface {
            network: NetworkName::parse("red", "shop").unwrap(),
            name: name.into(),
            pod: None,
        }
    }

    #[test]
    fn interfaces_that_are_alike_share_what_describes_them() {
        let mut interfaces = Interfaces::default();
        let one = interfaces.share(interface("net1"));
        assert!(Arc::ptr_eq(&one, &interfaces.share(interface("net1"))));
        assert!(!Arc::ptr_eq(&one, &interfaces.share(interface("net2"))));
    }

    /// People choose the names.
    #[test]
    fn what_nobody_uses_is_forgotten_in_time() {
        let mut interfaces = Interfaces::default();
        let used: Vec<_> = (0..100)
            .map(|number| interfaces.share(interface(&format!("net{number}"))))
            .collect();
        for number in 100..10_000 {
            interfaces.share(interface(&format!("net{number}")));
            assert!(interfaces.known.len() <= 2 * used.len() + FEW);
        }
        assert!(used.iter().all(|used| interfaces.known.contains(used)));
    }
}
