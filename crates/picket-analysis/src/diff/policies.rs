//! Policies that came, went or changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use picket_cluster::Snapshot;
use picket_policy::{Direction, ObjectRef, Policy, Position, Side};
use serde::Serialize;

/// What became of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyChange {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It says something else.
    Changed,
}

impl PolicyChange {
    /// `added`, `removed` or `changed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
        }
    }
}

/// A policy that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyDifference {
    /// The policy, without a uid.
    pub object: ObjectRef,
    /// What became of it.
    pub change: PolicyChange,
    /// Where it begins: on the new side, if it is there.
    pub position: Position,
}

/// What identifies an object on both sides: an object that was made anew has another uid, and is the same to people.
pub(super) fn named(object: &ObjectRef) -> ObjectRef {
    ObjectRef::new(&object.kind, &object.namespace, &object.name)
}

/// The policies that differ, by object.
pub(super) fn differences(old: &Snapshot, new: &Snapshot) -> Vec<PolicyDifference> {
    let [old, new] = [old, new].map(|snapshot| {
        let policies = snapshot.policies.values();
        policies
            .map(|policy| (named(&policy.object), policy))
            .collect::<BTreeMap<_, _>>()
    });
    let mut differences = Vec::new();
    let mut push = |object: &ObjectRef, change, policy: &Arc<Policy>| {
        differences.push(PolicyDifference {
            object: object.clone(),
            change,
            position: policy.position.clone(),
        });
    };
    for (object, policy) in &old {
        match new.get(object) {
            None => push(object, PolicyChange::Removed, policy),
            Some(other) if !same(policy, other) => push(object, PolicyChange::Changed, other),
            Some(_) => {}
        }
    }
    for (object, policy) in &new {
        if !old.contains_key(object) {
            push(object, PolicyChange::Added, policy);
        }
    }
    differences.sort();
    differences
}

/// Whether two policies say the same, wherever it stands.
fn same(one: &Policy, other: &Policy) -> bool {
    let said = |policy: &Policy| {
        let sides = Direction::BOTH.map(|direction| {
            let Side { isolates, rules } = policy.side(direction);
            let rules = rules
                .iter()
                .map(|rule| (rule.action, rule.peers.clone(), rule.ports.clone()));
            (*isolates, rules.collect::<Vec<_>>())
        });
        let Policy {
            mode,
            tier,
            priority,
            networks,
            subject,
            ..
        } = policy;
        (*mode, *tier, *priority, networks.clone(), subject.clone(), sides)
    };
    said(one) == said(other)
}
