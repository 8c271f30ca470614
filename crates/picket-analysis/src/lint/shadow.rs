//! Rules that another rule of the same policy makes superfluous, whatever pods there are.

use std::cmp::Ordering;

use picket_net::{PortSet, TrafficSet};
use picket_policy::{
    Block, Diagnostic, Direction, List, NamespaceScope, Peer, PodSelector, PortMatch, Requirement, Rule,
    Selector,
};

use super::cluster::matches;
use super::{Subject, advice, table};

pub(super) fn check(about: &Subject<'_>, found: &mut Vec<Diagnostic>) {
    for direction in Direction::BOTH {
        let rules = &about.policy.side(direction).rules;
        for (at, rule) in rules.iter().enumerate() {
            if let Some(other) = shadowed_by(about, rules, at) {
                found.push(shadowed(about, direction, rule, other));
            }
        }
    }
}

/// A rule that leaves another one nothing to decide. Accepts of a NetworkPolicy have no order; in the tiers the first
/// rule that matches decides.
fn shadowed_by<'r>(about: &Subject<'_>, rules: &'r [Rule], at: usize) -> Option<&'r Rule> {
    let rule = rules.get(at).filter(|rule| !matches_nothing(rule))?;
    let mut others = rules.iter().enumerate();
    let covering = others.find(|(place, other)| match place.cmp(&at) {
        Ordering::Equal => false,
        Ordering::Less => about.policy.counts(other) && covers(about, other, rule),
        // Of two that say the same, the second is the one too many.
        Ordering::Greater => !about.is_tiered() && covers(about, other, rule) && !covers(about, rule, other),
    });
    covering.map(|(_, other)| other)
}

fn shadowed(about: &Subject<'_>, direction: Direction, rule: &Rule, other: &Rule) -> Diagnostic {
    let place = about.rule_place(direction, rule);
    let message = format!(
        "this rule of {} changes nothing: `spec.{direction}[{}]` matches everything that it matches",
        about.policy.object, other.index
    );
    let diagnostic = about.warning(table::SHADOWED_RULE, &place, message);
    let mut diagnostic = match about.rule_place(direction, other).span() {
        Some(span) => diagnostic.mark(span, "this rule is enough"),
        None => diagnostic,
    };
    diagnostic
        .fixes
        .push(advice("remove the rule, or narrow the other one"));
    diagnostic
}

fn matches_nothing(rule: &Rule) -> bool {
    let none = matches!(&rule.peers, List::Items(peers) if peers.is_empty());
    none || matches!(&rule.ports, List::Items(ports) if ports.is_empty())
}

/// Whether every connection that `small` matches is matched by `big`.
pub(super) fn covers(about: &Subject<'_>, big: &Rule, small: &Rule) -> bool {
    let peers = match (&big.peers, &small.peers) {
        (List::Absent, _) => true,
        (List::Items(_), List::Absent) => false,
        (List::Items(big), List::Items(small)) => small
            .iter()
            .all(|small| big.iter().any(|big| covers_peer(about, big, small))),
    };
    peers && covers_ports(&big.ports, &small.ports)
}

fn covers_peer(about: &Subject<'_>, big: &Peer, small: &Peer) -> bool {
    match (big, small) {
        (Peer::Pods(big), Peer::Pods(small)) => covers_selector(about, big, small),
        (Peer::Block(big), Peer::Block(small)) => covers_block(big, small),
        _ => big == small,
    }
}

/// Whether `big` matches every pod that `small` matches, whatever pods there are.
pub(super) fn covers_selector(about: &Subject<'_>, big: &PodSelector, small: &PodSelector) -> bool {
    let namespaces = match (&big.namespaces, &small.namespaces) {
        (NamespaceScope::Named(big), NamespaceScope::Named(small)) => big == small,
        (NamespaceScope::Matching(big), NamespaceScope::Named(small)) => {
            matches(big, &about.cluster().snapshot.namespace(small).labels)
        }
        (NamespaceScope::Matching(big), NamespaceScope::Matching(small)) => covers_labels(big, small),
        (NamespaceScope::Named(_), NamespaceScope::Matching(_)) => false,
    };
    namespaces && covers_labels(&big.pods, &small.pods)
}

/// Whether every requirement of `big` follows from one of `small`.
fn covers_labels(big: &Selector, small: &Selector) -> bool {
    let follows = |wanted: &Requirement| small.requirements().iter().any(|given| implies(given, wanted));
    big.requirements().iter().all(follows)
}

fn implies(given: &Requirement, wanted: &Requirement) -> bool {
    let within = |some: &[_], all: &[_]| some.iter().all(|value| all.contains(value));
    match (given, wanted) {
        _ if given.key() != wanted.key() => false,
        (Requirement::In(_, given), Requirement::In(_, wanted)) => within(given, wanted),
        (Requirement::In(..), Requirement::Exists(_)) => true,
        (Requirement::In(_, given), Requirement::NotIn(_, wanted)) => {
            !given.iter().any(|value| wanted.contains(value))
        }
        (Requirement::NotIn(_, given), Requirement::NotIn(_, wanted)) => within(wanted, given),
        (Requirement::DoesNotExist(_), Requirement::NotIn(..)) => true,
        _ => given == wanted,
    }
}

fn covers_block(big: &Block, small: &Block) -> bool {
    let is_kept = |except: &picket_net::Prefix| {
        let apart = !except.contains_prefix(&small.prefix) && !small.prefix.contains_prefix(except);
        apart || small.except.iter().any(|own| own.contains_prefix(except))
    };
    big.prefix.contains_prefix(&small.prefix) && big.except.iter().all(is_kept)
}

fn covers_ports(big: &List<PortMatch>, small: &List<PortMatch>) -> bool {
    let (List::Items(big), List::Items(small)) = (big, small) else {
        return *big == List::Absent;
    };
    let (all, part) = (numbers(big), numbers(small));
    let named = |port: &PortMatch| match port {
        PortMatch::Named { protocol, .. } => {
            let whole = protocol.is_some_and(|protocol| big.contains(&PortMatch::Protocol(protocol)));
            whole || big.contains(port)
        }
        _ => true,
    };
    part.difference(&all).is_empty() && small.iter().all(named)
}

/// What the ports mean that have no names.
fn numbers(ports: &[PortMatch]) -> TrafficSet {
    ports.iter().fold(TrafficSet::empty(), |all, port| {
        let part = match port {
            PortMatch::Protocol(protocol) => TrafficSet::from(*protocol),
            PortMatch::Range(protocol, range) if protocol.has_ports() => {
                TrafficSet::of(*protocol, PortSet::from(*range))
            }
            PortMatch::Range(..) | PortMatch::Named { .. } => return all,
        };
        all.union(&part)
    })
}
