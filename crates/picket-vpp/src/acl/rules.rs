//! The rules of each kind of list.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::{Family, Prefix};
use picket_policy::Direction;

use super::model::{AclAction, AclRule};
use crate::layer4::{Layer4, Selector};
use crate::lists::Lists;
use crate::peers::{Peers, subtract};
use crate::rule::Action;
use crate::value::{Value, Values};
use crate::work::looked_at;

/// What may be sent to a pod. Where the pod may not send everything, replies need a session to pass.
pub(super) fn to_pod(
    received: [Option<&Arc<Peers>>; 2],
    reflects: bool,
    values: &mut Values,
) -> Vec<AclRule> {
    let mut rules = Vec::new();
    for (family, peers) in Family::BOTH.into_iter().zip(received) {
        let any = Prefix::all(family);
        let Some(peers) = peers else { continue };
        for rule in peers.rules(values) {
            let action = match rule.action {
                Action::Permit if reflects => AclAction::PermitReflect,
                action => action.into(),
            };
            AclRule::add(&mut rules, action, (rule.peer, any), &rule.selector);
        }
    }
    closed(rules)
}

/// What a pod may send: nothing with an address that is not its own.
pub(super) fn from_pod(lists: &Lists, services: &BTreeSet<IpAddr>, values: &mut Values) -> Vec<AclRule> {
    let mut rules = Vec::new();
    for &address in &*lists.addresses {
        let (own, family) = (Prefix::host(address), Family::of(address));
        let Some(peers) = lists.peers(Direction::Egress, family) else {
            continue;
        };
        let through = services.iter().chain([&address]);
        let through = through.map(|&address| (Prefix::host(address), Value::EVERYTHING));
        let with_services = peers.with(through);
        for rule in with_services.rules(values) {
            let action = match rule.action {
                Action::Permit => AclAction::PermitReflect,
                Action::Deny => AclAction::Deny,
            };
            AclRule::add(&mut rules, action, (own, rule.peer), &rule.selector);
        }
    }
    if !lists.lacks(Family::Ipv6) {
        rules.extend(neighbours());
    }
    closed(rules)
}

/// What a pod sends that may exchange everything, as long as others of its node may not: nothing with an address that is not its
/// own. Nothing that comes back needs a session.
pub(super) fn own_addresses(lists: &Lists) -> Vec<AclRule> {
    let own = lists.addresses.iter().flat_map(|&address| {
        let (own, any) = (Prefix::host(address), Prefix::all(Family::of(address)));
        AclRule::of(AclAction::Permit, own, any, &Selector::Any)
    });
    closed(own.chain(neighbours()).collect())
}

/// Where rules are those of [`own_addresses`], others that deny what these do and decide nothing else but neighbours.
pub(super) fn foreign_addresses(rules: &[AclRule]) -> Option<Vec<AclRule>> {
    let is_own = |rule: &&AclRule| {
        let is_whole = rule.is_about_all_from_its_source();
        is_whole && rule.source.length() > 0 && rule.action == AclAction::Permit
    };
    let own: Vec<_> = rules.iter().filter(is_own).collect();
    let is_closed = |rule: &AclRule| rule.is_everything() && rule.action == AclAction::Deny;
    let neighbours = neighbours();
    let is_known = |rule: &AclRule| is_closed(rule) || is_own(&rule) || neighbours.contains(rule);
    if own.is_empty() || !rules.iter().all(is_known) {
        return None;
    }
    let denied = Family::BOTH.into_iter().flat_map(|family| {
        let any = Prefix::all(family);
        let all = own.iter().fold(vec![any], |rest, rule| {
            let without = rest.iter().flat_map(|prefix| subtract(prefix, &rule.source));
            without.collect()
        });
        let each = all.into_iter();
        each.flat_map(move |source| AclRule::of(AclAction::Deny, source, any, &Selector::Any))
    });
    Some(neighbours.iter().copied().chain(denied).collect())
}

/// Neighbours are looked for from addresses that are not the pod's, or with none.
fn neighbours() -> Vec<AclRule> {
    let any = Prefix::all(Family::Ipv6);
    let steps = Layer4::necessary(Family::Ipv6).steps().into_iter();
    steps
        .flat_map(|(selector, _)| AclRule::of(AclAction::Permit, any, any, &selector))
        .collect()
}

/// What may be sent from an address out of the node.
pub(super) fn out_of_node(address: IpAddr, peers: &Peers, values: &mut Values) -> Vec<AclRule> {
    let own = Prefix::host(address);
    let any = Prefix::all(own.family());
    let mut rules = Vec::new();
    for rule in peers.rules(values) {
        AclRule::add(&mut rules, rule.action.into(), (own, rule.peer), &rule.selector);
    }
    for last in AclRule::of(AclAction::Deny, own, any, &Selector::Any) {
        close(&mut rules, last);
    }
    rules
}

/// What comes into the node for an address that may not send everything, and may receive this, or with `None` everything. What
/// it may receive is answered past the list of what goes out; all else is judged on the way to the pod, and leaves no session.
pub(super) fn into_node(address: IpAddr, peers: Option<&Peers>, values: &mut Values) -> Vec<AclRule> {
    let own = Prefix::host(address);
    let any = Prefix::all(own.family());
    let Some(peers) = peers else {
        return AclRule::of(AclAction::PermitReflect, any, own, &Selector::Any);
    };
    let mut rules = Vec::new();
    for rule in peers.rules(values) {
        let action = match rule.action {
            Action::Permit => AclAction::PermitReflect,
            Action::Deny => AclAction::Permit,
        };
        AclRule::add(&mut rules, action, (rule.peer, own), &rule.selector);
    }
    for last in AclRule::of(AclAction::Permit, any, own, &Selector::Any) {
        close(&mut rules, last);
    }
    rules
}

/// The same rules, and nothing else passes, whatever lists come after them.
fn closed(mut rules: Vec<AclRule>) -> Vec<AclRule> {
    for all in everything(AclAction::Deny) {
        close(&mut rules, all);
    }
    rules
}

/// Adds a last rule about everything between two networks, unless that is decided.
fn close(rules: &mut Vec<AclRule>, last: AclRule) {
    looked_at(rules.len());
    let about = |rule: &AclRule| (rule.source, rule.destination, rule.protocol);
    if !rules.iter().any(|rule| about(rule) == about(&last)) {
        rules.push(last);
    }
}

/// One rule about everything for each family.
pub(super) fn everything(action: AclAction) -> Vec<AclRule> {
    let families = Family::BOTH.into_iter();
    families
        .flat_map(|family| {
            let any = Prefix::all(family);
            AclRule::of(action, any, any, &Selector::Any)
        })
        .collect()
}

impl From<Action> for AclAction {
    fn from(action: Action) -> Self {
        match action {
            Action::Deny => Self::Deny,
            Action::Permit => Self::Permit,
        }
    }
}
