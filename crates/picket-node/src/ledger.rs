//! What has changed, and what of it is held back as it was: policies, and whom they are about, which labels of pods and
//! namespaces say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_cluster::{Event, Namespace, Object, Pod};
use picket_engine::{Delta, Engine, Program};
use picket_policy::{
    Action, Direction, List, Mode, NamespaceScope, Networks, ObjectRef, PodSelector, Policy, Position,
    Requirement, Rule, Side, Tier,
};

/// What holds in the place of what is held back and was not in force before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instead {
    /// Of a policy, one that allows the same pods nothing in the directions in which the policy can keep something from them; a pod
    /// that may exchange nothing with anybody.
    Closed,
    /// Nothing.
    Nothing,
}

/// What changed since the table was last what all of it says.
#[derive(Default)]
pub(crate) struct Ledger {
    policies: Versions<Arc<Policy>>,
    subjects: Versions<Subject>,
    /// What is held back in whose place the engine has something that allows nothing.
    closed: BTreeSet<ObjectRef>,
}

/// The label of pods that may exchange nothing with anybody. Nobody else can give it to one: no key has a space in it.
const SHUT: &str = "picket shut";

/// Objects that changed.
struct Versions<T> {
    /// What each was then; `None` where there was none.
    before: BTreeMap<ObjectRef, Option<T>>,
    /// What each should be that the engine has as it was.
    held: BTreeMap<ObjectRef, Option<T>>,
}

/// Whom policies are about, or are the peers of.
#[derive(Clone)]
enum Subject {
    Pod(Arc<Pod>),
    Namespace(Namespace),
}

impl Ledger {
    /// Everything is new. Nobody can hold back that pods are there.
    pub(crate) fn of(program: &Program) -> Self {
        let policies = program.policies().filter(|policy| is_apart(&policy.object));
        let mut ledger = Self::default();
        ledger.policies.before = policies.map(|policy| (policy.object.clone(), None)).collect();
        ledger
    }

    /// This event comes next. Gives what has to go with it.
    pub(crate) fn note(&mut self, event: &Event, program: &Program) -> Option<ObjectRef> {
        match event {
            Event::Apply(Object::Policy(policy)) => self.note_policy(&policy.object, true, program),
            Event::Apply(Object::Pod(pod)) => return self.note_pod(&pod.object, program),
            Event::Apply(object @ Object::Namespace(_)) => {
                let object = object.object_ref();
                // One that is new may be a policy too, which would be held back with it.
                if let Some(before) = Subject::of(&object, program) {
                    self.subjects.note(&object, Some(before));
                }
            }
            // Its pods are gone before.
            Event::Delete(object) if !is_apart(object) => self.subjects.forget(object),
            Event::Delete(object) if program.pod(object).is_some() || self.subjects.holds(object) => {
                return self.note_pod(object, program);
            }
            Event::Delete(object) => self.note_policy(object, false, program),
            Event::Init | Event::InitDone | Event::Apply(_) => {}
        }
        None
    }

    /// Gives what shuts the pod, if something does.
    fn note_pod(&mut self, pod: &ObjectRef, program: &Program) -> Option<ObjectRef> {
        let is_shut = self.closed.remove(pod);
        let before = Subject::of(pod, program).filter(|_| !is_shut);
        self.subjects.note(pod, before);
        is_shut.then(|| shutting(pod))
    }

    fn note_policy(&mut self, object: &ObjectRef, is_there: bool, program: &Program) {
        let is_held = self.policies.holds(object);
        let is_instead = self.closed.remove(object);
        let before = program.policy(object).filter(|_| !is_instead);
        if (is_held || before.is_some() || is_there) && is_apart(object) {
            self.policies.note(object, before.cloned());
        }
    }

    /// All that the engine has is in force.
    pub(crate) fn settle(&mut self) {
        self.policies.before.clear();
        self.subjects.before.clear();
    }

    /// Whether nothing is held back.
    pub(crate) fn is_whole(&self) -> bool {
        self.policies.held.is_empty() && self.subjects.held.is_empty()
    }

    /// The policies that changed and are not held back.
    pub(crate) fn changed(&self) -> Vec<ObjectRef> {
        self.policies.before.keys().cloned().collect()
    }

    /// The same of pods and namespaces.
    pub(crate) fn changed_subjects(&self) -> Vec<ObjectRef> {
        self.subjects.before.keys().cloned().collect()
    }

    /// What is held back.
    pub(crate) fn held(&self) -> Vec<ObjectRef> {
        let subjects = self.subjects.held.keys();
        self.policies.held.keys().chain(subjects).cloned().collect()
    }

    /// What is held back and was not in force, in whose place something is that allows nothing.
    pub(crate) fn closed(&self) -> Vec<ObjectRef> {
        self.closed.iter().cloned().collect()
    }

    /// The policies of the program that stand in the place of others, or shut pods.
    pub(crate) fn instead(&self) -> Vec<ObjectRef> {
        let pods = self.closed.iter().filter(|object| self.subjects.holds(object));
        self.closed.iter().cloned().chain(pods.map(shutting)).collect()
    }

    /// Lets objects be as they were.
    pub(crate) fn hold(
        &mut self,
        objects: &[ObjectRef],
        instead: Instead,
        engine: &mut Engine,
        mut note: impl FnMut(&Delta),
    ) {
        for object in objects {
            if let Some(version) = self.policies.before.remove(object) {
                note(&self.hold_policy(object, version, instead, engine));
            } else if let Some(version) = self.subjects.before.remove(object) {
                self.hold_subject(object, version, instead, engine, &mut note);
            }
        }
    }

