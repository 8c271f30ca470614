//! From the lists that VPP has to those that it should have.
//!
//! The name of a list says its rules. New ones are made first, of which nothing knows; then each interface gets all of its lists
//! in one message; at last those that no interface has any more go. Some become others [where they are](super::replace) instead, at
//! all interfaces that have them then, where all that these get can come to them so.
//!
//! Where several interfaces change, a packet may meet some as they were and some as they will be. It passes no more than it
//! would have by what was or will by what is to be: which packets may reach a pod, or leave the node, the list of the one
//! interface that they leave VPP by decides as a whole, with what their source may send; all others on their way only
//! stop more.
//!
//! Where a change denies what passed an interface, [another list](super::cut) stands before those that it gets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_net::Family;
use picket_policy::ObjectRef;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::cut::{Cutter, Passage, Withdrawal};
use super::memory::Memory;
use super::model::{Acl, AclAction, AclRule, Acls, InterfaceLists, Role, Tag};
use super::rules::foreign_addresses;
use crate::work::looked_at;

/// The lists that a VPP has, ours and those of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// Every list by its index.
    pub acls: BTreeMap<u32, Acl>,
    /// The indices of the lists of each interface that there is, by its name.
    pub interfaces: BTreeMap<SmolStr, InstalledLists>,
}

/// The lists of an interface, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstalledLists {
    /// What enters VPP there.
    pub input: Vec<u32>,
    /// What leaves VPP there.
    pub output: Vec<u32>,
}

/// A list of which an operation speaks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Handle {
    /// One that VPP has.
    Installed(u32),
    /// One that an operation before makes, or makes another.
    Created(Tag),
}

/// One message to VPP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Makes a list.
    Create(Arc<Acl>),
    /// Makes a list another, with its name, at all interfaces that have it. These keep their sessions.
    Replace {
        /// The list.
        index: u32,
        /// What it becomes.
        acl: Arc<Acl>,
    },
    /// Gives an interface its lists, all at once.
    Set {
        /// Its name.
        interface: SmolStr,
        /// What enters VPP there.
        input: Vec<Handle>,
        /// What leaves VPP there.
        output: Vec<Handle>,
    },
    /// Removes a list that no interface has.
    Delete(u32),
}

/// An interface that gets other lists than it has.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    interface: &'a SmolStr,
    pub(super) before: &'a InstalledLists,
    pub(super) input: Vec<Handle>,
    pub(super) output: Vec<Handle>,
}

/// What changes, in order.
#[derive(Debug, Default)]
pub(super) struct Changes<'a> {
    pub(super) first: Vec<Turn<'a>>,
    /// Lists that become others where they are, by index.
    pub(super) replaced: Vec<(u32, Arc<Acl>)>,
    pub(super) last: Vec<Turn<'a>>,
}

/// Operations in order.
pub type Plan = picket_dataplane::Plan<Operation>;

/// The operations that give VPP the lists of `desired`, on those of its interfaces that there are. Lists of others stay where
/// they are, behind ours.
pub fn plan(installed: &Installed, desired: &Acls) -> Plan {
    let own = installed.own();
    let memory = Memory::of(installed);
    let mut planner = Planner::new(installed, desired, &own, &memory);
    let turns = planner.turns(installed.interfaces.keys());
    let uses = installed.uses();
    let changes = planner.replace(turns, |index| uses.get(&index).copied().unwrap_or_default());
    let deletions = planner.deletions(&changes);
    planner.operations(changes, deletions)
}

