//! Policies without which everything would be the same, whatever pods there are.
//!
//! The proof is in the texts. Every rule of such a policy is within a rule of another one, which is about all of its pods
//! and stays; and in every direction in which it isolates, so does another one. Accepts of NetworkPolicy have no order, so
//! that nothing else can make a difference.

use std::collections::{BTreeMap, BTreeSet};

use picket_cluster::Snapshot;
use picket_policy::{Diagnostic, Direction, List, ObjectRef, Policy, Rule, Tier};

use super::shadow::{covers, covers_selector};
use super::{Context, Subject, advice, table};

/// Finds policies that may all be removed together. Those with findings already have something else to be mended first.
pub(super) fn check(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let reported: BTreeSet<_> = found.iter().filter_map(|found| found.object.clone()).collect();
    let policies = context.policies.iter().rev();
    let candidates = policies.filter(|policy| !reported.contains(&policy.object));
    let mut removed = BTreeSet::new();
    for policy in candidates {
        let about = Subject { context, policy };
        let Some(other) = made_superfluous_by(&about, &removed) else {
            continue;
        };
        removed.insert(&policy.object);
        let message = format!(
            "{} changes nothing: without it exactly the same connections are allowed",
            policy.object
        );
        let mut diagnostic = about.warning(table::REDUNDANT_POLICY, &about.place(), message);
        diagnostic.notes.push(format!(
            "{} says all that it says, about the same pods",
            other.object
        ));
        diagnostic
            .fixes
            .push(advice("remove the policy, or narrow the other one"));
        found.push(diagnostic);
    }
}

/// Keeps what was found of policies for several networks only if it was found on each of them.
pub(super) fn on_every_network(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) {
    let is_redundant = |one: &Diagnostic| one.code == table::REDUNDANT_POLICY;
    let mut counts: BTreeMap<ObjectRef, usize> = BTreeMap::new();
    for object in found
        .iter()
        .filter(|one| is_redundant(one))
        .filter_map(|one| one.object.clone())
    {
        *counts.entry(object).or_default() += 1;
    }
    found.retain(|one| {
        let policy = one
            .object
            .as_ref()
            .and_then(|object| snapshot.policies.get(object));
        let networks = policy.map_or(0, |policy| policy.networks.attached().len());
        let count = one.object.as_ref().and_then(|object| counts.get(object));
        !is_redundant(one) || count.is_some_and(|count| *count >= networks)
    });
}

/// The first of the policies that together say everything that a policy says, about all of its pods, and that are not
/// to be removed themselves.
///
/// A policy without rules is never found superfluous: it is there to deny what no other policy is about yet. Nor is one
/// beside a rule that allows everything, which is another finding.
fn made_superfluous_by<'a>(about: &'a Subject<'_>, removed: &BTreeSet<&ObjectRef>) -> Option<&'a Policy> {
    let policy = about.policy;
    let sides = Direction::BOTH.map(|direction| (direction, policy.side(direction)));
    let says_something = sides.iter().any(|(_, side)| !side.rules.is_empty());
    if policy.tier != Tier::NetworkPolicy || !says_something {
        return None;
    }
    let others = about.context.in_namespace(&policy.object.namespace).iter();
    let others: Vec<&Policy> = others
        .map(|other| other.as_ref())
        .filter(|other| other.object != policy.object && other.tier == Tier::NetworkPolicy)
        .filter(|other| !removed.contains(&other.object))
        // Of networks on one wire each lends its peers to the others: what a policy says on one it says with all that it names.
        .filter(|other| other.networks.cover(&policy.networks))
        .filter(|other| covers_selector(about, &other.subject, &policy.subject))
        .collect();
    let isolated = sides
        .iter()
        .all(|(direction, side)| !side.isolates || others.iter().any(|other| other.isolates(*direction)));
    let first = others.iter().find(|other| {
        let mut rules = sides
            .iter()
            .flat_map(|(direction, side)| side.rules.iter().map(move |rule| (direction, rule)));
        rules.any(|(direction, rule)| {
            other
                .side(*direction)
                .rules
                .iter()
                .any(|own| covers(about, own, rule))
        })
    });
    let covered = sides.iter().all(|(direction, side)| {
        side.rules.iter().all(|rule| {
            let mut rules = others.iter().flat_map(|other| &other.side(*direction).rules);
            rules.any(|other| !is_open(other) && covers(about, other, rule))
        })
    });
    first.filter(|_| isolated && covered).copied()
}

fn is_open(rule: &Rule) -> bool {
    rule.peers == List::Absent && rule.ports == List::Absent
}
