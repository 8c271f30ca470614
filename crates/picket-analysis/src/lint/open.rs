//! Rules that allow everything to pods that other policies mean to protect.

use std::sync::Arc;

use picket_policy::{Diagnostic, Direction, List, ObjectRef, Policy};

use super::shadow::covers_selector;
use super::{Subject, advice, table};

pub(super) fn check(about: &Subject<'_>, found: &mut Vec<Diagnostic>) {
    if about.is_tiered() {
        return;
    }
    for direction in Direction::BOTH {
        let rules = &about.policy.side(direction).rules;
        let open = rules
            .iter()
            .find(|rule| rule.peers == List::Absent && rule.ports == List::Absent);
        let Some(rule) = open else { continue };
        let defeated = defeated(about, direction);
        let [first, rest @ ..] = defeated.as_slice() else {
            continue;
        };
        let place = about.rule_place(direction, rule);
        let others = match rest.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "this rule of {} allows all {direction} of its pods, so that {first}{others} restricts nothing",
            about.policy.object
        );
        let mut diagnostic = about.warning(table::DEFEATS_ISOLATION, &place, message);
        let note = "policies only add to what is allowed: none can take back what another allows";
        diagnostic.notes.push(note.to_owned());
        diagnostic.fixes.push(advice(
            "say in the rule who is allowed, or remove the policies that have no effect",
        ));
        found.push(diagnostic);
    }
}

/// The policies that isolate some pods in a direction and whose pods are all among those that this one is about.
fn defeated<'a>(about: &'a Subject<'_>, direction: Direction) -> Vec<&'a ObjectRef> {
    let policy = about.policy;
    let others = about.context.in_namespace(&policy.object.namespace).iter();
    let isolates = |other: &&&Arc<Policy>| {
        let rules = &other.side(direction).rules;
        let open = |rule: &picket_policy::Rule| rule.peers == List::Absent && rule.ports == List::Absent;
        other.object != policy.object && other.isolates(direction) && !rules.iter().any(open)
    };
    others
        .filter(isolates)
        .filter(|other| covers_selector(about, &policy.subject, &other.subject))
        .filter(|other| about.cluster().managed(&other.subject).next().is_some())
        .map(|other| &other.object)
        .collect()
}
