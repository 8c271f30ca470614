//! Two peers, where one with both selectors was probably meant: a dash too many.

use picket_policy::{Diagnostic, List, NamespaceScope, Peer, PodSelector, Rule};

use super::{Subject, advice, counted, peers_field, table};

pub(super) fn check(about: &Subject<'_>, found: &mut Vec<Diagnostic>) {
    for (direction, rule) in about.rules() {
        let Some(both) = both(about, rule) else { continue };
        let pods = about
            .cluster()
            .managed(&both)
            .map(|(_, group)| group.pods.len())
            .sum();
        let place = about.rule_place(direction, rule).field(peers_field(direction));
        let (own, namespaces) = (&about.policy.object.namespace, scope(&both));
        let message = format!(
            "{} allows pods of the namespace `{own}` with `{}`, and besides every pod of the namespaces with \
             `{namespaces}`",
            about.policy.object, both.pods
        );
        let mut diagnostic = about.warning(table::OR_FOR_AND, &place, message);
        diagnostic.notes.push(format!(
            "`podSelector` and `namespaceSelector` are two items of the list, of which either is enough; both together \
             match {}",
            counted(pods, "pod")
        ));
        let title = "remove the dash before the second selector to allow only those that match both";
        diagnostic.fixes.push(advice(title));
        found.push(diagnostic);
    }
}

/// Whether the rule is one that this lint finds.
pub(super) fn is_probable(about: &Subject<'_>, rule: &Rule) -> bool {
    both(about, rule).is_some()
}

/// The one peer that two peers of a rule were probably meant to be: its pods exist in other namespaces.
fn both(about: &Subject<'_>, rule: &Rule) -> Option<PodSelector> {
    let List::Items(peers) = &rule.peers else {
        return None;
    };
    let [Peer::Pods(one), Peer::Pods(other)] = peers.as_slice() else {
        return None;
    };
    if about.is_tiered() {
        return None;
    }
    let (pods, namespaces) = match (&one.namespaces, &other.namespaces) {
        (NamespaceScope::Named(_), NamespaceScope::Matching(_)) => (one, other),
        (NamespaceScope::Matching(_), NamespaceScope::Named(_)) => (other, one),
        _ => return None,
    };
    if pods.pods.is_everything() || !namespaces.pods.is_everything() {
        return None;
    }
    let both = PodSelector {
        namespaces: namespaces.namespaces.clone(),
        pods: pods.pods.clone(),
    };
    let own = &about.policy.object.namespace;
    let elsewhere = about
        .cluster()
        .managed(&both)
        .any(|(_, group)| group.namespace != own);
    elsewhere.then_some(both)
}

fn scope(selector: &PodSelector) -> String {
    match &selector.namespaces {
        NamespaceScope::Named(name) => name.to_string(),
        NamespaceScope::Matching(selector) => selector.to_string(),
    }
}
