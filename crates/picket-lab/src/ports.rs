//! Which ports are worth a probe.

use std::collections::{BTreeMap, BTreeSet};

use picket_cluster::Snapshot;
use picket_net::Protocol;
use picket_policy::{Direction, List, PortMatch};

/// Ports by protocol: every one that a container declares or a policy names (of a range its first and last), and for
/// each protocol one that nobody names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(BTreeMap<Protocol, BTreeSet<u16>>);

const NONE: &BTreeSet<u16> = &BTreeSet::new();

impl Ports {
    /// The ports that `snapshot` gives reason to probe.
    pub fn of_snapshot(snapshot: &Snapshot) -> Self {
        let mut named: BTreeSet<(Protocol, u16)> = BTreeSet::new();
        // What is allowed without being written out: every port outside the ranges.
        let mut covered: BTreeMap<Protocol, Vec<picket_net::PortRange>> = BTreeMap::new();
        for pod in snapshot.pods.values() {
            named.extend(pod.declared_ports().iter().copied());
            named.extend(pod.ports.iter().map(|port| (port.protocol, port.port)));
        }
        for policy in snapshot.policies.values() {
            for side in Direction::BOTH.map(|direction| policy.side(direction)) {
                for rule in &side.rules {
                    let List::Items(items) = &rule.ports else { continue };
                    for item in items {
                        if let PortMatch::Range(protocol, range) = item {
                            named.extend([(*protocol, range.first()), (*protocol, range.last())]);
                            covered.entry(*protocol).or_default().push(*range);
                        }
                    }
                }
            }
        }
        let ports = Protocol::WITH_PORTS.into_iter().map(|protocol| {
            let mut own: BTreeSet<u16> = named
                .iter()
                .filter(|(other, _)| *other == protocol)
                .map(|(_, port)| *port)
                .collect();
            let covered = covered.get(&protocol).map_or(&[][..], Vec::as_slice);
            let free = |port: &u16| {
                !own.contains(port)
                    && !covered
                        .iter()
                        .any(|range| (range.first()..=range.last()).contains(port))
            };
            // A port that another protocol names shows that protocols are told apart.
            let others = named.iter().map(|(_, port)| *port);
            let unnamed = others.chain([9]).chain(1024..=u16::MAX).find(free);
            own.extend(unnamed);
            (protocol, own)
        });
        Self(ports.collect())
    }

    /// The ports of one protocol, ascending; none for a protocol without ports.
    pub fn of(&self, protocol: Protocol) -> &BTreeSet<u16> {
        self.0.get(&protocol).unwrap_or(NONE)
    }

    /// The ports in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        for (protocol, ports) in &other.0 {
            all.0.entry(*protocol).or_default().extend(ports);
        }
        all
    }

    /// Adds one port.
    pub fn insert(&mut self, protocol: Protocol, port: u16) {
        self.0.entry(protocol).or_default().insert(port);
    }

    /// Whether any protocol has `port`.
    pub(crate) fn any_has(&self, port: u16) -> bool {
        self.0.values().any(|ports| ports.contains(&port))
    }
}
