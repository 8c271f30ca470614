//! Who denied packets are from and to, and which policies deny them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_engine::{PodRef, Program};
use picket_net::{Family, Protocol};
use picket_policy::{Direction, NetworkName, ObjectRef};

use super::{Denied, Told};

/// Who is at the ends of what was denied, and why it was.
#[derive(Debug, Default)]
struct Names<'a> {
    from: Option<String>,
    to: Option<String>,
    /// The pod that may not, its interface and the network that it leads to, where it is restricted in its own namespace.
    place: Option<(String, &'a str, String)>,
    policies: Option<String>,
}

/// Logs what was denied on a node, as far as it is known what its policies say.
pub(crate) fn tell(told: &Told<Denied>, program: Option<&Program>, node: &str) {
    let own = program.map(|program| program.pods_on(node)).unwrap_or_default();
    for (denied, packets) in &told.lines {
        let names = |address| names(program, &own, address);
        let (own_address, _) = denied.ends();
        let subjects = own.iter().filter(|pod| has(pod, own_address));
        let names = Names {
            from: names(denied.source),
            to: names(denied.destination),
            policies: program.and_then(|program| policies(program, subjects, denied)),
            place: None,
        };
        names.tell(denied, *packets);
    }
    tell_missing(told.unlisted, told.losses);
}

/// Logs what was denied in a pod over one of its interfaces, which is `own` on the network with this name and program.
///
/// Whoever has all rights in the pod can write rules that log what they like: nothing else than this pod is named at its end,
/// and this pod only where the packet has an address of it.
pub(crate) fn tell_in_pod(
    denied: &Denied,
    packets: u64,
    own: &PodRef<'_>,
    network: &NetworkName,
    program: &Program,
) {
    let (own_address, other) = denied.ends();
    let own_name = has(own, own_address).then(|| title(own));
    let other_name = names(Some(program), &[], other);
    let (from, to) = match denied.direction {
        Direction::Egress => (own_name, other_name),
        Direction::Ingress => (other_name, own_name),
    };
    let interface = own.pod().interface.as_ref();
    let interface = interface.map_or("", |interface| interface.name.as_str());
    let names = Names {
        from,
        to,
        policies: policies(program, [own].into_iter(), denied),
        place: Some((title(own), interface, network.to_string())),
    };
    names.tell(denied, packets);
}

/// Logs that packets are in no line, or that some were lost.
pub(crate) fn tell_missing(unlisted: u64, losses: u64) {
    if unlisted > 0 || losses > 0 {
        tracing::warn!(
            target: "picket::denied",
            packets = unlisted,
            losses,
            "more was denied than is logged"
        );
    }
}

impl Names<'_> {
    fn tell(&self, denied: &Denied, packets: u64) {
        let Self {
            from, to, policies, ..
        } = self;
        let port = denied.number.filter(|_| !is_icmp(denied.protocol));
        let icmp_type = denied.number.filter(|_| is_icmp(denied.protocol));
        let place = self.place.as_ref();
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
            pod = place.map(|(pod, ..)| pod),
            interface = place.map(|(_, interface, _)| interface),
            network = place.map(|(.., network)| network),
            policies,
            packets,
            "{}",
            if denied.audited { "audited, else denied" } else { "denied" }
        );
    }
}

fn is_icmp(protocol: Protocol) -> bool {
    [Protocol::ICMP, Protocol::ICMPV6].contains(&protocol)
}

fn has(pod: &PodRef<'_>, address: IpAddr) -> bool {
    !pod.pod().finished && pod.pod().addresses.iter().any(|own| own == address)
}

fn title(pod: &PodRef<'_>) -> String {
    let object = &pod.pod().object;
    format!("{}/{}", object.namespace, object.name)
}

