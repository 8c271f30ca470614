//! What is known of the cluster, and what it compiles to.

use std::collections::BTreeMap;

use picket_cluster::{Event, Semantics, Store};
use picket_engine::{Engine, Program};
use picket_node::Finding;
use picket_policy::{Diagnostic, ObjectRef};
use picket_source::{Change, ObjectVersion};

/// What is known of the cluster. Before everything is known once, nothing is compiled.
pub(crate) struct Knowledge {
    semantics: Semantics,
    state: State,
    /// By the names of the objects, without their uids.
    diagnoses: BTreeMap<ObjectRef, Vec<Diagnostic>>,
    /// In which version each policy was read.
    versions: BTreeMap<ObjectRef, ObjectVersion>,
}

enum State {
    Incomplete(Store),
    Complete(Box<Engine>),
}

impl Knowledge {
    pub(crate) fn new(semantics: Semantics) -> Self {
        Self {
            semantics,
            state: State::Incomplete(Store::new()),
            diagnoses: BTreeMap::new(),
            versions: BTreeMap::new(),
        }
    }

    /// What the cluster means, once it is known.
    pub(crate) fn program(&self) -> Option<&Program> {
        match &self.state {
            State::Incomplete(_) => None,
            State::Complete(engine) => Some(engine.program()),
        }
    }

    /// What is wrong with objects, for people.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let found = self.diagnoses.iter();
        let found = found.flat_map(|(object, all)| all.iter().map(|one| Finding::new(object, one)));
        found.collect()
    }

    /// What of `metadata.generation` a policy had when it was read.
    pub(crate) fn generation(&self, policy: &ObjectRef) -> Option<i64> {
        self.versions.get(policy)?.generation
    }

    /// Takes in a change; whether something else may have to be enforced then.
    pub(crate) fn take(&mut self, change: Change) -> bool {
        match change {
            Change::Diagnosis(object, diagnostics) => {
                self.diagnose(object, diagnostics);
                false
            }
            Change::Version(policy, Some(version)) => {
                self.versions.insert(policy, version);
                false
            }
            Change::Version(policy, None) => {
                self.versions.remove(&policy);
                false
            }
            Change::Reached { .. } | Change::Plugin(..) => false,
            Change::Events(events) => {
                let mut is_changed = false;
                for event in events {
                    is_changed |= self.apply(event);
                }
                is_changed
            }
        }
    }

    fn diagnose(&mut self, object: ObjectRef, diagnostics: Vec<Diagnostic>) {
        for diagnostic in &diagnostics {
            tracing::warn!(%object, code = diagnostic.code.0, "{}", diagnostic.message);
        }
        let named = ObjectRef::new(&object.kind, &object.namespace, &object.name);
        match diagnostics.is_empty() {
            true => self.diagnoses.remove(&named),
            false => self.diagnoses.insert(named, diagnostics),
        };
    }

    fn apply(&mut self, event: Event) -> bool {
        match &mut self.state {
            State::Complete(engine) => !engine.apply(event).is_empty(),
            State::Incomplete(store) => {
                let is_everything = matches!(event, Event::InitDone);
                store.apply(event);
                if is_everything {
                    // Compiling everything at once takes a fraction of what the events one by one would.
                    let engine = Engine::compile(&store.snapshot(), self.semantics.clone());
                    self.state = State::Complete(Box::new(engine));
                }
                is_everything
            }
        }
    }
}
