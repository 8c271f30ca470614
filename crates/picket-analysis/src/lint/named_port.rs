//! Port names that are not one port.

use std::collections::BTreeSet;

use picket_cluster::Pod;
use picket_net::Protocol;
use picket_policy::{Diagnostic, Direction, List, Peer, PodSelector, PortMatch, Rule, Severity};
use smol_str::{SmolStr, ToSmolStr};

use super::{Subject, quoted, table};

pub(super) fn check(about: &Subject<'_>, found: &mut Vec<Diagnostic>) {
    for (direction, rule) in about.rules() {
        let List::Items(ports) = &rule.ports else { continue };
        for (at, port) in ports.iter().enumerate() {
            let PortMatch::Named { protocol, name } = port else {
                continue;
            };
            let numbers = numbers(about, (direction, rule), *protocol, name);
            if numbers.len() < 2 {
                continue;
            }
            let place = about.port_place(direction, rule, at).field("port");
            let numbers: Vec<_> = numbers.iter().map(ToSmolStr::to_smolstr).collect();
            let message = format!(
                "the port name `{name}` in {} stands for several ports: {}",
                about.policy.object,
                quoted(&numbers)
            );
            let mut diagnostic = about.warning(table::NAMED_PORT, &place, message);
            diagnostic.severity = Severity::Note;
            diagnostic
                .notes
                .push("each pod is reached on the port that it calls so itself".to_owned());
            found.push(diagnostic);
        }
    }
}

/// The numbers that a name stands for on the pods that a rule is about, of those that are chosen by label: pods that
/// have nothing in common may well use one name for several ports.
fn numbers(
    about: &Subject<'_>,
    (direction, rule): (Direction, &Rule),
    protocol: Option<Protocol>,
    name: &SmolStr,
) -> BTreeSet<u16> {
    let on_pods = |selector: &PodSelector| {
        let groups = about
            .cluster()
            .managed(selector)
            .filter(|_| !selector.pods.is_everything());
        let pods = groups.flat_map(|(_, group)| group.pods.iter());
        let numbers = pods.flat_map(|pod| named(pod, protocol, name));
        numbers.collect::<BTreeSet<_>>()
    };
    match (direction, &rule.peers) {
        (Direction::Ingress, _) => on_pods(&about.policy.subject),
        (Direction::Egress, List::Absent) => BTreeSet::new(),
        (Direction::Egress, List::Items(peers)) => {
            let numbers = peers.iter().map(|peer| match peer {
                Peer::Pods(pods) => on_pods(pods),
                _ => BTreeSet::new(),
            });
            // Several peers are several kinds of pods.
            numbers.max_by_key(BTreeSet::len).unwrap_or_default()
        }
    }
}

fn named<'p>(pod: &'p Pod, protocol: Option<Protocol>, name: &'p SmolStr) -> impl Iterator<Item = u16> + 'p {
    let ports = pod.ports.iter();
    ports
        .filter(move |port| port.name == *name && protocol.is_none_or(|wanted| wanted == port.protocol))
        .map(|port| port.port)
}
