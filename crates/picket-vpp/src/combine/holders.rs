//! Who does not allow an address everything, without asking everybody.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::prefixes::ByPrefix;
use crate::lists::Turn;
use crate::value::Value;
use crate::work::looked_at;

/// The addresses of pods that may not exchange everything, by the list that each is held to.
#[derive(Debug, Default)]
pub(super) struct Holders {
    /// By their prefixes, but for that of everybody.
    lists: ByPrefix<IpAddr>,
    /// The lists that do not allow everything with whoever is in no prefix of theirs.
    narrow: BTreeSet<usize>,
}

impl Holders {
    /// Pods at these addresses are held to other lists now.
    pub(super) fn follow(&mut self, turns: &[(IpAddr, Turn)]) {
        let turns = turns.iter().map(|(address, turn)| (*address, turn));
        for number in self.lists.follow(turns, |entry| entry.prefix.length() > 0) {
            let held = self.lists.get(number);
            if held.is_some_and(|held| held.list.value_of_everybody_else() != Value::EVERYTHING) {
                self.narrow.insert(number);
            } else {
                self.narrow.remove(&number);
            }
        }
    }

    /// Whether no list says of an address what it does not say of everybody.
    pub(super) fn name_nowhere(&self, address: IpAddr) -> bool {
        self.lists.around(address).next().is_none()
    }

    /// The addresses that do not allow another everything, with what each list of theirs allows it; each list is asked once.
    pub(super) fn not_allowing(&self, address: IpAddr) -> impl Iterator<Item = (IpAddr, Value)> {
        // The lists that say something of it that they do not say of everybody.
        let naming: BTreeSet<_> = self.lists.around(address).collect();
        looked_at(naming.len() + self.narrow.len());
        let unaware: Vec<_> = self.narrow.difference(&naming).copied().collect();
        let of = |number: usize| self.lists.get(number);
        let unaware = unaware.into_iter().filter_map(of);
        let unaware = unaware.map(|held| (held, held.list.value_of_everybody_else()));
        let naming = naming.into_iter().filter_map(of);
        let naming = naming.map(move |held| (held, held.list.value(address)));
        let less = naming
            .filter(|(_, value)| *value != Value::EVERYTHING)
            .chain(unaware);
        less.flat_map(|(held, value)| {
            looked_at(held.by.len());
            held.by.keys().map(move |&holder| (holder, value))
        })
    }
}
