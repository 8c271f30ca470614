//! Cells: sets of packets that have gone the same way so far, as a product of one set for each thing a packet carries.

use std::collections::hash_map::Entry;
use std::mem;
use std::rc::Rc;

use picket_net::{BitSet, Family, IntervalSet};
use rustc_hash::FxHashMap;

use super::list::List;
use super::values::Values;

/// Numbers of one header field.
pub(super) type Numbers = Rc<IntervalSet<u32>>;

/// A header field that is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    Protocol,
    Port,
    IcmpType,
    TcpFlags,
    /// What a writable field held when the packet came.
    Initial(usize),
}

/// Something of which a packet has one of several classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Axis {
    Source,
    Destination,
    Input,
    Output,
}

/// What a writable field holds now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scratch {
    /// What this writable field held when the packet came.
    Initial(usize),
    Constant(u32),
    /// One number for each class of source.
    BySource(Values),
    /// The same for the destination.
    ByDestination(Values),
}

/// How a packet passes an interface: the class of the axes [`Axis::Input`] and [`Axis::Output`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// The number of the interface.
    pub(super) interface: u32,
    /// Whether the route back to the source leads through it; always of one that a packet leaves through.
    pub(super) leads_back: bool,
}

impl Way {
    /// By the number of the class.
    pub(super) fn of(class: u32) -> Self {
        Self {
            interface: class / 2,
            leads_back: class % 2 == 1,
        }
    }

    /// The number of the class.
    pub(super) fn class(self) -> u32 {
        2 * self.interface + u32::from(self.leads_back)
    }
}

/// A set of packets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cell {
    pub(super) family: Family,
    pub(super) sources: List,
    pub(super) destinations: List,
    /// Ways of arrival, see [`Way`].
    pub(super) inputs: List,
    pub(super) outputs: List,
    /// Connection states, as bits.
    pub(super) states: u8,
    pub(super) protocols: Numbers,
    pub(super) ports: Numbers,
    pub(super) types: Numbers,
    pub(super) flags: Numbers,
    pub(super) initial: [Numbers; 3],
    pub(super) scratch: [Scratch; 3],
}

impl Cell {
    pub(super) fn list(&self, axis: Axis) -> &List {
        match axis {
            Axis::Source => &self.sources,
            Axis::Destination => &self.destinations,
            Axis::Input => &self.inputs,
            Axis::Output => &self.outputs,
        }
    }

    /// The packets that have one of `classes`.
    pub(super) fn of_classes(&self, axis: Axis, classes: &BitSet) -> Option<Self> {
        let list = self.list(axis);
        if classes.contains_all(list) {
            return Some(self.clone());
        }
        let classes = list.intersection(classes);
        if classes.is_empty() {
            return None;
        }
        let mut cell = self.clone();
        for scratch in &mut cell.scratch {
            let values = match (axis, &*scratch) {
                (Axis::Source, Scratch::BySource(values))
                | (Axis::Destination, Scratch::ByDestination(values)) => values,
                _ => continue,
            };
            if let Some(held) = values.held(axis, &classes) {
                *scratch = held;
            }
        }
        let list = match axis {
            Axis::Source => &mut cell.sources,
            Axis::Destination => &mut cell.destinations,
            Axis::Input => &mut cell.inputs,
            Axis::Output => &mut cell.outputs,
        };
        *list = classes.into();
        Some(cell)
    }

    pub(super) fn numbers(&self, header: Header) -> &Numbers {
        match header {
            Header::Protocol => &self.protocols,
            Header::Port => &self.ports,
            Header::IcmpType => &self.types,
            Header::TcpFlags => &self.flags,
            Header::Initial(slot) => self.initial.get(slot).unwrap_or(&self.protocols),
        }
    }

    fn with(&self, header: Header, numbers: IntervalSet<u32>) -> Option<Self> {
        if numbers.is_empty() {
            return None;
        }
        let mut cell = self.clone();
        let field = match header {
            Header::Protocol => &mut cell.protocols,
            Header::Port => &mut cell.ports,
            Header::IcmpType => &mut cell.types,
            Header::TcpFlags => &mut cell.flags,
            Header::Initial(slot) => cell.initial.get_mut(slot)?,
        };
        *field = Rc::new(numbers);
        Some(cell)
    }

    /// The packets whose number is in `set`, and the others.
    pub(super) fn cut(&self, header: Header, set: &IntervalSet<u32>) -> (Option<Self>, Option<Self>) {
        let numbers = self.numbers(header);
        let inside = numbers.intersection(set);
        if inside.is_empty() {
            return (None, Some(self.clone()));
        }
        let outside = numbers.difference(set);
        if outside.is_empty() {
            return (Some(self.clone()), None);
        }
        (self.with(header, inside), self.with(header, outside))
    }

    /// The packets in these states, and the others.
    pub(super) fn cut_states(&self, states: u8) -> (Option<Self>, Option<Self>) {
        let of = |bits: u8| {
            (bits != 0).then(|| Self {
                states: bits,
                ..self.clone()
            })
        };
        (of(self.states & states), of(self.states & !states))
    }

    /// The packets whose route back leads elsewhere, and the others.
    pub(super) fn cut_reverse_path(&self) -> (Option<Self>, Option<Self>) {
        let ways = self.inputs.iter();
        let elsewhere: BitSet = ways.filter(|&way| !Way::of(way).leads_back).collect();
        let back = self.inputs.difference(&elsewhere);
        let of = |ways| self.of_classes(Axis::Input, ways);
        (of(&elsewhere), of(&back))
    }

    pub(super) fn set_scratch(&mut self, slot: usize, value: Scratch) {
        if let Some(scratch) = self.scratch.get_mut(slot) {
            *scratch = value;
        }
    }
}

/// The same packets as fewer cells: those that differ in the way of arrival alone are one.
pub(super) fn joined(cells: Vec<Cell>) -> Vec<Cell> {
    let nowhere = List::from(BitSet::empty());
    let mut places: FxHashMap<Cell, usize> = FxHashMap::default();
    let mut joined: Vec<Cell> = Vec::new();
    for mut cell in cells {
        let inputs = mem::replace(&mut cell.inputs, nowhere.clone());
        match places.entry(cell) {
            Entry::Occupied(known) => {
                if let Some(alike) = joined.get_mut(*known.get()) {
                    let mut all = BitSet::clone(&alike.inputs);
                    all.extend(&inputs);
                    alike.inputs = all.into();
                }
            }
            Entry::Vacant(new) => {
                let cell = new.key().clone();
                new.insert(joined.len());
                joined.push(Cell { inputs, ..cell });
            }
        }
    }
    joined
}
