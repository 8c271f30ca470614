//! Classes of addresses and interfaces: what neither the policies nor the rules can tell apart is one.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use picket_dataplane::demand::{Demands, End};
use picket_net::Family;
use rustc_hash::{FxHashMap, FxHashSet};

use super::container::Container;
use super::program::Program;
use crate::model::{Datatype, Value};

/// The addresses of one family, as numbers.
trait Bits: Copy + Ord + Into<u128> + TryFrom<u128> {
    /// What sets of them are of.
    const DATATYPE: Datatype;

    fn address(self) -> IpAddr;

    /// The one behind it, if it is not the last.
    fn after(self) -> Option<Self> {
        let next = self.into().checked_add(1)?;
        Self::try_from(next).ok()
    }
}

impl Bits for u32 {
    const DATATYPE: Datatype = Datatype::Ipv4Address;

    fn address(self) -> IpAddr {
        Ipv4Addr::from_bits(self).into()
    }
}

impl Bits for u128 {
    const DATATYPE: Datatype = Datatype::Ipv6Address;

    fn address(self) -> IpAddr {
        Ipv6Addr::from_bits(self).into()
    }
}

/// Every address, as ranges within which the policies see no difference: the first of each, and what they see, by number.
#[derive(Debug)]
pub(super) struct Atoms {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u32)>,
    ends: Vec<End>,
}

impl Atoms {
    pub(super) fn of(demands: &Demands<'_>) -> Self {
        let mut ends = Vec::new();
        let mut numbers: FxHashMap<End, u32> = FxHashMap::default();
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (address, end) in demands.ends() {
            let number = match numbers.entry(end) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let next = u32::try_from(ends.len()).unwrap_or(u32::MAX);
                    ends.push(new.key().clone());
                    *new.insert(next)
                }
            };
            match address {
                IpAddr::V4(address) => v4.push((address.to_bits(), number)),
                IpAddr::V6(address) => v6.push((address.to_bits(), number)),
            }
        }
        Self { v4, v6, ends }
    }
}

/// The ranges of one family by their first address, cut where `more` begin, which ascend.
fn cut<B: Bits>(own: &[(B, u32)], more: &[B]) -> Vec<(B, u32)> {
    let mut cut: Vec<(B, u32)> = Vec::with_capacity(own.len() + more.len());
    let mut more = more.iter().copied().peekable();
    for &(address, end) in own {
        while let Some(between) = more.next_if(|between| *between < address) {
            if let Some(&(_, before)) = cut.last() {
                cut.push((between, before));
            }
        }
        more.next_if_eq(&address);
        cut.push((address, end));
    }
    for between in more {
        if let Some(&(_, before)) = cut.last() {
            cut.push((between, before));
        }
    }
    cut
}

/// The classes of the addresses of one family, and what each is found as.
#[derive(Debug, Default)]
pub(super) struct Classes<'d> {
    /// The lowest address of each class, ascending, and what the policies see of it.
    pub(super) members: Vec<(IpAddr, &'d End)>,
    /// By container and position: each class with an element that holds it, ascending.
    found: BTreeMap<(usize, usize), Vec<(u32, u32)>>,
}

/// A position of the keys of a container at which there are addresses of one family.
struct Column<'p, B> {
    container: usize,
    position: usize,
    /// The number of each element with its first and its last address.
    ranges: Vec<(u32, B, B)>,
    elements: &'p Container<'p>,
}

impl<'p, B: Bits> Column<'p, B> {
    fn all(program: &'p Program<'_>) -> Vec<Self> {
        let mut columns = Vec::new();
        for (container, elements) in program.containers.iter().enumerate() {
            for position in 0..elements.fields() {
                if elements.datatype(position) == Some(B::DATATYPE) {
                    let ranges = (0..).zip(&elements.elements).filter_map(|(number, element)| {
                        let (first, last) = element.value(position)?.ends()?;
                        Some((number, B::try_from(first).ok()?, B::try_from(last).ok()?))
                    });
                    columns.push(Self {
                        container,
                        position,
                        ranges: ranges.collect(),
                        elements,
                    });
                }
            }
        }
        columns
    }

    /// What finding an element tells: where the key has one field, elements with one outcome are alike.
    fn told_by(&self, number: u32) -> u32 {
        let whole = self.elements.fields() == 1;
        let element = self.elements.element(number).filter(|_| whole);
        element.map_or(number, |element| element.outcome)
    }

    /// For each element the places among ascending `firsts` of the addresses that it holds.
    fn held<'h>(
        &'h self,
        firsts: &'h [(B, u32)],
    ) -> impl Iterator<Item = (u32, std::ops::Range<usize>)> + 'h {
        self.ranges.iter().map(|&(number, first, last)| {
            let from = firsts.partition_point(|(bits, _)| *bits < first);
            let to = firsts.partition_point(|(bits, _)| *bits <= last);
            (number, from..to)
        })
    }
}

