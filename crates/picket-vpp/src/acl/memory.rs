//! What is remembered of interfaces beside the lists that they have: what a change has cut there, and where everything passed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;

use super::cut::{Cutter, Passage, Withdrawal};
use super::model::{Acl, Role, Tag};
use super::plan::{Handle, Installed, InstalledLists, Operation, Plan};

/// How long what was cut is remembered: VPP keeps an idle session of TCP as long (`set acl-plugin session timeout tcp idle`).
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The lists that stand before others of an interface because something was cut: of what enters VPP there, and of what leaves.
pub(super) type Cuts = [Option<Arc<Acl>>; 2];

/// What is remembered of interfaces, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    cuts: BTreeMap<SmolStr, Kept>,
    /// Those without lists of ours where everything was to pass.
    open: BTreeSet<SmolStr>,
    /// Our lists of those that had some, and have none without our doing.
    lost: BTreeMap<SmolStr, Lists>,
}

/// The lists of a VPP, and which interfaces have them.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) acls: &'a BTreeMap<u32, Acl>,
    pub(super) interfaces: &'a BTreeMap<SmolStr, InstalledLists>,
}

impl<'a> Known<'a> {
    fn own(&self, index: u32) -> Option<&'a Acl> {
        self.acls.get(&index).filter(|acl| acl.is_own())
    }

    fn has_own(&self, lists: &InstalledLists) -> bool {
        lists.indices().any(|index| self.own(index).is_some())
    }
}

impl<'a> From<&'a Installed> for Known<'a> {
    fn from(installed: &'a Installed) -> Self {
        Self {
            acls: &installed.acls,
            interfaces: &installed.interfaces,
        }
    }
}

/// Lists of what enters VPP, and of what leaves it.
type Lists = [Vec<Arc<Acl>>; 2];

#[derive(Clone, Debug)]
struct Kept {
    lists: Cuts,
    left: Duration,
}

impl Memory {
    /// What a VPP says itself. Where it has lists of ours, what has none is as an agent has left it.
    pub(super) fn of(installed: &Installed) -> Self {
        let mut memory = Self::default();
        if installed.has_policies() {
            memory.leave(installed, installed.interfaces.keys());
        }
        memory.learn(installed);
        memory
    }

    /// Takes in which lists interfaces have lost from one state to another.
    pub(super) fn compare(&mut self, before: Known<'_>, now: Known<'_>) {
        let mut shared: BTreeMap<u32, Arc<Acl>> = BTreeMap::new();
        for (name, lists) in before.interfaces {
            let lists_now = now.interfaces.get(name);
            if lists_now.is_none_or(|lists| now.has_own(lists)) || !before.has_own(lists) {
                continue;
            }
            let mut own = |indices: &[u32]| -> Vec<Arc<Acl>> {
                let own = indices
                    .iter()
                    .filter_map(|index| Some((*index, before.own(*index)?)));
                let judging = own.filter(|(_, acl)| acl.judges());
                let share = |(index, acl): (u32, &Acl)| {
                    let acl = shared.entry(index).or_insert_with(|| Arc::new(acl.clone()));
                    Arc::clone(acl)
                };
                judging.map(share).collect()
            };
            let lists = [own(&lists.input), own(&lists.output)];
            self.lost.insert(name.clone(), lists);
        }
    }

    /// Takes in what a VPP has now: what is remembered counts.
    pub(super) fn learn(&mut self, installed: &Installed) {
        let there = &installed.interfaces;
        self.lost.retain(|name, _| there.contains_key(name));
        self.cuts.retain(|name, _| there.contains_key(name));
        self.open.retain(|name| there.contains_key(name));
        let mut shared = Shared::default();
        for (name, lists) in there {
            if self.cuts.contains_key(name) {
                continue;
            }
            let cuts = shared.cuts(installed, lists);
            if cuts.iter().any(Option::is_some) {
                self.cuts.insert(name.clone(), Kept::new(cuts));
            }
        }
    }

