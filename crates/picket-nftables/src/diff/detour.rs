//! Packets that have been led to a chain which means something else before they have asked what it means.
//!
//! One map leads what a pod sends to a chain, and that asks a map of its own what the number of the other end means. Where a
//! transaction leads the pod elsewhere and puts something into that map, a packet between the two lookups would be judged by what is
//! said of other pods then. Therefore such a pod is led, in a transaction of its own, to a copy of the chain and its map before, which
//! goes as it came when the pod is led to where it belongs.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use super::Operation;
use super::course::{Course, exchange, number_of};
use super::renumber::Renumbering;
use crate::model::{Assigned, Chain, Datum, Key, Map, Name, Rule, Statement, Table, Verdict};

/// What the names of copies begin with; numbers follow.
const COPY: &str = "meanwhile";

/// The copies of a plan.
#[derive(Debug, Default)]
pub(super) struct Detours {
    /// What makes them, before anything leads to them.
    pub(super) made: Vec<Operation>,
    /// What leads pods to them, and back.
    pub(super) there: Vec<Operation>,
    pub(super) back: Vec<Operation>,
    /// What takes their rules away, before what these use goes.
    pub(super) emptied: Vec<Operation>,
    /// What takes them away, when nothing leads to them any more.
    pub(super) gone: Vec<Operation>,
}

/// What leads to a chain and will lead to another: keys, by map.
type Leaving<'a> = BTreeMap<&'a Name, Vec<(&'a Key, &'a Verdict)>>;

impl Detours {
    /// What a plan needs for a table, some of whose numbers others stand for meanwhile.
    pub(super) fn of(observed: &Table, course: &Course<'_>, numbers: &Renumbering) -> Self {
        let mut detours = Self::default();
        let leaving = leaving(course);
        if leaving.is_empty() {
            return detours;
        }
        let kept = LazyCell::new(|| kept_numbers(course));
        for chain in observed.chains() {
            let Some(leaving) = leaving.get(&chain.name) else {
                continue;
            };
            let mut maps = asked(chain).filter_map(|name| course.meanings.get(name));
            if maps.any(|map| misleads(course, &kept, map)) {
                detours.lead_around(observed, chain, leaving, numbers);
            }
        }
        detours
    }

    fn lead_around<'a>(
        &mut self,
        observed: &Table,
        chain: &Chain,
        leaving: &Leaving<'a>,
        numbers: &Renumbering,
    ) {
        let asked: BTreeSet<&Name> = asked(chain).collect();
        let mut names = free_names(observed, self.gone.len());
        let maps = observed.maps().iter();
        let copies: BTreeMap<&Name, Map> = maps
            .filter(|map| asked.contains(map.name()))
            .zip(&mut names)
            .map(|(map, name)| (map.name(), numbers.copied(map, name)))
            .collect();
        // INVARIANT: there are more numbers than chains.
        let Some(name) = names.next() else { return };
        let rules = chain.rules.iter().map(|rule| asking(rule, &copies)).collect();
        self.emptied.push(Operation::Flush(name.clone()));
        self.gone.extend(
            copies
                .values()
                .map(|map| Operation::DeleteMap(map.name().clone())),
        );
        self.gone.push(Operation::DeleteChain(name.clone()));
        self.made.extend(copies.into_values().map(Operation::AddMap));
        self.made.extend([
            Operation::AddChain {
                name: name.clone(),
                base: None,
                comment: chain.comment.clone(),
            },
            Operation::AddRules(name.clone(), rules),
        ]);
        for (map, keys) in leaving {
            let led = |&(key, verdict): &(&'a Key, &Verdict)| {
                let around = Datum::Verdict(verdict.towards(name.clone()));
                (key, Datum::Verdict(verdict.clone()), around)
            };
            let [there, back] = exchange(map, keys.iter().map(led));
            self.there.extend(there);
            self.back.extend(back);
        }
    }
}

