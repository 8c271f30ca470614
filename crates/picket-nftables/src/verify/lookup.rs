//! Looking up a whole cell at once: it falls apart by what its packets find.

use std::rc::Rc;

use picket_dataplane::demand::{ABSENT_PORT, ABSENT_TYPE};
use picket_net::{Family, Interval, IntervalSet, Protocol};

use super::cell::{Axis, Cell, Header, Scratch};
use super::class::{Classes, elements_of_interface};
use super::container::Container;
use super::list::{Left, List, Memory, Part, Place, Told};
use super::program::{Program, state_bit};
use crate::model::{Field, Hook, Transport};
use picket_dataplane::State;

/// What evaluation knows besides the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Position {
    pub(super) hook: Hook,
    /// Whether connection tracking has seen the packets.
    pub(super) tracked: bool,
}

/// What lookups are made in.
pub(super) struct Tables<'a, 'd> {
    pub(super) program: &'a Program,
    /// By family, IPv4 first.
    pub(super) classes: [Classes<'d>; 2],
    pub(super) interfaces: Vec<String>,
    pub(super) memory: Memory,
}

/// Where the value of a field comes from.
enum Origin {
    Axis(Axis),
    Header(Header),
    /// A writable field with a value for each class.
    Values(Axis, List),
    Constant(u32),
    /// There is no such interface: a value that nothing equals.
    Unlike,
}

pub(super) fn connected() -> u8 {
    state_bit(State::New) | state_bit(State::Established) | state_bit(State::Related)
}

fn single(number: u32) -> IntervalSet<u32> {
    Interval::single(number).into()
}

impl Tables<'_, '_> {
    pub(super) fn classes(&self, family: Family) -> &Classes<'_> {
        let [v4, v6] = &self.classes;
        match family {
            Family::Ipv4 => v4,
            Family::Ipv6 => v6,
        }
    }

    /// The packets that have all of `fields`, and those for which reading one ends the rule.
    pub(super) fn readable(
        &self,
        position: Position,
        cell: Cell,
        fields: &[Field],
        broken: &mut Vec<Cell>,
    ) -> Option<Cell> {
        let mut cell = cell;
        for &field in fields {
            cell = self.has(position, cell, field, broken)?;
        }
        Some(cell)
    }

    fn has(&self, position: Position, cell: Cell, field: Field, broken: &mut Vec<Cell>) -> Option<Cell> {
        let of_family = |family, cell: Cell, broken: &mut Vec<Cell>| {
            if cell.family == family {
                Some(cell)
            } else {
                broken.push(cell);
                None
            }
        };
        let mut only = |cell: Cell, header, set: &IntervalSet<u32>| {
            let (inside, outside) = cell.cut(header, set);
            broken.extend(outside);
            inside
        };
        let protocol = |protocol: Protocol| single(protocol.number().into());
        match field {
            Field::Ipv4Source | Field::Ipv4Destination => of_family(Family::Ipv4, cell, broken),
            Field::Ipv6Source | Field::Ipv6Destination => of_family(Family::Ipv6, cell, broken),
            Field::DestinationPort(transport) => {
                let cell = match transport {
                    Transport::Any => cell,
                    Transport::Tcp => only(cell, Header::Protocol, &protocol(Protocol::TCP))?,
                    Transport::Udp => only(cell, Header::Protocol, &protocol(Protocol::UDP))?,
                    Transport::Sctp => only(cell, Header::Protocol, &protocol(Protocol::SCTP))?,
                };
                only(cell, Header::Port, &single(ABSENT_PORT).complement())
            }
            Field::IcmpType => {
                let cell = only(cell, Header::Protocol, &protocol(Protocol::ICMP))?;
                only(cell, Header::IcmpType, &single(ABSENT_TYPE).complement())
            }
            Field::Icmpv6Type => {
                let cell = only(cell, Header::Protocol, &protocol(Protocol::ICMPV6))?;
                only(cell, Header::IcmpType, &single(ABSENT_TYPE).complement())
            }
            Field::ConnectionMark => {
                if !position.tracked {
                    broken.push(cell);
                    return None;
                }
                let (inside, outside) = cell.cut_states(connected());
                broken.extend(outside);
                inside
            }
            Field::InputInterface
            | Field::OutputInterface
            | Field::Family
            | Field::Protocol
            | Field::Priority
            | Field::Mark => Some(cell),
        }
    }

