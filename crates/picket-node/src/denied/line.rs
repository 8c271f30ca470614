//! Who denied packets are from and to, and which policies deny them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_engine::{PodRef, Program};
use picket_net::{Family, Protocol};
use picket_policy::{Direction, ObjectRef};

use super::{Denied, Told};

/// Logs what was denied on a node, as far as it is known what its policies say.
pub(crate) fn tell(told: &Told, program: Option<&Program>, node: &str) {
    let own = program.map(|program| program.pods_on(node)).unwrap_or_default();
    for (denied, packets) in &told.lines {
        let names = |address| names(program, &own, address);
        let (from, to) = (names(denied.source), names(denied.destination));
        let port = denied.number.filter(|_| !is_icmp(denied.protocol));
        let icmp_type = denied.number.filter(|_| is_icmp(denied.protocol));
        let policies = program.map(|program| policies(program, &own, denied));
        tracing::info!(
            target: "picket::denied",
            from,
            source = %denied.source,
            to,
            destination = %denied.destination,
            protocol = %denied.protocol,
            port,
            icmp_type,
            direction = %denied.direction,
            policies,
            packets,
            "denied"
        );
    }
    if told.unlisted > 0 || told.losses > 0 {
        tracing::warn!(
            target: "picket::denied",
            packets = told.unlisted,
            losses = told.losses,
            "more was denied than is logged"
        );
    }
}

fn is_icmp(protocol: Protocol) -> bool {
    [Protocol::ICMP, Protocol::ICMPV6].contains(&protocol)
}

fn has(pod: &PodRef<'_>, address: IpAddr) -> bool {
    !pod.pod().finished && pod.pod().addresses.iter().any(|own| own == address)
}

/// The pods or the node with an address, as `namespace/name` and `Node name`; none for addresses of nobody.
fn names(program: Option<&Program>, own: &[PodRef<'_>], address: IpAddr) -> Option<String> {
    let program = program?;
    let title = |pod: &PodRef<'_>| {
        let object = &pod.pod().object;
        format!("{}/{}", object.namespace, object.name)
    };
    let here = own.iter().filter(|pod| has(pod, address));
    let mut names: BTreeSet<String> = here.map(title).collect();
    if names.is_empty() {
        let identity = program.identity_of(address);
        let others = program.pods_with(identity);
        let others = others.iter().filter(|(_, family)| *family == Family::of(address));
        names.extend(
            others
                .map(|(pod, _)| pod)
                .filter(|pod| has(pod, address))
                .map(title),
        );
        let nodes = program.nodes_with(identity).into_iter();
        let nodes = nodes.filter(|(_, own)| *own == address);
        names.extend(nodes.map(|(node, _)| format!("Node {}", node.name)));
    }
    joined(names.into_iter())
}

/// The policies because of which the pod may not.
fn policies(program: &Program, own: &[PodRef<'_>], denied: &Denied) -> Option<String> {
    let address = match denied.direction {
        Direction::Egress => denied.source,
        Direction::Ingress => denied.destination,
    };
    let pods = own.iter().filter(|pod| has(pod, address));
    let subjects = pods.filter_map(|pod| pod.subject(denied.direction));
    let policies = subjects.flat_map(|subject| program.deciding_policies(subject));
    let policies = policies.filter(|policy| policy.can_deny(denied.direction));
    let policies: BTreeSet<&ObjectRef> = policies.map(|policy| &policy.object).collect();
    joined(policies.into_iter().map(ObjectRef::to_string))
}

fn joined(names: impl Iterator<Item = String>) -> Option<String> {
    let names: Vec<_> = names.collect();
    (!names.is_empty()).then(|| names.join(", "))
}
