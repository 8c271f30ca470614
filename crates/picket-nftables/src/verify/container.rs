//! Sets, maps, and the values that rules compare with: everything that a field is looked up in.

use std::borrow::Cow;

use crate::model::{Datatype, Key, Value};

/// What keys are looked up in: a named set or map, or the values that a rule names itself.
#[derive(Debug)]
pub(super) struct Container<'a> {
    pub(super) elements: Vec<Element<'a>>,
    /// Where the first field is a number and every element has a single one: that with the element, ascending.
    numbered: Option<Vec<(u32, u32)>>,
}

/// One element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Element<'a> {
    pub(super) key: Cow<'a, Key>,
    /// What finding it means: the number of a verdict or a value. Always 0 in a set.
    pub(super) outcome: u32,
}

impl Element<'_> {
    pub(super) fn value(&self, position: usize) -> Option<&Value> {
        self.key.values().get(position)
    }

    /// The numbers that it has at a position, where those are numbers below 2³².
    pub(super) fn numbers(&self, position: usize) -> Option<(u32, u32)> {
        let (first, last) = self.value(position)?.ends()?;
        Some((u32::try_from(first).ok()?, u32::try_from(last).ok()?))
    }
}

impl<'a> Container<'a> {
    pub(super) fn new(elements: Vec<Element<'a>>) -> Self {
        let single = |element: &Element<'_>| element.numbers(0).filter(|(first, last)| first == last);
        let numbers: Option<Vec<_>> = elements.iter().map(|element| Some(single(element)?.0)).collect();
        let numbered = numbers.map(|numbers| {
            let mut numbered: Vec<(u32, u32)> = numbers.into_iter().zip(0..).collect();
            numbered.sort_unstable();
            numbered
        });
        Self { elements, numbered }
    }

    /// Every number that the first field has, with the elements; `None` where it is no number, or a range.
    pub(super) fn numbered(&self) -> Option<impl Iterator<Item = (u32, impl Iterator<Item = u32>)>> {
        let alike = self.numbered.as_deref()?.chunk_by(|one, other| one.0 == other.0);
        Some(alike.filter_map(|alike| {
            let elements = alike.iter().map(|&(_, element)| element);
            Some((alike.first()?.0, elements))
        }))
    }

    fn with_first(numbered: &[(u32, u32)], number: u32) -> impl Iterator<Item = u32> {
        let from = numbered.partition_point(|&(before, _)| before < number);
        let rest = numbered.get(from..).unwrap_or_default().iter();
        rest.take_while(move |(here, _)| *here == number)
            .map(|&(_, element)| element)
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

    pub(super) fn element(&self, index: u32) -> Option<&Element<'a>> {
        self.elements.get(index as usize)
    }

    pub(super) fn outcome(&self, index: u32) -> Option<u32> {
        self.element(index).map(|element| element.outcome)
    }

    /// The outcome of the first element that has this number in its first field.
    pub(super) fn outcome_of(&self, number: u32) -> Option<u32> {
        let first = match &self.numbered {
            Some(numbered) => Self::with_first(numbered, number).next()?,
            None => *self.with_number(0, number, None).first()?,
        };
        self.outcome(first)
    }

    /// The elements, of `among` if given, that have this number at a position.
    pub(super) fn with_number(&self, position: usize, number: u32, among: Option<&[u32]>) -> Vec<u32> {
        if let (0, Some(numbered), None) = (position, &self.numbered, among) {
            return Self::with_first(numbered, number).collect();
        }
        self.filtered(among, |element| {
            element
                .numbers(position)
                .is_some_and(|(first, last)| (first..=last).contains(&number))
        })
    }

    /// The elements, of `among` if given, that some condition holds for.
    pub(super) fn filtered(&self, among: Option<&[u32]>, holds: impl Fn(&Element<'a>) -> bool) -> Vec<u32> {
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
