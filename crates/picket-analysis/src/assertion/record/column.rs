//! What may reach which destinations.

use std::collections::BTreeMap;
use std::rc::Rc;

use picket_net::{Family, TrafficSet};

use super::super::choose::Chosen;
use super::super::judge::own_node_pairs;
use super::super::wish::foreign;
use super::super::world::{World, bit, of_family};
use crate::map::class::{Pair, Rows};
use crate::map::traffic::TrafficId;

/// Classes of sources by what they may send in each family.
type Senders = BTreeMap<Pair, Vec<usize>>;

/// What own nodes change: the sources that may send something else than their class.
type Exceptions = Vec<(usize, Pair)>;

/// Destinations that the same may reach.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) destinations: Vec<usize>,
    senders: Rc<Senders>,
    exceptions: Exceptions,
    /// The families that the destinations have.
    families: u8,
}

/// What the same sources may send.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) sources: Vec<usize>,
    pub(super) packets: TrafficSet,
}

/// All destinations.
pub(super) struct Columns<'w> {
    world: &'w World<'w>,
    all: Vec<Column>,
}

impl<'w> Columns<'w> {
    pub(super) fn new(world: &'w World<'w>) -> Self {
        let mut exceptions = of_own_nodes(world);
        let mut alike: BTreeMap<(u8, Rc<Senders>, Exceptions), Vec<usize>> = BTreeMap::new();
        for (class, senders) in senders(world) {
            for &at in world.of_class.get(&class).into_iter().flatten() {
                let families = world.members.get(at).map_or(0, |member| member.families);
                let key = (
                    families,
                    Rc::clone(&senders),
                    exceptions.remove(&at).unwrap_or_default(),
                );
                alike.entry(key).or_default().push(at);
            }
        }
        let columns = alike
            .into_iter()
            .map(|((families, senders, exceptions), mut destinations)| {
                destinations.sort_unstable();
                Column {
                    destinations,
                    senders,
                    exceptions,
                    families,
                }
            });
        let mut all: Vec<_> = columns.collect();
        all.sort_by_key(|column| column.destinations.first().copied());
        Self { world, all }
    }

    /// All of them, by their first destination.
    pub(super) fn all(&self) -> &[Column] {
        &self.all
    }

    /// What may be sent to the destinations of one in some families, by whom.
    pub(super) fn parts(&self, column: &Column, family: Option<Family>) -> Vec<Part> {
        let mut parts: BTreeMap<TrafficSet, Vec<usize>> = BTreeMap::new();
        let mut add = |pair: Pair, sources: &[usize]| {
            let only =
                |one: Family| of_family(pair, one).filter(|_| family.is_none_or(|family| family == one));
            let pair = Pair {
                v4: only(Family::Ipv4),
                v6: only(Family::Ipv6),
            };
            let packets = together(self.world, pair).filter(|packets| !packets.is_empty());
            if let Some(packets) = packets {
                parts
                    .entry(packets)
                    .or_default()
                    .extend(sources.iter().filter(|&&source| self.sends(source, column)));
            }
        };
        for (pair, classes) in column.senders.iter() {
            let sources = classes
                .iter()
                .filter_map(|class| self.world.of_class.get(class))
                .flatten()
                .copied();
            let usual = |source: &usize| !column.exceptions.iter().any(|(exception, _)| exception == source);
            add(*pair, &sources.filter(usual).collect::<Vec<_>>());
        }
        for (source, pair) in &column.exceptions {
            add(*pair, &[*source]);
        }
        let parts = parts.into_iter().filter(|(_, sources)| !sources.is_empty());
        let mut parts: Vec<_> = parts
            .map(|(packets, mut sources)| {
                sources.sort_unstable();
                Part { sources, packets }
            })
            .collect();
        parts.sort_by(|one, other| one.sources.first().cmp(&other.sources.first()));
        parts
    }

