//! One value of a sound policy is made unreadable: the policy must not allow more than before.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use picket_policy::{
    Action, Direction, List, Manifest, NamespaceScope, Node, Options, Policy, Requirement, Rule, Selector,
    Severity, Side, Tier, Value, lower, read,
};

/// What stands in the place of the value: an alias of nothing.
const DAMAGE: &str = "*gone";

/// Damages one value of each sound policy of a file that is sound as a whole.
pub(crate) fn never_widens(text: &str, options: Options) {
    let (manifests, problems) = read(&Arc::from("fuzz.yaml"), text.as_bytes());
    if problems.iter().any(|problem| problem.severity == Severity::Error) || text.contains("gone") {
        return;
    }
    for (index, manifest) in manifests.iter().enumerate() {
        if let Some(policy) = sound(manifest, options) {
            never_widens_at(text, index, &manifests, &policy, options);
        }
    }
}

fn never_widens_at(text: &str, index: usize, sound: &[Manifest], policy: &Policy, options: Options) {
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
        .and_then(|manifest| lower(manifest, options));
    if let Some(broken) = lowered.and_then(|lowered| lowered.policy) {
        assert!(
            is_narrower(&broken, policy),
            "{damaged}\n{broken:#?}\n{policy:#?}"
        );
    }
}

fn sound(manifest: &Manifest, options: Options) -> Option<Policy> {
    let lowered = lower(manifest, options)?;
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

/// Whether one policy isolates at least what another isolates, denies at least what it denies, and allows at most what it
/// allows.
pub(crate) fn is_narrower(narrow: &Policy, wide: &Policy) -> bool {
    if wide.tier != Tier::NetworkPolicy {
        return is_narrower_in_order(narrow, wide);
    }
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

/// Whether one selector matches everything that another matches, as far as requirements show it.
fn is_wider(wide: &Selector, narrow: &Selector) -> bool {
    wide.requirements()
        .iter()
        .all(|requirement| narrow.requirements().contains(requirement))
}

/// When a policy is judged and for whom; no selector of namespaces where it names one.
fn place(policy: &Policy) -> (Tier, u16, Option<&Selector>, &Selector) {
    let namespaces = match &policy.subject.namespaces {
        NamespaceScope::Matching(selector) => Some(selector),
        NamespaceScope::Named(_) => None,
    };
    (policy.tier, policy.priority, namespaces, &policy.subject.pods)
}

/// Whether a rule denies everything.
fn denies_all(rule: &Rule) -> bool {
    rule.action == Action::Deny && rule.peers == List::Absent && rule.ports == List::Absent
}

/// Whether a broken policy comes no later than the sound one, for at least the pods that it selects, and each of its
/// rules denies what it denied, accepts no more, and passes only what it passed, in its own place.
fn is_narrower_in_order(broken: &Policy, sound: &Policy) -> bool {
    let (tier, priority, among, pods) = place(broken);
    let (first_tier, first_priority, first_among, first_pods) = place(sound);
    let in_place = place(broken) == place(sound);
    let placed = tier <= first_tier && priority <= first_priority;
    let among = among.zip(first_among);
    let selected = among.is_some_and(|(among, first)| is_wider(among, first)) && is_wider(pods, first_pods);
    placed
        && selected
        && Direction::BOTH.into_iter().all(|direction| {
            let broken = &broken.side(direction).rules;
            let sound = &sound.side(direction).rules;
            if broken.len() == 1 && broken.iter().all(denies_all) {
                return true;
            }
            broken.len() == sound.len()
                && broken.iter().zip(sound).all(|(broken, sound)| {
                    let nobody = broken.peers == List::Items(Vec::new());
                    let unchanged = (&broken.peers, &broken.ports) == (&sound.peers, &sound.ports);
                    match (broken.action, sound.action) {
                        (Action::Accept, Action::Accept) => nobody || (unchanged && in_place),
                        (Action::Pass, Action::Pass) => unchanged && in_place,
                        (Action::Deny, Action::Deny | Action::Pass) => unchanged || denies_all(broken),
                        (Action::Deny, Action::Accept) => denies_all(broken),
                        _ => false,
                    }
                })
        })
}