pub(super) struct Planner<'a> {
    pub(super) installed: &'a Installed,
    desired: &'a Acls,
    /// The indices of our lists, by name.
    own: &'a FxHashMap<Tag, u32>,
    memory: &'a Memory,
    cutter: Cutter,
    pub(super) created: BTreeMap<Tag, Arc<Acl>>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(
        installed: &'a Installed,
        desired: &'a Acls,
        own: &'a FxHashMap<Tag, u32>,
        memory: &'a Memory,
    ) -> Self {
        Self {
            installed,
            desired,
            own,
            memory,
            cutter: Cutter::default(),
            created: BTreeMap::new(),
        }
    }

    /// Those of these interfaces that are to change, ours and those that have a list of ours and should not.
    pub(super) fn turns<'n>(&mut self, interfaces: impl Iterator<Item = &'n SmolStr>) -> Vec<Turn<'a>> {
        let mut turns = Vec::new();
        for interface in interfaces {
            let Some((interface, before)) = self.installed.interfaces.get_key_value(interface) else {
                continue;
            };
            looked_at(1);
            let wanted = self.wanted(interface);
            let [cut_in, cut_out] = self.cuts(interface, before, wanted);
            let input = self.handles(cut_in, &wanted.input, &before.input);
            let output = self.handles(cut_out, &wanted.output, &before.output);
            if !are_known(&input, &before.input) || !are_known(&output, &before.output) {
                turns.push(Turn {
                    interface,
                    before,
                    input,
                    output,
                });
            }
        }
        turns
    }

    /// The lists that an interface should have.
    fn wanted(&self, interface: &SmolStr) -> &'a InterfaceLists {
        const NONE: &InterfaceLists = &InterfaceLists {
            pod: None,
            input: Vec::new(),
            output: Vec::new(),
        };
        self.desired.interfaces.get(interface).unwrap_or(NONE)
    }

    /// All operations: the lists to make for the interfaces asked about so far come first.
    pub(super) fn operations(self, changes: Changes<'_>, deletions: Vec<Operation>) -> Plan {
        let replaced = changes.replaced.into_iter();
        let replaced = replaced.map(|(index, acl)| Operation::Replace { index, acl });
        self.created
            .into_values()
            .map(Operation::Create)
            .chain(changes.first.into_iter().map(Operation::from))
            .chain(replaced)
            .chain(changes.last.into_iter().map(Operation::from))
            .chain(deletions)
            .collect()
    }

    /// What stands before the lists of an interface, so that nothing takes up again what this change cuts, or one before it. A list
    /// that is there and may go has another in its place that drops nothing: VPP can make it that one and keep the sessions of
    /// the interface.
    fn cuts(
        &mut self,
        interface: &SmolStr,
        before: &'a InstalledLists,
        wanted: &'a InterfaceLists,
    ) -> [Option<Handle>; 2] {
        let there = [&before.input, &before.output].map(|indices| self.cut_there(indices));
        let is_remembered = self.memory.cuts(interface).is_some() || there.iter().any(Option::is_some);
        if !is_remembered && self.judges_as(before, wanted) {
            return [None, None];
        }
        let Some(ways) = self.withdrawals(interface, before, wanted) else {
            return [None, None];
        };
        let mut ways = ways.into_iter().zip(there).map(|(way, there)| {
            let needed = self.cutter.list(&way);
            let there = there.filter(|_| !way.answers.acls.is_empty());
            match (needed, there) {
                (Some(needed), _) => Some(self.handle(&needed)),
                (None, Some((index, acl))) if acl.is_spent() => Some(Handle::Installed(index)),
                (None, Some((index, _))) => Some(self.handle(&Arc::new(Acl::spent(index)))),
                (None, None) => None,
            }
        });
        [ways.next().flatten(), ways.next().flatten()]
    }

    /// An interface that gets other lists anyway needs none that drops nothing, of which those to be made are `spent`.
    pub(super) fn leave_out_spent(&self, turn: &mut Turn<'a>, spent: &BTreeSet<Tag>) {
        let is_needed = |handle: &Handle| match handle {
            Handle::Installed(index) => self.installed.acls.get(index).is_none_or(|acl| !acl.is_spent()),
            Handle::Created(tag) => !spent.contains(tag),
        };
        turn.input.retain(is_needed);
        turn.output.retain(is_needed);
    }

    /// The list of ours among some that stands before others because something was cut.
    fn cut_there(&self, indices: &[u32]) -> Option<(u32, &'a Acl)> {
        let mut acls = indices
            .iter()
            .filter_map(|&index| Some((index, self.installed.acls.get(&index)?)));
        acls.find(|(index, acl)| acl.tag.is_for(Role::Cut) && self.own.get(&acl.tag) == Some(index))
    }

    /// Whether the lists of an interface that judge what begins are those wanted.
    fn judges_as(&self, before: &InstalledLists, wanted: &InterfaceLists) -> bool {
        let ways = [(&before.input, &wanted.input), (&before.output, &wanted.output)];
        ways.iter()
            .all(|(indices, tags)| self.judging(indices).map(|acl| &acl.tag).eq(*tags))
    }

    /// Those of some lists that are ours and say what passes.
    fn judging(&self, indices: &[u32]) -> impl Iterator<Item = &'a Acl> {
        let acls = indices.iter().filter_map(|index| self.installed.acls.get(index));
        acls.filter(|acl| acl.judges())
    }

    /// What changes of what passes an interface; `None` for one that leads out of the node.
    fn withdrawals(
        &self,
        interface: &SmolStr,
        before: &'a InstalledLists,
        wanted: &'a InterfaceLists,
    ) -> Option<[Withdrawal<'a>; 2]> {
        let leads_out = |tag: &Tag| tag.is_for(Role::Global) || tag.is_for(Role::FromOutside);
        let mut tags = wanted.input.iter().chain(&wanted.output);
        if tags.any(leads_out) {
            return None;
        }
        let indices = [&before.input, &before.output];
        let mut was = indices.map(|indices| self.judging(indices).collect::<Vec<_>>());
        if was.iter().all(Vec::is_empty) {
            was = self.memory.lost(interface);
        }
        let is_bare = was.iter().all(Vec::is_empty);
        let is_left = !is_bare || self.memory.is_open(interface);
        let others = indices.map(|indices| indices.iter().any(|&index| !self.installed.is_own(index)));
        let [others_in, others_out] = others;
        let [was_in, was_out] = was;
        let passed = |acls: Vec<&'a Acl>, has_others| Passage {
            is_open: is_left && (acls.is_empty() || has_others),
            acls,
        };
        let passes = |tags: &'a [Tag], has_others| {
            let acls = tags.iter().filter_map(|tag| self.desired.acls.get(tag));
            Passage {
                acls: acls.map(AsRef::as_ref).collect(),
                is_open: tags.is_empty() || has_others,
            }
        };
        let known = self.memory.cuts(interface);
        let known = known.map(|cuts| cuts.each_ref().map(Option::as_ref));
        Some(Withdrawal::both(
            [passed(was_in, others_in), passed(was_out, others_out)],
            [
                passes(&wanted.input, others_in),
                passes(&wanted.output, others_out),
            ],
            known.unwrap_or_default(),
        ))
    }

    /// Ours before those of others, which keep their order. Where others follow, what ours would let pass at last is theirs to
    /// decide.
    fn handles(&mut self, cut: Option<Handle>, tags: &[Tag], indices: &[u32]) -> Vec<Handle> {
        // Most stay as they are.
        let is_there = |(tag, index): (&Tag, &u32)| self.own.get(tag) == Some(index);
        if cut.is_none() && tags.len() == indices.len() && tags.iter().zip(indices).all(is_there) {
            return indices.iter().copied().map(Handle::Installed).collect();
        }
        let foreign = indices
            .iter()
            .copied()
            .filter(|&index| !self.installed.is_own(index));
        let foreign: Vec<_> = foreign.collect();
        let mut handles = Vec::with_capacity(1 + tags.len() + foreign.len());
        handles.extend(cut);
        for tag in tags {
            let Some(acl) = self.desired.acls.get(tag) else {
                continue;
            };
            let acl = match foreign.is_empty() {
                true => Arc::clone(acl),
                false => before_others(acl),
            };
            if !acl.rules.is_empty() {
                handles.push(self.handle(&acl));
            }
        }
        handles.extend(foreign.into_iter().map(Handle::Installed));
        handles
    }

    fn handle(&mut self, acl: &Arc<Acl>) -> Handle {
        if let Some(&index) = self.own.get(&acl.tag) {
            return Handle::Installed(index);
        }
        self.created
            .entry(acl.tag.clone())
            .or_insert_with(|| Arc::clone(acl));
        Handle::Created(acl.tag.clone())
    }

    /// Our lists that no interface has at the end.
    fn deletions(&self, changes: &Changes<'_>) -> Vec<Operation> {
        let lists = self.installed.interfaces.iter();
        let mut last: BTreeMap<_, Vec<u32>> = lists
            .map(|(interface, lists)| (interface, [&*lists.input, &lists.output].concat()))
            .collect();
        for turn in changes.turns() {
            last.insert(turn.interface, turn.kept().collect());
        }
        let used: BTreeSet<_> = last.into_values().flatten().collect();
        let own = self
            .installed
            .acls
            .keys()
            .copied()
            .filter(|&index| self.installed.is_own(index));
        own.filter(|index| !used.contains(index))
            .map(Operation::Delete)
            .collect()
    }
}

