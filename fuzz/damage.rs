//! One value of a sound policy is made unreadable: the policy must not allow more than before.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use picket_policy::{
    Direction, List, Manifest, Node, Options, Policy, Requirement, Severity, Side, Value, lower, read,
};

/// What stands in the place of the value: an alias of nothing.
const DAMAGE: &str = "*gone";

/// Damages one value of each sound policy of a file that is sound as a whole.
pub(super) fn never_widens(text: &str) {
    let (manifests, problems) = read(&Arc::from("fuzz.yaml"), text.as_bytes());
    if problems.iter().any(|problem| problem.severity == Severity::Error) || text.contains("gone") {
        return;
    }
    for (index, manifest) in manifests.iter().enumerate() {
        if let Some(policy) = sound(manifest) {
            never_widens_at(text, index, &manifests, &policy);
        }
    }
}

fn never_widens_at(text: &str, index: usize, sound: &[Manifest], policy: &Policy) {
    let mut places = Vec::new();
    let root = sound.get(index).map(Manifest::root);
    root.into_iter().for_each(|root| scalars(root, &mut places));
    // Any choice will do that follows from the input.
    let choice = text.bytes().map(usize::from).sum::<usize>() % places.len().max(1);
    let Some((before, after)) = places
        .get(choice)
        .and_then(|place| Some((text.get(..place.start)?, text.get(place.end..)?)))
    else {
        return;
    };
    let damaged = [before, DAMAGE, after].concat();
    let (manifests, problems) = read(&Arc::from("fuzz.yaml"), damaged.as_bytes());
    let mut errors = problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error);
    assert!(errors.next().is_some(), "damage is reported: {damaged}");
    // A document that cannot be parsed, or an object that no longer has a kind, changes their number.
    let lowered = manifests
        .get(index)
        .filter(|_| manifests.len() == sound.len())
        .and_then(|manifest| lower(manifest, Options::default()));
    if let Some(broken) = lowered.and_then(|lowered| lowered.policy) {
        assert!(
            is_narrower(&broken, policy),
            "{damaged}\n{broken:#?}\n{policy:#?}"
        );
    }
}

fn sound(manifest: &Manifest) -> Option<Policy> {
    let lowered = lower(manifest, Options::default())?;
    let is_sound = lowered
        .diagnostics
        .iter()
        .all(|problem| problem.severity != Severity::Error);
    lowered.policy.filter(|_| is_sound)
}

/// The places of all values that are written and hold no others.
fn scalars(node: &Node, places: &mut Vec<Range<usize>>) {
    match &node.value {
        Value::Mapping(entries) => entries.iter().for_each(|entry| scalars(&entry.value, places)),
        Value::Sequence(items) => items.iter().for_each(|item| scalars(item, places)),
        _ if node.range.is_empty() => {}
        _ => places.push(node.range.clone()),
    }
}

/// Whether one policy isolates at least what another isolates, and allows at most what it allows.
pub(crate) fn is_narrower(narrow: &Policy, wide: &Policy) -> bool {
    let requirements = |policy: &Policy| -> BTreeSet<Requirement> {
        policy.subject.pods.requirements().iter().cloned().collect()
    };
    let silent = |side: &Side| {
        side.rules
            .iter()
            .all(|rule| matches!(&rule.peers, List::Items(peers) if peers.is_empty()))
    };
    let same_subject = requirements(narrow) == requirements(wide);
    requirements(narrow).is_subset(&requirements(wide))
        && narrow.subject.namespaces == wide.subject.namespaces
        && Direction::BOTH.into_iter().all(|direction| {
            let (narrow, wide) = (narrow.side(direction), wide.side(direction));
            let kept = narrow.rules.iter().all(|rule| {
                let silent = matches!(&rule.peers, List::Items(peers) if peers.is_empty());
                let original = wide.rules.get(rule.index as usize);
                silent
                    || original
                        .is_some_and(|original| original.peers == rule.peers && original.ports == rule.ports)
            });
            (narrow.isolates || !wide.isolates) && kept && (same_subject || silent(narrow))
        })
}
