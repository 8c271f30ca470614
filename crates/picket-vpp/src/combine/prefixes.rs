//! Lists with those who have them, found by their prefixes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::Prefix;
use rustc_hash::FxHashMap;

use crate::lists::Turn;
use crate::peers::{Entry, Peers};
use crate::work::looked_at;

/// Lists, by number. One that all leave for another that nobody had keeps its number, and only prefixes that differ are looked at.
#[derive(Debug)]
pub(super) struct ByPrefix<K> {
    /// By the place of a list in memory, where nothing else gets while it is kept.
    numbers: FxHashMap<usize, usize>,
    lists: FxHashMap<usize, Had<K>>,
    next: usize,
    /// The numbers of lists by the prefixes that count of them.
    at: FxHashMap<Prefix, BTreeSet<usize>>,
    /// How many prefixes there are of each length.
    lengths: BTreeMap<u8, usize>,
}

/// A list, and how often each has it.
#[derive(Debug)]
pub(super) struct Had<K> {
    pub(super) list: Arc<Peers>,
    pub(super) by: BTreeMap<K, usize>,
}

impl<K> Default for ByPrefix<K> {
    fn default() -> Self {
        Self {
            numbers: FxHashMap::default(),
            lists: FxHashMap::default(),
            next: 0,
            at: FxHashMap::default(),
            lengths: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> ByPrefix<K> {
    /// These have other lists now, of which `counts` says which prefixes do. The numbers of all lists that came, went, or are others.
    pub(super) fn follow<'t>(
        &mut self,
        turns: impl IntoIterator<Item = (K, &'t Turn)>,
        counts: impl Fn(&Entry) -> bool,
    ) -> Vec<usize> {
        let mut moves: FxHashMap<[usize; 2], (&Turn, Vec<K>)> = FxHashMap::default();
        for (who, turn) in turns {
            let key = turn.each_ref().map(|list| list.as_ref().map_or(0, place));
            let (_, moved) = moves.entry(key).or_insert((turn, Vec::new()));
            moved.push(who);
        }
        let mut changed = Vec::new();
        for ([before, now], moved) in moves.into_values() {
            if let [Some(before), Some(now)] = [before, now]
                && let Some(number) = self.all_leave(before, now, &moved)
            {
                self.replace(number, now, &counts);
                changed.push(number);
                continue;
            }
            for who in moved {
                changed.extend(now.as_ref().and_then(|now| self.add(&who, now, &counts)));
                changed.extend(
                    before
                        .as_ref()
                        .and_then(|before| self.remove(&who, before, &counts)),
                );
            }
        }
        changed
    }

    /// The number of a list that nobody else has than those who leave it for one that nobody had.
    fn all_leave(&self, before: &Arc<Peers>, now: &Arc<Peers>, moved: &[K]) -> Option<usize> {
        let number = *self.numbers.get(&place(before))?;
        let count: usize = self.lists.get(&number)?.by.values().sum();
        let is_known = self.numbers.contains_key(&place(now));
        (count == moved.len() && !is_known).then_some(number)
    }

    fn replace(&mut self, number: usize, now: &Arc<Peers>, counts: impl Fn(&Entry) -> bool) {
        let Some(had) = self.lists.get_mut(&number) else {
            return;
        };
        let before = std::mem::replace(&mut had.list, Arc::clone(now));
        self.numbers.remove(&place(&before));
        self.numbers.insert(place(now), number);
        for [before, now] in before.changes(now) {
            match [before, now].map(|entry| entry.filter(|entry| counts(entry))) {
                [Some(entry), None] => self.take_out(number, entry.prefix),
                [None, Some(entry)] => self.put_in(number, entry.prefix),
                _ => {}
            }
        }
    }

    /// The number of the list, if it is new.
    fn add(&mut self, who: &K, list: &Arc<Peers>, counts: impl Fn(&Entry) -> bool) -> Option<usize> {
        let number = *self.numbers.entry(place(list)).or_insert(self.next);
        let had = self.lists.entry(number).or_insert_with(|| Had {
            list: Arc::clone(list),
            by: BTreeMap::new(),
        });
        let is_new = had.by.is_empty();
        *had.by.entry(who.clone()).or_default() += 1;
        if !is_new {
            return None;
        }
        self.next += 1;
        for entry in list.entries().iter().filter(|entry| counts(entry)) {
            self.put_in(number, entry.prefix);
        }
        Some(number)
    }

    /// The number of the list, if nobody has it any more.
    fn remove(&mut self, who: &K, list: &Arc<Peers>, counts: impl Fn(&Entry) -> bool) -> Option<usize> {
        let number = *self.numbers.get(&place(list))?;
        let had = self.lists.get_mut(&number)?;
        let count = had.by.get_mut(who)?;
        *count -= 1;
        if *count == 0 {
            had.by.remove(who);
        }
        if !had.by.is_empty() {
            return None;
        }
        self.lists.remove(&number);
        self.numbers.remove(&place(list));
        for entry in list.entries().iter().filter(|entry| counts(entry)) {
            self.take_out(number, entry.prefix);
        }
        Some(number)
    }

    /// The list of a number.
    pub(super) fn get(&self, number: usize) -> Option<&Had<K>> {
        self.lists.get(&number)
    }

    /// The numbers of the lists with a prefix that holds an address, by each such prefix.
    pub(super) fn around(&self, address: IpAddr) -> impl Iterator<Item = usize> {
        let around = self.lengths.keys();
        let around = around.filter_map(move |&length| Prefix::new(address, length));
        let lists = around.filter_map(|prefix| self.at.get(&prefix));
        lists.inspect(|here| looked_at(here.len())).flatten().copied()
    }

    fn put_in(&mut self, number: usize, prefix: Prefix) {
        looked_at(1);
        let here = self.at.entry(prefix).or_default();
        if here.is_empty() {
            *self.lengths.entry(prefix.length()).or_default() += 1;
        }
        here.insert(number);
    }

    fn take_out(&mut self, number: usize, prefix: Prefix) {
        let Some(here) = self.at.get_mut(&prefix) else {
            return;
        };
        looked_at(1);
        here.remove(&number);
        if here.is_empty() {
            self.at.remove(&prefix);
            let count = self.lengths.entry(prefix.length()).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.lengths.remove(&prefix.length());
            }
        }
    }
}

/// What tells lists apart while they are kept.
pub(super) fn place(list: &Arc<Peers>) -> usize {
    Arc::as_ptr(list).addr()
}
