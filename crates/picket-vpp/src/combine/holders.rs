//! Who does not allow an address everything, without asking everybody.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::Prefix;
use rustc_hash::FxHashMap;

use crate::lists::Turn;
use crate::peers::Peers;
use crate::value::Value;

/// The addresses of pods that may not exchange everything, by the list that each is held to.
#[derive(Debug, Default)]
pub(super) struct Holders {
    /// By the place of a list in memory.
    lists: FxHashMap<usize, Held>,
    /// The lists that do not allow everything with whoever is in no prefix of theirs.
    narrow: BTreeSet<usize>,
    /// The lists with a prefix, but for that of everybody.
    by_prefix: FxHashMap<Prefix, Vec<usize>>,
    /// How many prefixes there are of each length.
    lengths: BTreeMap<u8, usize>,
}

/// A list, and how many pods are held to it at each address.
#[derive(Debug)]
struct Held {
    peers: Arc<Peers>,
    addresses: BTreeMap<IpAddr, usize>,
}

impl Holders {
    /// Somebody at an address is held to another list now.
    pub(super) fn turn(&mut self, address: IpAddr, [before, now]: &Turn) {
        if let Some(now) = now {
            self.add(address, now);
        }
        if let Some(before) = before {
            self.remove(address, before);
        }
    }

    fn add(&mut self, address: IpAddr, peers: &Arc<Peers>) {
        let key = place(peers);
        let held = self.lists.entry(key).or_insert_with(|| Held {
            peers: Arc::clone(peers),
            addresses: BTreeMap::new(),
        });
        let is_new = held.addresses.is_empty();
        *held.addresses.entry(address).or_default() += 1;
        if !is_new {
            return;
        }
        if peers.value_of_everybody_else() != Value::EVERYTHING {
            self.narrow.insert(key);
        }
        for prefix in prefixes(peers) {
            let here = self.by_prefix.entry(prefix).or_default();
            if here.is_empty() {
                *self.lengths.entry(prefix.length()).or_default() += 1;
            }
            here.push(key);
        }
    }

    fn remove(&mut self, address: IpAddr, peers: &Arc<Peers>) {
        let key = place(peers);
        let Some(held) = self.lists.get_mut(&key) else {
            return;
        };
        if let Some(count) = held.addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                held.addresses.remove(&address);
            }
        }
        if !held.addresses.is_empty() {
            return;
        }
        self.lists.remove(&key);
        self.narrow.remove(&key);
        for prefix in prefixes(peers) {
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
    }

    /// The lists that say something of an address that they do not say of everybody.
    fn naming(&self, address: IpAddr) -> BTreeSet<usize> {
        let around = self.lengths.keys();
        let around = around.filter_map(|&length| Prefix::new(address, length));
        let keys = around.filter_map(|prefix| self.by_prefix.get(&prefix)).flatten();
        keys.copied().collect()
    }

    /// Whether no list says of an address what it does not say of everybody.
    pub(super) fn name_nowhere(&self, address: IpAddr) -> bool {
        let mut around = self.lengths.keys();
        !around.any(|&length| {
            Prefix::new(address, length).is_some_and(|prefix| self.by_prefix.contains_key(&prefix))
        })
    }

    /// The addresses that do not allow another everything, with what each list of theirs allows it; each list is asked once.
    pub(super) fn not_allowing(&self, address: IpAddr) -> impl Iterator<Item = (IpAddr, Value)> {
        let naming = self.naming(address);
        let unaware: Vec<_> = self.narrow.difference(&naming).copied().collect();
        let of = |key: usize| self.lists.get(&key);
        let unaware = unaware.into_iter().filter_map(of);
        let unaware = unaware.map(|held| (held, held.peers.value_of_everybody_else()));
        let naming = naming.into_iter().filter_map(of);
        let naming = naming.map(move |held| (held, held.peers.value(address)));
        let less = naming
            .filter(|(_, value)| *value != Value::EVERYTHING)
            .chain(unaware);
        less.flat_map(|(held, value)| held.addresses.keys().map(move |&holder| (holder, value)))
    }
}

/// The prefixes of a list, but for that of everybody.
fn prefixes(peers: &Peers) -> impl Iterator<Item = Prefix> {
    let prefixes = peers.entries().iter().map(|entry| entry.prefix);
    prefixes.filter(|prefix| prefix.length() > 0)
}

/// What tells lists apart while they are kept.
fn place(list: &Arc<Peers>) -> usize {
    Arc::as_ptr(list).addr()
}
