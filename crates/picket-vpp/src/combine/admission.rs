//! Who admits an address, without asking everybody.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_policy::ObjectRef;

use super::prefixes::ByPrefix;
use crate::lists::Turn;
use crate::value::Value;
use crate::work::looked_at;

/// Pods by the prefixes that they admit something of.
#[derive(Debug, Default)]
pub(super) struct Admission(ByPrefix<ObjectRef>);

impl Admission {
    /// These pods have other lists now, of which `admits` says which values count.
    pub(super) fn follow(&mut self, turns: &[(ObjectRef, Turn)], admits: impl Fn(Value) -> bool) {
        let turns = turns.iter().map(|(pod, turn)| (pod.clone(), turn));
        self.0.follow(turns, |entry| admits(entry.value));
    }

    /// The pods with a list of which a prefix that counts holds the address.
    pub(super) fn of(&self, address: IpAddr) -> BTreeSet<ObjectRef> {
        let numbers: BTreeSet<_> = self.0.around(address).collect();
        let lists = numbers.into_iter().filter_map(|number| self.0.get(number));
        lists
            .inspect(|had| looked_at(had.by.len()))
            .flat_map(|had| had.by.keys().cloned())
            .collect()
    }
}
