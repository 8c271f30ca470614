//! Secondary networks, and the cluster as one of them sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_policy::{NetworkName, ObjectRef};
use smol_str::SmolStr;

pub use self::seen::{Interfaces, Seen};
use crate::{Addresses, Snapshot, Wire};

mod seen;

/// The kind that defines a secondary network (k8s.cni.cncf.io/v1).
pub(crate) const NETWORK_KIND: &str = "NetworkAttachmentDefinition";

/// A secondary network, as its definition has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its name.
    pub name: NetworkName,
    /// The wire that it is on; `None` when nobody can tell, so that it is on one of its own.
    pub wire: Option<Wire>,
}

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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interface {
    /// The network.
    pub network: NetworkName,
    /// The name of the interface in the pod.
    pub name: SmolStr,
    /// The pod that has it, if it has others on the same network, or on others of the same wire: then each is an endpoint that is
    /// called otherwise. What describes the only one is the same for all pods there, which share it.
    pub pod: Option<ObjectRef>,
}

impl Interface {
    /// Whether its pod has others on the same network, or on others of the same wire.
    pub fn is_one_of_several(&self) -> bool {
        self.pod.is_some()
    }
}

impl Snapshot {
    /// The cluster as a secondary network sees it, in which everything can be judged as on the cluster network.
    ///
    /// Every interface on its wire is a pod of its own, with the interface's addresses: those on the network, and those on the
    /// others that are on the same [wire](Snapshot::on_wire_of). Only the policies are there that name one of them. Each is
    /// about the interfaces on those that it names, and its selectors match no others, whatever labels their pods have
    /// (multi-networkpolicy v1beta1, `policy-for`). There are no nodes, services, hostNetwork pods and finished pods: no
    /// kubelet and no service translation reaches a secondary network.
    ///
    /// An address that is there on several networks of the wire belongs to the interface on this one. If there is none, nobody
    /// can tell who it is. Interfaces on other networks keep no address when one is not theirs alone.
    #[must_use]
    pub fn on(&self, network: &NetworkName) -> Self {
        let wire = self.on_wire_of(network);
        let contested = self.contested(&wire);
        let seen = Seen {
            cluster: self,
            network: network.clone(),
            wire,
            contested,
        };
        seen.snapshot(&mut Interfaces::default())
    }

    /// The cluster as each of these secondary networks sees it ([`Snapshot::on`]), once for all that see the same.
    pub fn on_each<'n>(
        &self,
        networks: impl IntoIterator<Item = &'n NetworkName>,
    ) -> Vec<(Vec<&'n NetworkName>, Seen<'_>)> {
        let mut wires: BTreeMap<BTreeSet<NetworkName>, Vec<&NetworkName>> = BTreeMap::new();
        for network in networks {
            wires.entry(self.on_wire_of(network)).or_default().push(network);
        }
        let seen = wires.into_iter().flat_map(|(wire, networks)| {
            let contested = self.contested(&wire);
            let together = if contested.is_empty() { networks.len() } else { 1 };
            let seen = networks.chunks(together.max(1)).filter_map(|networks| {
                let seen = Seen {
                    cluster: self,
                    network: NetworkName::clone(networks.first()?),
                    wire: wire.clone(),
                    contested: contested.clone(),
                };
                Some((networks.to_vec(), seen))
            });
            seen.collect::<Vec<_>>()
        });
        seen.collect()
    }

    /// The networks that are on the wire of this one, itself among them.
    pub fn on_wire_of(&self, network: &NetworkName) -> BTreeSet<NetworkName> {
        let wire = self.networks.get(network).and_then(Option::as_ref);
        let others = self
            .networks
            .iter()
            .filter(|(_, other)| wire.is_some() && other.as_ref() == wire);
        let others = others.map(|(other, _)| other);
        others.chain([network]).cloned().collect()
    }

    /// The addresses that are there on several of the networks of a wire.
    fn contested(&self, wire: &BTreeSet<NetworkName>) -> BTreeSet<IpAddr> {
        let mut holders: BTreeMap<IpAddr, &NetworkName> = BTreeMap::new();
        let mut contested = BTreeSet::new();
        if wire.len() < 2 {
            return contested;
        }
        for pod in self.pods.values().filter(|pod| pod.is_managed()) {
            for attachment in pod.attachments.iter().filter(|own| wire.contains(&own.network)) {
                let network = &attachment.network;
                let taken = attachment
                    .addresses
                    .iter()
                    .filter(|&address| *holders.entry(address).or_insert(network) != network);
                contested.extend(taken);
            }
        }
        contested
    }

    /// Every secondary network that is defined, that a pod is on, or that a policy names.
    pub fn known_networks(&self) -> BTreeSet<NetworkName> {
        let pods = self.pods.values().flat_map(|pod| &pod.attachments);
        let policies = self
            .policies
            .values()
            .flat_map(|policy| policy.networks.attached());
        let used = pods.map(|attachment| &attachment.network).chain(policies);
        used.chain(self.networks.keys()).cloned().collect()
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

#[cfg(test)]
mod tests;
