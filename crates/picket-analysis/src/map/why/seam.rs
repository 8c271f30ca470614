//! The ports at which what policies say may change.

use std::collections::{BTreeMap, BTreeSet};

use picket_cluster::Snapshot;
use picket_net::{PortRange, PortSet, Protocol, ProtocolSet, TrafficSet};
use picket_policy::{Direction, List, Policy, PortMatch, Tier};
use smol_str::SmolStr;

use crate::eval::PortQuestion;

/// The ports of each protocol at which a new range of some rule begins.
type Starts = BTreeMap<Protocol, BTreeSet<u16>>;

/// The seams of the policies of one namespace.
#[derive(Clone, Debug, Default)]
struct Seam {
    starts: Starts,
    /// Whether any of its policies is in a tier where rules are judged in order.
    ordered: bool,
}

/// The seams of every namespace; policies without one count for all.
#[derive(Clone, Debug, Default)]
pub(super) struct Seams {
    of_namespace: BTreeMap<SmolStr, Seam>,
    of_cluster: Seam,
}

impl Seams {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let named = snapshot.live_pods().flat_map(|pod| &*pod.ports);
        let mut numbers: BTreeMap<&SmolStr, BTreeSet<(Protocol, u16)>> = BTreeMap::new();
        for port in named {
            numbers
                .entry(&port.name)
                .or_default()
                .insert((port.protocol, port.port));
        }
        let mut seams = Self::default();
        for policy in snapshot.policies.values() {
            let namespace = &policy.object.namespace;
            let seam = if namespace.is_empty() {
                &mut seams.of_cluster
            } else {
                seams.of_namespace.entry(namespace.clone()).or_default()
            };
            seam.ordered |= policy.tier != Tier::NetworkPolicy;
            for port in written_ports(policy) {
                match port {
                    PortMatch::Protocol(_) => {}
                    PortMatch::Range(protocol, range) => seam.add(*protocol, range.first(), range.last()),
                    PortMatch::Named { name, .. } => {
                        for &(protocol, port) in numbers.get(name).into_iter().flatten() {
                            seam.add(protocol, port, port);
                        }
                    }
                }
            }
        }
        seams
    }

    fn of(&self, namespace: &str) -> impl Iterator<Item = &Seam> {
        self.of_namespace
            .get(namespace)
            .into_iter()
            .chain([&self.of_cluster])
    }

    /// Whether rules that apply in a namespace are judged in order, so that what is denied may be denied by a rule.
    pub(super) fn has_order(&self, namespace: &str) -> bool {
        self.of(namespace).any(|seam| seam.ordered)
    }

    /// `traffic` in pieces on which no rule for pods of `namespace` changes its mind, each with a question about it.
    pub(super) fn cut(&self, namespace: &str, traffic: &TrafficSet) -> Vec<(PortQuestion, TrafficSet)> {
        let mut pieces = Vec::new();
        for protocol in Protocol::WITH_PORTS {
            let starts: BTreeSet<u16> = self
                .of(namespace)
                .filter_map(|seam| seam.starts.get(&protocol))
                .flatten()
                .copied()
                .collect();
            let ranges = traffic.ports(protocol).into_iter().flat_map(PortSet::ranges);
            for range in ranges {
                let inner = starts.range(range.first()..=range.last()).copied();
                let firsts: BTreeSet<u16> = inner.chain([range.first()]).collect();
                let lasts = firsts.iter().skip(1).map(|next| next - 1).chain([range.last()]);
                for (&first, last) in firsts.iter().zip(lasts) {
                    let ports = PortRange::new(first, last).map_or_else(PortSet::empty, PortSet::from);
                    pieces.push((
                        PortQuestion::Number(protocol, first),
                        TrafficSet::of(protocol, ports),
                    ));
                }
            }
        }
        pieces.extend(portless(traffic.portless));
        pieces
    }
}

impl Seam {
    fn add(&mut self, protocol: Protocol, first: u16, last: u16) {
        let starts = self.starts.entry(protocol).or_default();
        starts.insert(first);
        starts.extend(last.checked_add(1));
    }
}

fn written_ports(policy: &Policy) -> impl Iterator<Item = &PortMatch> {
    let sides = [Direction::Ingress, Direction::Egress].map(|direction| policy.side(direction));
    let rules = sides.into_iter().flat_map(|side| &side.rules);
    rules.flat_map(|rule| match &rule.ports {
        List::Absent => &[][..],
        List::Items(ports) => ports,
    })
}

/// ICMP, ICMPv6, and all others together: no rule can tell these apart.
fn portless(protocols: ProtocolSet) -> impl Iterator<Item = (PortQuestion, TrafficSet)> {
    let named = [Protocol::ICMP, Protocol::ICMPV6].map(ProtocolSet::from);
    let others = named.iter().fold(protocols, |rest, &one| rest.difference(one));
    let parts = named
        .map(|one| one.intersection(protocols))
        .into_iter()
        .chain([others]);
    parts.filter_map(|part| {
        let question = PortQuestion::Portless(part.iter().next()?);
        let traffic = TrafficSet {
            portless: part,
            ..TrafficSet::empty()
        };
        Some((question, traffic))
    })
}
