//! Classes of addresses and interfaces: what neither the policies nor the rules can tell apart is one.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_dataplane::demand::{Demands, End};
use picket_net::{Family, Interval};
use rustc_hash::FxHashMap;

use super::container::Container;
use super::program::Program;
use crate::model::{Datatype, Value};

/// Every address, as ranges within which the policies see no difference: the first of each, and what they see, by number.
#[derive(Debug)]
pub(super) struct Atoms {
    ranges: Vec<(IpAddr, usize)>,
    ends: Vec<End>,
}

impl Atoms {
    pub(super) fn of(demands: &Demands<'_>) -> Self {
        let mut ends = Vec::new();
        let mut numbers: FxHashMap<End, usize> = FxHashMap::default();
        let boundaries = demands.boundaries().into_iter();
        let ranges = boundaries.map(|address| {
            let number = match numbers.entry(demands.end(address)) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    ends.push(new.key().clone());
                    *new.insert(ends.len() - 1)
                }
            };
            (address, number)
        });
        let ranges = ranges.collect();
        Self { ranges, ends }
    }

    /// The ranges of one family by their first address, cut where `more` begin.
    fn cut(&self, family: Family, more: &BTreeSet<IpAddr>) -> Vec<(IpAddr, usize)> {
        let own = self
            .ranges
            .iter()
            .filter(|(address, _)| Family::of(*address) == family);
        let mut cut: Vec<(IpAddr, usize)> = Vec::new();
        let mut more = more
            .iter()
            .copied()
            .filter(|&address| Family::of(address) == family)
            .peekable();
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
}

/// The classes of the addresses of one family, and what each is found as.
#[derive(Debug, Default)]
pub(super) struct Classes<'d> {
    /// The lowest address of each class, and what the policies see of it.
    pub(super) members: Vec<(IpAddr, Option<&'d End>)>,
    /// By container and position: for each class the elements that hold it.
    found: BTreeMap<(usize, usize), Vec<Vec<u32>>>,
}

impl<'d> Classes<'d> {
    pub(super) fn of(atoms: &'d Atoms, program: &Program, family: Family) -> Self {
        let datatype = match family {
            Family::Ipv4 => Datatype::Ipv4Address,
            Family::Ipv6 => Datatype::Ipv6Address,
        };
        let places = || {
            program
                .containers
                .iter()
                .enumerate()
                .flat_map(|(index, container)| {
                    (0..container.fields()).map(move |position| (index, position, container))
                })
                .filter(|(_, position, container)| container.datatype(*position) == Some(datatype))
        };
        let mut more = BTreeSet::new();
        for (_, position, container) in places() {
            for (first, after) in container
                .elements
                .iter()
                .filter_map(|one| range(one.value(position)?))
            {
                more.insert(first);
                more.extend(after);
            }
        }
        let cut = atoms.cut(family, &more);
        let mut signatures: Vec<Vec<(usize, usize, u32)>> = vec![Vec::new(); cut.len()];
        for (index, position, container) in places() {
            for (number, element) in (0..).zip(&container.elements) {
                let Some((first, after)) = element.value(position).and_then(range) else {
                    continue;
                };
                let from = cut.partition_point(|(address, _)| *address < first);
                let to = after.map_or(cut.len(), |after| {
                    cut.partition_point(|(address, _)| *address < after)
                });
                for signature in signatures.get_mut(from..to).into_iter().flatten() {
                    signature.push((index, position, number));
                }
            }
        }
        Self::grouped(atoms, &cut, signatures, program)
    }

    fn grouped(
        atoms: &'d Atoms,
        cut: &[(IpAddr, usize)],
        signatures: Vec<Vec<(usize, usize, u32)>>,
        program: &Program,
    ) -> Self {
        let mut classes = Self::default();
        let mut known = FxHashMap::default();
        for ((address, end), signature) in cut.iter().zip(signatures) {
            // Where the key has one field, elements with one outcome are alike.
            let alike: Vec<_> = signature
                .iter()
                .map(|&(index, position, number)| {
                    let container = program.containers.get(index);
                    let outcome = container
                        .filter(|one| one.fields() == 1)
                        .and_then(|one| one.element(number));
                    (index, position, outcome.map_or(number, |element| element.outcome))
                })
                .collect();
            let class = classes.members.len();
            if *known.entry((*end, alike)).or_insert(class) != class {
                continue;
            }
            classes.members.push((*address, atoms.ends.get(*end)));
            for (index, position, number) in signature {
                let found = classes.found.entry((index, position)).or_default();
                found.resize(class + 1, Vec::new());
                if let Some(of_class) = found.last_mut() {
                    of_class.push(number);
                }
            }
        }
        classes
    }

    /// For each class the elements of a container that have it at a position; none for classes beyond the end.
    pub(super) fn elements(&self, container: usize, position: usize) -> &[Vec<u32>] {
        let found = self.found.get(&(container, position));
        found.map_or(&[], Vec::as_slice)
    }

    pub(super) fn address(&self, class: u32) -> Option<IpAddr> {
        self.members.get(class as usize).map(|(address, _)| *address)
    }

    pub(super) fn end(&self, class: u32) -> Option<&'d End> {
        self.members.get(class as usize).and_then(|(_, end)| *end)
    }
}

/// The first address, and the one behind the last.
fn range(value: &Value) -> Option<(IpAddr, Option<IpAddr>)> {
    fn ends<T: picket_net::Bound>(
        interval: &Interval<T>,
        address: fn(T) -> IpAddr,
    ) -> (IpAddr, Option<IpAddr>) {
        (
            address(interval.first()),
            interval.last().successor().map(address),
        )
    }
    match value {
        Value::Ipv4(interval) => Some(ends(interval, |bits| std::net::Ipv4Addr::from_bits(bits).into())),
        Value::Ipv6(interval) => Some(ends(interval, |bits| std::net::Ipv6Addr::from_bits(bits).into())),
        _ => None,
    }
}

/// The interfaces that rules name, the one that policies are about, and one that stands for all others.
pub(super) fn interfaces(program: &Program, managed: &str) -> Vec<String> {
    let mut names = BTreeSet::from([managed.to_owned()]);
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
    container: &Container,
    position: usize,
    name: &str,
    among: Option<&[u32]>,
) -> Vec<u32> {
    container.filtered(
        among,
        |element| matches!(element.value(position), Some(Value::Interface(own)) if own.as_str() == name),
    )
}