/// The pods or the node with an address, as `namespace/name` and `Node name`; none for addresses of nobody.
fn names(program: Option<&Program>, own: &[PodRef<'_>], address: IpAddr) -> Option<String> {
    let program = program?;
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

/// The policies because of which pods may not.
fn policies<'p>(
    program: &Program,
    pods: impl Iterator<Item = &'p PodRef<'p>>,
    denied: &Denied,
) -> Option<String> {
    let subjects = pods.filter_map(|pod| pod.subject(denied.direction));
    let policies = subjects.flat_map(|subject| match denied.audited {
        true => program.audited_policies(subject).collect::<Vec<_>>(),
        false => program.denying_policies(subject).collect(),
    });
    let policies: BTreeSet<&ObjectRef> = policies.map(|policy| &policy.object).collect();
    joined(policies.into_iter().map(ObjectRef::to_string))
}

fn joined(names: impl Iterator<Item = String>) -> Option<String> {
    let names: Vec<_> = names.collect();
    (!names.is_empty()).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use picket_cluster::Semantics;
    use picket_engine::Engine;
    use picket_testing::build::{ip, node, pod, policy};
    use picket_testing::snapshot;

    use super::*;
    use crate::testing::Log;

    const UDP: Protocol = Protocol::UDP;
    const GRE: Protocol = Protocol::from_number(47);

    #[test]
    fn a_line_names_both_ends_the_port_or_the_type_and_the_policies_of_the_end_that_may_not() {
        let snapshot = snapshot![
            node("n").ip("192.0.2.1"),
            node("m").ip("2001:db8::2"),
            pod("x/a").ip("10.0.0.1").ip("fd00::1").on("n"),
            pod("y/b").ip("10.0.0.2").ip("fd00::2").on("m"),
            pod("y/gone").ip("10.0.0.2").on("m").finished(),
            policy("x/in").isolates(Direction::Ingress),
            policy("x/out").isolates(Direction::Egress),
            policy("y/in").isolates(Direction::Ingress),
        ];
        let engine = Engine::compile(&snapshot, Semantics::default());
        let (ingress, egress) = (Direction::Ingress, Direction::Egress);
        let cases = [
            (
                (ingress, "10.0.0.2", "10.0.0.1", UDP, Some(53)),
                r#"from="y/b" source=10.0.0.2 to="x/a" destination=10.0.0.1 protocol=UDP port=53 direction=ingress policies="NetworkPolicy x/in""#,
            ),
            // The other end is the one of this node, which the policies there are not about.
            (
                (egress, "10.0.0.1", "10.0.0.2", Protocol::TCP, Some(80)),
                r#"from="x/a" source=10.0.0.1 to="y/b" destination=10.0.0.2 protocol=TCP port=80 direction=egress policies="NetworkPolicy x/out""#,
            ),
            (
                (egress, "fd00::1", "2001:db8::2", Protocol::ICMPV6, Some(128)),
                r#"from="x/a" source=fd00::1 to="Node m" destination=2001:db8::2 protocol=ICMPv6 icmp_type=128 direction=egress policies="NetworkPolicy x/out""#,
            ),
            (
                (ingress, "192.0.2.1", "10.0.0.1", Protocol::ICMP, Some(8)),
                r#"from="Node n" source=192.0.2.1 to="x/a" destination=10.0.0.1 protocol=ICMP icmp_type=8 direction=ingress policies="NetworkPolicy x/in""#,
            ),
            (
                (ingress, "fd00::2", "fd00::1", Protocol::SCTP, Some(7)),
                r#"from="y/b" source=fd00::2 to="x/a" destination=fd00::1 protocol=SCTP port=7 direction=ingress policies="NetworkPolicy x/in""#,
            ),
            // What is nobody's has no name, and what has no ports no number.
            (
                (ingress, "198.51.100.7", "10.0.0.1", GRE, None),
                r#"source=198.51.100.7 to="x/a" destination=10.0.0.1 protocol=proto:47 direction=ingress policies="NetworkPolicy x/in""#,
            ),
            // A pod of another node: that one knows why.
            (
                (ingress, "10.0.0.1", "10.0.0.2", UDP, Some(53)),
                r#"from="x/a" source=10.0.0.1 to="y/b" destination=10.0.0.2 protocol=UDP port=53 direction=ingress"#,
            ),
        ];
        for ((direction, source, destination, protocol, number), expected) in cases {
            let denied = Denied {
                direction,
                audited: false,
                source: ip(source),
                destination: ip(destination),
                protocol,
                number,
            };
            let told = Told {
                lines: vec![(denied, 3)],
                ..Told::default()
            };
            let log = Log::of(|| tell(&told, Some(engine.program()), "n"));
            let fields = log[0].strip_prefix("INFO denied ").unwrap_or(&log[0]);
            assert_eq!(fields, format!("{expected} packets=3"));
            // Before the cluster is known there are the addresses.
            let log = Log::of(|| tell(&told, None, "n"));
            assert!(
                log[0].contains(source) && !log[0].contains("from=") && !log[0].contains("policies="),
                "{log:?}"
            );
        }
    }
}
