//! What is known of the cluster, and what it compiles to.

use std::collections::{BTreeMap, BTreeSet};

use picket_cluster::{Event, Object, Semantics, Store};
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
    /// The pods that have other addresses than when this was last asked for.
    moved: BTreeSet<ObjectRef>,
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
            moved: BTreeSet::new(),
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

    /// The pods that have other addresses than when this was last called, and those that are new: a port that was found for one
    /// may be that of one before it.
    pub(crate) fn take_moved(&mut self) -> BTreeSet<ObjectRef> {
        std::mem::take(&mut self.moved)
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
            State::Complete(engine) => {
                let renames = names_other_ports(engine.program(), &event);
                self.moved.extend(moved(engine.program(), &event));
                !engine.apply(event).is_empty() || renames
            }
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

/// The pod that has other addresses than it is known to have, if this says so of one.
fn moved(program: &Program, event: &Event) -> Option<ObjectRef> {
    let Event::Apply(Object::Pod(pod)) = event else {
        return None;
    };
    let known = program.pod(&pod.object);
    let is_here = known.is_some_and(|known| {
        let known = known.pod();
        known.addresses == pod.addresses && known.object.uid == pod.object.uid
    });
    let has_address = pod.addresses.iter().next().is_some();
    (pod.is_managed() && has_address && !is_here).then(|| pod.object.clone())
}

/// Whether a pod that is known is said to have other ports: no policy sees that.
fn names_other_ports(program: &Program, event: &Event) -> bool {
    let Event::Apply(Object::Pod(pod)) = event else {
        return false;
    };
    let known = program.pod(&pod.object);
    known.is_some_and(|known| known.pod().neutron_ports() != pod.neutron_ports())
}

#[cfg(test)]
mod tests {
    use picket_testing::build::pod;

    use super::*;

    #[test]
    fn that_a_pod_names_other_ports_is_a_change() {
        let mut knowledge = Knowledge::new(Semantics::default());
        let named = |ports: &[&str]| {
            let pod = pod("x/web").ip("10.0.0.1").at_neutron(ports);
            Event::Apply(pod.into())
        };
        let mut changes = |events| knowledge.take(Change::Events(events));
        assert!(changes(vec![Event::Init, named(&[]), Event::InitDone]));
        for (ports, expected) in [(&["a"][..], true), (&["a"], false), (&["b"], true), (&[], true)] {
            assert_eq!(changes(vec![named(ports)]), expected, "{ports:?}");
        }
    }
}