    fn origin(&self, position: Position, cell: &Cell, field: Field) -> Origin {
        let scratch = |slot: usize| match cell.scratch.get(slot) {
            Some(Scratch::Initial(slot)) => Origin::Header(Header::Initial(*slot)),
            Some(Scratch::Constant(value)) => Origin::Constant(*value),
            Some(Scratch::BySource(values)) => Origin::Values(Axis::Source, values.clone()),
            Some(Scratch::ByDestination(values)) => Origin::Values(Axis::Destination, values.clone()),
            None => Origin::Unlike,
        };
        match field {
            Field::InputInterface if position.hook == Hook::Output || cell.inputs.is_empty() => {
                Origin::Unlike
            }
            Field::InputInterface => Origin::Axis(Axis::Input),
            Field::OutputInterface
                if matches!(position.hook, Hook::Prerouting | Hook::Input) || cell.outputs.is_empty() =>
            {
                Origin::Unlike
            }
            Field::OutputInterface => Origin::Axis(Axis::Output),
            Field::Ipv4Source | Field::Ipv6Source => Origin::Axis(Axis::Source),
            Field::Ipv4Destination | Field::Ipv6Destination => Origin::Axis(Axis::Destination),
            Field::Family => Origin::Constant(match cell.family {
                Family::Ipv4 => 2,
                Family::Ipv6 => 10,
            }),
            Field::Protocol => Origin::Header(Header::Protocol),
            Field::DestinationPort(_) => Origin::Header(Header::Port),
            Field::IcmpType | Field::Icmpv6Type => Origin::Header(Header::IcmpType),
            Field::Priority => scratch(0),
            Field::Mark => scratch(1),
            Field::ConnectionMark => scratch(2),
        }
    }

    /// What the packets of a cell find in a container: the outcome of an element, or nothing. They must have all of
    /// `fields`.
    pub(super) fn look_up(
        &self,
        position: Position,
        cell: Cell,
        fields: &[Field],
        container: usize,
    ) -> Vec<(Option<u32>, Cell)> {
        let mut found = Vec::new();
        if let Some(elements) = self.program.containers.get(container) {
            let lookup = Lookup {
                tables: self,
                position,
                fields,
                number: container,
                container: elements,
            };
            lookup.field(cell, 0, None, &mut found);
        }
        found
    }

    /// What tells the values of a field in a cell apart, where that is a list of addresses.
    pub(super) fn told(&self, position: Position, cell: &Cell, field: Field) -> Option<Told> {
        match self.origin(position, cell, field) {
            Origin::Axis(axis @ (Axis::Source | Axis::Destination)) => Some(cell.told(axis, None)),
            Origin::Values(axis, values) => Some(cell.told(axis, Some(values))),
            Origin::Axis(_) | Origin::Header(_) | Origin::Constant(_) | Origin::Unlike => None,
        }
    }

    /// For a key of one field: what each class finds.
    pub(super) fn by_class<'t>(
        &'t self,
        told: &'t Told,
        container: usize,
    ) -> Option<impl Iterator<Item = Option<u32>> + 't> {
        let elements = self.program.containers.get(container)?;
        let held = self.classes(told.family).elements(container, 0);
        let found = move |(position, &class): (usize, &u32)| match &told.values {
            Some(values) => elements.outcome_of(*values.get(position)?),
            None => elements.outcome(held.get(class as usize)?),
        };
        Some(told.classes.iter().enumerate().map(found))
    }
}

struct Lookup<'l, 'a, 'd> {
    tables: &'l Tables<'a, 'd>,
    position: Position,
    fields: &'l [Field],
    number: usize,
    container: &'l Container,
}

