//! Looking up a whole cell at once: it falls apart by what its packets find.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use picket_dataplane::demand::{ABSENT_PORT, ABSENT_TYPE};
use picket_net::{BitSet, Family, Interval, IntervalSet, Protocol};

use super::cell::{Axis, Cell, Header, Scratch, Way};
use super::class::{Classes, elements_of_interface};
use super::container::Container;
use super::list::{By, Left, Memory, Parts, Place};
use super::program::{Program, state_bit};
use super::values::Values;
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
    pub(super) program: &'a Program<'a>,
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
    Values(Axis, Values),
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
    pub(super) fn told(&self, position: Position, cell: &Cell, field: Field) -> Option<(By, Axis)> {
        match self.origin(position, cell, field) {
            Origin::Axis(axis @ (Axis::Source | Axis::Destination)) => Some((By::Address(cell.family), axis)),
            Origin::Values(axis, values) => Some((By::Value(values), axis)),
            Origin::Axis(_) | Origin::Header(_) | Origin::Constant(_) | Origin::Unlike => None,
        }
    }

    /// For a key of one field: every outcome that is found, with the classes that find it; and all classes that could.
    pub(super) fn outcomes(&self, by: &By, container: usize) -> Option<(BTreeMap<u32, BitSet>, BitSet)> {
        let elements = self.program.containers.get(container)?;
        let mut outcomes: BTreeMap<u32, BitSet> = BTreeMap::new();
        match by {
            By::Address(family) => {
                let classes = self.classes(*family);
                let all = (0..classes.count()).collect();
                for (class, mut found) in classes.held(container, 0).all() {
                    let outcome = elements.outcome(found.next()?)?;
                    outcomes.entry(outcome).or_default().push(class);
                }
                Some((outcomes, all))
            }
            By::Value(values) => {
                match elements.numbered() {
                    Some(numbered) => {
                        for (number, mut found) in numbered {
                            let outcome = elements.outcome(found.next()?)?;
                            values.find(number, outcomes.entry(outcome).or_default());
                        }
                    }
                    None => {
                        for (class, number) in values.iter() {
                            if let Some(outcome) = elements.outcome_of(number) {
                                outcomes.entry(outcome).or_default().push(class);
                            }
                        }
                    }
                }
                outcomes.retain(|_, classes| !classes.is_empty());
                Some((outcomes, values.known().clone()))
            }
            By::Interface => None,
        }
    }
}

struct Lookup<'l, 'a, 'd> {
    tables: &'l Tables<'a, 'd>,
    position: Position,
    fields: &'l [Field],
    number: usize,
    container: &'l Container<'a>,
}

