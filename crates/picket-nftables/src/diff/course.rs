//! What a plan does to the maps that give numbers, to those that say what these mean, and to those that lead to who asks.

use std::collections::{BTreeMap, BTreeSet};

use picket_dataplane::Plan;

use super::Operation;
use crate::model::{Datatype, Datum, Key, Map, MapType, Name, Table, Value};

/// The maps of a table by which packets are judged in two steps, and what of them a plan changes.
#[derive(Debug, Default)]
pub(super) struct Course<'a> {
    /// Those that give numbers to addresses.
    pub(super) numbering: BTreeMap<&'a Name, &'a Map>,
    /// Those that say what numbers mean.
    pub(super) meanings: BTreeMap<&'a Name, &'a Map>,
    /// Those that lead to chains.
    pub(super) leading: BTreeMap<&'a Name, &'a Map>,
    /// The keys that lose what they have, by map.
    removed: BTreeMap<&'a Name, BTreeSet<&'a Key>>,
    /// What keys get, by map.
    added: BTreeMap<&'a Name, BTreeMap<&'a Key, &'a Datum>>,
    /// What blocks get, by map.
    added_blocks: BTreeMap<&'a Name, Map>,
    /// The maps that go.
    gone: BTreeSet<&'a Name>,
}

impl<'a> Course<'a> {
    pub(super) fn of(observed: &'a Table, plan: &'a Plan<Operation>) -> Self {
        let mut course = Self::default();
        for map in observed.maps() {
            let known = match map.gives() {
                MapType::Priority if map.key() == [Datatype::Priority] => &mut course.meanings,
                MapType::Priority => &mut course.numbering,
                MapType::Verdict => &mut course.leading,
                MapType::Mark => continue,
            };
            known.insert(map.name(), map);
        }
        for operation in plan.operations() {
            match operation {
                Operation::DeleteMap(name) => drop(course.gone.insert(name)),
                Operation::DeleteElements(name, keys) if course.knows(name) => {
                    course.removed.entry(name).or_default().extend(keys);
                }
                Operation::AddMapElements(name, pairs) if course.knows(name) => {
                    let pairs = pairs.iter().map(|(key, datum)| (key, datum));
                    course.added.entry(name).or_default().extend(pairs);
                }
                _ => {}
            }
        }
        let blocks = course.numbering.values().filter(|map| map.interval());
        course.added_blocks = blocks.filter_map(|map| course.added_to(map)).collect();
        course
    }

    /// What is added to a map, as a map; `None` where nothing is.
    fn added_to(&self, map: &'a Map) -> Option<(&'a Name, Map)> {
        let added = self.added.get(map.name())?;
        let added = added.iter().map(|(&key, &datum)| (key.clone(), datum.clone()));
        // INVARIANT: the kernel takes what is added, so that it makes a map.
        let added = Map::new(map.name().clone(), map.key().to_vec(), map.gives(), true, added).ok()?;
        Some((map.name(), added))
    }

    fn knows(&self, map: &Name) -> bool {
        let mut maps = [&self.numbering, &self.meanings, &self.leading].into_iter();
        maps.any(|maps| maps.contains_key(map))
    }

    pub(super) fn goes(&self, map: &Name) -> bool {
        self.gone.contains(map)
    }

