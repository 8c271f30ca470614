//! What is known of the cluster, and what it compiles to.

use picket_cluster::{Event, Semantics, Store};
use picket_engine::{Delta, Engine, Program};
use picket_policy::ObjectRef;
use picket_source::Change;

use crate::events::Events;
use crate::remarks::Remarks;

/// What is known of the cluster. Before everything is known once, nothing is compiled.
pub(crate) struct Knowledge {
    semantics: Semantics,
    state: State,
    pub(crate) remarks: Remarks,
}

enum State {
    Incomplete(Store),
    Complete(Box<Engine>),
}

impl Knowledge {
    pub(crate) fn new(semantics: Semantics, events: Events) -> Self {
        Self {
            semantics,
            state: State::Incomplete(Store::new()),
            remarks: Remarks::new(events),
        }
    }

    /// What the cluster means, once it is known.
    pub(crate) fn program(&self) -> Option<&Program> {
        match &self.state {
            State::Incomplete(_) => None,
            State::Complete(engine) => Some(engine.program()),
        }
    }

    /// Takes in a change, and tells what it changes of a program that there was already. If something else may have to be
    /// enforced then it gives the policies that came, went or changed.
    pub(crate) fn take(&mut self, change: Change, mut note: impl FnMut(&Delta)) -> Option<Vec<ObjectRef>> {
        match change {
            Change::Diagnosis(object, diagnostics) => {
                self.remarks.diagnose(object, diagnostics);
                None
            }
            Change::Reached { kind, version } => {
                self.remarks.versions.insert(kind, version);
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

    fn apply(&mut self, event: Event, note: &mut impl FnMut(&Delta)) -> Option<Vec<ObjectRef>> {
        match &mut self.state {
            State::Complete(engine) => {
                let delta = engine.apply(event);
                note(&delta);
                (!delta.is_empty()).then_some(delta.policies)
            }
            State::Incomplete(store) => {
                let is_end = event == Event::InitDone;
                store.apply(event);
                if !is_end {
                    return None;
                }
                // Compiling everything at once takes a fraction of what the events one by one would.
                let engine = Engine::compile(&store.snapshot(), self.semantics.clone());
                let policies = engine.program().policies();
                let policies = policies.map(|policy| policy.object.clone()).collect();
                self.state = State::Complete(Box::new(engine));
                Some(policies)
            }
        }
    }
}
