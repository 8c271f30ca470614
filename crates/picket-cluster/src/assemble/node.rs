//! Nodes, written and implied by the pods on them.

use std::collections::BTreeMap;

use picket_policy::{Labels, ObjectRef};
use smol_str::SmolStr;

use super::Candidate;
use crate::Node;
use crate::written::WrittenNode;

/// Every node that was written or that a pod names, with all its addresses.
pub(super) fn nodes(written: Vec<(ObjectRef, WrittenNode)>, pods: &[Candidate]) -> BTreeMap<SmolStr, Node> {
    let mut nodes = BTreeMap::new();
    for (object, node) in written {
        let addresses = node.addresses.iter().map(|address| address.value).collect();
        let name = object.name;
        nodes.insert(
            name.clone(),
            Node {
                name,
                labels: node.labels,
                addresses,
                pod_cidrs: node.pod_cidrs,
            },
        );
    }
    for pod in pods.iter().map(|candidate| &candidate.written) {
        let Some(name) = &pod.node else { continue };
        let node = nodes.entry(name.clone()).or_insert_with(|| Node {
            name: name.clone(),
            labels: Labels::default(),
            addresses: [].into(),
            pod_cidrs: Vec::new(),
        });
        node.addresses.extend(&pod.host_addresses);
        if pod.host_network {
            node.addresses
                .extend(pod.addresses.iter().map(|address| address.value));
        }
    }
    nodes
}
