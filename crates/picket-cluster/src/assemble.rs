//! From objects that were written one by one to a snapshot in which they fit together.

mod address;
mod attachment;
mod duplicate;
mod namespace;
mod node;
mod owner;
mod synthetic;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use picket_policy::{Diagnostic, ObjectRef};

pub use synthetic::{SYNTHETIC_IPV4, SYNTHETIC_IPV6};

use crate::written::{Spec, Written, WrittenPod};
use crate::{Extra, Pod, Snapshot};

/// A pod or workload on its way into the snapshot.
struct Candidate {
    object: ObjectRef,
    written: WrittenPod,
}

/// Makes a snapshot of everything that was written, with diagnostics about what does not fit together.
///
/// - Of two objects of one kind, namespace and name the first counts; two policies become one that isolates what either
///   isolates and allows nothing, unless they say the same.
/// - Namespaces that objects are in and nodes that pods name exist, whether they were written or not. A node has the
///   addresses of its status, the host addresses of its pods, and the addresses of its hostNetwork pods.
/// - A workload stands for its pods only when nothing is owned by it, it is not owned, and it is not scaled to zero.
/// - A hostNetwork pod has its node's addresses. Every other pod without an address gets made-up ones of both families
///   (see [`SYNTHETIC_IPV4`]), and so does, instead of its own, a pod whose address belongs to a node or to a pod
///   before it in the order of objects.
/// - A finished pod clashes with nothing and keeps the addresses it says it has.
/// - An interface on a secondary network has the addresses that the pod's annotation gives it, or made-up ones of both
///   families; two networks may use the same addresses.
///
/// The order of `objects` decides nothing but which of two duplicates is the first.
pub fn assemble(objects: Vec<Written>) -> (Snapshot, Vec<Diagnostic>) {
    let mut diagnostics = Vec::new();
    let mut snapshot = Snapshot::default();
    let (mut nodes, mut pods, mut policies) = (Vec::new(), Vec::new(), Vec::new());
    for Written { object, spec, .. } in duplicate::unique(objects, &mut diagnostics) {
        namespace::imply(&object, &mut snapshot);
        match spec {
            Spec::Namespace(written) => {
                namespace::insert(&object, &written, &mut snapshot, &mut diagnostics);
            }
            Spec::Node(written) => nodes.push((object, written)),
            Spec::Pod(written) => pods.push(Candidate { object, written }),
            Spec::Network(network) => {
                snapshot.networks.insert(network.name, network.wire);
            }
            Spec::Service(service) => {
                snapshot.services.insert(object, service);
            }
            Spec::Policy(policy) => {
                policies.push((object, Arc::new(policy)));
            }
        }
    }
    // Sorted once, a tree is made at once.
    snapshot.policies = policies.into_iter().collect();
    pods.sort_by(|one, other| one.object.cmp(&other.object));
    let owners = owner::Owners::of(&pods);
    pods.retain(|pod| owners.has_endpoint(pod));
    snapshot.nodes = node::nodes(nodes, &pods);
    let addresses = address::assign(&pods, &snapshot.nodes, &mut diagnostics);
    let attachments = attachment::assign(&pods, &addresses, &snapshot.nodes, &mut diagnostics);
    let assigned = addresses.into_iter().zip(attachments);
    let pods = pods
        .into_iter()
        .zip(assigned)
        .map(|(candidate, ((addresses, synthetic), attachments))| {
            let owner = owners.top(&candidate).map(Arc::new);
            let Candidate { object, written } = candidate;
            let extra = Extra {
                static_uid: written.static_uid,
                declared_ports: written.declared_ports,
                vpp_interface: written.vpp_interface,
                neutron_ports: written.neutron_ports,
            };
            let pod = Pod {
                object: object.clone(),
                labels: written.labels,
                node: written.node,
                addresses,
                synthetic,
                ports: written.ports.into(),
                host_network: written.host_network,
                finished: written.finished,
                owner,
                attachments,
                interface: None,
                extra: extra.kept(),
            };
            (object, Arc::new(pod))
        });
    snapshot.pods = pods.collect();
    (snapshot, diagnostics)
}
