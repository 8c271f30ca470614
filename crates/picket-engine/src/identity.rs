//! Identities: classes of addresses that no policy can tell apart.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use picket_net::IntervalSet;
use rustc_hash::FxHashMap;

use crate::slab::{BlockId, ClassId, Key, Slab, TermId, keys};

keys! {
    /// A class of addresses that no policy can tell apart: the same selectors match them, the same blocks hold them,
    /// and the port names that policies use resolve alike.
    ///
    /// A small integer. It keeps its meaning as long as it exists: one that [`crate::Delta`] does not name has the same
    /// traffic with every subject that [`crate::Delta`] does not name.
    pub struct Identity;
}

/// A set of identities, by their numbers.
pub type IdentitySet = IntervalSet<u32>;

impl Identity {
    /// The number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The identity of this number, as [`IdentitySet`] holds it.
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What an identity is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Signature {
    /// A class of selectors and a class of blocks.
    Class(ClassId, ClassId),
    /// The address of several that have different identities: it may do only what all of them may. Sorted.
    Joint(Box<[Identity]>),
}

#[derive(Clone, Debug)]
struct Entry {
    signature: Signature,
    /// Members: addresses of pods and nodes, and atoms.
    uses: u32,
}

/// The terms that an identity has by its signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) selectors: &'a [TermId],
    pub(crate) blocks: &'a [BlockId],
}

/// All identities, and for each term those that have it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identities {
    entries: Slab<Identity, Entry>,
    by_class: FxHashMap<(ClassId, ClassId), Identity>,
    joints: BTreeMap<Box<[Identity]>, Identity>,
    of_selectors: Vec<IdentitySet>,
    of_blocks: Vec<IdentitySet>,
    with_selector: Vec<IdentitySet>,
    with_block: Vec<IdentitySet>,
    live: IdentitySet,
    /// How many have come or gone.
    epoch: u64,
    /// The latest of them, the latest last.
    recent: VecDeque<u32>,
}

/// How many comings and goings are known by name.
const RECENT: usize = 64;

/// The set at `at`, made when it is beyond the last.
fn slot(sets: &mut Vec<IdentitySet>, at: u32) -> &mut IdentitySet {
    let at = at as usize;
    if sets.len() <= at {
        sets.resize_with(at + 1, IntervalSet::empty);
    }
    #[expect(clippy::indexing_slicing, reason = "INVARIANT: resized just above")]
    &mut sets[at]
}

const NONE: &IdentitySet = &IdentitySet::EMPTY;

impl Identities {
    pub(crate) fn live(&self) -> &IdentitySet {
        &self.live
    }

    /// How many have come or gone.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Those that have come or gone since `epoch`; `None` when these are too many to be known. What policies mean for others
    /// is as it was then, if the policies are.
    pub(crate) fn since(&self, epoch: u64) -> Option<IdentitySet> {
        let count = usize::try_from(self.epoch.checked_sub(epoch)?).ok()?;
        let first = self.recent.len().checked_sub(count)?;
        Some(self.recent.range(first..).copied().collect())
    }

    fn note(&mut self, id: Identity) {
        self.epoch += 1;
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(id.0);
    }

    pub(crate) fn signature(&self, id: Identity) -> Option<&Signature> {
        self.entries.get(id).map(|entry| &entry.signature)
    }

    pub(crate) fn uses(&self, id: Identity) -> u32 {
        self.entries.get(id).map_or(0, |entry| entry.uses)
    }

    pub(crate) fn find(&self, selectors: ClassId, blocks: ClassId) -> Option<Identity> {
        self.by_class.get(&(selectors, blocks)).copied()
    }

    /// Joint identities with their members.
    pub(crate) fn joints(&self) -> impl Iterator<Item = (Identity, &[Identity])> {
        self.joints.iter().map(|(members, &id)| (id, &**members))
    }

    /// The identities that a selector matches.
    pub(crate) fn with_selector(&self, term: TermId) -> &IdentitySet {
        self.with_selector.get(term.index() as usize).unwrap_or(NONE)
    }

    /// The identities in a block.
    pub(crate) fn with_block(&self, block: BlockId) -> &IdentitySet {
        self.with_block.get(block.index() as usize).unwrap_or(NONE)
    }

