//! What a subject allows: tiers, priorities and Pass folded into one map from traffic to identities.

use std::collections::BTreeMap;
use std::sync::Arc;

use picket_net::{IntervalSet, PortRange, PortSet, Protocol, TrafficSet};
use picket_policy::{Action, Direction, Tier};

use crate::policy::{LoweredRule, PeerMatch};
use crate::subject::SubjectKey;
use crate::{Identity, IdentitySet, Program};

/// What a subject allows in its direction, and to or from whom. Everything else is denied.
///
/// Canonical: two values of one program are equal exactly when they allow the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllowSet {
    entries: Vec<(TrafficSet, IdentitySet)>,
}

impl AllowSet {
    /// Distinct non-empty traffic, ascending, each with all identities for which exactly that is allowed. The sets of
    /// identities are disjoint; one that holds every identity there is, is [`IntervalSet::all`].
    pub fn entries(&self) -> &[(TrafficSet, IdentitySet)] {
        &self.entries
    }

    /// What is allowed with one identity.
    pub fn traffic(&self, peer: Identity) -> Option<&TrafficSet> {
        let entry = self
            .entries
            .iter()
            .find(|(_, peers)| peers.contains(peer.number()));
        entry.map(|(traffic, _)| traffic)
    }

    /// Whether everything is allowed with everybody.
    pub fn is_everything(&self) -> bool {
        matches!(self.entries.as_slice(), [(traffic, peers)] if traffic.is_all() && peers.is_all())
    }

    /// Whether nothing is allowed with anybody.
    pub fn is_nothing(&self) -> bool {
        self.entries.is_empty()
    }

    /// The set that allows everything with everybody.
    pub fn everything() -> Self {
        Self {
            entries: vec![(TrafficSet::all(), IntervalSet::all())],
        }
    }

    /// Turns a partition of the identities around.
    pub(crate) fn from_cells(
        cells: impl Iterator<Item = (IdentitySet, TrafficSet)>,
        live: &IdentitySet,
    ) -> Self {
        let mut by_traffic: BTreeMap<TrafficSet, IdentitySet> = BTreeMap::new();
        for (peers, traffic) in cells {
            if !traffic.is_empty() && !peers.is_empty() {
                let present = by_traffic.entry(traffic).or_default();
                *present = present.union(&peers);
            }
        }
        let entries = by_traffic.into_iter().map(|(traffic, peers)| {
            let peers = if peers == *live { IntervalSet::all() } else { peers };
            (traffic, peers)
        });
        Self {
            entries: entries.collect(),
        }
    }
}

/// What is decided so far about some identities.
#[derive(Clone)]
struct Cell {
    peers: IdentitySet,
    allowed: TrafficSet,
    undecided: TrafficSet,
    /// Left to the next tier by a Pass rule.
    passed: TrafficSet,
}

/// One rule towards the identities for which it means the same traffic.
struct Step {
    peers: IdentitySet,
    traffic: TrafficSet,
    action: Action,
}

/// The partition of all identities by what was decided.
struct Fold(Vec<Cell>);

impl Fold {
    fn new(live: &IdentitySet) -> Self {
        Self(vec![Cell {
            peers: live.clone(),
            allowed: TrafficSet::empty(),
            undecided: TrafficSet::all(),
            passed: TrafficSet::empty(),
        }])
    }

    fn step(&mut self, step: &Step) {
        let mut split = Vec::new();
        for cell in &mut self.0 {
            // First what most often says no: cells multiply because rules have different peers.
            let peers = cell.peers.intersection(&step.peers);
            if peers.is_empty() {
                continue;
            }
            let hit = cell.undecided.intersection(&step.traffic);
            if hit.is_empty() {
                continue;
            }
            let rest = cell.peers.difference(&peers);
            if !rest.is_empty() {
                split.push(Cell {
                    peers: rest,
                    ..cell.clone()
                });
            }
            cell.peers = peers;
            cell.undecided = cell.undecided.difference(&hit);
            match step.action {
                Action::Accept => cell.allowed = cell.allowed.union(&hit),
                Action::Pass => cell.passed = cell.passed.union(&hit),
                Action::Deny => {}
            }
        }
        self.0.append(&mut split);
    }

    /// The next tier decides what this one passed.
    fn end_tier(&mut self) {
        for cell in &mut self.0 {
            cell.undecided = cell.undecided.union(&std::mem::take(&mut cell.passed));
        }
    }

    /// What nothing decided is allowed or denied.
    fn finish(self, allow_rest: bool, live: &IdentitySet) -> AllowSet {
        let cells = self.0.into_iter().map(|cell| {
            let allowed = if allow_rest {
                cell.allowed.union(&cell.undecided).union(&cell.passed)
            } else {
                cell.allowed
            };
            (cell.peers, allowed)
        });
        AllowSet::from_cells(cells, live)
    }
}

/// What a subject allows with everybody, and with its own node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) peers: Arc<AllowSet>,
    /// What the tiers Custom, Admin and ClusterDefault leave of the exemption.
    pub(crate) own_node: Arc<AllowSet>,
}

