//! Policies of a tier whose order nobody has said.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_policy::{Action, Diagnostic, Direction, Policy, Tier};
use smol_str::SmolStr;

use super::{Context, Subject, advice, table};

pub(super) fn check(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let mut same: BTreeMap<(Tier, u16, &SmolStr), Vec<&Arc<Policy>>> = BTreeMap::new();
    for policy in &context.policies {
        if policy.tier != Tier::NetworkPolicy {
            let key = (policy.tier, policy.priority, &policy.object.kind);
            same.entry(key).or_default().push(policy);
        }
    }
    for policies in same.values() {
        for (at, policy) in policies.iter().enumerate() {
            let about = Subject { context, policy };
            let before = policies.iter().take(at);
            let other = before
                .map(|other| other.as_ref())
                .find(|other| is_open(context, policy, other));
            found.extend(other.map(|other| unordered(&about, other)));
        }
    }
}

/// Whether the order of two policies decides something that is not decided: both are about some pod, and say different
/// things about one direction.
fn is_open(context: &Context<'_>, one: &Policy, other: &Policy) -> bool {
    let differ = Direction::BOTH.into_iter().any(|direction| {
        let (one, other) = (actions(one, direction), actions(other, direction));
        !one.is_empty() && !other.is_empty() && one.union(&other).count() > 1
    });
    let groups = |policy: &Policy| {
        let groups = context.cluster.managed(&policy.subject);
        groups.map(|(at, _)| at).collect::<BTreeSet<_>>()
    };
    differ && !groups(one).is_disjoint(&groups(other))
}

fn actions(policy: &Policy, direction: Direction) -> BTreeSet<Action> {
    policy
        .side(direction)
        .rules
        .iter()
        .map(|rule| rule.action)
        .collect()
}

fn unordered(about: &Subject<'_>, other: &Policy) -> Diagnostic {
    let place = about.place().field("spec").field("priority");
    let message = format!(
        "{} and {} have the same priority {} and are about the same pods, but do not say the same",
        about.policy.object, other.object, about.policy.priority
    );
    let note = "which of them is judged first is up to the network plugin; picket takes the first by name";
    let diagnostic = about.warning(table::EQUAL_PRIORITY, &place, message).note(note);
    let elsewhere = Subject {
        context: about.context,
        policy: other,
    };
    let mut diagnostic = match elsewhere.place().field("spec").field("priority").span() {
        Some(span) => diagnostic.mark(span, "the same priority"),
        None => diagnostic,
    };
    diagnostic.fixes.push(advice("give one of them another priority"));
    diagnostic
}
