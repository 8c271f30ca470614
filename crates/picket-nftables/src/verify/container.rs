//! Sets, maps, and the values that rules compare with: everything that a field is looked up in.

use rustc_hash::FxHashMap;

use crate::model::{Datatype, Key, Value};

/// What keys are looked up in: a named set or map, or the values that a rule names itself.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) elements: Vec<Element>,
    /// By the first field, where that is a number and every element has a single one.
    by_first: Option<FxHashMap<u32, Vec<u32>>>,
}

/// One element.
#[derive(Debug)]
pub(super) struct Element {
    key: Key,
    /// What finding it means: the number of a verdict or a value. Always 0 in a set.
    pub(super) outcome: u32,
}

impl Element {
    pub(super) fn value(&self, position: usize) -> Option<&Value> {
        self.key.values().get(position)
    }

    /// The numbers that it has at a position, where those are numbers below 2³².
    pub(super) fn numbers(&self, position: usize) -> Option<(u32, u32)> {
        let (first, last) = self.value(position)?.ends()?;
        Some((u32::try_from(first).ok()?, u32::try_from(last).ok()?))
    }
}

impl Container {
    pub(super) fn new(elements: impl Iterator<Item = (Key, u32)>) -> Self {
        let elements: Vec<_> = elements.map(|(key, outcome)| Element { key, outcome }).collect();
        let mut by_first = Some(FxHashMap::<u32, Vec<u32>>::default());
        for (index, element) in (0..).zip(&elements) {
            let single = element.numbers(0).filter(|(first, last)| first == last);
            match (&mut by_first, single) {
                (Some(map), Some((number, _))) => map.entry(number).or_default().push(index),
                _ => by_first = None,
            }
        }
        Self { elements, by_first }
    }

    /// The type of one field of its keys; `None` when it is empty.
    pub(super) fn datatype(&self, position: usize) -> Option<Datatype> {
        self.elements.first()?.value(position).map(Value::datatype)
    }

    pub(super) fn fields(&self) -> usize {
        self.elements
            .first()
            .map_or(0, |element| element.key.values().len())
    }

    pub(super) fn element(&self, index: u32) -> Option<&Element> {
        self.elements.get(index as usize)
    }

    /// The outcome of the first of some elements.
    pub(super) fn outcome(&self, elements: &[u32]) -> Option<u32> {
        let element = elements.first().and_then(|&first| self.element(first));
        element.map(|element| element.outcome)
    }

    /// The outcome of the first element that has this number in its first field.
    pub(super) fn outcome_of(&self, number: u32) -> Option<u32> {
        let first = match &self.by_first {
            Some(by_first) => by_first.get(&number)?.first().copied(),
            None => self.with_number(0, number, None).first().copied(),
        };
        self.element(first?).map(|element| element.outcome)
    }

    /// Whether some element may have this number at a position.
    pub(super) fn may_have(&self, position: usize, number: u32) -> bool {
        match (position, &self.by_first) {
            (0, Some(by_first)) => by_first.contains_key(&number),
            _ => true,
        }
    }

    /// The elements, of `among` if given, that have this number at a position.
    pub(super) fn with_number(&self, position: usize, number: u32, among: Option<&[u32]>) -> Vec<u32> {
        if let (0, Some(by_first), None) = (position, &self.by_first, among) {
            return by_first.get(&number).cloned().unwrap_or_default();
        }
        self.filtered(among, |element| {
            element
                .numbers(position)
                .is_some_and(|(first, last)| (first..=last).contains(&number))
        })
    }

    /// The elements, of `among` if given, that some condition holds for.
    pub(super) fn filtered(&self, among: Option<&[u32]>, holds: impl Fn(&Element) -> bool) -> Vec<u32> {
        match among {
            Some(among) => {
                let found = among.iter().copied();
                found
                    .filter(|&index| self.element(index).is_some_and(&holds))
                    .collect()
            }
            None => (0..)
                .zip(&self.elements)
                .filter(|(_, element)| holds(element))
                .map(|(index, _)| index)
                .collect(),
        }
    }
}
