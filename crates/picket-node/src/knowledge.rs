//! What is known of the cluster, and what it compiles to.

use std::collections::BTreeSet;

use picket_cluster::{Event, Object, Semantics, Store};
use picket_engine::{Delta, Engine, Program};
use picket_policy::ObjectRef;
use picket_source::Change;
use smol_str::SmolStr;

use crate::events::Events;
use crate::ledger::{Instead, Ledger};
use crate::remarks::Remarks;

/// What is known of the cluster. Before everything is known once, nothing is compiled; nor before the cluster has a node of the
/// name that this one is said to have, or pods on it: with a wrong name no pod would seem to be here, and no policy in force.
pub(crate) struct Knowledge {
    node: SmolStr,
    semantics: Semantics,
    seen: Seen,
    /// Whether others than the kernel enforce the policies, who take those too that are held back because of it.
    has_others: bool,
    state: State,
    pub(crate) remarks: Remarks,
}

/// What was heard before there was a program.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Everything, once.
    everything: bool,
    /// A node, whatever its name, or a pod on one.
    a_node: bool,
    /// This node, or a pod on it.
    this_node: bool,
}

impl Seen {
    fn note(&mut self, event: &Event, node: &str) {
        match event {
            Event::InitDone => self.everything = true,
            Event::Apply(Object::Node(found)) => {
                self.a_node = true;
                self.this_node |= found.name == node;
            }
            Event::Apply(Object::Pod(pod)) => {
                self.a_node |= pod.node.is_some();
                self.this_node |= pod.node.as_deref() == Some(node);
            }
            _ => {}
        }
    }

    /// Whether there are nodes, and none of them is this one. Manifests may say nothing about nodes.
    fn is_nowhere(self) -> bool {
        self.a_node && !self.this_node
    }
}

enum State {
    Incomplete(Store),
    Complete(Box<Compiled>),
}

struct Compiled {
    engine: Engine,
    ledger: Ledger,
    /// The same with everything as it should be, since something was held back.
    whole: Option<Engine>,
    /// Whether the kernel's is the whole one again.
    is_other: bool,
}

/// For whom a program changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// For every target.
    Everybody,
    /// For the kernel.
    Kernel,
    /// For all others.
    Others,
}

impl Knowledge {
    pub(crate) fn new(node: &str, semantics: Semantics, has_others: bool, events: Events) -> Self {
        Self {
            node: node.into(),
            semantics,
            seen: Seen::default(),
            has_others,
            state: State::Incomplete(Store::new()),
            remarks: Remarks::new(events),
        }
    }

    /// What the cluster means to the kernel, once it is known.
    pub(crate) fn program(&self) -> Option<&Program> {
        Some(self.compiled()?.engine.program())
    }

    /// What it means to all others: no policy is held back.
    pub(crate) fn whole(&self) -> Option<&Program> {
        let compiled = self.compiled()?;
        Some(compiled.whole.as_ref().unwrap_or(&compiled.engine).program())
    }

    /// Whether everything was heard, and the cluster does not know this node.
    pub(crate) fn is_nowhere(&self) -> bool {
        matches!(self.state, State::Incomplete(_)) && self.seen.everything && self.seen.is_nowhere()
    }

    /// All that there is a program of is in force.
    pub(crate) fn settle(&mut self) {
        if let State::Complete(compiled) = &mut self.state {
            compiled.ledger.settle();
            if compiled.ledger.is_whole() {
                compiled.is_other |= compiled.whole.take().is_some();
            }
        }
    }

    /// Whether the whole program is another one since this was last asked, with the same meaning, of which no changes were told.
    pub(crate) fn take_other(&mut self) -> bool {
        match &mut self.state {
            State::Incomplete(_) => false,
            State::Complete(compiled) => std::mem::take(&mut compiled.is_other),
        }
    }

    /// The policies that changed since then and are not held back.
    pub(crate) fn changed(&self) -> Vec<ObjectRef> {
        self.ledger().map(Ledger::changed).unwrap_or_default()
    }

    /// The pods and namespaces that changed since then and are not held back.
    pub(crate) fn changed_subjects(&self) -> Vec<ObjectRef> {
        self.ledger().map(Ledger::changed_subjects).unwrap_or_default()
    }

    /// What is held back: the program has it as it was in force.
    pub(crate) fn held(&self) -> Vec<ObjectRef> {
        self.ledger().map(Ledger::held).unwrap_or_default()
    }

    /// Those of them that were not in force: the program has them without what they allow.
    pub(crate) fn closed(&self) -> Vec<ObjectRef> {
        self.ledger().map(Ledger::closed).unwrap_or_default()
    }

    /// The policies that the program has in the place of others, or to shut pods.
    pub(crate) fn instead(&self) -> Vec<ObjectRef> {
        self.ledger().map(Ledger::instead).unwrap_or_default()
    }

    /// Lets the program of the kernel have objects as they were in force, and this instead of policies that were not.
    pub(crate) fn hold(&mut self, objects: &[ObjectRef], instead: Instead, note: impl FnMut(&Delta)) {
        if let State::Complete(compiled) = &mut self.state {
            let Compiled {
                engine,
                ledger,
                whole,
                ..
            } = &mut **compiled;
            if self.has_others && whole.is_none() {
                *whole = Some(engine.clone());
            }
            ledger.hold(objects, instead, engine, note);
        }
    }