impl Turn<'_> {
    /// The lists that it gets.
    pub(super) fn handles(&self) -> impl Iterator<Item = &Handle> {
        self.input.iter().chain(&self.output)
    }

    /// Those of them that VPP has already.
    pub(super) fn kept(&self) -> impl Iterator<Item = u32> {
        self.handles().filter_map(|handle| match handle {
            Handle::Installed(index) => Some(*index),
            Handle::Created(_) => None,
        })
    }
}

impl Changes<'_> {
    /// The interfaces that get other lists.
    pub(super) fn turns(&self) -> impl Iterator<Item = &Turn<'_>> {
        self.first.iter().chain(&self.last)
    }
}

impl From<Turn<'_>> for Operation {
    fn from(turn: Turn<'_>) -> Self {
        Self::Set {
            interface: turn.interface.clone(),
            input: turn.input,
            output: turn.output,
        }
    }
}

impl InstalledLists {
    /// All of them.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> {
        self.input.iter().chain(&self.output).copied()
    }
}

impl Installed {
    /// Whether a list is ours.
    pub fn is_own(&self, index: u32) -> bool {
        self.acls.get(&index).is_some_and(Acl::is_own)
    }

    /// Whether an interface has a list of ours that judges what a pod sends or receives there. What was taken for a connection with
    /// the rest has others.
    pub fn judges_pods(&self, interface: &str) -> bool {
        self.has(interface, Acl::judges_pods)
    }