    /// Everything is to pass at those of these interfaces that have no lists of ours.
    pub(super) fn leave<'n>(
        &mut self,
        installed: &Installed,
        interfaces: impl IntoIterator<Item = &'n SmolStr>,
    ) {
        for name in interfaces {
            let lists = installed.interfaces.get(name);
            let is_bare = lists.is_some_and(|lists| !lists.indices().any(|index| installed.is_own(index)));
            match is_bare {
                true => self.open.insert(name.clone()),
                false => self.open.remove(name),
            };
        }
    }

    /// Takes in what a plan gives to interfaces.
    pub(super) fn note(&mut self, plan: &Plan, installed: &Installed) {
        let mut made: BTreeMap<&Tag, &Arc<Acl>> = BTreeMap::new();
        let (mut shared, mut cutter) = (Shared::default(), Cutter::default());
        for operation in plan.operations() {
            match operation {
                Operation::Create(acl) => drop(made.insert(&acl.tag, acl)),
                Operation::Set {
                    interface,
                    input,
                    output,
                } => {
                    let lists = [input, output].map(|handles| {
                        handles.iter().find_map(|handle| match handle {
                            Handle::Created(tag) => {
                                let acl = made.get(tag).filter(|acl| acl.tag.is_for(Role::Cut));
                                acl.map(|acl| Arc::clone(acl))
                            }
                            Handle::Installed(index) => shared.cut(installed, *index),
                        })
                    });
                    let own = |handle: &Handle| match handle {
                        Handle::Created(tag) => made.get(tag).map(AsRef::as_ref),
                        Handle::Installed(index) => installed.acls.get(index),
                    };
                    let takes = || {
                        let none = InstalledLists::default();
                        let before = installed.interfaces.get(interface).unwrap_or(&none);
                        let before = [&before.input, &before.output].map(|indices| {
                            Passage::of(indices.iter().filter_map(|index| installed.acls.get(index)))
                        });
                        let after =
                            [input, output].map(|handles| Passage::of(handles.iter().filter_map(own)));
                        let mut ways = Withdrawal::both(before, after, [None; 2]).into_iter();
                        ways.any(|way| cutter.list(&way).is_some())
                    };
                    self.keep(interface, lists, takes);
                    self.lost.remove(interface);
                }
                Operation::Replace { acl, .. } => drop(made.insert(&acl.tag, acl)),
                Operation::Delete(_) => {}
            }
        }
    }

    /// The list with this index, which stands before those of some interfaces, has become another that drops less.
    pub(super) fn shorten(&mut self, installed: &Installed, index: u32, now: &Arc<Acl>) {
        for (name, kept) in &mut self.cuts {
            let lists = installed.interfaces.get(name);
            let ways = lists.map(|lists| [&lists.input, &lists.output]);
            for (indices, list) in ways.into_iter().flatten().zip(&mut kept.lists) {
                if indices.contains(&index) {
                    *list = Some(Arc::clone(now)).filter(|now| !now.is_spent());
                }
            }
        }
        self.cuts.retain(|_, kept| kept.lists.iter().any(Option::is_some));
    }

    fn keep(&mut self, interface: &SmolStr, lists: Cuts, takes: impl FnOnce() -> bool) {
        if lists.iter().all(Option::is_none) {
            self.cuts.remove(interface);
            return;
        }
        // Where nothing more is cut it is still from the day when it was.
        let kept = self.cuts.get_mut(interface);
        match kept.filter(|kept| !kept.is_over() && !takes()) {
            Some(kept) => kept.lists = lists,
            None => drop(self.cuts.insert(interface.clone(), Kept::new(lists))),
        }
    }

    /// So much time has passed; the interfaces where something was cut too long ago, until others are put there.
    pub(super) fn age(&mut self, passed: Duration) -> BTreeSet<SmolStr> {
        for kept in self.cuts.values_mut() {
            kept.left = kept.left.saturating_sub(passed);
        }
        let over = self.cuts.iter().filter(|(_, kept)| kept.is_over());
        over.map(|(name, _)| name.clone()).collect()
    }

    /// What stands before the lists of an interface, and is not over.
    pub(super) fn cuts(&self, interface: &SmolStr) -> Option<&Cuts> {
        let kept = self.cuts.get(interface).filter(|kept| !kept.is_over());
        kept.map(|kept| &kept.lists)
    }

    /// The lists that an interface had which has none now.
    pub(super) fn lost(&self, interface: &SmolStr) -> [Vec<&Acl>; 2] {
        let lists = self.lost.get(interface);
        let lists = lists.map(|lists| {
            lists
                .each_ref()
                .map(|lists| lists.iter().map(AsRef::as_ref).collect())
        });
        lists.unwrap_or_default()
    }

    /// Whether everything was to pass at an interface that has no lists of ours.
    pub(super) fn is_open(&self, interface: &SmolStr) -> bool {
        self.open.contains(interface)
    }
}

impl Kept {
    fn new(lists: Cuts) -> Self {
        Self { lists, left: KEPT }
    }

    fn is_over(&self) -> bool {
        self.left.is_zero()
    }
}

/// Lists that stand before others, by index, and what is none of them: each is taken once, whoever has it.
#[derive(Default)]
struct Shared(BTreeMap<u32, Option<Arc<Acl>>>);

impl Shared {
    fn cuts(&mut self, installed: &Installed, lists: &InstalledLists) -> Cuts {
        [&lists.input, &lists.output]
            .map(|indices| indices.iter().find_map(|&index| self.cut(installed, index)))
    }

    fn cut(&mut self, installed: &Installed, index: u32) -> Option<Arc<Acl>> {
        let cut = || {
            let acl = installed.acls.get(&index);
            let acl = acl.filter(|acl| acl.is_cut() && !acl.is_spent());
            acl.map(|acl| Arc::new(acl.clone()))
        };
        self.0.entry(index).or_insert_with(cut).clone()
    }
}
