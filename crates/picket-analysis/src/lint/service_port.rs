//! Ports of Services, where policies see those of pods.

use std::collections::{BTreeMap, BTreeSet};

use picket_cluster::{NAMESPACE_NAME_LABEL, Pod, Service, ServicePort, TargetPort};
use picket_net::Protocol;
use picket_policy::{
    Diagnostic, Direction, List, NamespaceScope, ObjectRef, Peer, PodSelector, PortMatch, Requirement, Rule,
};

use super::cluster::Cluster;
use super::{Subject, advice, table};

/// The ports of Services that lead to another port of a pod, by the groups that they lead to.
pub(super) struct Translated<'a>(BTreeMap<usize, Vec<(&'a ObjectRef, &'a ServicePort)>>);

impl<'a> Translated<'a> {
    pub(super) fn of(cluster: &Cluster<'a>) -> Self {
        let mut found: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for service in cluster.snapshot.services.values() {
            let ports: Vec<_> = service
                .ports
                .iter()
                .filter(|port| port.target != TargetPort::Number(port.port))
                .collect();
            if ports.is_empty() || service.selector.iter().len() == 0 {
                continue;
            }
            for (group, _) in cluster.managed(&pods_of(service)) {
                let own = found.entry(group).or_default();
                own.extend(ports.iter().map(|port| (&service.object, *port)));
            }
        }
        Self(found)
    }
}

fn pods_of(service: &Service) -> PodSelector {
    let labels = service.selector.iter();
    PodSelector {
        namespaces: NamespaceScope::Named(service.object.namespace.clone()),
        pods: labels
            .map(|(key, value)| Requirement::In(key.clone(), vec![value.clone()]))
            .collect(),
    }
}

pub(super) fn check(about: &Subject<'_>, translated: &Translated<'_>, found: &mut Vec<Diagnostic>) {
    if translated.0.is_empty() {
        return;
    }
    for (direction, rule) in about.rules() {
        let List::Items(ports) = &rule.ports else { continue };
        for (at, port) in ports.iter().enumerate() {
            let PortMatch::Range(protocol, range) = port else {
                continue;
            };
            if range.first() == range.last() {
                found.extend(one_port(
                    about,
                    translated,
                    (direction, rule, at),
                    *protocol,
                    range.first(),
                ));
            }
        }
    }
}

fn one_port(
    about: &Subject<'_>,
    translated: &Translated<'_>,
    (direction, rule, at): (Direction, &Rule, usize),
    protocol: Protocol,
    number: u16,
) -> Option<Diagnostic> {
    let cluster = about.cluster();
    let groups = targets(about, direction, rule);
    let pods = || {
        groups
            .iter()
            .filter_map(|&group| cluster.group(group))
            .flat_map(|group| &group.pods)
    };
    if pods().any(|pod| pod.declared_ports().contains(&(protocol, number))) {
        return None;
    }
    let mut services = groups
        .iter()
        .filter_map(|group| translated.0.get(group))
        .flatten();
    let (service, port) = services.find(|(_, port)| port.protocol == protocol && port.port == number)?;
    let targets: BTreeSet<u16> = pods().flat_map(|pod| numbers(pod, port)).collect();
    let allowed = |target: &u16| allows(rule, protocol, *target);
    let target = *targets.first()?;
    if targets.contains(&number) || targets.iter().any(allowed) {
        return None;
    }
    let place = about.port_place(direction, rule, at).field("port");
    let message = format!(
        "{number} in {} is a port of {service}, and leads to port {target} of its pods",
        about.policy.object
    );
    let note = "policies are judged with the port of the pod, and no pod that the rule is about has that one";
    let mut diagnostic = about.warning(table::SERVICE_PORT, &place, message).note(note);
    let title = match &port.target {
        TargetPort::Name(name) => format!("write `port: {target}` or `port: {name}`"),
        TargetPort::Number(_) => format!("write `port: {target}`"),
    };
    diagnostic.fixes.push(advice(title));
    Some(diagnostic)
}

/// The groups that connections of a rule go to.
fn targets(about: &Subject<'_>, direction: Direction, rule: &Rule) -> BTreeSet<usize> {
    let numbers = |selector: &PodSelector| {
        let groups = about.cluster().managed(selector);
        groups.map(|(at, _)| at).collect::<Vec<_>>()
    };
    match (direction, &rule.peers) {
        (Direction::Ingress, _) => numbers(&about.policy.subject).into_iter().collect(),
        // Egress to everybody is not about one Service.
        (Direction::Egress, List::Absent) => BTreeSet::new(),
        (Direction::Egress, List::Items(peers)) => {
            let chosen = peers.iter().filter_map(|peer| match peer {
                Peer::Pods(pods) if !is_any(pods) => Some(numbers(pods)),
                _ => None,
            });
            chosen.flatten().collect()
        }
    }
}

fn is_any(selector: &PodSelector) -> bool {
    let by_name = |namespaces: &picket_policy::Selector| {
        let requirements = namespaces.requirements();
        requirements.iter().all(|one| one.key() != NAMESPACE_NAME_LABEL)
    };
    let anywhere =
        matches!(&selector.namespaces, NamespaceScope::Matching(namespaces) if by_name(namespaces));
    anywhere && selector.pods.is_everything()
}

/// The numbers that a port of a Service leads to on a pod.
fn numbers<'p>(pod: &'p Pod, port: &'p ServicePort) -> impl Iterator<Item = u16> + 'p {
    let fixed = match port.target {
        TargetPort::Number(number) => Some(number),
        TargetPort::Name(_) => None,
    };
    let named = pod.ports.iter().filter(move |own| {
        own.protocol == port.protocol && matches!(&port.target, TargetPort::Name(name) if *name == own.name)
    });
    fixed.into_iter().chain(named.map(|own| own.port))
}

fn allows(rule: &Rule, protocol: Protocol, port: u16) -> bool {
    let List::Items(ports) = &rule.ports else {
        return true;
    };
    ports.iter().any(|one| match one {
        PortMatch::Protocol(own) => *own == protocol,
        PortMatch::Range(own, range) => *own == protocol && range.first() <= port && port <= range.last(),
        // Which number that is, the pod says: it is about the pod's port in any case.
        PortMatch::Named { .. } => true,
    })
}
