//! Which policies have changed, and which of them are held back as they were.

use std::collections::BTreeMap;
use std::sync::Arc;

use picket_cluster::{Event, Object};
use picket_engine::{Delta, Engine, Program};
use picket_policy::{ObjectRef, Policy};

/// The policies that changed since the table was last what all of them say.
#[derive(Default)]
pub(crate) struct Ledger {
    /// What each was then; `None` where there was none.
    before: BTreeMap<ObjectRef, Option<Arc<Policy>>>,
    /// What each should be that the engine has as it was.
    held: BTreeMap<ObjectRef, Option<Arc<Policy>>>,
}

impl Ledger {
    /// Everything is new.
    pub(crate) fn of(program: &Program) -> Self {
        let policies = program.policies().filter(|policy| is_apart(&policy.object));
        Self {
            before: policies.map(|policy| (policy.object.clone(), None)).collect(),
            held: BTreeMap::new(),
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
        let before = program.policy(object);
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

    /// Lets policies be as they were.
    pub(crate) fn hold(&mut self, policies: &[ObjectRef], engine: &mut Engine, note: impl FnMut(&Delta)) {
        exchange(policies, &mut self.before, &mut self.held, engine, note);
    }

    /// Lets policies that are held back be as they should.
    pub(crate) fn release(&mut self, policies: &[ObjectRef], engine: &mut Engine, note: impl FnMut(&Delta)) {
        exchange(policies, &mut self.held, &mut self.before, engine, note);
    }
}

/// Whether a policy is an object of its own. One that is a part of its namespace restricts without rules, and cannot be held
/// back without it.
fn is_apart(policy: &ObjectRef) -> bool {
    policy.kind != "Namespace"
}

/// Gives the engine what `from` has of policies, and `to` what it had.
fn exchange(
    policies: &[ObjectRef],
    from: &mut BTreeMap<ObjectRef, Option<Arc<Policy>>>,
    to: &mut BTreeMap<ObjectRef, Option<Arc<Policy>>>,
    engine: &mut Engine,
    mut note: impl FnMut(&Delta),
) {
    for policy in policies {
        let Some(version) = from.remove(policy) else {
            continue;
        };
        to.insert(policy.clone(), engine.program().policy(policy).cloned());
        note(&engine.apply(match version {
            Some(version) => Event::Apply(Object::Policy(Policy::clone(&version))),
            None => Event::Delete(policy.clone()),
        }));
    }
}