    /// Whether an interface has a list of ours.
    pub fn has_own(&self, interface: &str) -> bool {
        self.has(interface, Acl::is_own)
    }

    fn has(&self, interface: &str, is_one: impl Fn(&Acl) -> bool) -> bool {
        let lists = self.interfaces.get(interface).into_iter();
        let mut indices = lists.flat_map(InstalledLists::indices);
        indices.any(|index| self.acls.get(&index).is_some_and(&is_one))
    }

    /// Whether an agent has put a policy into force there: an interface has a list of ours that neither shuts it nor only keeps cut
    /// what was. One that no interface has may be of an agent that went no further.
    pub fn has_policies(&self) -> bool {
        let closed = Acl::closed();
        let indices = self.interfaces.values().flat_map(InstalledLists::indices);
        let mut judging = indices
            .filter_map(|index| self.acls.get(&index))
            .filter(|acl| acl.judges());
        judging.any(|acl| acl.tag != closed.tag)
    }

    /// How often interfaces have each list that some have.
    pub(super) fn uses(&self) -> FxHashMap<u32, usize> {
        let mut uses = FxHashMap::default();
        for index in self.interfaces.values().flat_map(InstalledLists::indices) {
            *uses.entry(index).or_default() += 1;
        }
        uses
    }

    /// The indices of our lists that are as their names say, by name.
    pub(crate) fn own(&self) -> FxHashMap<Tag, u32> {
        let own = self.acls.iter().filter(|(_, acl)| is_as_it_says(acl));
        own.map(|(&index, acl)| (acl.tag.clone(), index)).collect()
    }

    /// The same as lists by name, to look at what they do: each is called by its index and its tag. `pod` says which pod an
    /// interface leads to.
    pub fn lists(&self, pod: impl Fn(&str) -> Option<ObjectRef>) -> Acls {
        let named = |index: u32, acl: &Acl| Tag::installed(&format!("{index} {}", acl.tag));
        let mut found = Acls::default();
        for (&index, acl) in &self.acls {
            let acl = Acl {
                tag: named(index, acl),
                rules: acl.rules.clone(),
            };
            found.acls.insert(acl.tag.clone(), acl.into());
        }
        let tags = |indices: &[u32]| {
            let known = indices
                .iter()
                .filter_map(|index| Some((*index, self.acls.get(index)?)));
            known.map(|(index, acl)| named(index, acl)).collect()
        };
        for (interface, lists) in &self.interfaces {
            let lists = InterfaceLists {
                pod: pod(interface),
                input: tags(&lists.input),
                output: tags(&lists.output),
            };
            found.interfaces.insert(interface.clone(), lists);
        }
        found
    }
}

/// Whether these are lists that VPP has, by their indices.
fn are_known(handles: &[Handle], indices: &[u32]) -> bool {
    let is = |(handle, index): (&Handle, &u32)| *handle == Handle::Installed(*index);
    handles.len() == indices.len() && handles.iter().zip(indices).all(is)
}

/// Whether a list of ours has the rules that its name says.
fn is_as_it_says(acl: &Acl) -> bool {
    let roles = Role::ALL.into_iter();
    roles
        .map(|role| Acl::new(role, acl.rules.clone()).tag)
        .any(|tag| tag == acl.tag)
        && (acl.is_cut() || !acl.tag.is_for(Role::Cut))
}

/// A list of ours as it stands before those of others: what it lets pass at last is theirs to decide.
fn before_others(acl: &Arc<Acl>) -> Arc<Acl> {
    let is_from_pod = acl.tag.is_for(Role::FromPod);
    match is_from_pod.then(|| foreign_addresses(&acl.rules)).flatten() {
        Some(denied) => Arc::new(Acl::new(Role::BeforeOthers, denied)),
        None => without_last_permissions(acl),
    }
}

/// The same list without what lets everything of a family pass at the end of what it says of that family, wherever that is.
fn without_last_permissions(acl: &Arc<Acl>) -> Arc<Acl> {
    let mut ended: BTreeSet<Family> = BTreeSet::new();
    let is_kept = |rule: &&AclRule| {
        let is_permission = rule.is_everything() && rule.action != AclAction::Deny;
        let is_kept = !is_permission || ended.contains(&rule.family());
        if is_kept {
            ended.insert(rule.family());
        }
        is_kept
    };
    let mut rules: Vec<AclRule> = acl.rules.iter().rev().filter(is_kept).copied().collect();
    if rules.len() == acl.rules.len() {
        return Arc::clone(acl);
    }
    rules.reverse();
    Arc::new(Acl::new(Role::BeforeOthers, rules))
}
