//! Which policies have changed, and which of them are held back as they were.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_cluster::{Event, Object};
use picket_engine::{Delta, Engine, Program};
use picket_policy::{Action, Direction, List, Mode, ObjectRef, Policy, Rule, Side};

/// What holds in the place of policies that are held back and were not in force before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instead {
    /// One that allows the same pods nothing in the directions in which the policy can keep something from them.
    Closed,
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
    /// Those of these in whose place the engine has one that allows nothing.
    closed: BTreeSet<ObjectRef>,
}

impl Ledger {
    /// Everything is new.
    pub(crate) fn of(program: &Program) -> Self {
        let policies = program.policies().filter(|policy| is_apart(&policy.object));
        Self {
            before: policies.map(|policy| (policy.object.clone(), None)).collect(),
            held: BTreeMap::new(),
            closed: BTreeSet::new(),
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
        let is_instead = self.closed.remove(object);
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

    /// Whether no policy is held back.
    pub(crate) fn is_whole(&self) -> bool {
        self.held.is_empty()
    }

    /// The policies that changed and are not held back.
    pub(crate) fn changed(&self) -> Vec<ObjectRef> {
        self.before.keys().cloned().collect()
    }

    /// The policies that are held back.
    pub(crate) fn held(&self) -> Vec<ObjectRef> {
        self.held.keys().cloned().collect()
    }

    /// The policies that are held back and were not in force, in whose place one is that allows nothing.
    pub(crate) fn closed(&self) -> Vec<ObjectRef> {
        self.closed.iter().cloned().collect()
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
            if version.is_none() && instead == Instead::Closed {
                version = says.as_deref().and_then(closed).map(Arc::new);
                if version.is_some() {
                    self.closed.insert(policy.clone());
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
            let is_instead = self.closed.remove(policy);
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

/// What allows the subject of a policy nothing in each direction in which the policy can deny something, or keep policies of
/// its tier that come later from allowing it; `None` where there is no such direction.
fn closed(policy: &Policy) -> Option<Policy> {
    let [ingress, egress] =
        [Direction::Ingress, Direction::Egress].map(|direction| closed_side(policy, direction));
    let closes = |side: &Side| side.isolates || !side.rules.is_empty();
    (closes(&ingress) || closes(&egress)).then(|| Policy {
        ingress,
        egress,
        ..policy.clone()
    })
}

fn closed_side(policy: &Policy, direction: Direction) -> Side {
    let mut rules = policy.side(direction).rules.iter();
    // What an audited policy denies is not denied.
    let denies = policy.mode == Mode::Enforce && rules.any(|rule| rule.action != Action::Accept);
    Side {
        isolates: policy.isolates(direction),
        rules: denies.then(|| everything_denied(policy)).into_iter().collect(),
    }
}

fn everything_denied(policy: &Policy) -> Rule {
    Rule {
        index: 0,
        position: policy.position.clone(),
        action: Action::Deny,
        peers: List::Absent,
        ports: List::Absent,
    }
}

/// Gives the engine a version of a policy, or none.
fn put(policy: &ObjectRef, version: Option<&Policy>, engine: &mut Engine) -> Delta {
    engine.apply(match version {
        Some(version) => Event::Apply(Object::Policy(version.clone())),
        None => Event::Delete(policy.clone()),
    })
}
