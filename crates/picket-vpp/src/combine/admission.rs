//! Who admits an address, without asking everybody.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::Prefix;
use picket_policy::ObjectRef;
use rustc_hash::FxHashMap;

use super::prefixes::{ByPrefix, place};
use crate::peers::Peers;
use crate::value::Value;
use crate::work::looked_at;

/// Pods by the prefixes that they admit something of.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// Pods with one list, by its place in memory.
    lists: FxHashMap<usize, (Arc<Peers>, BTreeSet<ObjectRef>)>,
    /// By the prefixes that count of them.
    by_prefix: ByPrefix,
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
        self.by_prefix.add(key, prefixes.iter().copied());
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
        self.by_prefix
            .remove(key, self.admitted.remove(&key).unwrap_or_default());
        self.lists.remove(&key);
    }

    /// The pods with a list of which a prefix that counts holds the address.
    pub(super) fn of(&self, address: IpAddr) -> BTreeSet<ObjectRef> {
        let keys: BTreeSet<_> = self.by_prefix.around(address).collect();
        let lists = keys.into_iter().filter_map(|key| self.lists.get(&key));
        lists
            .inspect(|(_, pods)| looked_at(pods.len()))
            .flat_map(|(_, pods)| pods.iter().cloned())
            .collect()
    }
}