    /// The keys of a map that lose what they have; some get something else.
    pub(super) fn removed(&self, map: &Name) -> impl Iterator<Item = &'a Key> + Clone {
        self.removed.get(map).into_iter().flatten().copied()
    }

    /// The keys of a map that lose what they have or get something.
    pub(super) fn touched(&self, map: &Name) -> impl Iterator<Item = &'a Key> + Clone {
        let removed = self.removed.get(map);
        let is_new = move |key: &&'a Key| removed.is_none_or(|removed| !removed.contains(*key));
        let added = self.added(map).map(|(key, _)| key);
        self.removed(map).chain(added.filter(is_new))
    }

    pub(super) fn touches(&self, map: &Name) -> bool {
        self.removed.contains_key(map) || self.added.contains_key(map)
    }

    /// The keys of a map that lose what they have and get nothing.
    pub(super) fn lost(&self, map: &Name) -> impl Iterator<Item = &'a Key> {
        let added = self.added.get(map);
        self.removed(map)
            .filter(move |key| added.is_none_or(|added| !added.contains_key(key)))
    }

    /// What keys of a map get.
    pub(super) fn added(&self, map: &Name) -> impl Iterator<Item = (&'a Key, &'a Datum)> + Clone {
        self.added
            .get(map)
            .into_iter()
            .flatten()
            .map(|(key, datum)| (*key, *datum))
    }

    /// What a map says of a key now, unless that is taken away.
    pub(super) fn kept(&self, map: &'a Map, key: &Key) -> Option<&'a Datum> {
        let removed = self.removed.get(map.name());
        let is_kept = removed.is_none_or(|removed| !removed.contains(key));
        map.elements().get(key).filter(|_| is_kept)
    }

    /// What a map will say of a key.
    pub(super) fn after(&self, map: &'a Map, key: &Key) -> Option<&'a Datum> {
        let added = self
            .added
            .get(map.name())
            .and_then(|added| added.get(key))
            .copied();
        added.or_else(|| self.kept(map, key))
    }

    /// The number that an address has where this map gives it none: that of the block that it is in, in another.
    pub(super) fn in_block(&self, map: &Map, address: &Key) -> Option<&'a Datum> {
        self.blocks_beside(map, address)
            .find_map(|blocks| blocks.get(address))
    }

    /// The number that an address will have where this map gives it none.
    pub(super) fn in_block_after(&self, map: &Map, address: &Key) -> Option<&Datum> {
        self.blocks_beside(map, address).find_map(|blocks| {
            let added = self
                .added_blocks
                .get(blocks.name())
                .and_then(|added| added.get(address));
            added.or_else(|| {
                let (block, number) = blocks.holding(address)?;
                self.kept(blocks, block).and(Some(number))
            })
        })
    }

    /// Whether an address will be in another block than it is, or in none, in a map beside this one.
    pub(super) fn changes_block(&self, map: &Map, address: &Key) -> bool {
        self.blocks_beside(map, address).any(|blocks| {
            let mut added = self.added_blocks.get(blocks.name()).into_iter();
            let holding = blocks.holding(address);
            added.any(|added| added.get(address).is_some())
                || holding.is_some_and(|(block, _)| self.kept(blocks, block).is_none())
        })
    }

    /// The maps of blocks beside a map in which an address is looked up.
    fn blocks_beside(&self, map: &Map, address: &Key) -> impl Iterator<Item = &'a Map> {
        let is_beside = move |other: &&Map| other.interval() && !map.interval() && other.key() == map.key();
        let is_looked_up = address.is_single();
        self.numbering
            .values()
            .copied()
            .filter(move |other| is_looked_up && is_beside(other))
    }
}

/// A number as a key.
pub(super) fn number(number: u32) -> Key {
    Key::from(Value::priority(number))
}

/// The number that something has, as a key.
pub(super) fn number_of(datum: &Datum) -> Option<Key> {
    given(datum).map(number)
}

/// The number that something has.
pub(super) fn given(datum: &Datum) -> Option<u32> {
    match datum {
        Datum::Priority(given) => Some(*given),
        Datum::Verdict(_) | Datum::Mark(_) => None,
    }
}

/// What gives keys of a map something else meanwhile, where each has the first and gets the second, and what gives it back.
pub(super) fn exchange<'k>(
    map: &Name,
    keys: impl Iterator<Item = (&'k Key, Datum, Datum)>,
) -> [[Operation; 2]; 2] {
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for (key, has, gets) in keys {
        own.push((key.clone(), has));
        others.push((key.clone(), gets));
    }
    let keys = own.iter().map(|(key, _)| key.clone()).collect();
    let gone = Operation::DeleteElements(map.clone(), keys);
    let given = |pairs| Operation::AddMapElements(map.clone(), pairs);
    [[gone.clone(), given(others)], [gone, given(own)]]
}
