//! Who admits an address, without asking everybody.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::prefixes::ByPrefix;
use crate::lists::Turn;
use crate::value::Value;
use crate::work::looked_at;

/// Pods by the prefixes that they admit something of.
#[derive(Debug)]
pub(super) struct Admission<K>(ByPrefix<K>);

impl<K> Default for Admission<K> {
    fn default() -> Self {
        Self(ByPrefix::default())
    }
}

impl<K: Ord + Clone> Admission<K> {
    /// These pods have other lists now, of which `admits` says which values count.
    pub(super) fn follow(&mut self, turns: &[(K, Turn)], admits: impl Fn(Value) -> bool) {
        let turns = turns.iter().map(|(pod, turn)| (pod.clone(), turn));
        self.0.follow(turns, |entry| admits(entry.value));
    }

    /// The pods with a list of which a prefix that counts holds the address, some more than once.
    pub(super) fn of(&self, address: IpAddr) -> impl Iterator<Item = &K> {
        let numbers: BTreeSet<_> = self.0.around(address).collect();
        let lists = numbers.into_iter().filter_map(|number| self.0.get(number));
        lists
            .inspect(|had| looked_at(had.by.len()))
            .flat_map(|had| had.by.keys())
    }
}
