//! Policies: those that may select a pod of the own node are read, of the others the text is kept, packed.
//!
//! It is kept because a pod may come to the node at any moment, and what isolates it must be in force with it. Asking the server for the
//! policies of a namespace only then would put a question that may stay unanswered between a pod and its rules: until the answer
//! the pod would have to be cut off, for as long as the server is away, or be open. And an answer is of another moment than what
//! the watch says, so that both would have to be brought together. The text takes a few hundred bytes of each policy.

use std::collections::BTreeMap;

use picket_cluster::{Event, Object};
use picket_policy::ObjectRef;

use super::Changes;
use super::facts::{Name, PolicyText, ReadPolicy, read_policy};

/// The policies of all kinds.
#[derive(Default)]
pub(super) struct Policies {
    kinds: BTreeMap<&'static str, BTreeMap<Name, State>>,
}

struct State {
    text: PolicyText,
    /// The policy that is in force for it, unless none is, as for nearly all.
    shown: Option<Box<ObjectRef>>,
    /// Whether it has been read.
    read: bool,
}

impl Policies {
    /// The names of the policies of a kind.
    pub(super) fn names(&self, kind: &str) -> impl Iterator<Item = &Name> {
        self.kinds.get(kind).into_iter().flat_map(BTreeMap::keys)
    }

    /// Whether a policy is known.
    #[cfg(feature = "etcd")]
    pub(super) fn has(&self, kind: &str, name: &Name) -> bool {
        let policies = self.kinds.get(kind);
        policies.is_some_and(|policies| policies.contains_key(name))
    }

    /// Whether a policy is known with just this text.
    pub(super) fn knows(&self, kind: &str, name: &Name, text: &PolicyText) -> bool {
        let state = self.kinds.get(kind).and_then(|policies| policies.get(name));
        state.is_some_and(|state| state.text == *text)
    }

    /// What a policy says now, which is read if it is `needed` and has not been `read`.
    pub(super) fn set(
        &mut self,
        kind: &'static str,
        name: &Name,
        text: PolicyText,
        read: Option<Box<ReadPolicy>>,
        needed: bool,
    ) -> Changes {
        let mut outcome = Changes::default();
        let policies = self.kinds.entry(kind).or_default();
        let before = policies.remove(name);
        if let Some(before) = before.as_ref().filter(|before| before.text.uid != text.uid) {
            outcome
                .versions
                .extend(before.as_read(kind, name).map(|object| (object, None)));
        }
        let state = policies.entry(name.clone()).or_insert(State {
            text,
            shown: before.and_then(|before| before.shown),
            read: false,
        });
        if needed {
            let read = read.map_or_else(|| read_policy(name, &state.text), |read| *read);
            state.show(kind, name, read, &mut outcome);
        }
        outcome
    }

    /// A policy is gone.
    pub(super) fn remove(&mut self, kind: &str, name: &Name) -> Changes {
        let mut outcome = Changes::default();
        let policies = self.kinds.get_mut(kind);
        if let Some(mut state) = policies.and_then(|policies| policies.remove(name)) {
            state.hide(kind, name, &mut outcome);
        }
        outcome
    }

    /// The policies of a namespace matter now, or do no longer.
    pub(super) fn need(&mut self, namespace: &str, needed: bool) -> Changes {
        let mut outcome = Changes::default();
        for (kind, policies) in &mut self.kinds {
            let first = Name {
                namespace: namespace.into(),
                name: Default::default(),
            };
            let policies = policies.range_mut(first..);
            for (name, state) in policies.take_while(|(name, _)| name.namespace == namespace) {
                if needed {
                    let read = read_policy(name, &state.text);
                    state.show(kind, name, read, &mut outcome);
                } else {
                    state.hide(kind, name, &mut outcome);
                }
            }
        }
        outcome
    }
}

impl State {
    /// It has been read. One of which nobody can tell what it selects leaves in force what it was before.
    fn show(&mut self, kind: &str, name: &Name, read: ReadPolicy, outcome: &mut Changes) {
        let (policy, diagnostics) = read;
        self.read = true;
        let object = self.object(kind, name);
        outcome
            .versions
            .push((object.clone(), Some(self.text.version.clone())));
        outcome.diagnoses.push((object, diagnostics));
        let Some(policy) = policy else { return };
        if let Some(before) = &self.shown
            && **before != policy.object
        {
            outcome.events.push(Event::Delete(ObjectRef::clone(before)));
        }
        self.shown = Some(Box::new(policy.object.clone()));
        outcome.events.push(Event::Apply(Object::Policy(policy)));
    }

    /// The policy as which it has been read, if it has.
    fn as_read(&self, kind: &str, name: &Name) -> Option<ObjectRef> {
        self.read.then(|| self.object(kind, name))
    }

    fn object(&self, kind: &str, name: &Name) -> ObjectRef {
        ObjectRef {
            uid: self.text.uid.text(),
            ..object(kind, name)
        }
    }

    fn hide(&mut self, kind: &str, name: &Name, outcome: &mut Changes) {
        if let Some(read) = self.as_read(kind, name) {
            self.read = false;
            outcome.versions.push((read, None));
            outcome.diagnoses.push((object(kind, name), Vec::new()));
        }
        let shown = self.shown.take();
        outcome.events.extend(shown.map(|shown| Event::Delete(*shown)));
    }
}

fn object(kind: &str, name: &Name) -> ObjectRef {
    ObjectRef::new(kind, &name.namespace, &name.name)
}
