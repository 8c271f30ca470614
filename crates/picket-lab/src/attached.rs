//! The interfaces of pods on secondary networks.

use std::collections::BTreeMap;

use picket_cluster::{Endpoint, Pod, Snapshot};
use picket_nftables::model::InterfaceName;
use picket_policy::NetworkName;

use crate::topology::CLUSTER_INTERFACE;
use crate::{Host, HostKind, Place, TopologyError};

/// A host for every interface on the wire that `snapshot` shows, which is called by `network`.
pub(crate) fn attached_hosts(snapshot: &Snapshot, network: &NetworkName) -> Vec<Host> {
    let attached = snapshot.pods.values().filter(|pod| !pod.addresses.is_empty());
    let hosts = attached.filter_map(|pod| {
        let interface = pod.interface.as_ref()?;
        Some(Host {
            kind: if pod.is_workload() {
                HostKind::Workload
            } else {
                HostKind::Pod
            },
            id: pod.id(),
            network: Some(network.clone()),
            place: Place::Pod(pod.whole().clone()),
            interface: Some(interface.name.clone()),
            addresses: pod.addresses,
            object: Endpoint::Pod(pod.object.clone()),
        })
    });
    hosts.collect()
}

/// The network that a wire is called by: the first of those on it.
pub(crate) fn wire(snapshot: &Snapshot, network: &NetworkName) -> NetworkName {
    let networks = snapshot.on_wire_of(network).into_iter();
    networks.min().unwrap_or_else(|| network.clone())
}

/// Whether no address is there on several networks of one wire.
fn check_wires(snapshot: &Snapshot) -> Result<(), TopologyError> {
    let mut holders: BTreeMap<_, (&Pod, &NetworkName)> = BTreeMap::new();
    for pod in snapshot.pods.values().filter(|pod| pod.is_managed()) {
        for attachment in &pod.attachments {
            let network = &attachment.network;
            for address in attachment.addresses.iter() {
                let before = holders.insert((wire(snapshot, network), address), (pod, network));
                if let Some((first, _)) = before.filter(|(_, other)| *other != network) {
                    return Err(TopologyError::SharedAddress {
                        address,
                        first: first.id(),
                        second: pod.id(),
                    });
                }
            }
        }
    }
    Ok(())
}

/// Whether every pod of `snapshot` can have all of its interfaces in the lab.
pub(crate) fn check_interfaces(snapshot: &Snapshot) -> Result<(), TopologyError> {
    check_wires(snapshot)?;
    for pod in snapshot.pods.values().filter(|pod| pod.is_managed()) {
        for attachment in &pod.attachments {
            let problem = if attachment.interface == CLUSTER_INTERFACE {
                "that is its interface on the cluster network"
            } else if attachment.interface == "lo" {
                "that is its loopback interface"
            } else if InterfaceName::new(&attachment.interface).is_none() {
                "nft cannot write that name"
            } else {
                continue;
            };
            return Err(TopologyError::Interface {
                pod: pod.id(),
                interface: attachment.interface.clone(),
                network: attachment.network.clone(),
                problem,
            });
        }
    }
    Ok(())
}
