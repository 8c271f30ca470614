//! Who does not allow an address everything, without asking everybody.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::Prefix;
use rustc_hash::FxHashMap;

use super::prefixes::{ByPrefix, place};
use crate::lists::Turn;
use crate::peers::Peers;
use crate::value::Value;
use crate::work::looked_at;

/// The addresses of pods that may not exchange everything, by the list that each is held to.
#[derive(Debug, Default)]
pub(super) struct Holders {
    /// By the place of a list in memory.
    lists: FxHashMap<usize, Held>,
    /// The lists that do not allow everything with whoever is in no prefix of theirs.
    narrow: BTreeSet<usize>,
    /// By their prefixes, but for that of everybody.
    by_prefix: ByPrefix,
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
        self.by_prefix.add(key, prefixes(peers));
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
        self.by_prefix.remove(key, prefixes(peers));
    }

    /// Whether no list says of an address what it does not say of everybody.
    pub(super) fn name_nowhere(&self, address: IpAddr) -> bool {
        self.by_prefix.around(address).next().is_none()
    }

    /// The addresses that do not allow another everything, with what each list of theirs allows it; each list is asked once.
    pub(super) fn not_allowing(&self, address: IpAddr) -> impl Iterator<Item = (IpAddr, Value)> {
        // The lists that say something of it that they do not say of everybody.
        let naming: BTreeSet<_> = self.by_prefix.around(address).collect();
        looked_at(naming.len() + self.narrow.len());
        let unaware: Vec<_> = self.narrow.difference(&naming).copied().collect();
        let of = |key: usize| self.lists.get(&key);
        let unaware = unaware.into_iter().filter_map(of);
        let unaware = unaware.map(|held| (held, held.peers.value_of_everybody_else()));
        let naming = naming.into_iter().filter_map(of);
        let naming = naming.map(move |held| (held, held.peers.value(address)));
        let less = naming
            .filter(|(_, value)| *value != Value::EVERYTHING)
            .chain(unaware);
        less.flat_map(|(held, value)| {
            looked_at(held.addresses.len());
            held.addresses.keys().map(move |&holder| (holder, value))
        })
    }
}

/// The prefixes of a list, but for that of everybody.
fn prefixes(peers: &Peers) -> impl Iterator<Item = Prefix> {
    let prefixes = peers.entries().iter().map(|entry| entry.prefix);
    prefixes.filter(|prefix| prefix.length() > 0)
}
