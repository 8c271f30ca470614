//! Numbers that a packet has got and that mean something else before it asks what they mean.
//!
//! One map gives a packet a number, by an address, and the next says what that number means. Where a transaction comes into force
//! between the two lookups the packet has the number of before, with what it means now. That is what the packet is judged by
//! now, as long as its address keeps the number. One whose address gets another number would be judged as somebody else, also where
//! it had that of a block and gets one of its own. Therefore it first gets, in a transaction of its own, a number that means the same
//! and that nobody else has.

use std::collections::{BTreeMap, BTreeSet};

use super::Operation;
use super::course::{Course, exchange, number};
use crate::model::{Datum, Key, Map, Name};

/// The highest number that is given in between.
const LAST: u32 = 0x7fff_fffe;

/// What leads to the numbers in between, back from them, and what takes them away when nothing has them any more.
#[derive(Debug, Default)]
pub(super) struct Renumbering {
    pub(super) there: Vec<Operation>,
    pub(super) back: Vec<Operation>,
    pub(super) clean: Vec<Operation>,
    /// What takes away the numbers that are there only meanwhile, before others take their place.
    pub(super) freed: Vec<Operation>,
    /// The number that stands for another meanwhile.
    numbers: BTreeMap<u32, u32>,
}

/// Keys that a number is given to, by map.
type Leaving<'a> = BTreeMap<&'a Name, Vec<(&'a Key, u32)>>;

impl Renumbering {
    /// What a plan needs.
    pub(super) fn of(course: &Course<'_>) -> Self {
        let changed = changed(course);
        if changed.is_empty() {
            return Self::default();
        }
        let (leaving, parting) = (leaving(course, &changed), parting(course, &changed));
        let left = leaving.values().chain(parting.values()).flatten();
        let mut renumbering = Self {
            numbers: in_between(course, &changed, left.map(|(_, given)| *given).collect()),
            ..Self::default()
        };
        for (name, keys) in leaving {
            renumbering.replace(name, &keys);
        }
        for (name, keys) in parting {
            renumbering.give(name, &keys);
        }
        renumbering.mean(course);
        renumbering
    }

    /// A map with another name that says the same of every number, and of those that stand for others meanwhile.
    pub(super) fn copied(&self, map: &Map, name: Name) -> Map {
        map.renamed(name, self.meant(map))
    }

    /// Gives keys of a map the numbers that stand for what they have.
    fn replace(&mut self, map: &Name, keys: &[(&Key, u32)]) {
        let [there, back] = self.exchanged(map, keys);
        self.there.extend(there);
        self.back.extend(back);
    }

    /// Gives keys that have no number in a map those that stand for what they have by another.
    fn give(&mut self, map: &Name, keys: &[(&Key, u32)]) {
        let [[gone, meanwhile], _] = self.exchanged(map, keys);
        self.there.push(meanwhile);
        self.back.push(gone.clone());
        self.freed.push(gone);
    }

    /// What gives keys the numbers that stand for these, and what gives them these again.
    fn exchanged(&self, map: &Name, keys: &[(&Key, u32)]) -> [[Operation; 2]; 2] {
        let pair = |&(key, old)| {
            let other = self.numbers.get(&old).copied().unwrap_or(old);
            (key, Datum::Priority(old), Datum::Priority(other))
        };
        exchange(map, keys.iter().map(pair))
    }

    /// The numbers in between mean what those mean for which they stand.
    fn mean(&mut self, course: &Course<'_>) {
        for map in course.meanings.values() {
            let pairs: Vec<_> = self.meant(map).collect();
            if pairs.is_empty() {
                continue;
            }
            let keys = pairs.iter().map(|(key, _)| key.clone()).collect();
            let clean = Operation::DeleteElements(map.name().clone(), keys);
            self.there
                .push(Operation::AddMapElements(map.name().clone(), pairs));
            self.back.push(clean.clone());
            self.clean.extend((!course.goes(map.name())).then_some(clean));
        }
    }

    /// What a map says of the numbers that stand for others.
    fn meant(&self, map: &Map) -> impl Iterator<Item = (Key, Datum)> {
        self.numbers.iter().filter_map(|(old, other)| {
            let datum = map.elements().get(&number(*old))?;
            Some((number(*other), datum.clone()))
        })
    }
}

/// The numbers that will mean something where they meant nothing or something else.
fn changed<'a>(course: &Course<'a>) -> BTreeSet<&'a Key> {
    let mut changed = BTreeSet::new();
    for (name, map) in &course.meanings {
        let differs = course
            .added(name)
            .filter(|(key, datum)| map.elements().get(key) != Some(datum));
        changed.extend(differs.map(|(key, _)| key));
    }
    changed
}

/// What will not have such a number any more.
fn leaving<'a>(course: &Course<'a>, changed: &BTreeSet<&Key>) -> Leaving<'a> {
    let mut leaving = Leaving::new();
    for (name, map) in &course.numbering {
        let numbered = course
            .removed(name)
            .filter_map(|key| match map.elements().get(key) {
                Some(Datum::Priority(given)) => Some((key, *given)),
                _ => None,
            });
        let found: Vec<_> = numbered
            .filter(|(_, given)| changed.contains(&number(*given)))
            .collect();
        if !found.is_empty() {
            leaving.insert(name, found);
        }
    }
    leaving
}

/// What has such a number as a part of something, and will have one of its own.
fn parting<'a>(course: &Course<'a>, changed: &BTreeSet<&Key>) -> Leaving<'a> {
    let mut parting = Leaving::new();
    for (name, map) in &course.numbering {
        let new = course
            .added(name)
            .filter(|(key, _)| !map.elements().contains_key(*key));
        let found = new.filter_map(|(key, _)| match course.in_block(map, key) {
            Some(Datum::Priority(given)) if changed.contains(&number(*given)) => Some((key, *given)),
            _ => None,
        });
        let found: Vec<_> = found.collect();
        if !found.is_empty() {
            parting.insert(name, found);
        }
    }
    parting
}

/// A number that means nothing, before and after, for each of these.
fn in_between(course: &Course<'_>, changed: &BTreeSet<&Key>, left: BTreeSet<u32>) -> BTreeMap<u32, u32> {
    let means_nothing = |given: &u32| {
        let key = number(*given);
        let mut maps = course.meanings.values();
        !changed.contains(&key) && maps.all(|map| !map.elements().contains_key(&key))
    };
    left.into_iter()
        .zip((0..=LAST).rev().filter(means_nothing))
        .collect()
}
