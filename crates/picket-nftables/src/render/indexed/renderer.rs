//! The table of one node from each state of the cluster to the next: what an event changes, and nothing else, is worked
//! out again.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_dataplane::Plan;
use picket_engine::{Delta, Program, SubjectId};
use smol_str::SmolStr;

use super::class::{Classes, Pair, Transition};
use super::counters::Counters;
use super::part::Part;
use super::program::prefix_regions;
use super::restrict::{Restrictions, own_addresses};
use super::view::{LocalSide, NodeView, Role};
use super::{IndexedError, Made, Options};
use crate::diff::Operation;
use crate::model::{InterfaceName, Table};

/// Renders the table of one node again and again.
#[derive(Debug)]
pub struct Renderer {
    node: Option<SmolStr>,
    options: Options,
    state: Option<State>,
    changes: Changes,
}

/// From the table that was rendered last to the one that a program means now.
#[derive(Clone, Debug)]
pub enum Step {
    /// All of it.
    Whole(Table),
    /// What to change.
    Next(Plan<Operation>),
}

/// What may not be as it was.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The identities that addresses of pods and nodes have now.
    addresses: BTreeMap<IpAddr, Option<u32>>,
    prefixes: bool,
    /// Those that came or went.
    pub(super) identities: BTreeSet<u32>,
    pub(super) subjects: BTreeSet<SubjectId>,
    /// Whether anything is otherwise about pods of the own node.
    pub(super) own_pods: bool,
}

/// What the last table was made of.
#[derive(Debug)]
struct State {
    restrictions: Restrictions,
    /// The addresses of own pods, where the table lists them.
    pods: BTreeSet<IpAddr>,
    view: NodeView,
    classes: Classes,
    counters: Counters,
}

impl Renderer {
    /// For the pods of `node`, or with `None` for one node that runs every pod.
    pub fn new(node: Option<&str>, options: Options) -> Self {
        Self {
            node: node.map(SmolStr::from),
            options,
            state: None,
            changes: Changes::default(),
        }
    }

    /// Lets the rules log denied packets to this group.
    pub fn log_denied(&mut self, group: u16) {
        self.options.log_denied = Some(group);
        self.forget();
    }

    /// These are the uplinks now. Steps do not bring them; [`with_uplinks`](super::with_uplinks) does.
    pub fn reroute(&mut self, uplinks: BTreeSet<InterfaceName>) {
        if let Some(guard) = &mut self.options.guard {
            guard.uplinks = uplinks;
        }
    }

    /// Learns what changed in the program since the last step.
    pub fn note(&mut self, delta: &Delta) {
        self.changes.note(delta, self.node.as_ref());
    }

    /// Lets the next step be all of the table.
    pub fn forget(&mut self) {
        self.state = None;
        self.changes = Changes::default();
    }

    /// What the table is now. Everything that happened to the program must have been noted.
    ///
    /// # Errors
    /// When it cannot be said in the layout. The next step is all of the table then.
    pub fn step(&mut self, program: &Program) -> Result<Step, IndexedError> {
        let changes = std::mem::take(&mut self.changes);
        let node = self.node.as_deref();
        if let Some(mut state) = self.state.take()
            && let Some(plan) = state.step(program, node, &changes, &self.options)?
        {
            self.state = Some(state);
            return Ok(Step::Next(plan));
        }
        self.whole(program).map(Step::Whole)
    }

    /// All of the table.
    ///
    /// # Errors
    /// As [`Renderer::step`].
    pub fn whole(&mut self, program: &Program) -> Result<Table, IndexedError> {
        self.forget();
        let (state, table) = State::whole(program, self.node.as_deref(), &self.options)?;
        self.state = Some(state);
        Ok(table)
    }
}

impl Changes {
    fn note(&mut self, delta: &Delta, node: Option<&SmolStr>) {
        let addresses = delta.addresses.iter();
        self.addresses
            .extend(addresses.map(|change| (change.key, change.after.map(|identity| identity.number()))));
        self.prefixes |= !delta.prefixes.is_empty();
        let identities = delta.identities.added.iter().chain(&delta.identities.removed);
        self.identities
            .extend(identities.map(|identity| identity.number()));
        let subjects = delta.subjects.added.iter().chain(&delta.subjects.removed);
        self.subjects.extend(subjects.chain(&delta.changed_subjects));
        self.own_pods |= delta.pods.iter().any(|change| {
            let mut states = change.before.iter().chain(&change.after);
            states.any(|pod| node.is_none() || pod.node.as_ref() == node)
        });
    }

