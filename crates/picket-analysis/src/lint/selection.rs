//! Selectors that match nothing, or nothing that policies are about.

use std::collections::BTreeSet;

use picket_cluster::{NAMESPACE_NAME_LABEL, Namespace};
use picket_policy::{
    Diagnostic, Direction, List, NamespaceScope, Peer, PodSelector, Requirement, Rule, Selector,
};

use super::cluster::{Group, holds, matches};
use super::text::Place;
use super::{Subject, advice, counted, dash, quoted, table};

/// Where a selector is written: looked for only when there is something to say about it.
type Where<'a> = &'a dyn Fn() -> Place;

pub(super) fn check(about: &Subject<'_>, found: &mut Vec<Diagnostic>) {
    if about.cluster().is_empty() {
        return;
    }
    subject(about, found);
    for (direction, rule) in about.rules() {
        let List::Items(peers) = &rule.peers else { continue };
        let is_dashed = dash::is_probable(about, rule);
        for (at, peer) in peers.iter().enumerate() {
            match peer {
                Peer::Pods(pods) if !is_dashed => peer_of_pods(about, (direction, rule, at), pods, found),
                _ => {}
            }
        }
    }
}

fn subject(about: &Subject<'_>, found: &mut Vec<Diagnostic>) {
    let selector = &about.policy.subject;
    let place = || about.subject_place();
    if misspelt(about, selector, &place, found) || about.cluster().managed(selector).next().is_some() {
        return;
    }
    let what = format!("{} selects", about.policy.object);
    if only_host_network(about, selector, &place, &what, found) || says_little(about, selector) {
        return;
    }
    let message = format!("{what} no pod: none has `{}`", selector.pods);
    let mut diagnostic = about.warning(table::SELECTS_NOTHING, &place(), message);
    explain(about, selector, &mut diagnostic);
    found.push(diagnostic);
}

fn peer_of_pods(
    about: &Subject<'_>,
    (direction, rule, at): (Direction, &Rule, usize),
    selector: &PodSelector,
    found: &mut Vec<Diagnostic>,
) {
    let place = || about.peer_place(direction, rule, at);
    if misspelt(about, selector, &place, found) || about.cluster().managed(selector).next().is_some() {
        return;
    }
    let what = format!("a peer of {} matches", about.policy.object);
    if only_host_network(about, selector, &place, &what, found) || may_be_outside(about, selector) {
        return;
    }
    let message = match &selector.namespaces {
        NamespaceScope::Matching(namespaces) if !has_namespace(about, namespaces) => {
            format!("{what} nothing: no namespace has `{namespaces}`")
        }
        _ if says_little(about, selector) => return,
        NamespaceScope::Named(name) => {
            format!(
                "{what} nothing: no pod of the namespace `{name}` has `{}`",
                selector.pods
            )
        }
        NamespaceScope::Matching(namespaces) if namespaces.is_everything() => {
            format!("{what} nothing: no pod has `{}`", selector.pods)
        }
        NamespaceScope::Matching(namespaces) => {
            format!(
                "{what} nothing: no pod of a namespace with `{namespaces}` has `{}`",
                selector.pods
            )
        }
    };
    let mut diagnostic = about.warning(table::PEER_MATCHES_NOTHING, &place(), message);
    explain(about, selector, &mut diagnostic);
    found.push(diagnostic);
}

/// Whether nothing can be said about a selector that matches nothing: it asks for no label, or for labels of pods that
/// the input may lack, because it has none at all where it looks.
fn says_little(about: &Subject<'_>, selector: &PodSelector) -> bool {
    selector.pods.is_everything() || about.cluster().in_scope(&selector.namespaces).next().is_none()
}

/// Whether a peer may mean pods that every cluster has and the input has not, or has been reported by its namespace.
fn may_be_outside(about: &Subject<'_>, selector: &PodSelector) -> bool {
    let NamespaceScope::Matching(namespaces) = &selector.namespaces else {
        return false;
    };
    let cluster = about.cluster();
    let system = Namespace::implied("kube-system");
    let lacks_system = cluster.in_namespace(&system.name).next().is_none();
    if lacks_system && matches(namespaces, &system.labels) {
        return true;
    }
    if has_namespace(about, namespaces) {
        return false;
    }
    let by_name = namespaces
        .requirements()
        .iter()
        .any(|one| one.key() == NAMESPACE_NAME_LABEL);
    by_name || !cluster.knows_labels_of_namespaces()
}

fn has_namespace(about: &Subject<'_>, namespaces: &Selector) -> bool {
    let mut known = about.cluster().snapshot.namespaces.values();
    known.any(|namespace| matches(namespaces, &namespace.labels))
}

