//! Policies with their selectors, blocks and port names replaced by what the engine knows of them.

use std::sync::Arc;

use picket_net::{PortSet, Protocol, TrafficSet};
use picket_policy::{Action, Direction, List, Mode, ObjectRef, Peer, Policy, PortMatch, Rule, Side, Tier};
use smol_str::SmolStr;

use crate::slab::{BlockId, TermId};

/// The pods that a policy applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// None: it does not act on the cluster network.
    Nobody,
    /// Every pod there is, by a policy of the Admin or Baseline tier.
    Everybody,
    /// Those that a selector matches.
    Matching(TermId),
}

impl Subject {
    pub(crate) fn term(self) -> Option<TermId> {
        match self {
            Self::Matching(term) => Some(term),
            Self::Nobody | Self::Everybody => None,
        }
    }
}

/// A policy and what it became.
#[derive(Clone, Debug)]
pub(crate) struct PolicyEntry {
    pub(crate) policy: Arc<Policy>,
    pub(crate) subject: Subject,
    /// Ingress and egress.
    pub(crate) sides: [LoweredSide; 2],
}

impl PolicyEntry {
    pub(crate) fn side(&self, direction: Direction) -> &LoweredSide {
        let [ingress, egress] = &self.sides;
        match direction {
            Direction::Ingress => ingress,
            Direction::Egress => egress,
        }
    }

    /// Policies in the order in which they are judged.
    pub(crate) fn rank(&self) -> (Tier, u16, &ObjectRef) {
        (self.policy.tier, self.policy.priority, &self.policy.object)
    }
}

/// One direction of a policy. Equal sides of equal policies mean the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoweredSide {
    pub(crate) mode: Mode,
    /// Also of a policy that is only audited.
    pub(crate) isolates: bool,
    pub(crate) rules: Vec<LoweredRule>,
    /// Whether a rule is about anybody.
    is_about_anybody: bool,
    /// The peers of all other rules, each once and sorted.
    peers: Box<[PeerMatch]>,
}

impl LoweredSide {
    pub(crate) fn says_nothing(&self) -> bool {
        !self.isolates && self.rules.is_empty()
    }

    /// Whether it isolates, in one stance towards audited policies.
    pub(crate) fn isolates_in(&self, stance: Stance) -> bool {
        self.isolates && self.denies_in(stance)
    }

    /// Whether what it denies is denied.
    fn denies_in(&self, stance: Stance) -> bool {
        self.mode == Mode::Enforce || stance == Stance::IfEnforced
    }

    /// The rules that count.
    pub(crate) fn rules_in(&self, stance: Stance) -> impl Iterator<Item = &LoweredRule> {
        self.rules.iter().filter(move |rule| self.counts_in(rule, stance))
    }

    /// Whether one of them does.
    pub(crate) fn counts_in(&self, rule: &LoweredRule, stance: Stance) -> bool {
        self.denies_in(stance) || rule.action != Action::Deny
    }

    /// Whether a rule is about what these selectors match and these blocks hold.
    pub(crate) fn is_about(&self, selectors: &[TermId], blocks: &[BlockId]) -> bool {
        let selectors = selectors.iter().copied().map(PeerMatch::Selector);
        let mut kinds = selectors.chain(blocks.iter().copied().map(PeerMatch::Block));
        self.is_about_anybody || kinds.any(|kind| self.peers.binary_search(&kind).is_ok())
    }

    /// Whether a rule names a port.
    pub(crate) fn names_ports(&self) -> bool {
        self.rules.iter().any(|rule| !rule.names.is_empty())
    }
}

/// What audited policies are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stance {
    /// For what they are: they deny nothing.
    InForce,
    /// For enforced ones.
    IfEnforced,
}

/// A rule; its position is its place in [`Side::rules`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoweredRule {
    pub(crate) action: Action,
    /// `None` for anybody.
    pub(crate) peers: Option<Vec<PeerMatch>>,
    /// What it means for every destination.
    pub(crate) traffic: TrafficSet,
    /// Port names, which mean what the destination makes of them.
    pub(crate) names: Vec<PortName>,
}

/// One kind of other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PeerMatch {
    Selector(TermId),
    Block(BlockId),
}

/// A container port's name, for one protocol or any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortName {
    pub(crate) protocol: Option<Protocol>,
    pub(crate) name: SmolStr,
}

impl PortName {
    pub(crate) fn means(&self, name: &str, protocol: Protocol) -> bool {
        self.name == name && self.protocol.is_none_or(|own| own == protocol)
    }
}

/// Every peer of every rule of a side.
pub(crate) fn peers(side: &Side) -> impl Iterator<Item = &Peer> {
    side.rules.iter().flat_map(|rule| match &rule.peers {
        List::Absent => [].iter(),
        List::Items(peers) => peers.iter(),
    })
}

/// Every port name of every rule of a side.
pub(crate) fn port_names(side: &Side) -> impl Iterator<Item = &SmolStr> {
    let ports = side.rules.iter().flat_map(|rule| match &rule.ports {
        List::Absent => [].iter(),
        List::Items(ports) => ports.iter(),
    });
    ports.filter_map(|port| match port {
        PortMatch::Named { name, .. } => Some(name),
        PortMatch::Protocol(_) | PortMatch::Range(..) => None,
    })
}

/// Replaces the peers of a side; `resolve` knows each of them.
pub(crate) fn lower(mode: Mode, side: &Side, resolve: impl Fn(&Peer) -> Option<PeerMatch>) -> LoweredSide {
    let rules = side.rules.iter().map(|rule| {
        let (traffic, names) = lower_ports(rule);
        LoweredRule {
            action: rule.action,
            peers: match &rule.peers {
                List::Absent => None,
                List::Items(peers) => Some(peers.iter().filter_map(&resolve).collect()),
            },
            traffic,
            names,
        }
    });
    let rules: Vec<_> = rules.collect();
    let listed = rules.iter().filter_map(|rule| rule.peers.as_ref());
    let mut peers: Vec<_> = listed.flatten().copied().collect();
    peers.sort_unstable();
    peers.dedup();
    LoweredSide {
        mode,
        isolates: side.isolates,
        is_about_anybody: rules.iter().any(|rule| rule.peers.is_none()),
        peers: peers.into(),
        rules,
    }
}

/// The traffic that a rule means for every destination, and the port names that depend on it.
pub(crate) fn lower_ports(rule: &Rule) -> (TrafficSet, Vec<PortName>) {
    let List::Items(ports) = &rule.ports else {
        return (TrafficSet::all(), Vec::new());
    };
    let (mut traffic, mut names) = (TrafficSet::empty(), Vec::new());
    for port in ports {
        let part = match port {
            PortMatch::Protocol(protocol) => TrafficSet::from(*protocol),
            // A protocol without ports has none in any range.
            PortMatch::Range(protocol, _) if !protocol.has_ports() => continue,
            PortMatch::Range(protocol, range) => TrafficSet::of(*protocol, PortSet::from(*range)),
            PortMatch::Named { protocol, name } => {
                names.push(PortName {
                    protocol: *protocol,
                    name: name.clone(),
                });
                continue;
            }
        };
        traffic = traffic.union(&part);
    }
    (traffic, names)
}
