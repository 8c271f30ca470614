//! Who admits an address, without asking everybody.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::Prefix;
use picket_policy::ObjectRef;
use rustc_hash::FxHashMap;

use crate::peers::Peers;
use crate::value::Value;

/// Pods by the prefixes that they admit something of.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// Pods with one list, by its place in memory.
    lists: FxHashMap<usize, (Arc<Peers>, BTreeSet<ObjectRef>)>,
    /// Those of the lists with a prefix.
    by_prefix: FxHashMap<Prefix, Vec<usize>>,
    /// How many prefixes there are of each length.
    lengths: BTreeMap<u8, usize>,
    /// The prefixes of each list that are in `by_prefix`.
    admitted: FxHashMap<usize, Vec<Prefix>>,
}

impl Admission {
    /// A pod has a list, of which `admits` says which values count.
    pub(super) fn add(&mut self, list: &Arc<Peers>, pod: &ObjectRef, admits: impl Fn(Value) -> bool) {
        let key = place(list);
        let (_, pods) = self
            .lists
            .entry(key)
            .or_insert_with(|| (Arc::clone(list), BTreeSet::new()));
        if !pods.insert(pod.clone()) || pods.len() > 1 {
            return;
        }
        let entries = list.entries().iter().filter(|entry| admits(entry.value));
        let prefixes: Vec<_> = entries.map(|entry| entry.prefix).collect();
        for &prefix in &prefixes {
            let here = self.by_prefix.entry(prefix).or_default();
            if here.is_empty() {
                *self.lengths.entry(prefix.length()).or_default() += 1;
            }
            here.push(key);
        }
        self.admitted.insert(key, prefixes);
    }

    /// A pod does not have a list any more.
    pub(super) fn remove(&mut self, list: &Arc<Peers>, pod: &ObjectRef) {
        let key = place(list);
        let Some((_, pods)) = self.lists.get_mut(&key) else {
            return;
        };
        pods.remove(pod);
        if !pods.is_empty() {
            return;
        }
        for prefix in self.admitted.remove(&key).unwrap_or_default() {
            let Some(here) = self.by_prefix.get_mut(&prefix) else {
                continue;
            };
            here.retain(|known| *known != key);
            if here.is_empty() {
                self.by_prefix.remove(&prefix);
                let count = self.lengths.entry(prefix.length()).or_default();
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.lengths.remove(&prefix.length());
                }
            }
        }
        self.lists.remove(&key);
    }

    /// The pods with a list of which a prefix that counts holds the address.
    pub(super) fn of(&self, address: IpAddr) -> BTreeSet<ObjectRef> {
        let around = self.lengths.keys();
        let around = around.filter_map(|&length| Prefix::new(address, length));
        let keys = around.filter_map(|prefix| self.by_prefix.get(&prefix)).flatten();
        let keys: BTreeSet<_> = keys.collect();
        let lists = keys.into_iter().filter_map(|key| self.lists.get(key));
        lists.flat_map(|(_, pods)| pods.iter().cloned()).collect()
    }
}

/// What tells lists apart while they are kept.
fn place(list: &Arc<Peers>) -> usize {
    Arc::as_ptr(list).addr()
}