impl Lookup<'_, '_, '_> {
    /// Splits by one field. `among` are the elements that the fields before have left.
    fn field(&self, cell: Cell, at: usize, among: Option<&[u32]>, found: &mut Vec<(Option<u32>, Cell)>) {
        if among.is_some_and(<[u32]>::is_empty) || self.container.elements.is_empty() {
            found.push((None, cell));
            return;
        }
        let Some(&field) = self.fields.get(at) else {
            found.push((
                among.and_then(|among| self.container.outcome(*among.first()?)),
                cell,
            ));
            return;
        };
        match self.tables.origin(self.position, &cell, field) {
            Origin::Unlike => found.push((None, cell)),
            Origin::Constant(number) => {
                let left = self.container.with_number(at, number, among);
                self.field(cell, at + 1, Some(&left), found);
            }
            Origin::Values(axis, values) => self.told(&cell, axis, By::Value(values), at, among, found),
            Origin::Axis(axis @ (Axis::Source | Axis::Destination)) => {
                self.told(&cell, axis, By::Address(cell.family), at, among, found);
            }
            Origin::Axis(axis) => self.told(&cell, axis, By::Interface, at, among, found),
            Origin::Header(header) => self.numbers(cell, at, header, among, found),
        }
    }

    /// Splits by a field that the classes of one axis tell apart.
    fn told(
        &self,
        cell: &Cell,
        axis: Axis,
        by: By,
        at: usize,
        among: Option<&[u32]>,
        found: &mut Vec<(Option<u32>, Cell)>,
    ) {
        let place = Place {
            container: self.number,
            at,
            is_last: at + 1 == self.fields.len(),
            among: among.map(Into::into),
        };
        let parts = self
            .tables
            .memory
            .parts(by, place, |by, place| self.parts(by, place));
        for part in parts.of(cell.list(axis)) {
            let Some(cell) = cell.of_classes(axis, &part.classes) else {
                continue;
            };
            match &part.left {
                Left::Outcome(outcome) => found.push((*outcome, cell)),
                Left::Elements(left) => self.field(cell, at + 1, Some(left), found),
            }
        }
    }

    fn parts(&self, by: &By, place: &Place) -> Parts {
        let (at, among) = (place.at, place.among.as_deref());
        let left = |elements: Vec<u32>| {
            if place.is_last {
                Left::Outcome(elements.first().and_then(|&first| self.container.outcome(first)))
            } else {
                Left::Elements(elements)
            }
        };
        match by {
            By::Value(values) => self.by_value(values, place, left),
            By::Interface => {
                let names = (0_u32..).zip(self.tables.interfaces.iter().map(String::as_str));
                let mut parts = Parts::default();
                for (interface, name) in names {
                    let elements = elements_of_interface(self.container, at, name, among);
                    let ways = [false, true].map(|leads_back| {
                        Way {
                            interface,
                            leads_back,
                        }
                        .class()
                    });
                    parts.add(left(elements), &ways.into_iter().collect());
                }
                parts
            }
            By::Address(family) => {
                let classes = self.tables.classes(*family);
                let mut parts = Parts::default();
                let mut rest = BitSet::empty();
                let mut next = 0;
                for (class, elements) in classes.held(self.number, at).all() {
                    (next..class).for_each(|class| rest.push(class));
                    next = class + 1;
                    let elements =
                        elements.filter(|element| among.is_none_or(|among| among.contains(element)));
                    parts.add(left(elements.collect()), &[class].into_iter().collect());
                }
                (next..classes.count()).for_each(|class| rest.push(class));
                parts.add(left(Vec::new()), &rest);
                parts
            }
        }
    }

    /// The parts by the value that a writable field has for each class.
    fn by_value(&self, values: &Values, place: &Place, left: impl Fn(Vec<u32>) -> Left) -> Parts {
        let among = place.among.as_deref();
        let mut parts = Parts::default();
        let numbered = self
            .container
            .numbered()
            .filter(|_| place.at == 0 && among.is_none());
        if let Some(numbered) = numbered
            && self.container.elements.len() < values.written().len()
        {
            let mut met = BitSet::empty();
            for (number, elements) in numbered {
                let mut classes = BitSet::empty();
                values.find(number, &mut classes);
                met.extend(&classes);
                parts.add(left(elements.collect()), &classes);
            }
            parts.add(left(Vec::new()), &values.known().difference(&met));
            return parts;
        }
        for (number, classes) in values.written() {
            parts.add(
                left(self.container.with_number(place.at, *number, among)),
                classes,
            );
        }
        if let Some((before, over)) = values.before() {
            let memory = &self.tables.memory;
            let before = memory.parts(By::Value(before.clone()), place.clone(), |by, place| {
                self.parts(by, place)
            });
            for part in before.all() {
                parts.add(part.left.clone(), &part.classes.difference(over));
            }
        }
        parts
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
        let mut pieces: BTreeMap<_, (Vec<u32>, Vec<Interval<u32>>)> = BTreeMap::new();
        let last_field = at + 1 == self.fields.len();
        sweep(&ranges, |there, piece| {
            let key = match (there.first(), last_field) {
                (None, _) => return,
                (Some(&first), true) => (self.container.outcome(first), Vec::new()),
                (Some(_), false) => (None, there.iter().copied().collect()),
            };
            let piece_of = pieces.entry(key);
            let (_, intervals) = piece_of.or_insert_with(|| (there.iter().copied().collect(), Vec::new()));
            intervals.push(piece);
        });
        pieces
            .into_values()
            .map(|(left, intervals)| (left, intervals.into_iter().collect()))
            .collect()
    }
}

/// Cuts numbers where ranges begin and end: each piece with the elements that reach over all of it, ascending.
fn sweep(ranges: &[(u32, (u32, u32))], mut piece: impl FnMut(&BTreeSet<u32>, Interval<u32>)) {
    let begin = ranges.iter().map(|&(element, (first, _))| (first, true, element));
    let ends = ranges
        .iter()
        .filter_map(|&(element, (_, last))| Some((last.checked_add(1)?, false, element)));
    let mut turns: Vec<_> = begin.chain(ends).collect();
    turns.sort_unstable();
    let mut there = BTreeSet::new();
    let mut turns = turns.chunk_by(|one, other| one.0 == other.0).peekable();
    while let Some(here) = turns.next() {
        for &(_, begins, element) in here {
            if begins {
                there.insert(element);
            } else {
                there.remove(&element);
            }
        }
        let next = turns
            .peek()
            .and_then(|next| next.first())
            .map(|&(start, ..)| start);
        let last = next.map_or(u32::MAX, |next| next - 1);
        if let Some(range) = here.first().and_then(|&(start, ..)| Interval::new(start, last)) {
            piece(&there, range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_where_ranges_begin_and_end() {
        const LAST: u32 = u32::MAX;
        let ranges = [
            (0, (5, 9)),
            (1, (1, 6)),
            (2, (10, 12)),
            (3, (8, LAST)),
            (4, (7, 7)),
            (5, (LAST, LAST)),
        ];
        let mut pieces = Vec::new();
        sweep(&ranges, |there, piece| {
            pieces.push((
                piece.first(),
                piece.last(),
                there.iter().copied().collect::<Vec<_>>(),
            ));
        });
        let expected = [
            (1, 4, vec![1]),
            (5, 6, vec![0, 1]),
            (7, 7, vec![0, 4]),
            (8, 9, vec![0, 3]),
            (10, 12, vec![2, 3]),
            (13, LAST - 1, vec![3]),
            (LAST, LAST, vec![3, 5]),
        ];
        assert_eq!(pieces, expected);
        for (first, last, there) in &pieces {
            for (element, (begin, end)) in ranges {
                let reaches = there.contains(&element);
                assert_eq!(
                    reaches,
                    begin <= *first && *last <= end,
                    "{element} {first}-{last}"
                );
            }
        }
    }
}
