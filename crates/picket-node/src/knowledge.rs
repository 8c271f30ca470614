//! What is known of the cluster, and what it compiles to.

use picket_cluster::{Event, Semantics, Store};
use picket_engine::{Delta, Engine, Program};
use picket_policy::ObjectRef;
use picket_source::Change;

use crate::events::Events;
use crate::ledger::{Instead, Ledger};
use crate::remarks::Remarks;

/// What is known of the cluster. Before everything is known once, nothing is compiled.
pub(crate) struct Knowledge {
    semantics: Semantics,
    state: State,
    pub(crate) remarks: Remarks,
}

enum State {
    Incomplete(Store),
    Complete(Box<Engine>, Ledger),
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
            State::Complete(engine, _) => Some(engine.program()),
        }
    }

    /// All that there is a program of is in force.
    pub(crate) fn settle(&mut self) {
        if let State::Complete(_, ledger) = &mut self.state {
            ledger.settle();
        }
    }

    /// The policies that changed since then and are not held back.
    pub(crate) fn changed(&self) -> Vec<ObjectRef> {
        self.ledger().map(Ledger::changed).unwrap_or_default()
    }

    /// The policies that are held back: the program has them as they were in force.
    pub(crate) fn held(&self) -> Vec<ObjectRef> {
        self.ledger().map(Ledger::held).unwrap_or_default()
    }

    /// Those of them that were not in force: the program has them without what they allow.
    pub(crate) fn closed(&self) -> Vec<ObjectRef> {
        self.ledger().map(Ledger::closed).unwrap_or_default()
    }

    /// Lets the program have policies as they were in force, and this instead of those that were not.
    pub(crate) fn hold(&mut self, policies: &[ObjectRef], instead: Instead, note: impl FnMut(&Delta)) {
        if let State::Complete(engine, ledger) = &mut self.state {
            ledger.hold(policies, instead, engine, note);
        }
    }

    /// Lets the program have policies that are held back as they are.
    pub(crate) fn release(&mut self, policies: &[ObjectRef], note: impl FnMut(&Delta)) {
        if let State::Complete(engine, ledger) = &mut self.state {
            ledger.release(policies, engine, note);
        }
    }

    fn ledger(&self) -> Option<&Ledger> {
        match &self.state {
            State::Incomplete(_) => None,
            State::Complete(_, ledger) => Some(ledger),
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

    fn apply(&mut self, event: Event, note: &mut impl FnMut(&Delta)) -> Option<Vec<ObjectRef>> {
        self.remarks.readings.note(&event);
        match &mut self.state {
            State::Complete(engine, ledger) => {
                ledger.note(&event, engine.program());
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
                let ledger = Ledger::of(engine.program());
                self.state = State::Complete(Box::new(engine), ledger);
                Some(policies)
            }
        }
    }
}
