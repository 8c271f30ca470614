//! Objects that were written twice.

use std::collections::{BTreeMap, BTreeSet};

use picket_policy::{
    Action, Diagnostic, NamespaceScope, Networks, ObjectRef, PodSelector, Policy, Position, Rule, Selector,
    Severity, Side, Tier,
};

use smol_str::SmolStr;

use crate::codes;
use crate::written::{Spec, Written};

/// Every object once, the first where there are several, with a diagnostic about each other one.
pub(super) fn unique(objects: Vec<Written>, diagnostics: &mut Vec<Diagnostic>) -> Vec<Written> {
    // A namespace may be a policy too.
    let mut first: BTreeMap<(bool, ObjectRef), usize> = BTreeMap::new();
    let mut unique: Vec<Written> = Vec::with_capacity(objects.len());
    for mut written in objects {
        forget_uid(&mut written);
        let key = (matches!(written.spec, Spec::Policy(_)), written.object.clone());
        let kept = first.get(&key).copied().and_then(|at| unique.get_mut(at));
        let Some(kept) = kept else {
            first.insert(key, unique.len());
            unique.push(written);
            continue;
        };
        let message = format!("{} is written twice", written.object);
        let diagnostic = Diagnostic::new(codes::DUPLICATE, Severity::Error, message)
            .on(&written.object)
            .mark(written.span.clone(), "again here")
            .mark(kept.span.clone(), "first here");
        let note = match (&mut kept.spec, &written.spec) {
            (Spec::Policy(one), Spec::Policy(other)) if says_the_same(one, other) => {
                "both say the same; the first is used"
            }
            (Spec::Policy(one), Spec::Policy(other)) => {
                *one = narrower(one, other);
                "they differ: the pods that either selects are isolated as either says, and neither allows anything"
            }
            _ => "the first is used",
        };
        diagnostics.push(diagnostic.note(note));
    }
    unique
}

/// Files of different times may hold one object under several uids; a snapshot from files has none.
fn forget_uid(written: &mut Written) {
    written.object.uid = SmolStr::default();
    match &mut written.spec {
        Spec::Policy(policy) => policy.object.uid = SmolStr::default(),
        Spec::Service(service) => service.object.uid = SmolStr::default(),
        Spec::Namespace(_) | Spec::Node(_) | Spec::Pod(_) | Spec::Network(_) => {}
    }
}

/// Whether two policies are equal but for where they stand.
fn says_the_same(one: &Policy, other: &Policy) -> bool {
    somewhere(one) == somewhere(other)
}

fn somewhere(policy: &Policy) -> Policy {
    let side = |side: &Side| Side {
        isolates: side.isolates,
        rules: side
            .rules
            .iter()
            .map(|rule| Rule {
                position: Position::unknown(),
                ..rule.clone()
            })
            .collect(),
    };
    Policy {
        position: Position::unknown(),
        ingress: side(&policy.ingress),
        egress: side(&policy.egress),
        ..policy.clone()
    }
}

/// A policy that denies at least what either denies, and accepts nothing.
pub(super) fn narrower(one: &Policy, other: &Policy) -> Policy {
    Policy {
        mode: one.mode.min(other.mode),
        tier: one.tier.min(other.tier),
        priority: one.priority.min(other.priority),
        networks: either_network(&one.networks, &other.networks),
        subject: either(&one.subject, &other.subject),
        ingress: narrower_side(one.tier, &one.ingress, &other.ingress),
        egress: narrower_side(one.tier, &one.egress, &other.egress),
        ..one.clone()
    }
}

/// The networks of both.
fn either_network(one: &Networks, other: &Networks) -> Networks {
    match (one, other) {
        (Networks::Attached(one), Networks::Attached(other)) => {
            let all: BTreeSet<_> = one.iter().chain(other).cloned().collect();
            Networks::Attached(all.into_iter().collect())
        }
        // One kind has only policies of the cluster network, or only others.
        _ => one.clone(),
    }
}

fn narrower_side(tier: Tier, one: &Side, other: &Side) -> Side {
    let rules = match tier {
        Tier::NetworkPolicy => Vec::new(),
        Tier::Custom | Tier::Admin | Tier::ClusterDefault | Tier::Baseline => {
            let restrictive = one
                .rules
                .iter()
                .chain(&other.rules)
                .filter(|rule| rule.action != Action::Accept);
            restrictive
                .map(|rule| Rule {
                    action: Action::Deny,
                    ..rule.clone()
                })
                .collect()
        }
    };
    Side {
        isolates: one.isolates || other.isolates,
        rules,
    }
}

/// At least the pods that either selects: the conditions that both have.
fn either(one: &PodSelector, other: &PodSelector) -> PodSelector {
    let namespaces = match (&one.namespaces, &other.namespaces) {
        (one, other) if one == other => one.clone(),
        (NamespaceScope::Matching(one), NamespaceScope::Matching(other)) => {
            NamespaceScope::Matching(common(one, other))
        }
        _ => NamespaceScope::Matching(Selector::everything()),
    };
    PodSelector {
        namespaces,
        pods: common(&one.pods, &other.pods),
    }
}

fn common(one: &Selector, other: &Selector) -> Selector {
    let shared = one
        .requirements()
        .iter()
        .filter(|requirement| other.requirements().contains(requirement));
    shared.cloned().collect()
}
