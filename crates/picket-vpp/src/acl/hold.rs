//! What a VPP has, kept while plans change it: so that a plan for a few interfaces looks at these and at nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::memory::{Known, Memory};
use super::model::{Acl, Acls, Tag};
use super::plan::{Changes, Handle, Installed, InstalledLists, Operation, Plan, Planner};

/// The lists that a VPP has, and which of them are used how often.
#[derive(Clone, Debug, Default)]
pub struct Held {
    installed: Installed,
    /// The indices of our lists that are as their names say, by name.
    own: FxHashMap<Tag, u32>,
    /// How often interfaces have each list of ours.
    uses: FxHashMap<u32, usize>,
    /// Those of ours that none has.
    idle: BTreeSet<u32>,
    memory: Memory,
}

impl Held {
    /// A VPP that has these lists.
    pub fn new(installed: Installed) -> Self {
        let memory = Memory::of(&installed);
        Self::remembering(memory, installed)
    }

    /// A VPP has these lists now; what it was known to have before is remembered.
    pub fn read_again(&mut self, installed: Installed) {
        if self.installed.interfaces.is_empty() {
            // Every VPP has one.
            *self = Self::new(installed);
            return;
        }
        let mut memory = std::mem::take(&mut self.memory);
        memory.compare((&self.installed).into(), (&installed).into());
        memory.learn(&installed);
        *self = Self::remembering(memory, installed);
    }

    fn remembering(memory: Memory, installed: Installed) -> Self {
        let mut held = Self {
            own: installed.own(),
            memory,
            ..Self::default()
        };
        held.installed = installed;
        held.count();
        held
    }

    /// These interfaces are as they should be: where they have no lists, everything is to pass.
    pub fn settle<'n>(&mut self, interfaces: impl IntoIterator<Item = &'n SmolStr>) {
        self.memory.leave(&self.installed, interfaces);
    }

    /// The same of all of them.
    pub fn settle_all(&mut self) {
        self.memory
            .leave(&self.installed, self.installed.interfaces.keys());
    }

    /// So much time has passed. The interfaces of which it is over that something was cut there.
    pub fn age(&mut self, passed: Duration) -> BTreeSet<SmolStr> {
        self.memory.age(passed)
    }

    /// Remembers what a plan cuts.
    pub fn note(&mut self, plan: &Plan) {
        self.memory.note(plan, &self.installed);
    }

    /// Interfaces have other lists than was known, and there may be others.
    pub fn set_interfaces(&mut self, interfaces: BTreeMap<SmolStr, InstalledLists>) {
        let before = std::mem::replace(&mut self.installed.interfaces, interfaces);
        let before = Known {
            acls: &self.installed.acls,
            interfaces: &before,
        };
        self.memory.compare(before, (&self.installed).into());
        self.memory.learn(&self.installed);
        self.count();
    }

    fn count(&mut self) {
        self.uses = self.installed.uses();
        let indices = self.installed.acls.keys().copied();
        let idle = indices.filter(|index| self.installed.is_own(*index) && self.is_unused(*index));
        self.idle = idle.collect();
    }

    fn uses(&self, index: u32) -> usize {
        self.uses.get(&index).copied().unwrap_or_default()
    }

    fn is_unused(&self, index: u32) -> bool {
        self.uses(index) == 0
    }

    /// The lists.
    pub fn installed(&self) -> &Installed {
        &self.installed
    }

    /// What [`plan`](super::plan::plan) gives where all interfaces but these have what they should.
    pub fn plan<'n>(&self, desired: &Acls, interfaces: impl IntoIterator<Item = &'n SmolStr>) -> Plan {
        let mut planner = Planner::new(&self.installed, desired, &self.own, &self.memory);
        let turns = planner.turns(interfaces.into_iter());
        let changes = planner.replace(turns, |index| self.uses(index));
        let deletions = self.deletions(&changes);
        planner.operations(changes, deletions)
    }

    /// Our lists that no interface has after these changes.
    fn deletions(&self, changes: &Changes<'_>) -> Vec<Operation> {
        let mut uses: FxHashMap<u32, usize> = self.idle.iter().map(|&index| (index, 0)).collect();
        for turn in changes.turns() {
            for index in turn.kept() {
                *uses.entry(index).or_insert_with(|| self.uses(index)) += 1;
            }
            for index in turn.before.indices() {
                let uses = uses.entry(index).or_insert_with(|| self.uses(index));
                *uses = uses.saturating_sub(1);
            }
        }
        let unused = uses.into_iter().filter(|(_, uses)| *uses == 0);
        let own = unused
            .map(|(index, _)| index)
            .filter(|&index| self.installed.is_own(index));
        let own: BTreeSet<_> = own.collect();
        own.into_iter().map(Operation::Delete).collect()
    }

    /// A plan has been carried out, and the lists that it made got these indices. Interfaces stay as they were where a list is
    /// not among them.
    pub fn advance(&mut self, plan: &Plan, created: &BTreeMap<Tag, u32>) {
        self.note(plan);
        self.advance_noted(plan, created);
    }

    /// The same for a plan of which is remembered what it cuts.
    pub(crate) fn advance_noted(&mut self, plan: &Plan, created: &BTreeMap<Tag, u32>) {
        for operation in plan.operations() {
            match operation {
                Operation::Create(acl) => {
                    if let Some(&index) = created.get(&acl.tag) {
                        self.add(index, acl);
                        self.idle.insert(index);
                    }
                }
                Operation::Replace { index, acl } => {
                    if acl.is_cut() {
                        self.memory.shorten(&self.installed, *index, acl);
                    }
                    self.remove(*index);
                    self.add(*index, acl);
                }
                Operation::Set {
                    interface,
                    input,
                    output,
                } => self.set(interface, input, output),
                Operation::Delete(index) => {
                    self.uses.remove(index);
                    self.idle.remove(index);
                    self.remove(*index);
                }
            }
        }
    }

    fn add(&mut self, index: u32, acl: &Acl) {
        self.own.insert(acl.tag.clone(), index);
        self.installed.acls.insert(index, acl.clone());
    }

    fn remove(&mut self, index: u32) {
        if let Some(acl) = self.installed.acls.remove(&index)
            && self.own.get(&acl.tag) == Some(&index)
        {
            self.own.remove(&acl.tag);
        }
    }

    fn set(&mut self, interface: &SmolStr, input: &[Handle], output: &[Handle]) {
        let indices = |handles: &[Handle]| -> Option<Vec<u32>> {
            let index = |handle: &Handle| match handle {
                Handle::Installed(index) => Some(*index),
                Handle::Created(tag) => self.own.get(tag).copied(),
            };
            handles.iter().map(index).collect()
        };
        let Some((input, output)) = indices(input).zip(indices(output)) else {
            return;
        };
        let before = self.installed.interfaces.get(interface);
        let before: Vec<_> = before.into_iter().flat_map(InstalledLists::indices).collect();
        for index in input.iter().chain(&output) {
            *self.uses.entry(*index).or_default() += 1;
            self.idle.remove(index);
        }
        for index in before {
            if let Some(uses) = self.uses.get_mut(&index) {
                *uses = uses.saturating_sub(1);
            }
            if self.is_unused(index) && self.installed.is_own(index) {
                self.idle.insert(index);
            }
        }
        let lists = InstalledLists { input, output };
        self.installed.interfaces.insert(interface.clone(), lists);
    }
}
