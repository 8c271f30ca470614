//! Lists by their prefixes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::Prefix;
use rustc_hash::FxHashMap;

use crate::peers::Peers;
use crate::work::looked_at;

/// Lists by their prefixes, each by its place in memory.
#[derive(Debug, Default)]
pub(super) struct ByPrefix {
    lists: FxHashMap<Prefix, Vec<usize>>,
    /// How many prefixes there are of each length.
    lengths: BTreeMap<u8, usize>,
}

impl ByPrefix {
    /// A list has these prefixes.
    pub(super) fn add(&mut self, list: usize, prefixes: impl IntoIterator<Item = Prefix>) {
        for prefix in prefixes {
            let here = self.lists.entry(prefix).or_default();
            if here.is_empty() {
                *self.lengths.entry(prefix.length()).or_default() += 1;
            }
            here.push(list);
        }
    }

    /// A list with these prefixes is gone.
    pub(super) fn remove(&mut self, list: usize, prefixes: impl IntoIterator<Item = Prefix>) {
        for prefix in prefixes {
            let Some(here) = self.lists.get_mut(&prefix) else {
                continue;
            };
            here.retain(|known| *known != list);
            if here.is_empty() {
                self.lists.remove(&prefix);
                let count = self.lengths.entry(prefix.length()).or_default();
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.lengths.remove(&prefix.length());
                }
            }
        }
    }

    /// The lists with a prefix that holds an address, by each such prefix.
    pub(super) fn around(&self, address: IpAddr) -> impl Iterator<Item = usize> {
        let around = self.lengths.keys();
        let around = around.filter_map(move |&length| Prefix::new(address, length));
        let lists = around.filter_map(|prefix| self.lists.get(&prefix));
        lists.inspect(|here| looked_at(here.len())).flatten().copied()
    }
}

/// What tells lists apart while they are kept.
pub(super) fn place(list: &Arc<Peers>) -> usize {
    Arc::as_ptr(list).addr()
}