    fn may_restrict(&self) -> bool {
        self.own_pods || !self.subjects.is_empty() || !self.identities.is_empty()
    }
}

impl State {
    fn whole(
        program: &Program,
        node: Option<&str>,
        options: &Options,
    ) -> Result<(Self, Table), IndexedError> {
        let mut restrictions = Restrictions::default();
        let view = NodeView::of(program, node, &mut restrictions);
        let pods = own_addresses(program, node);
        let Made {
            table,
            classes,
            counters,
        } = Made::of(&view, &pods, options)?;
        let state = Self {
            restrictions,
            pods,
            view,
            classes,
            counters,
        };
        Ok((state, table))
    }

    /// What changes; `None` when so much does that all of the table must be rendered.
    fn step(
        &mut self,
        program: &Program,
        node: Option<&str>,
        changes: &Changes,
        options: &Options,
    ) -> Result<Option<Plan<Operation>>, IndexedError> {
        let sides = if changes.may_restrict() {
            self.restrictions.update(program, node, Some(changes))
        } else {
            self.view.sides.clone()
        };
        let judges = |sides: &[LocalSide]| Role::ALL.map(|role| sides.iter().any(|side| side.role == role));
        if judges(&sides) != judges(&self.view.sides) {
            return Ok(None);
        }
        let mut part = Part::default();
        if changes.own_pods && options.guard.is_some() {
            let now = own_addresses(program, node);
            part.pods(&self.pods, &now)?;
            self.pods = now;
        }
        if sides.is_empty() {
            return Ok(Some(part.plan()));
        }
        let before = std::mem::replace(&mut self.view.sides, sides);
        let addresses_before = self.follow_addresses(changes);
        if changes.prefixes {
            self.view.regions = prefix_regions(program);
        }
        let pairs = pairs(&before, &self.view.sides);
        let subjects = changes.subjects.iter().map(|subject| subject.number());
        let transition = Transition {
            sides: &pairs,
            view: &self.view,
            addresses: &changes.addresses,
            addresses_before: &addresses_before,
            subjects: &subjects.collect(),
            identities: &changes.identities,
            regions: changes.prefixes,
        };
        let Ok(changed) = self.classes.advance(&transition) else {
            return Ok(None);
        };
        part.new_counters(&pairs, &mut self.counters)?;
        part.sides(
            &pairs,
            &self.view.sides,
            &self.classes,
            &self.counters,
            &changed,
            options,
        )?;
        part.own_pods(&pairs, &before, &self.view.sides)?;
        part.classes(&self.classes, &changed)?;
        part.old_counters(&pairs, &mut self.counters);
        for (before, after) in pairs {
            if let (Some(gone), None) = (before, after) {
                self.classes.leave(&gone.id());
            }
        }
        Ok(Some(part.plan()))
    }

    /// Takes in the identities that addresses of pods and nodes have now; what those were that had another.
    fn follow_addresses(&mut self, changes: &Changes) -> BTreeMap<IpAddr, u32> {
        let mut before = BTreeMap::new();
        for (&address, &now) in &changes.addresses {
            let old = match now {
                Some(identity) => self.view.endpoints.insert(address, identity),
                None => self.view.endpoints.remove(&address),
            };
            before.extend(old.map(|identity| (address, identity)));
        }
        before
    }
}

/// The sides that differ, before and now. Both lists are ascending.
fn pairs<'s>(before: &'s [LocalSide], now: &'s [LocalSide]) -> Vec<Pair<'s>> {
    let (mut before, mut now) = (before.iter().peekable(), now.iter().peekable());
    let mut pairs = Vec::new();
    loop {
        let order = match (before.peek(), now.peek()) {
            (None, None) => return pairs,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => (old.role, &old.subject).cmp(&(new.role, &new.subject)),
        };
        let pair = match order {
            Ordering::Less => (before.next(), None),
            Ordering::Greater => (None, now.next()),
            Ordering::Equal => (before.next(), now.next()),
        };
        if let (Some(old), Some(new)) = pair
            && old.says_as(new)
            && old.addresses == new.addresses
        {
            continue;
        }
        pairs.push(pair);
    }
}
