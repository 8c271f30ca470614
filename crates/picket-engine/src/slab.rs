//! Small integer keys: typed slabs, and interners that count who uses a value.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// A typed small integer.
pub(crate) trait Key: Copy + Ord + Hash + std::fmt::Debug {
    fn new(index: u32) -> Self;
    fn index(self) -> u32;
}

macro_rules! keys {
    ($($(#[$doc:meta])* $visibility:vis struct $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility struct $name(pub(crate) u32);

        impl $crate::slab::Key for $name {
            fn new(index: u32) -> Self { Self(index) }
            fn index(self) -> u32 { self.0 }
        }
    )*};
}
pub(crate) use keys;

keys! {
    /// A pod, managed or not.
    pub(crate) struct PodId;
    /// A node.
    pub(crate) struct NodeId;
    /// A namespace, explicit or implied.
    pub(crate) struct NamespaceId;
    /// Pods that no policy can tell apart but by address, or one node.
    pub(crate) struct GroupId;
    /// Some namespaces, as selectors name them.
    pub(crate) struct ScopeId;
    /// A distinct selector: of pods, of nodes, or of a container port.
    pub(crate) struct TermId;
    /// A distinct block of addresses.
    pub(crate) struct BlockId;
    /// A node of the prefix tree.
    pub(crate) struct AtomId;
    /// Members with the same terms.
    pub(crate) struct ClassId;
    /// A policy.
    pub(crate) struct PolicyId;
}

/// Values under small keys; keys of removed values are used again, the smallest first, so that sets of keys stay few
/// intervals.
#[derive(Clone, Debug)]
pub(crate) struct Slab<K, T> {
    slots: Vec<Option<T>>,
    free: BTreeSet<u32>,
    /// Keys freed and not yet to be used again; see [`Slab::retire`].
    retired: Vec<u32>,
    key: PhantomData<fn(K) -> K>,
}

impl<K, T> Default for Slab<K, T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: BTreeSet::new(),
            retired: Vec::new(),
            key: PhantomData,
        }
    }
}

/// The key for position `at`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "INVARIANT: 2^32 objects do not fit into memory"
)]
fn position(at: usize) -> u32 {
    at as u32
}

impl<K: Key, T> Slab<K, T> {
    pub(crate) fn insert(&mut self, value: T) -> K {
        if let Some(index) = self.free.pop_first()
            && let Some(slot) = self.slots.get_mut(index as usize)
        {
            *slot = Some(value);
            return K::new(index);
        }
        self.slots.push(Some(value));
        K::new(position(self.slots.len() - 1))
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<T> {
        let value = self.slots.get_mut(key.index() as usize)?.take()?;
        self.free.insert(key.index());
        Some(value)
    }

    /// As [`Slab::remove`], but the key stays unused until [`Slab::recycle`].
    pub(crate) fn retire(&mut self, key: K) -> Option<T> {
        let value = self.slots.get_mut(key.index() as usize)?.take()?;
        self.retired.push(key.index());
        Some(value)
    }

    /// Lets retired keys be used again.
    pub(crate) fn recycle(&mut self) {
        self.free.extend(self.retired.drain(..));
    }

    pub(crate) fn get(&self, key: K) -> Option<&T> {
        self.slots.get(key.index() as usize)?.as_ref()
    }

    /// Keys and values, ascending by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(at, slot)| Some((K::new(position(at)), slot.as_ref()?)))
    }
}

impl<K: Key, T> Index<K> for Slab<K, T> {
    type Output = T;

    #[expect(
        clippy::expect_used,
        reason = "INVARIANT: keys are private to the engine, and every reference to one is dropped before its value"
    )]
    fn index(&self, key: K) -> &T {
        self.get(key).expect("a live key")
    }
}

impl<K: Key, T> IndexMut<K> for Slab<K, T> {
    #[expect(clippy::expect_used, reason = "INVARIANT: as for `index`")]
    fn index_mut(&mut self, key: K) -> &mut T {
        let slot = self.slots.get_mut(key.index() as usize);
        slot.and_then(Option::as_mut).expect("a live key")
    }
}

/// Distinct values under small keys, each with the number of its uses.
#[derive(Clone, Debug)]
pub(crate) struct Interner<K, T> {
    values: Slab<K, (T, u32)>,
    table: HashTable<u32>,
}

impl<K, T> Default for Interner<K, T> {
    fn default() -> Self {
        Self {
            values: Slab::default(),
            table: HashTable::new(),
        }
    }
}

fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    FxBuildHasher.hash_one(value)
}

impl<K: Key, T: Hash + Eq> Interner<K, T> {
    /// The key of a value in use.
    pub(crate) fn find(&self, value: &T) -> Option<K> {
        let found = self
            .table
            .find(hash(value), |&index| self.values[K::new(index)].0 == *value);
        found.map(|&index| K::new(index))
    }

    /// Counts one more use of `value`; says whether it is the first.
    pub(crate) fn acquire(&mut self, value: T) -> (K, bool) {
        if let Some(key) = self.find(&value) {
            self.values[key].1 += 1;
            return (key, false);
        }
        let hashed = hash(&value);
        let key = self.values.insert((value, 1));
        let values = &self.values;
        self.table
            .insert_unique(hashed, key.index(), |&index| hash(&values[K::new(index)].0));
        (key, true)
    }

    /// Whether nobody but one user has the value.
    pub(crate) fn is_last_use(&self, key: K) -> bool {
        self.values[key].1 == 1
    }

    /// Counts one use less; after the last, the value is gone and returned.
    pub(crate) fn release(&mut self, key: K) -> Option<T> {
        let uses = &mut self.values[key].1;
        *uses -= 1;
        if *uses > 0 {
            return None;
        }
        let hashed = hash(&self.values[key].0);
        if let Ok(entry) = self.table.find_entry(hashed, |&index| index == key.index()) {
            entry.remove();
        }
        self.values.remove(key).map(|(value, _)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        self.values.iter().map(|(key, (value, _))| (key, value))
    }
}

impl<K: Key, T> Index<K> for Interner<K, T> {
    type Output = T;

    fn index(&self, key: K) -> &T {
        &self.values[key].0
    }
}
