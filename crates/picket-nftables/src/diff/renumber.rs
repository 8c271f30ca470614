//! Numbers that a packet has got and that mean something else before it asks what they mean.
//!
//! One map gives a packet a number, by an address, and the next says what that number means. Where a transaction comes into force
//! between the two lookups the packet has the number of before, with what it means now. That is what the packet is judged by
//! now, as long as its address keeps the number. One whose address gets another number would be judged as somebody else.
//! Therefore it first gets, in a transaction of its own, a number that means the same and that nobody else has.

use std::collections::{BTreeMap, BTreeSet};

use picket_dataplane::Plan;

use super::Operation;
use crate::model::{Datatype, Datum, Key, Map, MapType, Name, Table, Value};

/// The highest number that is given in between.
const LAST: u32 = 0x7fff_fffe;

/// What leads to the numbers in between, back from them, and what takes them away when nothing has them any more.
#[derive(Debug, Default)]
pub(super) struct Renumbering {
    pub(super) there: Vec<Operation>,
    pub(super) back: Vec<Operation>,
    pub(super) clean: Vec<Operation>,
}

/// Keys that a number is given to, by map.
type Leaving<'a> = BTreeMap<&'a Name, Vec<(&'a Key, u32)>>;

impl Renumbering {
    /// What a plan needs for a table.
    pub(super) fn of(observed: &Table, plan: &Plan<Operation>) -> Self {
        let maps: BTreeMap<&Name, &Map> = observed.maps().iter().map(|map| (map.name(), map)).collect();
        let changed = changed(&maps, plan);
        if changed.is_empty() {
            return Self::default();
        }
        let leaving = leaving(&maps, plan, &changed);
        let meanings: Vec<&Map> = maps.into_values().filter(|map| tells_meaning(map)).collect();
        let numbers = in_between(&meanings, &changed, &leaving);
        let mut renumbering = Self::default();
        for (name, keys) in leaving {
            let pairs = |number: &dyn Fn(u32) -> u32| {
                let pair = |(key, old): &(&Key, u32)| (Key::clone(key), Datum::Priority(number(*old)));
                keys.iter().map(pair).collect()
            };
            let moved: Vec<Key> = keys.iter().map(|(key, _)| Key::clone(key)).collect();
            let other = |old: u32| numbers.get(&old).copied().unwrap_or(old);
            renumbering.there.extend([
                Operation::DeleteElements(name.clone(), moved.clone()),
                Operation::AddMapElements(name.clone(), pairs(&other)),
            ]);
            renumbering.back.extend([
                Operation::DeleteElements(name.clone(), moved),
                Operation::AddMapElements(name.clone(), pairs(&|old| old)),
            ]);
        }
        renumbering.mean(&meanings, &numbers, plan);
        renumbering
    }

    /// The numbers in between mean what those mean for which they stand.
    fn mean(&mut self, meanings: &[&Map], numbers: &BTreeMap<u32, u32>, plan: &Plan<Operation>) {
        let gone: BTreeSet<&Name> = plan
            .operations()
            .iter()
            .filter_map(|operation| match operation {
                Operation::DeleteMap(name) => Some(name),
                _ => None,
            })
            .collect();
        for map in meanings {
            let meaning = |(old, number): (&u32, &u32)| {
                let datum = map.elements().get(&Key::from(Value::priority(*old)))?;
                Some((Key::from(Value::priority(*number)), datum.clone()))
            };
            let pairs: Vec<_> = numbers.iter().filter_map(meaning).collect();
            if pairs.is_empty() {
                continue;
            }
            let keys: Vec<Key> = pairs.iter().map(|(key, _)| key.clone()).collect();
            let clean = Operation::DeleteElements(map.name().clone(), keys);
            self.there
                .push(Operation::AddMapElements(map.name().clone(), pairs));
            self.back.push(clean.clone());
            self.clean.extend((!gone.contains(map.name())).then_some(clean));
        }
    }
}

/// Whether a map says what numbers mean.
fn tells_meaning(map: &Map) -> bool {
    map.key() == [Datatype::Priority] && map.gives() == MapType::Priority
}

/// The numbers that will mean something where they meant nothing or something else.
fn changed<'a>(maps: &BTreeMap<&Name, &'a Map>, plan: &'a Plan<Operation>) -> BTreeSet<&'a Key> {
    let mut changed = BTreeSet::new();
    for operation in plan.operations() {
        let Operation::AddMapElements(name, pairs) = operation else {
            continue;
        };
        if let Some(map) = maps.get(name).filter(|map| tells_meaning(map)) {
            let differs = pairs
                .iter()
                .filter(|(key, datum)| map.elements().get(key) != Some(datum));
            changed.extend(differs.map(|(key, _)| key));
        }
    }
    changed
}

/// What will not have such a number any more.
fn leaving<'a>(
    maps: &BTreeMap<&Name, &'a Map>,
    plan: &'a Plan<Operation>,
    changed: &BTreeSet<&Key>,
) -> Leaving<'a> {
    let mut leaving = Leaving::new();
    for operation in plan.operations() {
        let Operation::DeleteElements(name, keys) = operation else {
            continue;
        };
        let Some(map) = maps.get(name).filter(|map| !tells_meaning(map)) else {
            continue;
        };
        let numbered = keys.iter().filter_map(|key| match map.elements().get(key) {
            Some(Datum::Priority(number)) => Some((key, *number)),
            _ => None,
        });
        let found: Vec<_> = numbered
            .filter(|(_, number)| changed.contains(&Key::from(Value::priority(*number))))
            .collect();
        if !found.is_empty() {
            leaving.entry(name).or_default().extend(found);
        }
    }
    leaving
}

/// A number that means nothing, before and after, for each that is left.
fn in_between(meanings: &[&Map], changed: &BTreeSet<&Key>, leaving: &Leaving<'_>) -> BTreeMap<u32, u32> {
    let left: BTreeSet<u32> = leaving.values().flatten().map(|(_, number)| *number).collect();
    let means_nothing = |number: &u32| {
        let key = Key::from(Value::priority(*number));
        !changed.contains(&key) && meanings.iter().all(|map| !map.elements().contains_key(&key))
    };
    left.into_iter()
        .zip((0..=LAST).rev().filter(means_nothing))
        .collect()
}