    fn hold_policy(
        &mut self,
        object: &ObjectRef,
        mut version: Option<Arc<Policy>>,
        instead: Instead,
        engine: &mut Engine,
    ) -> Delta {
        let says = engine.program().policy(object).cloned();
        if version.is_none() && instead == Instead::Closed {
            version = says.as_deref().and_then(closed).map(Arc::new);
            if version.is_some() {
                self.closed.insert(object.clone());
            }
        }
        self.policies.held.insert(object.clone(), says);
        put(object, version.map(of_policy), engine)
    }

    fn hold_subject(
        &mut self,
        object: &ObjectRef,
        version: Option<Subject>,
        instead: Instead,
        engine: &mut Engine,
        mut note: impl FnMut(&Delta),
    ) {
        let says = Subject::of(object, engine.program());
        let mut version = version.map(Object::from);
        if version.is_none()
            && instead == Instead::Closed
            && let Some(Subject::Pod(pod)) = &says
        {
            version = Some(Object::from(shut(pod)));
            self.closed.insert(object.clone());
            note(&engine.apply(Event::Apply(Object::Policy(shuts(pod)))));
        }
        self.subjects.held.insert(object.clone(), says);
        note(&put(object, version, engine));
    }

    /// Lets objects that are held back be as they should.
    pub(crate) fn release(
        &mut self,
        objects: &[ObjectRef],
        engine: &mut Engine,
        mut note: impl FnMut(&Delta),
    ) {
        for object in objects {
            if let Some(says) = self.policies.held.remove(object) {
                let is_instead = self.closed.remove(object);
                let before = engine.program().policy(object).filter(|_| !is_instead);
                self.policies.before.insert(object.clone(), before.cloned());
                note(&put(object, says.map(of_policy), engine));
            } else if let Some(says) = self.subjects.held.remove(object) {
                let is_shut = self.closed.remove(object);
                let before = Subject::of(object, engine.program()).filter(|_| !is_shut);
                self.subjects.before.insert(object.clone(), before);
                note(&put(object, says.map(Object::from), engine));
                if is_shut {
                    note(&put(&shutting(object), None, engine));
                }
            }
        }
    }
}

impl<T> Default for Versions<T> {
    fn default() -> Self {
        Self {
            before: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }
}

impl<T> Versions<T> {
    fn holds(&self, object: &ObjectRef) -> bool {
        self.held.contains_key(object)
    }

    /// An object changes, which is not held back any more.
    fn note(&mut self, object: &ObjectRef, before: Option<T>) {
        self.held.remove(object);
        self.before.entry(object.clone()).or_insert(before);
    }

    fn forget(&mut self, object: &ObjectRef) {
        self.held.remove(object);
        self.before.remove(object);
    }
}

impl Subject {
    /// A pod or namespace in a program.
    fn of(object: &ObjectRef, program: &Program) -> Option<Self> {
        match is_apart(object) {
            true => Some(Self::Pod(Arc::clone(program.pod(object)?.pod()))),
            false => program.namespace(&object.name).map(Self::Namespace),
        }
    }
}

impl From<Subject> for Object {
    fn from(subject: Subject) -> Self {
        match subject {
            Subject::Pod(pod) => Self::Pod(pod),
            Subject::Namespace(namespace) => Self::Namespace(namespace),
        }
    }
}

/// Whether an object is no namespace. A policy that is a part of its namespace restricts without rules, and cannot be held back
/// without it.
fn is_apart(object: &ObjectRef) -> bool {
    object.kind != "Namespace"
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
        rules: denies
            .then(|| everything_denied(&policy.position))
            .into_iter()
            .collect(),
    }
}

/// A pod that may exchange nothing with anybody, as long as [`shuts`] is there. To others it is as it is.
fn shut(pod: &Pod) -> Pod {
    Pod {
        labels: pod.labels.with(SHUT, &pod.object.name),
        ..pod.clone()
    }
}

/// The policy by which such a pod is denied everything, before any other is asked.
fn shuts(pod: &Pod) -> Policy {
    let name = Requirement::In(SHUT.into(), vec![pod.object.name.clone()]);
    let denies = || Side {
        isolates: false,
        rules: vec![everything_denied(&Position::unknown())],
    };
    Policy {
        object: shutting(&pod.object),
        position: Position::unknown(),
        mode: Mode::Enforce,
        tier: Tier::Admin,
        priority: 0,
        networks: Networks::Cluster,
        subject: PodSelector {
            namespaces: NamespaceScope::Named(pod.object.namespace.clone()),
            pods: [name].into_iter().collect(),
        },
        ingress: denies(),
        egress: denies(),
    }
}

/// What identifies it.
fn shutting(pod: &ObjectRef) -> ObjectRef {
    ObjectRef {
        kind: "Shut".into(),
        ..pod.clone()
    }
}

fn everything_denied(position: &Position) -> Rule {
    Rule {
        index: 0,
        position: position.clone(),
        action: Action::Deny,
        peers: List::Absent,
        ports: List::Absent,
    }
}

fn of_policy(policy: Arc<Policy>) -> Object {
    Object::Policy(Arc::unwrap_or_clone(policy))
}

/// Gives the engine a version of an object, or none.
fn put(object: &ObjectRef, version: Option<Object>, engine: &mut Engine) -> Delta {
    engine.apply(match version {
        Some(version) => Event::Apply(version),
        None => Event::Delete(object.clone()),
    })
}
