//! The interfaces of pods on secondary networks.

use picket_cluster::{Endpoint, Snapshot};
use picket_nftables::model::InterfaceName;

use crate::topology::CLUSTER_INTERFACE;
use crate::{Host, HostKind, Place, TopologyError};

/// A host for every interface on the network that `snapshot` shows.
pub(crate) fn attached_hosts(snapshot: &Snapshot) -> Vec<Host> {
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
            network: Some(interface.network.clone()),
            place: Place::Pod(interface.pod.clone()),
            interface: Some(interface.name.clone()),
            addresses: pod.addresses,
            object: Endpoint::Pod(pod.object.clone()),
        })
    });
    hosts.collect()
}

/// Whether every pod of `snapshot` can have all of its interfaces in the lab.
pub(crate) fn check_interfaces(snapshot: &Snapshot) -> Result<(), TopologyError> {
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