/// Names that no chain and no map has, but for the first so many of them.
fn free_names(observed: &Table, taken: usize) -> impl Iterator<Item = Name> + use<> {
    let chains = observed.chains().iter().map(|chain| &chain.name);
    let maps = observed.maps().iter().map(Map::name);
    let known: BTreeSet<Name> = chains
        .chain(maps)
        .filter(|name| name.as_str().starts_with(COPY))
        .cloned()
        .collect();
    let names = (1_u32..).filter_map(|number| Name::new(&format!("{COPY}-{number}")));
    names.filter(move |name| !known.contains(name)).skip(taken)
}

/// The maps that a chain asks what numbers mean, if they are such.
pub(super) fn asked(chain: &Chain) -> impl Iterator<Item = &Name> {
    let statements = chain.rules.iter().flat_map(|rule| &rule.statements);
    statements.filter_map(|statement| match statement {
        Statement::Set(_, Assigned::Map { map, .. }) => Some(map),
        _ => None,
    })
}

/// The rule that asks the copies.
fn asking(rule: &Rule, copies: &BTreeMap<&Name, Map>) -> Rule {
    let mut rule = rule.clone();
    for statement in &mut rule.statements {
        if let Statement::Set(_, Assigned::Map { map, .. }) = statement
            && let Some(copy) = copies.get(map)
        {
            *map = copy.name().clone();
        }
    }
    rule
}

/// What leads to a chain and will lead to another, by the chain.
fn leaving<'a>(course: &Course<'a>) -> BTreeMap<&'a Name, Leaving<'a>> {
    let mut leaving: BTreeMap<&Name, Leaving<'_>> = BTreeMap::new();
    for (name, map) in &course.leading {
        for (key, datum) in course.added(name) {
            if let Some(Datum::Verdict(before)) = map.elements().get(key)
                && let Some(chain) = before.target()
                && !matches!(datum, Datum::Verdict(now) if now.target() == Some(chain))
            {
                let keys = leaving.entry(chain).or_default().entry(name).or_default();
                keys.push((key, before));
            }
        }
    }
    leaving
}

/// Whether a packet that finds numbers or their meaning as they will be may find in this map what it says of nobody whom the packet
/// is from or to. `kept` are the numbers that somebody has, and keeps.
fn misleads(course: &Course<'_>, kept: &impl Deref<Target = BTreeSet<Key>>, meaning: &Map) -> bool {
    let is_new = |&(number, datum): &(&Key, &Datum)| meaning.elements().get(number) != Some(datum);
    let mut changed = course.added(meaning.name()).filter(is_new);
    changed.any(|(number, _)| kept.contains(number)) || is_given(course, meaning)
}

/// The numbers that somebody has, and keeps.
fn kept_numbers(course: &Course<'_>) -> BTreeSet<Key> {
    let maps = course.numbering.values();
    let kept = maps.flat_map(|map| {
        let elements = map.elements().iter();
        elements.filter(|(key, _)| course.kept(map, key).is_some())
    });
    kept.filter_map(|(_, datum)| number_of(datum)).collect()
}

/// Whether somebody is given a number that will mean something else in this map than what they have means there now.
fn is_given(course: &Course<'_>, meaning: &Map) -> bool {
    course.numbering.values().any(|map| {
        let misleads = |key: &Key, given: &Datum| {
            let now = number_of(given).and_then(|number| course.after(meaning, &number));
            let before = map.elements().get(key).or_else(|| course.in_block(map, key));
            let before = before.and_then(number_of);
            now.is_some() && before.and_then(|number| meaning.elements().get(&number)) != now
        };
        let mut given = course.added(map.name());
        let mut left = course.lost(map.name());
        let left_in = |key| course.in_block_after(map, key);
        given.any(|(key, number)| misleads(key, number))
            || left.any(|key| left_in(key).is_some_and(|number| misleads(key, number)))
    })
}