/// Works out what a subject allows.
pub(crate) fn allowed(program: &Program, subject: &SubjectKey) -> Allowed {
    let live = program.identities.live();
    let mut fold = Fold::new(live);
    let ordered = |fold: &mut Fold, tier: Tier| {
        for rule in program.rules_of(subject, tier) {
            steps(program, subject, rule, &mut |step| fold.step(&step));
        }
        fold.end_tier();
    };
    let first = [Tier::Custom, Tier::Admin];
    for tier in first {
        ordered(&mut fold, tier);
    }
    let decides = |tier| program.rules_of(subject, tier).next().is_some();
    let isolated = subject.isolated;
    let by_default = !isolated && decides(Tier::ClusterDefault);
    let own_node = match subject.direction {
        Direction::Egress if first.into_iter().any(decides) => Some(fold.0.clone()),
        Direction::Ingress if by_default => {
            ordered(&mut fold, Tier::ClusterDefault);
            Some(fold.0.clone())
        }
        Direction::Egress | Direction::Ingress => None,
    };
    let own_node = own_node.map_or_else(AllowSet::everything, |cells| {
        with_joints(Fold(cells).finish(true, live), program)
    });
    if isolated {
        for step in union_of_accepts(program, subject) {
            fold.step(&step);
        }
    } else {
        ordered(&mut fold, Tier::Baseline);
    }
    Allowed {
        peers: Arc::new(with_joints(fold.finish(!isolated, live), program)),
        own_node: Arc::new(own_node),
    }
}

/// The NetworkPolicy tier: accepts in any order. Rules that mean the same traffic are taken together.
fn union_of_accepts(program: &Program, subject: &SubjectKey) -> Vec<Step> {
    let mut by_traffic: BTreeMap<TrafficSet, Vec<IdentitySet>> = BTreeMap::new();
    let semantics = program.semantics();
    for (protocol, accepted) in [
        (Protocol::ICMP, semantics.accept_icmp),
        (Protocol::ICMPV6, semantics.accept_icmpv6),
    ] {
        if accepted {
            by_traffic.insert(protocol.into(), vec![program.identities.live().clone()]);
        }
    }
    for rule in program.rules_of(subject, Tier::NetworkPolicy) {
        steps(program, subject, rule, &mut |step| {
            by_traffic.entry(step.traffic).or_default().push(step.peers);
        });
    }
    let accepts = by_traffic.into_iter().map(|(traffic, peers)| Step {
        peers: union(peers.iter()),
        traffic,
        action: Action::Accept,
    });
    accepts.collect()
}

fn union<'a>(sets: impl Iterator<Item = &'a IdentitySet>) -> IdentitySet {
    sets.flat_map(|set| set.intervals().iter().copied()).collect()
}

/// What one rule means: the traffic that is the same for all its peers, then each port name by what it resolves to.
fn steps(program: &Program, subject: &SubjectKey, rule: &LoweredRule, take: &mut impl FnMut(Step)) {
    let identities = &program.identities;
    let peers = match &rule.peers {
        None => identities.live().clone(),
        Some(peers) => union(peers.iter().map(|peer| match peer {
            PeerMatch::Selector(term) => identities.with_selector(*term),
            PeerMatch::Block(block) => identities.with_block(*block),
        })),
    };
    let mut step = |peers: IdentitySet, traffic: TrafficSet| {
        take(Step {
            peers,
            traffic,
            action: rule.action,
        });
    };
    match subject.direction {
        Direction::Ingress => {
            let own = subject.ports.iter();
            let named = own.filter(|port| {
                rule.names
                    .iter()
                    .any(|name| name.means(&port.name, port.protocol))
            });
            let traffic = named.fold(rule.traffic.clone(), |traffic, port| {
                traffic.union(&one_port(port.protocol, port.port))
            });
            step(peers, traffic);
        }
        Direction::Egress => {
            for name in &rule.names {
                for (term, port) in program.port_terms(&name.name) {
                    if name.means(&port.name, port.protocol) {
                        let resolving = peers.intersection(identities.with_selector(term));
                        step(resolving, one_port(port.protocol, port.port));
                    }
                }
            }
            step(peers, rule.traffic.clone());
        }
    }
}

/// One port; nothing for a protocol without ports, which no flow can name by port.
pub(crate) fn one_port(protocol: Protocol, port: u16) -> TrafficSet {
    match PortRange::single(port) {
        Some(port) if protocol.has_ports() => TrafficSet::of(protocol, PortSet::from(port)),
        _ => TrafficSet::empty(),
    }
}

/// Gives joint identities what all their members have.
fn with_joints(allowed: AllowSet, program: &Program) -> AllowSet {
    let live = program.identities.live();
    let mut joints = program.identities.joints().peekable();
    if joints.peek().is_none() {
        return allowed;
    }
    let mut cells: Vec<_> = allowed
        .entries
        .iter()
        .map(|(traffic, peers)| (peers.intersection(live), traffic.clone()))
        .collect();
    for (joint, members) in joints {
        let traffic = members
            .iter()
            .map(|&member| allowed.traffic(member).cloned().unwrap_or_default())
            .reduce(|all, one| all.intersection(&one))
            .unwrap_or_default();
        for (peers, _) in &mut cells {
            peers.remove(joint.number());
        }
        cells.push((IdentitySet::from_iter([joint.number()]), traffic));
    }
    AllowSet::from_cells(cells.into_iter(), live)
}
