//! The rules of one node from each state of the cluster to the next: what an event changes, and nothing else, is worked out
//! again.

use picket_engine::{Delta, Program};

use super::change::Change;
use super::model::SessionRules;
use super::node::NodeRules;
use super::render::{Options, TooMany};
use super::tables::Tables;
use crate::follow::{Follower, News, Target};
use crate::value::{Value, Values};

/// Renders the rules of one node again and again.
#[derive(Debug)]
pub struct Renderer(Follower<NodeRules>);

impl Renderer {
    /// For the pods of `node`, or with `None` for one node that runs every pod.
    pub fn new(node: Option<&str>, options: Options) -> Self {
        Self(Follower::new(node, options))
    }

    /// Learns what changed in the program since the last step.
    pub fn note(&mut self, delta: &Delta) {
        self.0.note(delta);
    }

    /// Follows the program, and says what has changed of the rules. Everything that happened to it since the last time must
    /// have been noted; the first time that is nothing.
    pub fn advance(&mut self, program: &Program) -> Change {
        self.0.advance(program)
    }

    /// All rules, as they are since the last step.
    pub fn rules(&self) -> SessionRules {
        self.0.made().map(NodeRules::rules).unwrap_or_default()
    }

    /// The same, each table as it was made.
    pub fn tables(&self) -> Tables {
        self.0.made().map(NodeRules::tables).unwrap_or_default()
    }

    /// Which tables have no room for all that they should have.
    pub fn missing(&self) -> Vec<TooMany> {
        self.0.made().map(NodeRules::missing).unwrap_or_default()
    }

    /// Lets the next step work out everything.
    pub fn forget(&mut self) {
        self.0.forget();
    }
}

impl Target for NodeRules {
    type Options = Options;
    type Change = Change;

    fn empty(options: &Options, floor: [Value; 2]) -> Self {
        Self::new(*options, floor)
    }

    fn follow(&mut self, _: &Program, news: News<'_>, values: &mut Values) -> Change {
        self.advance(&news.touched, values)
    }
}
