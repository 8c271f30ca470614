//! Sorted lists of keys under shared names: posting lists.

use std::borrow::Borrow;
use std::hash::Hash;

use rustc_hash::FxHashMap;

use crate::slab::Key;

/// For each name a sorted list of keys; names without keys take no room.
#[derive(Clone, Debug)]
pub(crate) struct MultiMap<N, K>(FxHashMap<N, Vec<K>>);

impl<N, K> Default for MultiMap<N, K> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<N: Hash + Eq, K: Key> MultiMap<N, K> {
    pub(crate) fn insert(&mut self, name: N, key: K) {
        insert_sorted(self.0.entry(name).or_default(), key);
    }

    pub(crate) fn remove<Q: Hash + Eq + ?Sized>(&mut self, name: &Q, key: K)
    where
        N: Borrow<Q>,
    {
        if let Some(keys) = self.0.get_mut(name) {
            remove_sorted(keys, key);
            if keys.is_empty() {
                self.0.remove(name);
            }
        }
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, name: &Q) -> &[K]
    where
        N: Borrow<Q>,
    {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
}

/// Adds `key` to a sorted list without repetitions; constant time above every present one.
pub(crate) fn insert_sorted<K: Ord>(keys: &mut Vec<K>, key: K) {
    if keys.last().is_none_or(|last| *last < key) {
        keys.push(key);
    } else if let Err(at) = keys.binary_search(&key) {
        keys.insert(at, key);
    }
}

/// Takes `key` out of a sorted list.
pub(crate) fn remove_sorted<K: Ord>(keys: &mut Vec<K>, key: K) {
    if let Ok(at) = keys.binary_search(&key) {
        keys.remove(at);
    }
}
