//! The rules of one node from each state of the cluster to the next: what an event changes, and nothing else, is worked out
//! again.

use picket_engine::{Delta, Program};
use picket_net::Family;
use smol_str::SmolStr;

use super::change::Change;
use super::model::SessionRules;
use super::node::NodeRules;
use super::render::{Options, TooMany};
use crate::changes::Changes;
use crate::layer4::Layer4;
use crate::lists::Compiler;
use crate::value::Values;

/// Renders the rules of one node again and again.
#[derive(Debug)]
pub struct Renderer {
    node: Option<SmolStr>,
    options: Options,
    changes: Changes,
    state: Option<State>,
}

/// What the rules were made of.
#[derive(Debug)]
struct State {
    values: Values,
    most_values: usize,
    compiler: Compiler,
    rules: NodeRules,
}

impl Renderer {
    /// For the pods of `node`, or with `None` for one node that runs every pod.
    pub fn new(node: Option<&str>, options: Options) -> Self {
        Self {
            node: node.map(SmolStr::from),
            options,
            changes: Changes::default(),
            state: None,
        }
    }

    /// Learns what changed in the program since the last step.
    pub fn note(&mut self, delta: &Delta) {
        if self.state.is_some() {
            self.changes.note(delta, self.node.as_ref());
        }
    }

    /// Follows the program, and says what has changed of the rules. Everything that happened to it since the last time must
    /// have been noted; the first time that is nothing.
    pub fn advance(&mut self, program: &Program) -> Change {
        let changes = std::mem::take(&mut self.changes);
        let Some(state) = &mut self.state else {
            return self.whole(program);
        };
        let change = state.advance(program, &changes);
        if state.values.count() > state.most_values {
            // What has changed has come out already; nothing but the numbers of sets is new.
            self.whole(program);
        }
        change
    }

    /// All rules, as they are since the last step.
    pub fn rules(&self) -> SessionRules {
        let state = self.state.as_ref();
        state.map(|state| state.rules.rules()).unwrap_or_default()
    }

    /// Which tables have no room for all that they should have.
    pub fn missing(&self) -> Vec<TooMany> {
        let state = self.state.as_ref();
        state.map(|state| state.rules.missing()).unwrap_or_default()
    }

    /// Lets the next step work out everything.
    pub fn forget(&mut self) {
        self.state = None;
        self.changes = Changes::default();
    }

    fn whole(&mut self, program: &Program) -> Change {
        let (state, change) = State::whole(program, self.node.as_deref(), self.options);
        self.state = Some(state);
        change
    }
}

impl State {
    fn whole(program: &Program, node: Option<&str>, options: Options) -> (Self, Change) {
        let mut values = Values::default();
        let floor = Family::BOTH.map(|family| values.number(Layer4::necessary(family)));
        let (compiler, touched) = Compiler::new(program, node, &mut values);
        let mut rules = NodeRules::new(options, floor);
        let change = rules.advance(&touched, &mut values);
        let state = Self {
            most_values: values.most(),
            values,
            compiler,
            rules,
        };
        (state, change)
    }

    fn advance(&mut self, program: &Program, changes: &Changes) -> Change {
        let touched = self.compiler.advance(program, changes, &mut self.values);
        self.rules.advance(&touched, &mut self.values)
    }
}