    /// Counts `members` more; says whether they are the first.
    pub(crate) fn acquire(
        &mut self,
        selectors: ClassId,
        blocks: ClassId,
        terms: Terms<'_>,
        members: u32,
    ) -> (Identity, bool) {
        if let Some(id) = self.find(selectors, blocks) {
            self.entries[id].uses += members;
            return (id, false);
        }
        let id = self.entries.insert(Entry {
            signature: Signature::Class(selectors, blocks),
            uses: members,
        });
        self.enter(id, selectors, blocks);
        for term in terms.selectors {
            slot(&mut self.with_selector, term.index()).insert(id.0);
        }
        for block in terms.blocks {
            slot(&mut self.with_block, block.index()).insert(id.0);
        }
        self.live.insert(id.0);
        self.note(id);
        (id, true)
    }

    /// Counts one more address that the owners of `members` share.
    pub(crate) fn acquire_joint(&mut self, members: Box<[Identity]>) -> (Identity, bool) {
        if let Some(&id) = self.joints.get(&members) {
            self.entries[id].uses += 1;
            return (id, false);
        }
        let id = self.entries.insert(Entry {
            signature: Signature::Joint(members.clone()),
            uses: 1,
        });
        self.joints.insert(members, id);
        self.live.insert(id.0);
        self.note(id);
        (id, true)
    }

    /// Counts `members` less; says whether they were the last. The number is not used again before
    /// [`Identities::recycle`]. `terms` are those of its signature, none for a joint one.
    pub(crate) fn release(&mut self, id: Identity, terms: Terms<'_>, members: u32) -> bool {
        let uses = &mut self.entries[id].uses;
        *uses -= members;
        if *uses > 0 {
            return false;
        }
        match self.entries.retire(id).map(|entry| entry.signature) {
            Some(Signature::Class(selectors, blocks)) => {
                self.leave(id, selectors, blocks);
                for term in terms.selectors {
                    slot(&mut self.with_selector, term.index()).remove(id.0);
                }
                for block in terms.blocks {
                    slot(&mut self.with_block, block.index()).remove(id.0);
                }
            }
            Some(Signature::Joint(members)) => drop(self.joints.remove(&members)),
            None => {}
        }
        self.live.remove(id.0);
        self.note(id);
        true
    }

    /// Lets the numbers of identities that are gone be used again.
    pub(crate) fn recycle(&mut self) {
        self.entries.recycle();
    }

    /// Moves an identity with all its members to new classes. Terms that come or go are told by the `set_` methods.
    pub(crate) fn rename(&mut self, id: Identity, selectors: ClassId, blocks: ClassId) {
        let signature = Signature::Class(selectors, blocks);
        if let Signature::Class(selectors, blocks) =
            std::mem::replace(&mut self.entries[id].signature, signature)
        {
            self.leave(id, selectors, blocks);
        }
        self.enter(id, selectors, blocks);
    }

    /// Sets the identities that a selector matches to those of `classes`.
    pub(crate) fn set_selector(&mut self, term: TermId, classes: impl Iterator<Item = ClassId>) {
        *slot(&mut self.with_selector, term.index()) = union_of(&self.of_selectors, classes);
    }

    /// Sets the identities in a block to those of `classes`.
    pub(crate) fn set_block(&mut self, block: BlockId, classes: impl Iterator<Item = ClassId>) {
        *slot(&mut self.with_block, block.index()) = union_of(&self.of_blocks, classes);
    }

    fn enter(&mut self, id: Identity, selectors: ClassId, blocks: ClassId) {
        self.by_class.insert((selectors, blocks), id);
        slot(&mut self.of_selectors, selectors.index()).insert(id.0);
        slot(&mut self.of_blocks, blocks.index()).insert(id.0);
    }

    fn leave(&mut self, id: Identity, selectors: ClassId, blocks: ClassId) {
        self.by_class.remove(&(selectors, blocks));
        slot(&mut self.of_selectors, selectors.index()).remove(id.0);
        slot(&mut self.of_blocks, blocks.index()).remove(id.0);
    }
}

fn union_of(sets: &[IdentitySet], classes: impl Iterator<Item = ClassId>) -> IdentitySet {
    let sets = classes.filter_map(|class| sets.get(class.index() as usize));
    sets.flat_map(|set| set.intervals().iter().copied()).collect()
}
