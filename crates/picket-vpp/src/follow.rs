//! From what a program is to what a target has of it, and from there on what each event changes.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::IpAddr;

use picket_engine::{Delta, Identity, Program};
use picket_net::Family;
use smol_str::SmolStr;

use crate::changes::Changes;
use crate::layer4::Layer4;
use crate::lists::{Compiler, Touched};
use crate::place::Places;
use crate::value::{Value, Values};

/// What a target has of a node.
pub(crate) trait Target: Debug {
    /// What is chosen of it.
    type Options: Debug;
    /// What has changed of it.
    type Change;

    /// Of a node without pods. No list of a pod allows less than `floor` of its family.
    fn empty(options: &Self::Options, floor: [Value; 2]) -> Self;

    /// Takes in what has happened. What has changed because of it.
    fn follow(&mut self, program: &Program, news: News<'_>, values: &mut Values) -> Self::Change;
}

/// What has happened to a program, as targets need it.
#[derive(Debug)]
pub(crate) struct News<'a> {
    /// Pods with other lists.
    pub(crate) touched: Touched,
    /// Whether services have other addresses.
    pub(crate) has_services: bool,
    /// Addresses that pods and nodes may have had, or may have now.
    pub(crate) moved: &'a BTreeMap<IpAddr, Option<Identity>>,
    /// Where pods and nodes are now.
    pub(crate) places: &'a Places,
}

/// Follows the program of one node.
#[derive(Debug)]
pub(crate) struct Follower<T: Target> {
    node: Option<SmolStr>,
    options: T::Options,
    changes: Changes,
    state: Option<State<T>>,
}

/// What is known.
#[derive(Debug)]
struct State<T> {
    values: Values,
    most_values: usize,
    compiler: Compiler,
    made: T,
}

impl<T: Target> Follower<T> {
    /// For the pods of `node`, or with `None` for one node that runs every pod.
    pub(crate) fn new(node: Option<&str>, options: T::Options) -> Self {
        Self {
            node: node.map(SmolStr::from),
            options,
            changes: Changes::default(),
            state: None,
        }
    }

    /// Learns what changed in the program since the last step.
    pub(crate) fn note(&mut self, delta: &Delta) {
        if self.state.is_some() {
            self.changes.note(delta, self.node.as_ref());
        }
    }

    /// Follows the program, and says what has changed. Everything that happened to it since the last time must have been noted;
    /// the first time that is nothing.
    pub(crate) fn advance(&mut self, program: &Program) -> T::Change {
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

    /// What there is since the last step, which is nothing before the first one.
    pub(crate) fn made(&self) -> Option<&T> {
        self.state.as_ref().map(|state| &state.made)
    }

    /// The same, for good.
    pub(crate) fn into_made(self) -> Option<T> {
        self.state.map(|state| state.made)
    }

    /// Lets the next step work out everything.
    pub(crate) fn forget(&mut self) {
        self.state = None;
        self.changes = Changes::default();
    }

    /// How many sets of packets are known.
    #[cfg(test)]
    pub(crate) fn values(&self) -> usize {
        self.state.as_ref().map_or(0, |state| state.values.count())
    }

    fn whole(&mut self, program: &Program) -> T::Change {
        let mut values = Values::default();
        let floor = Family::BOTH.map(|family| values.number(Layer4::necessary(family)));
        let (compiler, touched) = Compiler::new(program, self.node.as_deref(), &mut values);
        let mut made = T::empty(&self.options, floor);
        let news = News {
            touched,
            has_services: true,
            moved: &BTreeMap::new(),
            places: compiler.places(),
        };
        let change = made.follow(program, news, &mut values);
        self.state = Some(State {
            most_values: values.most(),
            values,
            compiler,
            made,
        });
        change
    }
}

impl<T: Target> State<T> {
    fn advance(&mut self, program: &Program, changes: &Changes) -> T::Change {
        let touched = self.compiler.advance(program, changes, &mut self.values);
        let news = News {
            touched,
            has_services: changes.services,
            moved: &changes.addresses,
            places: self.compiler.places(),
        };
        self.made.follow(program, news, &mut self.values)
    }
}
