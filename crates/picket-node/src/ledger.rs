//! Which policies have changed, and which of them are held back as they were.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_cluster::{Event, Object};
use picket_engine::{Delta, Engine, Program};
use picket_policy::{Direction, ObjectRef, Policy, Side};

/// What holds in the place of policies that are held back and were not in force before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instead {
    /// The same pods are isolated, and nothing is allowed; where a policy does not isolate, nothing.
    Isolation,
    /// Nothing.
    Nothing,
}

/// The policies that changed since the table was last what all of them say.
#[derive(Default)]
pub(crate) struct Ledger {
    /// What each was then; `None` where there was none.
    before: BTreeMap<ObjectRef, Option<Arc<Policy>>>,
    /// What each should be that the engine has as it was.
    held: BTreeMap<ObjectRef, Option<Arc<Policy>>>,
    /// Those of these in whose place the engine has one that isolates.
    isolating: BTreeSet<ObjectRef>,
}

impl Ledger {
    /// Everything is new.
    pub(crate) fn of(program: &Program) -> Self {
        let policies = program.policies().filter(|policy| is_apart(&policy.object));
        Self {
            before: policies.map(|policy| (policy.object.clone(), None)).collect(),
            held: BTreeMap::new(),
            isolating: BTreeSet::new(),
        }
    }

    /// This event comes next.
    pub(crate) fn note(&mut self, event: &Event, program: &Program) {
        let object = match event {
            Event::Apply(Object::Policy(policy)) => &policy.object,
            Event::Delete(object) => object,
            Event::Init | Event::InitDone | Event::Apply(_) => return,
        };
        let is_held = self.held.remove(object).is_some();
        let is_instead = self.isolating.remove(object);
        let before = program.policy(object).filter(|_| !is_instead);
        let is_policy = is_held || before.is_some() || matches!(event, Event::Apply(_));
        if is_policy && is_apart(object) {
            self.before
                .entry(object.clone())
                .or_insert_with(|| before.cloned());
        }
    }

    /// All that the engine has is in force.
    pub(crate) fn settle(&mut self) {
        self.before.clear();
    }

    /// The policies that changed and are not held back.
    pub(crate) fn changed(&self) -> Vec<ObjectRef> {
        self.before.keys().cloned().collect()
    }

    /// The policies that are held back.
    pub(crate) fn held(&self) -> Vec<ObjectRef> {
        self.held.keys().cloned().collect()
    }

    /// The policies that are held back and were not in force, in whose place one is that isolates.
    pub(crate) fn isolating(&self) -> Vec<ObjectRef> {
        self.isolating.iter().cloned().collect()
    }

    /// Lets policies be as they were.
    pub(crate) fn hold(
        &mut self,
        policies: &[ObjectRef],
        instead: Instead,
        engine: &mut Engine,
        mut note: impl FnMut(&Delta),
    ) {
        for policy in policies {
            let Some(mut version) = self.before.remove(policy) else {
                continue;
            };
            let says = engine.program().policy(policy).cloned();
            if version.is_none() && instead == Instead::Isolation {
                version = says.as_deref().and_then(isolation).map(Arc::new);
                if version.is_some() {
                    self.isolating.insert(policy.clone());
                }
            }
            self.held.insert(policy.clone(), says);
            note(&put(policy, version.as_deref(), engine));
        }
    }

    /// Lets policies that are held back be as they should.
    pub(crate) fn release(
        &mut self,
        policies: &[ObjectRef],
        engine: &mut Engine,
        mut note: impl FnMut(&Delta),
    ) {
        for policy in policies {
            let Some(says) = self.held.remove(policy) else {
                continue;
            };
            let is_instead = self.isolating.remove(policy);
            let before = engine.program().policy(policy).filter(|_| !is_instead);
            self.before.insert(policy.clone(), before.cloned());
            note(&put(policy, says.as_deref(), engine));
        }
    }
}

/// Whether a policy is an object of its own. One that is a part of its namespace restricts without rules, and cannot be held
/// back without it.
fn is_apart(policy: &ObjectRef) -> bool {
    policy.kind != "Namespace"
}

/// What isolates the pods that a policy isolates, and allows nothing; `None` where it isolates none.
fn isolation(policy: &Policy) -> Option<Policy> {
    let side = |direction| Side {
        isolates: policy.isolates(direction),
        rules: Vec::new(),
    };
    let isolates = Direction::BOTH
        .into_iter()
        .any(|direction| policy.isolates(direction));
    isolates.then(|| Policy {
        ingress: side(Direction::Ingress),
        egress: side(Direction::Egress),
        ..policy.clone()
    })
}

/// Gives the engine a version of a policy, or none.
fn put(policy: &ObjectRef, version: Option<&Policy>, engine: &mut Engine) -> Delta {
    engine.apply(match version {
        Some(version) => Event::Apply(Object::Policy(version.clone())),
        None => Event::Delete(policy.clone()),
    })
}