/// Reports a selector that would match if policies were about hostNetwork pods.
fn only_host_network(
    about: &Subject<'_>,
    selector: &PodSelector,
    place: Where<'_>,
    what: &str,
    found: &mut Vec<Diagnostic>,
) -> bool {
    let cluster = about.cluster();
    let groups = cluster.matching(selector);
    let mut pods = groups
        .iter()
        .filter_map(|&at| cluster.group(at))
        .flat_map(|group| &group.pods);
    let Some(first) = pods.next() else { return false };
    let (count, message) = (
        pods.count() + 1,
        format!("{what} hostNetwork pods only, which policies are not about"),
    );
    let note = format!(
        "such as {} of {}",
        first.object,
        counted(count, "hostNetwork pod")
    );
    let mut diagnostic = about
        .warning(table::HOST_NETWORK_ONLY, &place(), message)
        .note(note);
    let remedy = "their traffic is that of their nodes: allow it with an `ipBlock` of the nodes' addresses";
    diagnostic.fixes.push(advice(remedy));
    found.push(diagnostic);
    true
}

/// Reports keys that nothing has, and that are spelled nearly as one that something has.
fn misspelt(
    about: &Subject<'_>,
    selector: &PodSelector,
    place: Where<'_>,
    found: &mut Vec<Diagnostic>,
) -> bool {
    let cluster = about.cluster();
    let mut any = key_typos(
        about,
        &selector.pods,
        cluster.pod_keys().collect(),
        "pod",
        place,
        found,
    );
    if let NamespaceScope::Matching(namespaces) = &selector.namespaces {
        let keys = cluster.namespace_keys().collect();
        any |= key_typos(about, namespaces, keys, "namespace", place, found);
    }
    any
}

fn key_typos(
    about: &Subject<'_>,
    selector: &Selector,
    keys: BTreeSet<&str>,
    whose: &str,
    place: Where<'_>,
    found: &mut Vec<Diagnostic>,
) -> bool {
    let before = found.len();
    for requirement in selector.requirements() {
        let key = requirement.key().as_str();
        let meant = (!keys.contains(key)).then(|| near(key, &keys)).flatten();
        let Some(meant) = meant else { continue };
        let effect = match requirement {
            Requirement::In(..) | Requirement::Exists(_) => "matches nothing",
            Requirement::NotIn(..) | Requirement::DoesNotExist(_) => "excludes nothing",
        };
        let message = format!(
            "no {whose} has a label `{key}`, so `{requirement}` in {} {effect}",
            about.policy.object
        );
        let mut diagnostic = about.warning(table::LABEL_KEY, &place(), message);
        diagnostic.fixes.push(advice(format!("did you mean `{meant}`?")));
        found.push(diagnostic);
    }
    found.len() > before
}

/// The only key that is one slip of the keyboard away; two for long keys.
fn near<'k>(key: &str, keys: &BTreeSet<&'k str>) -> Option<&'k str> {
    let letters = key.chars().count();
    let name = key.rsplit('/').next().unwrap_or(key).chars().count();
    let bound = match name {
        0..=2 => return None,
        3..=7 => 1,
        _ => 2,
    };
    let mut near = keys.iter().filter(|candidate| {
        let longer = candidate.chars().count().abs_diff(letters);
        longer <= bound && strsim::osa_distance(key, candidate) <= bound
    });
    let first = near.next()?;
    near.next().is_none().then_some(*first)
}

/// Says which pod comes nearest, and what it lacks.
fn explain(about: &Subject<'_>, selector: &PodSelector, diagnostic: &mut Diagnostic) {
    let groups: Vec<_> = about
        .cluster()
        .in_scope(&selector.namespaces)
        .filter(|group| !group.host_network)
        .collect();
    for requirement in selector.pods.requirements() {
        if let Requirement::In(key, values) = requirement {
            let present: BTreeSet<_> = groups.iter().filter_map(|group| group.labels.get(key)).collect();
            let meant = values.iter().find_map(|value| {
                let (names, likely) =
                    crate::directory::nearest(value, present.iter().map(|value| value.to_string()), 1);
                names.into_iter().next().filter(|_| likely)
            });
            let lacking = !values.iter().any(|value| present.contains(value));
            if let (Some(meant), true) = (meant, lacking) {
                diagnostic
                    .fixes
                    .push(advice(format!("did you mean `{key}={meant}`?")));
            } else if lacking && !present.is_empty() {
                let values = quoted(present);
                diagnostic
                    .notes
                    .push(format!("the values of `{key}` there are {values}"));
            }
        }
    }
    if let Some(group) = nearest(&groups, &selector.pods) {
        let labels = group
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}").into());
        let labels: Vec<_> = labels.collect();
        let first = group
            .pods
            .first()
            .map(|pod| pod.object.to_string())
            .unwrap_or_default();
        if !labels.is_empty() {
            let note = format!("{first} comes nearest, with {}", quoted(&labels));
            diagnostic.notes.push(note);
        }
    }
}

/// The group for which most requirements hold, if any does.
fn nearest<'g, 'a>(groups: &[&'g Group<'a>], selector: &Selector) -> Option<&'g Group<'a>> {
    let held = |group: &Group<'_>| {
        let requirements = selector.requirements().iter();
        requirements.filter(|one| holds(one, group.labels)).count()
    };
    let mut best: Option<(usize, &Group<'_>)> = None;
    for group in groups {
        let count = held(group);
        if count > best.map_or(0, |(count, _)| count) {
            best = Some((count, group));
        }
    }
    best.map(|(_, group)| group)
}