    /// Lets it have those that are held back as they are.
    pub(crate) fn release(&mut self, objects: &[ObjectRef], note: impl FnMut(&Delta)) {
        if let State::Complete(compiled) = &mut self.state {
            compiled.ledger.release(objects, &mut compiled.engine, note);
        }
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.compiled()?.ledger)
    }

    fn compiled(&self) -> Option<&Compiled> {
        match &self.state {
            State::Incomplete(_) => None,
            State::Complete(compiled) => Some(compiled),
        }
    }

    /// Takes in a change, and tells what it changes of a program that there was already. If something else may have to be
    /// enforced then it gives the policies that came, went or changed.
    pub(crate) fn take(
        &mut self,
        change: Change,
        mut note: impl FnMut(Whose, &Delta),
    ) -> Option<Vec<ObjectRef>> {
        match change {
            Change::Diagnosis(object, diagnostics) => {
                self.remarks.diagnose(object, diagnostics);
                None
            }
            Change::Reached { kind, version } => {
                self.remarks.versions.insert(kind, version);
                None
            }
            Change::Version(policy, version) => {
                self.remarks.readings.read(policy, version);
                None
            }
            // Secondary networks are not enforced here.
            Change::Plugin(..) => None,
            Change::Events(events) => events
                .into_iter()
                .filter_map(|event| self.apply(event, &mut note))
                .reduce(|one, other| [one, other].concat()),
        }
    }

    fn apply(&mut self, event: Event, note: &mut impl FnMut(Whose, &Delta)) -> Option<Vec<ObjectRef>> {
        self.remarks.readings.note(&event);
        match &mut self.state {
            State::Complete(compiled) => compiled.apply(event, note),
            State::Incomplete(store) => {
                self.seen.note(&event, &self.node);
                store.apply(event);
                if !self.seen.everything || self.seen.is_nowhere() {
                    return None;
                }
                // Compiling everything at once takes a fraction of what the events one by one would.
                let engine = Engine::compile(&store.snapshot(), self.semantics.clone());
                let policies = engine.program().policies();
                let policies = policies.map(|policy| policy.object.clone()).collect();
                let compiled = Compiled {
                    ledger: Ledger::of(engine.program()),
                    engine,
                    whole: None,
                    is_other: false,
                };
                self.state = State::Complete(Box::new(compiled));
                Some(policies)
            }
        }
    }
}

impl Compiled {
    /// Takes in an event, as [`Knowledge::take`] does.
    fn apply(&mut self, event: Event, note: &mut impl FnMut(Whose, &Delta)) -> Option<Vec<ObjectRef>> {
        if let Some(gone) = self.ledger.note(&event, self.engine.program()) {
            note(Whose::Kernel, &self.engine.apply(Event::Delete(gone)));
        }
        let Some(whole) = &mut self.whole else {
            let delta = self.engine.apply(event);
            note(Whose::Everybody, &delta);
            return (!delta.is_empty()).then_some(delta.policies);
        };
        let of_others = whole.apply(event.clone());
        note(Whose::Others, &of_others);
        let delta = self.engine.apply(event);
        note(Whose::Kernel, &delta);
        let is_changed = !delta.is_empty() || !of_others.is_empty();
        let policies: BTreeSet<_> = delta.policies.into_iter().chain(of_others.policies).collect();
        is_changed.then(|| policies.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use picket_cluster::Event::{Apply, InitDone};
    use picket_testing::build::{node, pod};

    use super::*;
    use crate::Extent;
    use crate::metrics::Metrics;
    use crate::testing::settings;

    /// Whether there is a program, and whether that is because the cluster does not know node `n`, after each of these.
    fn after(events: Vec<Event>) -> Vec<(bool, bool)> {
        let settings = settings();
        let told = Events::start(&settings, Extent::Once, &Metrics::default());
        let mut knowledge = Knowledge::new(&settings.node, Semantics::default(), false, told.unwrap());
        let each = events.into_iter().map(|event| {
            knowledge.take(Change::Events(vec![event]), |_, _| {});
            (knowledge.program().is_some(), knowledge.is_nowhere())
        });
        each.collect()
    }

    #[test]
    fn nothing_is_compiled_for_a_node_that_the_cluster_does_not_know() {
        let (node, pod) = (
            |name: &str| Apply(Object::Node(node(name).build())),
            |name: &str| Apply(Object::from(pod("x/a").on(name).build())),
        );
        let (unknown, nowhere, known) = ((false, false), (false, true), (true, false));
        for (events, expected) in [
            (vec![InitDone], vec![known]),
            (vec![pod("other"), InitDone], vec![unknown, nowhere]),
            (vec![node("n"), InitDone], vec![unknown, known]),
            (
                vec![node("other"), pod("other"), InitDone, node("n")],
                vec![unknown, unknown, nowhere, known],
            ),
            (
                vec![node("other"), InitDone, node("another"), pod("n")],
                vec![unknown, nowhere, nowhere, known],
            ),
        ] {
            assert_eq!(after(events.clone()), expected, "{events:?}");
        }
    }
}