impl<'d> Classes<'d> {
    pub(super) fn of(atoms: &'d Atoms, program: &Program<'_>, family: Family) -> Self {
        match family {
            Family::Ipv4 => Self::of_ranges(&atoms.v4, &atoms.ends, program),
            Family::Ipv6 => Self::of_ranges(&atoms.v6, &atoms.ends, program),
        }
    }

    fn of_ranges<B: Bits>(own: &[(B, u32)], ends: &'d [End], program: &Program<'_>) -> Self {
        let columns: Vec<Column<'_, B>> = Column::all(program);
        let turns = |&(_, first, last): &(u32, B, B)| [Some(first), last.after()];
        let mut more: Vec<B> = columns
            .iter()
            .flat_map(|column| column.ranges.iter().flat_map(turns))
            .flatten()
            .collect();
        more.sort_unstable();
        more.dedup();
        let mut cut = cut(own, &more);
        // First told apart by what the policies see, then by one column after the other.
        let mut next = u32::try_from(ends.len()).unwrap_or(u32::MAX);
        let seen: Vec<u32> = cut.iter().map(|&(_, end)| end).collect();
        for column in &columns {
            let mut refined: FxHashMap<(u32, u32), u32> = FxHashMap::default();
            let held: Vec<_> = column.held(&cut).collect();
            for (number, places) in held {
                let told = column.told_by(number);
                for (_, class) in cut.get_mut(places).into_iter().flatten() {
                    *class = *refined.entry((*class, told)).or_insert_with(|| {
                        next += 1;
                        next - 1
                    });
                }
            }
        }
        let mut known = FxHashSet::default();
        let lowest = cut
            .iter()
            .zip(seen)
            .filter(|((_, class), _)| known.insert(*class));
        let lowest: Vec<_> = lowest.map(|(&(first, _), end)| (first, end)).collect();
        let mut classes = Self {
            members: lowest
                .iter()
                .filter_map(|&(first, end)| Some((first.address(), ends.get(end as usize)?)))
                .collect(),
            found: BTreeMap::new(),
        };
        for column in &columns {
            let held = column.held(&lowest);
            let mut found: Vec<(u32, u32)> = held
                .flat_map(|(number, places)| {
                    places.map(move |class| (u32::try_from(class).unwrap_or(u32::MAX), number))
                })
                .collect();
            found.sort_unstable();
            classes.found.insert((column.container, column.position), found);
        }
        classes
    }

    /// The elements of a container by the classes that they hold at a position.
    pub(super) fn held(&self, container: usize, position: usize) -> Held<'_> {
        let found = self.found.get(&(container, position));
        Held(found.map_or(&[], Vec::as_slice))
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn address(&self, class: u32) -> Option<IpAddr> {
        self.members.get(class as usize).map(|(address, _)| *address)
    }

    /// What the policies see of each class.
    pub(super) fn ends(&self) -> impl Iterator<Item = &'d End> + '_ {
        self.members.iter().map(|(_, end)| *end)
    }
}

/// Classes, each with an element that holds it, ascending.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<'c>(&'c [(u32, u32)]);

impl<'c> Held<'c> {
    /// Every class that some element holds, with the elements.
    pub(super) fn all(self) -> impl Iterator<Item = (u32, impl Iterator<Item = u32>)> {
        let alike = self.0.chunk_by(|one, other| one.0 == other.0);
        alike.filter_map(|alike| Some((alike.first()?.0, alike.iter().map(|&(_, element)| element))))
    }
}

/// The interfaces that rules name, those `known` to whoever demands something, and one that stands for all others.
pub(super) fn interfaces<'k>(program: &Program<'_>, known: impl IntoIterator<Item = &'k str>) -> Vec<String> {
    let mut names: BTreeSet<String> = known.into_iter().map(str::to_owned).collect();
    for container in &program.containers {
        for element in &container.elements {
            for position in 0..container.fields() {
                if let Some(Value::Interface(name)) = element.value(position) {
                    names.insert(name.as_str().to_owned());
                }
            }
        }
    }
    let other = (0..)
        .map(|number| format!("other{number}"))
        .find(|name| !names.contains(name));
    let mut names: Vec<_> = names.into_iter().collect();
    names.extend(other);
    names
}

/// The elements of a container that have an interface at a position.
pub(super) fn elements_of_interface(
    container: &Container<'_>,
    position: usize,
    name: &str,
    among: Option<&[u32]>,
) -> Vec<u32> {
    container.filtered(
        among,
        |element| matches!(element.value(position), Some(Value::Interface(own)) if own.as_str() == name),
    )
}
