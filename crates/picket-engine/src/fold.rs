//! What a subject allows towards identities: its rules, tier by tier, over the partition that they make of them.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use picket_net::{PortRange, PortSet, Protocol, TrafficSet};
use picket_policy::{Action, Direction, Tier};

use crate::identity::Signature;
use crate::policy::{LoweredRule, LoweredSide, PeerMatch, Stance};
use crate::subject::{Isolation, SubjectKey};
use crate::{Identity, IdentitySet, Program};

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
    fn finish(self, allow_rest: bool) -> Cells {
        let cells = self.0.into_iter().map(|cell| {
            let allowed = if allow_rest {
                cell.allowed.union(&cell.undecided).union(&cell.passed)
            } else {
                cell.allowed
            };
            (cell.peers, allowed)
        });
        cells.collect()
    }
}

/// Disjoint sets of identities, with what is allowed towards each.
pub(crate) type Cells = Vec<(IdentitySet, TrafficSet)>;

/// What is allowed towards some identities, without joint ones.
pub(crate) struct Judged {
    pub(crate) peers: Cells,
    /// `None` where nothing takes from the exemption.
    pub(crate) own_node: Option<Cells>,
}

impl Judged {
    /// As [`Judged::of`], for few identities: mostly no rule is about any of them, which costs less to find out.
    pub(crate) fn of_few(
        program: &Program,
        subject: &SubjectKey,
        stance: Stance,
        towards: &IdentitySet,
    ) -> Self {
        if is_about_none(program, subject, stance, towards) {
            return Self {
                peers: Vec::new(),
                own_node: None,
            };
        }
        Self::of(program, subject, stance, towards)
    }

    pub(crate) fn of(program: &Program, subject: &SubjectKey, stance: Stance, towards: &IdentitySet) -> Self {
        let mut fold = Fold::new(towards);
        let rules = |tier| program.rules_of(subject, tier, stance);
        let ordered = |fold: &mut Fold, tier| {
            for rule in rules(tier) {
                steps(program, subject, rule, towards, &mut |step| fold.step(&step));
            }
            fold.end_tier();
        };
        let isolated = subject.isolation.is_in(stance);
        let is_selected = subject.isolation != Isolation::None;
        let custom = Some(Tier::Custom).filter(|_| is_selected);
        let first = custom.into_iter().chain([Tier::Admin]);
        for tier in first.clone() {
            ordered(&mut fold, tier);
        }
        let decides = |tier| rules(tier).next().is_some();
        let mut own_node = None;
        if subject.direction == Direction::Egress && first.into_iter().any(decides) {
            own_node = Some(fold.0.clone());
        }
        if is_selected {
            for step in union_of_accepts(program, subject, stance, towards) {
                fold.step(&step);
            }
        }
        if !isolated {
            if decides(Tier::ClusterDefault) {
                ordered(&mut fold, Tier::ClusterDefault);
                if subject.direction == Direction::Ingress && !is_selected {
                    own_node = Some(fold.0.clone());
                }
            }
            ordered(&mut fold, Tier::Baseline);
        }
        Self {
            peers: fold.finish(!isolated),
            own_node: own_node.map(|cells| Fold(cells).finish(true)),
        }
    }
}

/// Whether a subject allows only what rules accept, nothing takes from the exemption, and no rule is about these identities.
fn is_about_none(program: &Program, subject: &SubjectKey, stance: Stance, towards: &IdentitySet) -> bool {
    let semantics = program.semantics();
    if !subject.isolation.is_in(stance) || semantics.accept_icmp || semantics.accept_icmpv6 {
        return false;
    }
    let direction = subject.direction;
    let is_about = |side: &LoweredSide, one| match program.identities.signature(Identity::from_number(one)) {
        Some(&Signature::Class(selectors, blocks)) => side.is_about(
            program.peers.class(selectors).terms(),
            program.atoms.blocks_of(blocks),
        ),
        Some(Signature::Joint(_)) | None => true,
    };
    let mut own = subject.policies.iter().map(|&id| &program.policies[id]);
    let mut universal = program.universal_deciding(direction, subject.isolation);
    universal.next().is_none()
        && own.all(|entry| {
            let side = entry.side(direction);
            entry.policy.tier == Tier::NetworkPolicy && !towards.iter().any(|one| is_about(side, one))
        })
}

/// The identities that a kind of other ends is.
fn meant<'p>(program: &'p Program, peer: &PeerMatch) -> &'p IdentitySet {
    match *peer {
        PeerMatch::Selector(term) => program.identities.with_selector(term),
        PeerMatch::Block(block) => program.identities.with_block(block),
    }
}

/// The NetworkPolicy tier: accepts in any order. Rules that mean the same traffic are taken together.
fn union_of_accepts(
    program: &Program,
    subject: &SubjectKey,
    stance: Stance,
    towards: &IdentitySet,
) -> Vec<Step> {
    let mut by_traffic: BTreeMap<TrafficSet, Vec<IdentitySet>> = BTreeMap::new();
    let semantics = program.semantics();
    for (protocol, accepted) in [
        (Protocol::ICMP, semantics.accept_icmp),
        (Protocol::ICMPV6, semantics.accept_icmpv6),
    ] {
        if accepted {
            by_traffic.insert(protocol.into(), vec![towards.clone()]);
        }
    }
    for rule in program.rules_of(subject, Tier::NetworkPolicy, stance) {
        steps(program, subject, rule, towards, &mut |step| {
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

fn union(sets: impl Iterator<Item: Borrow<IdentitySet>>) -> IdentitySet {
    let mut all = Vec::new();
    for set in sets {
        all.extend_from_slice(set.borrow().intervals());
    }
    all.into_iter().collect()
}

/// What one rule means: the traffic that is the same for all its peers, then each port name by what it resolves to.
fn steps(
    program: &Program,
    subject: &SubjectKey,
    rule: &LoweredRule,
    towards: &IdentitySet,
    take: &mut impl FnMut(Step),
) {
    let identities = &program.identities;
    let peers = match &rule.peers {
        None => towards.clone(),
        Some(peers) => union(
            peers
                .iter()
                .map(|peer| meant(program, peer).intersection(towards)),
        ),
    };
    if peers.is_empty() {
        return;
    }
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