impl Lookup<'_, '_, '_> {
    /// Splits by one field. `among` are the elements that the fields before have left.
    fn field(&self, cell: Cell, at: usize, among: Option<&[u32]>, found: &mut Vec<(Option<u32>, Cell)>) {
        if among.is_some_and(<[u32]>::is_empty) || self.container.elements.is_empty() {
            found.push((None, cell));
            return;
        }
        let Some(&field) = self.fields.get(at) else {
            found.push((among.and_then(|among| self.container.outcome(among)), cell));
            return;
        };
        match self.tables.origin(self.position, &cell, field) {
            Origin::Unlike => found.push((None, cell)),
            Origin::Constant(number) => {
                let left = self.container.with_number(at, number, among);
                self.field(cell, at + 1, Some(&left), found);
            }
            Origin::Values(axis, values) => self.told(&cell, cell.told(axis, Some(values)), at, among, found),
            Origin::Axis(axis) => self.told(&cell, cell.told(axis, None), at, among, found),
            Origin::Header(header) => self.numbers(cell, at, header, among, found),
        }
    }

    /// Splits by a field that the classes of one axis tell apart.
    fn told(
        &self,
        cell: &Cell,
        told: Told,
        at: usize,
        among: Option<&[u32]>,
        found: &mut Vec<(Option<u32>, Cell)>,
    ) {
        let axis = told.axis;
        let place = Place {
            container: self.number,
            at,
            is_last: at + 1 == self.fields.len(),
            among: among.map(Into::into),
        };
        let memory = &self.tables.memory;
        let parts = memory.parts(told, place, |told, place| self.parts(told, place));
        for part in parts.iter() {
            let cell = memory.keep(cell, axis, part);
            match &part.left {
                Left::Outcome(outcome) => found.push((*outcome, cell)),
                Left::Elements(left) => self.field(cell, at + 1, Some(left), found),
            }
        }
    }

    fn parts(&self, told: &Told, place: &Place) -> Vec<Part> {
        let (at, among) = (place.at, place.among.as_deref());
        let left = |elements: Vec<u32>| {
            if place.is_last {
                Left::Outcome(self.container.outcome(&elements))
            } else {
                Left::Elements(elements)
            }
        };
        if let Some(values) = &told.values {
            // Most classes have a number that no element has.
            let number = |position, _| {
                let number = values.get(position).copied();
                number.filter(|&number| self.container.may_have(at, number))
            };
            let with = |number| self.container.with_number(at, number, among);
            return Part::all(&told.classes, number, |number| {
                left(number.map_or(Vec::new(), with))
            });
        }
        if matches!(told.axis, Axis::Input | Axis::Output) {
            let name = |class| {
                self.tables
                    .interfaces
                    .get(class as usize)
                    .map_or("", String::as_str)
            };
            return Part::all(
                &told.classes,
                |_, class| class,
                |class| left(elements_of_interface(self.container, at, name(class), among)),
            );
        }
        let held = self.tables.classes(told.family).elements(self.number, at);
        let holding = |class| {
            let elements = held.get(class as usize).map_or(&[][..], Vec::as_slice).iter();
            elements
                .copied()
                .filter(|element| among.is_none_or(|among| among.contains(element)))
        };
        if place.is_last {
            let outcome = |_, class| {
                let element = holding(class)
                    .next()
                    .and_then(|first| self.container.element(first));
                element.map(|element| element.outcome)
            };
            return Part::all(&told.classes, outcome, Left::Outcome);
        }
        Part::all(
            &told.classes,
            |_, class| class,
            |class| left(holding(class).collect()),
        )
    }

    /// Cuts a number where the elements begin and end.
    fn numbers(
        &self,
        cell: Cell,
        at: usize,
        header: Header,
        among: Option<&[u32]>,
        found: &mut Vec<(Option<u32>, Cell)>,
    ) {
        let present = Rc::clone(cell.numbers(header));
        let reaching = self.container.filtered(among, |element| {
            element
                .numbers(at)
                .and_then(|(first, last)| Interval::new(first, last))
                .is_some_and(|range| present.overlaps(&range.into()))
        });
        let mut rest = Some(cell);
        for (left, numbers) in self.pieces(at, &reaching) {
            let Some(cell) = rest.take() else { return };
            let (inside, outside) = cell.cut(header, &numbers);
            rest = outside;
            if let Some(inside) = inside {
                self.field(inside, at + 1, Some(&left), found);
            }
        }
        found.extend(rest.map(|cell| (None, cell)));
    }

    /// The numbers that some of `elements` have, by what they leave: in the last field by outcome, before by elements.
    fn pieces(&self, at: usize, elements: &[u32]) -> Vec<(Vec<u32>, IntervalSet<u32>)> {
        let ranges: Vec<_> = elements
            .iter()
            .filter_map(|&element| Some((element, self.container.element(element)?.numbers(at)?)))
            .collect();
        let mut starts: Vec<u32> = ranges.iter().map(|(_, (first, _))| *first).collect();
        starts.extend(ranges.iter().filter_map(|(_, (_, last))| last.checked_add(1)));
        starts.sort_unstable();
        starts.dedup();
        let last_field = at + 1 == self.fields.len();
        let mut pieces: std::collections::BTreeMap<_, (Vec<u32>, Vec<Interval<u32>>)> = Default::default();
        for (index, &start) in starts.iter().enumerate() {
            let end = starts.get(index + 1).map_or(u32::MAX, |next| next - 1);
            let there = ranges
                .iter()
                .filter(|(_, (first, last))| *first <= start && start <= *last);
            let there: Vec<u32> = there.map(|(element, _)| *element).collect();
            let key = match (there.as_slice(), last_field) {
                ([], _) => continue,
                (_, true) => (self.container.outcome(&there), Vec::new()),
                (_, false) => (None, there.clone()),
            };
            let piece = pieces.entry(key).or_insert_with(|| (there, Vec::new()));
            piece.1.extend(Interval::new(start, end));
        }
        pieces
            .into_values()
            .map(|(left, intervals)| (left, intervals.into_iter().collect()))
            .collect()
    }
}