    /// Whether a source is not the only destination.
    fn sends(&self, source: usize, column: &Column) -> bool {
        let Some(from) = self.world.members.get(source) else {
            return false;
        };
        let mut destinations = column
            .destinations
            .iter()
            .filter_map(|&at| self.world.members.get(at));
        destinations.any(|to| World::is_pair(from, to))
    }
}

impl Column {
    /// The families that have to be spoken of one by one; `None` for all at once.
    pub(super) fn families(&self, world: &World<'_>) -> Vec<Option<Family>> {
        let exceptions = self.exceptions.iter().map(|(_, pair)| pair);
        if self
            .senders
            .keys()
            .chain(exceptions)
            .all(|pair| together(world, *pair).is_some())
        {
            return vec![None];
        }
        let own = Family::BOTH
            .into_iter()
            .filter(|family| self.families & bit(*family) != 0);
        own.map(Some).collect()
    }
}

/// For each class the classes of sources by what they may send to it. Where nothing can be sent they are left out.
fn senders(world: &World<'_>) -> BTreeMap<usize, Rc<Senders>> {
    let mut to_class: BTreeMap<usize, Senders> = world
        .of_class
        .keys()
        .map(|&class| (class, Senders::new()))
        .collect();
    let mut rows = Rows::default();
    let is_external = |class| world.class(class).is_some_and(|class| class.external);
    for &class in world.of_class.keys() {
        world.fill(&mut rows, class);
        for (&to, senders) in &mut to_class {
            let pair = sendable(world, rows.to(to));
            if !(is_nothing(pair) || is_external(class) && is_external(to)) {
                senders.entry(pair).or_default().push(class);
            }
        }
    }
    to_class
        .into_iter()
        .map(|(class, senders)| (class, Rc::new(senders)))
        .collect()
}

/// For each destination the sources that may send it more than policies say because of their node, where policies can
/// prevent it at all.
fn of_own_nodes(world: &World<'_>) -> BTreeMap<usize, Exceptions> {
    let everything = Chosen::new(world.members.iter().map(|member| member.families).collect());
    let mut found: BTreeMap<usize, Exceptions> = BTreeMap::new();
    for (source, destination) in own_node_pairs(world, &everything, &everything) {
        let Some((from, to)) = world.members.get(source).zip(world.members.get(destination)) else {
            continue;
        };
        if World::is_beyond_policies(from, to) {
            continue;
        }
        let own = sendable(world, world.to_or_from_own_node(from, to));
        if own != sendable(world, world.by_policies(from, to)) {
            found.entry(destination).or_default().push((source, own));
        }
    }
    found
}

fn is_nothing(pair: Pair) -> bool {
    [pair.v4, pair.v6]
        .into_iter()
        .flatten()
        .all(|sent| sent == TrafficId::NONE)
}

/// What can be sent in each family, without the ICMP of the other.
fn sendable(world: &World<'_>, pair: Pair) -> Pair {
    let mut traffics = world.traffics.borrow_mut();
    let mut of = |family| {
        let foreign = traffics.intern(&foreign(family).into());
        Some(traffics.difference(of_family(pair, family)?, foreign))
    };
    Pair {
        v4: of(Family::Ipv4),
        v6: of(Family::Ipv6),
    }
}

/// What both families say, if it can be said at once; `None` also where there is no family.
fn together(world: &World<'_>, pair: Pair) -> Option<TrafficSet> {
    let traffics = world.traffics.borrow();
    let sent = |family| of_family(pair, family).map(|sent| (family, traffics.get(sent).clone()));
    let families: Vec<_> = Family::BOTH.into_iter().filter_map(sent).collect();
    let both = families
        .iter()
        .fold(TrafficSet::empty(), |all, (_, sent)| all.union(sent));
    let same = |(family, sent): &(Family, TrafficSet)| both.difference(&foreign(*family).into()) == *sent;
    if families.is_empty() || !families.iter().all(same) {
        return None;
    }
    // Where there is one family, the ICMP of the other makes no difference to everything.
    let icmp = families.iter().fold(both.clone(), |all, (family, _)| {
        all.union(&foreign(*family).into())
    });
    Some(if icmp.is_all() { icmp } else { both })
}
