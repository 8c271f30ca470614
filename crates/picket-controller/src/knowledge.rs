//! What is known of the cluster, and what it compiles to.

use std::collections::{BTreeMap, BTreeSet};

use picket_cluster::{Event, Object, Pod, Semantics, Store};
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
    /// The pods that have other addresses, or name other ports, than when this was last asked for.
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

    /// The pods that have other addresses or name other ports than when this was last called, and those that are new: a port that
    /// was found for one may be that of one before it, and others may not have been read yet.
    pub(crate) fn take_moved(&mut self) -> BTreeSet<ObjectRef> {
        std::mem::take(&mut self.moved)
    }

    /// Those of these pods that have a node or an address: only such a one somebody gives a port.
    pub(crate) fn may_get_ports(&self, pods: &BTreeSet<ObjectRef>) -> BTreeSet<ObjectRef> {
        let may_get_one = |object: &&ObjectRef| {
            let known = self.program().and_then(|program| program.pod(object));
            known.is_some_and(|known| {
                let pod = known.pod();
                pod.node.is_some() || !pod.synthetic && pod.addresses.iter().next().is_some()
            })
        };
        pods.iter().filter(may_get_one).cloned().collect()
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
                let moved = moved(engine.program(), &event);
                let is_moved = moved.is_some();
                self.moved.extend(moved);
                // No policy sees which ports a pod names.
                !engine.apply(event).is_empty() || is_moved
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

/// The pod that has other addresses than it is known to have, or names other ports, if this says so of one.
fn moved(program: &Program, event: &Event) -> Option<ObjectRef> {
    let Event::Apply(Object::Pod(pod)) = event else {
        return None;
    };
    let known = program.pod(&pod.object);
    let known = known.map(|known| &**known.pod());
    let is_here =
        known.is_some_and(|known| known.addresses == pod.addresses && known.object.uid == pod.object.uid);
    let has_address = pod.addresses.iter().next().is_some();
    let named = known.map_or(&[][..], Pod::neutron_ports);
    let is_moved = has_address && !is_here || named != pod.neutron_ports();
    (pod.is_managed() && is_moved).then(|| pod.object.clone())
}

#[cfg(test)]
mod tests {
    use picket_testing::build::{PodBuilder, pod};

    use super::*;

    /// What is known where nothing is but some pods.
    fn knows(pods: Vec<PodBuilder>) -> Knowledge {
        let mut knowledge = Knowledge::new(Semantics::default());
        let pods = pods.into_iter().map(applied);
        let events = [Event::Init].into_iter().chain(pods).chain([Event::InitDone]);
        assert!(knowledge.take(Change::Events(events.collect())));
        assert_eq!(knowledge.take_moved(), BTreeSet::new());
        knowledge
    }

    fn applied(pod: PodBuilder) -> Event {
        Event::Apply(pod.into())
    }

    /// Whether something may have to be enforced when a pod becomes so, and the names of those that have moved then.
    fn becomes(knowledge: &mut Knowledge, pod: PodBuilder) -> (bool, Vec<String>) {
        let is_changed = knowledge.take(Change::Events(vec![applied(pod)]));
        let moved = knowledge.take_moved().into_iter();
        (is_changed, moved.map(|pod| pod.name.to_string()).collect())
    }

    #[test]
    fn ports_are_looked_for_of_a_pod_that_names_others() {
        let web = || pod("x/web").ip("10.0.0.1");
        let mut knowledge = knows(vec![web()]);
        for (ports, is_other) in [
            (&["a"][..], true),
            (&["a"], false),
            // The first is known: it is the second that has to be looked for.
            (&["a", "b"], true),
            (&["b"], true),
            (&[], true),
            (&[], false),
        ] {
            let moved = is_other.then(|| "web".to_owned());
            assert_eq!(
                becomes(&mut knowledge, web().at_neutron(ports)),
                (is_other, moved.into_iter().collect()),
                "{ports:?}"
            );
        }
    }

    #[test]
    fn ports_are_looked_for_of_a_pod_without_an_address_that_names_them() {
        let mut knowledge = knows(Vec::new());
        let web = || pod("x/web");
        assert_eq!(becomes(&mut knowledge, web()).1, Vec::<String>::new());
        assert_eq!(
            becomes(&mut knowledge, web().at_neutron(&["a"])),
            (true, vec!["web".to_owned()])
        );
        let other = pod("x/other").at_neutron(&["b"]);
        assert_eq!(becomes(&mut knowledge, other).1, ["other"]);
    }

    #[test]
    fn ports_are_looked_for_of_a_pod_that_is_new_or_has_other_addresses() {
        let mut knowledge = knows(vec![pod("x/web").ip("10.0.0.1")]);
        let mut moved = |pod| becomes(&mut knowledge, pod).1;
        let none = Vec::<String>::new();
        assert_eq!(moved(pod("x/web").ip("10.0.0.1").label("app", "web")), none);
        assert_eq!(moved(pod("x/web").ip("10.0.0.2")), ["web"]);
        assert_eq!(moved(pod("x/db").ip("10.0.0.1")), ["db"]);
        assert_eq!(moved(pod("x/db").ip("10.0.0.1")), none);
        assert_eq!(moved(pod("x/host").ip("10.0.0.3").host_network()), none);
    }
}
