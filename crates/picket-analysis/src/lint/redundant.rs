//! Policies without which everything would be the same: found by their text, proved by the engine.

use std::collections::BTreeSet;
use std::sync::Arc;

use picket_cluster::{Event, Object, Semantics};
use picket_engine::{AllowSet, Engine, Program};
use picket_policy::{Diagnostic, Direction, List, ObjectRef, Policy, Requirement, Rule, Tier};

use super::shadow::{covers, covers_selector};
use super::{Context, Subject, advice, table};

/// Finds policies that may all be removed together. Those with findings already have something else to be mended first.
pub(super) fn check(context: &Context<'_>, semantics: &Semantics, found: &mut Vec<Diagnostic>) {
    let reported: BTreeSet<_> = found.iter().filter_map(|found| found.object.clone()).collect();
    let policies = context.policies.iter().rev();
    let candidates = policies.filter(|policy| !reported.contains(&policy.object));
    let mut engine = None;
    for policy in candidates {
        let about = Subject { context, policy };
        let Some(other) = made_superfluous_by(&about) else {
            continue;
        };
        let engine =
            engine.get_or_insert_with(|| Engine::compile(context.cluster.snapshot, semantics.clone()));
        if set_aside(engine, &about) {
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
}

/// The first of the policies that together say everything that a policy says, about all of its pods.
///
/// A policy without rules is never found superfluous: it is there to deny what no other policy is about yet. Nor is one
/// beside a rule that allows everything, which is another finding.
fn made_superfluous_by<'a>(about: &'a Subject<'_>) -> Option<&'a Policy> {
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
        .filter(|other| covers_selector(about, &other.subject, &policy.subject))
        .collect();
    let isolated = sides.iter().all(|(direction, side)| {
        !side.isolates || others.iter().any(|other| other.side(*direction).isolates)
    });
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

/// Lets a policy be about no pod, and keeps it so if nothing changes.
///
/// Its selectors and blocks stay in use, so that the identities of peers stay what they are, and what pods allow can be
/// compared as it is.
fn set_aside(engine: &mut Engine, about: &Subject<'_>) -> bool {
    let groups = about.cluster().managed(&about.policy.subject);
    let pods: Vec<ObjectRef> = groups
        .flat_map(|(_, group)| group.pods.iter().map(|pod| pod.object.clone()))
        .collect();
    let mut aside = about.policy.clone();
    let nothing = Requirement::In("picket.dev/nothing".into(), Vec::new());
    let requirements = aside.subject.pods.requirements().iter().cloned();
    aside.subject.pods = requirements.chain([nothing]).collect();
    let before = allowed(engine.program(), &pods);
    let delta = engine.apply(Event::Apply(Object::Policy(aside)));
    let same = delta.identities.added.is_empty() && delta.identities.removed.is_empty();
    if same && allowed(engine.program(), &pods) == before {
        return true;
    }
    engine.apply(Event::Apply(Object::Policy(about.policy.clone())));
    false
}

/// What each pod allows in each direction; `None` when nothing isolates it. Egress also towards its own node.
fn allowed(program: &Program, pods: &[ObjectRef]) -> Vec<[Option<Arc<AllowSet>>; 3]> {
    let of = |pod: &ObjectRef| {
        let [ingress, egress] = Direction::BOTH.map(|direction| program.subject(pod, direction));
        [
            ingress.map(|subject| program.allow_set(subject)),
            egress.map(|subject| program.allow_set(subject)),
            egress.map(|subject| program.own_node_allow_set(subject)),
        ]
    };
    pods.iter().map(of).collect()
}
