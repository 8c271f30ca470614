//! Which pairs are otherwise than assertions want them.
//!
//! Never pairs of pods: what passes is asked once for each two classes of endpoints that policies cannot tell apart, and
//! only where it is wrong are the pairs gone through. Pods and their own nodes, which are few, are judged one by one.

use std::collections::{BTreeMap, BTreeSet};

use picket_net::{Family, Protocol, TrafficSet};

use super::wish::{Plan, Wish};
use super::world::{Member, World, bit, of_family};
use super::{PortSpec, choose::Chosen};
use crate::eval::{Answer, Evaluator, PortQuestion, Question};
use crate::map::class::{Pair, Rows};
use crate::map::traffic::TrafficId;

/// How many failures of one assertion are kept; the rest is counted.
pub(super) const KEPT: usize = 5;

/// A pair that is otherwise than wanted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wrong {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Whether it should be allowed.
    pub(super) expected: bool,
    /// In which family; `None` when there is none in common.
    pub(super) family: Option<Family>,
    pub(super) port: PortQuestion,
}

/// The pairs of an assertion that are wrong.
#[derive(Clone, Debug, Default)]
pub(super) struct Wrongs {
    /// How many pairs there are of which something is wrong; once for each thing that the assertion wants of them.
    pub(super) count: usize,
    /// The first of them.
    pub(super) first: BTreeSet<Wrong>,
}

impl Wrongs {
    fn add(&mut self, wrong: impl FnOnce() -> Option<Wrong>, (from, to): (usize, usize)) {
        self.count += 1;
        let last = self.first.last().map(|last| (last.from, last.to));
        if self.first.len() < KEPT || last.is_some_and(|last| (from, to) < last) {
            self.first.extend(wrong());
            if self.first.len() > KEPT {
                self.first.pop_last();
            }
        }
    }
}

/// Destinations that a wish wants the same of, of one class.
struct Targets {
    class: usize,
    mask: u8,
    wanted: [TrafficId; 2],
    unresolved: bool,
    members: Vec<usize>,
}

/// A wish, with its destinations by classes.
struct Sorted<'w> {
    /// The number of the assertion.
    at: usize,
    wish: &'w Wish,
    to: Vec<Targets>,
}

/// What is wrong with each assertion. Those about steps are not judged here.
pub(super) fn judge(world: &World<'_>, plans: &[Plan<'_>]) -> Vec<Wrongs> {
    let mut wrongs: Vec<Wrongs> = plans.iter().map(|_| Wrongs::default()).collect();
    let direct = plans.iter().enumerate().filter(|(_, plan)| !plan.has_steps());
    let wishes: Vec<_> = direct
        .flat_map(|(at, plan)| plan.wishes.iter().map(move |wish| Sorted::new(world, at, wish)))
        .collect();
    let mut by_class: BTreeMap<usize, Vec<&Sorted<'_>>> = BTreeMap::new();
    for sorted in &wishes {
        let classes = sorted
            .wish
            .from
            .list()
            .iter()
            .filter_map(|&at| world.members.get(at));
        let classes: BTreeSet<_> = classes.map(|member| member.class).collect();
        for class in classes {
            by_class.entry(class).or_default().push(sorted);
        }
    }
    let mut rows = Rows::default();
    for (class, wishes) in by_class {
        world.fill(&mut rows, class);
        let members = world.of_class.get(&class).map_or(&[][..], Vec::as_slice);
        for sorted in wishes {
            if let Some(wrongs) = wrongs.get_mut(sorted.at) {
                of_class(world, sorted, members, &rows, wrongs);
            }
        }
    }
    for sorted in &wishes {
        if let Some(wrongs) = wrongs.get_mut(sorted.at) {
            own_nodes(world, sorted.wish, wrongs);
        }
    }
    wrongs
}

/// Judges what the sources of one class may send; `rows` says what it is.
fn of_class(world: &World<'_>, sorted: &Sorted<'_>, members: &[usize], rows: &Rows, wrongs: &mut Wrongs) {
    let wish = sorted.wish;
    let masks: BTreeSet<u8> = members
        .iter()
        .map(|&at| wish.from.mask(at))
        .filter(|&mask| mask != 0)
        .collect();
    for mask in masks {
        for targets in &sorted.to {
            let pair = rows.to(targets.class);
            if let Some(fault) = fault(world, wish, mask & targets.mask, targets, pair) {
                let sources = members.iter().copied().filter(|&at| wish.from.mask(at) == mask);
                let sources: Vec<_> = sources.collect();
                take(world, wish, (&sources, &targets.members), &fault, wrongs);
            }
        }
    }
}

impl Plan<'_> {
    /// Whether it is about any number of steps.
    pub(super) fn has_steps(&self) -> bool {
        matches!(self.assertion.claim, super::Claim::Unreachable(_))
    }
}

impl<'w> Sorted<'w> {
    fn new(world: &World<'_>, at: usize, wish: &'w Wish) -> Self {
        let mut to: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        let mut same_for_all = None;
        for &destination in wish.to.list() {
            let Some(member) = world.members.get(destination) else {
                continue;
            };
            let unresolved = wish.allowed && wish.packets.unresolved(member).is_some();
            let wanted = if wish.packets.has_names() {
                wish.packets.ids(world, member)
            } else {
                *same_for_all.get_or_insert_with(|| wish.packets.ids(world, member))
            };
            to.entry((member.class, wish.to.mask(destination), wanted, unresolved))
                .or_default()
                .push(destination);
        }
        let to = to
            .into_iter()
            .map(|((class, mask, wanted, unresolved), members)| Targets {
                class,
                mask,
                wanted,
                unresolved,
                members,
            });
        Self {
            at,
            wish,
            to: to.collect(),
        }
    }
}

/// What is wrong with a pair.
enum Fault {
    /// The packets that are, or are not, allowed in a family.
    Packets(Family, TrafficId),
    /// The ends have no family in common, so that nothing can be allowed.
    NoFamily(TrafficId),
    /// The destination has no port of a name.
    NoPort,
}

fn fault(world: &World<'_>, wish: &Wish, mask: u8, to: &Targets, pair: Pair) -> Option<Fault> {
    let whole = bit(Family::Ipv4) | bit(Family::Ipv6);
    let is_meant = |family| of_family(pair, family).is_some() && mask & wish.families & bit(family) != 0;
    if to.unresolved && Family::BOTH.into_iter().any(is_meant) {
        return Some(Fault::NoPort);
    }
    let mut traffics = world.traffics.borrow_mut();
    for (family, wanted) in Family::BOTH.into_iter().zip(to.wanted) {
        let Some(passes) = of_family(pair, family).filter(|_| is_meant(family)) else {
            continue;
        };
        let wrong = if wish.allowed {
            traffics.difference(wanted, passes)
        } else {
            traffics.meet(wanted, passes)
        };
        if wrong != TrafficId::NONE {
            return Some(Fault::Packets(family, wrong));
        }
    }
    let [v4, v6] = to.wanted;
    let nothing_in_common = wish.allowed && wish.families == whole && pair == Pair::NONE;
    let wanted = if v4 == TrafficId::NONE { v6 } else { v4 };
    (nothing_in_common && wanted != TrafficId::NONE).then_some(Fault::NoFamily(wanted))
}

/// Counts the pairs of two classes between which something is wrong.
fn take(
    world: &World<'_>,
    wish: &Wish,
    (sources, destinations): (&[usize], &[usize]),
    fault: &Fault,
    wrongs: &mut Wrongs,
) {
    for &source in sources {
        let Some(from) = world.members.get(source) else {
            continue;
        };
        for &destination in destinations {
            let Some(to) = world.members.get(destination) else {
                continue;
            };
            if World::is_own_node(from, to) || !wish.is_about(from, to) {
                continue;
            }
            // An address outside or a node has one family: only two pods can be expected to have one in common.
            if matches!(fault, Fault::NoFamily(_)) && (from.pod().is_none() || to.pod().is_none()) {
                continue;
            }
            wrongs.add(
                || wrong(world, wish, (source, destination), fault),
                (source, destination),
            );
        }
    }
}

/// Judges what pods and their own nodes may exchange.
fn own_nodes(world: &World<'_>, wish: &Wish, wrongs: &mut Wrongs) {
    for (source, destination) in own_node_pairs(world, &wish.from, &wish.to) {
        let (Some(from), Some(to)) = (world.members.get(source), world.members.get(destination)) else {
            continue;
        };
        if !wish.is_about(from, to) {
            continue;
        }
        let targets = Targets {
            class: to.class,
            mask: wish.to.mask(destination),
            wanted: wish.packets.ids(world, to),
            unresolved: wish.allowed && wish.packets.unresolved(to).is_some(),
            members: Vec::new(),
        };
        let pair = world.to_or_from_own_node(from, to);
        let mask = wish.from.mask(source) & targets.mask;
        match fault(world, wish, mask, &targets, pair) {
            None => {}
            // See `take`.
            Some(Fault::NoFamily(_)) if from.pod().is_none() || to.pod().is_none() => {}
            Some(fault) => {
                wrongs.add(
                    || wrong(world, wish, (source, destination), &fault),
                    (source, destination),
                );
            }
        }
    }
}

/// The pairs of a pod and its own node, or a pod on the network of that node.
pub(super) fn own_node_pairs(world: &World<'_>, from: &Chosen, to: &Chosen) -> Vec<(usize, usize)> {
    let mut on: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut nodes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &at in to.list() {
        let Some(member) = world.members.get(at) else {
            continue;
        };
        member
            .on
            .into_iter()
            .for_each(|node| on.entry(node).or_default().push(at));
        member
            .node
            .into_iter()
            .for_each(|node| nodes.entry(node).or_default().push(at));
    }
    let mut pairs = Vec::new();
    for &at in from.list() {
        let Some(member) = world.members.get(at) else {
            continue;
        };
        let pods = member.node.and_then(|node| on.get(&node)).into_iter().flatten();
        let own = member.on.and_then(|node| nodes.get(&node)).into_iter().flatten();
        pairs.extend(pods.chain(own).map(|&to| (at, to)));
    }
    pairs
}

impl Wish {
    /// Whether it wants something of two members that it names.
    pub(super) fn is_about(&self, from: &Member, to: &Member) -> bool {
        World::is_pair(from, to) && !(self.is_lenient && !self.allowed && World::is_beyond_policies(from, to))
    }
}

fn wrong(world: &World<'_>, wish: &Wish, (from, to): (usize, usize), fault: &Fault) -> Option<Wrong> {
    let destination = world.members.get(to)?;
    let (family, port) = match fault {
        Fault::Packets(family, packets) => (
            Some(*family),
            sample(world.traffics.borrow().get(*packets), destination)?,
        ),
        Fault::NoFamily(packets) => (None, sample(world.traffics.borrow().get(*packets), destination)?),
        Fault::NoPort => match wish.packets.unresolved(destination)? {
            PortSpec::Named(protocol, name) => (None, PortQuestion::Name(*protocol, name.clone())),
            PortSpec::Protocol(_) | PortSpec::Other | PortSpec::Range(..) => return None,
        },
    };
    Some(Wrong {
        from,
        to,
        expected: wish.allowed,
        family,
        port,
    })
}

/// What both ends say to one connection.
pub(super) fn answer(world: &World<'_>, evaluator: &Evaluator<'_>, wrong: &Wrong) -> Option<Answer> {
    let party = |at: usize| world.members.get(at)?.party();
    Some(evaluator.answer(&Question {
        from: party(wrong.from)?,
        to: party(wrong.to)?,
        port: wrong.port.clone(),
        family: wrong.family,
    }))
}

/// One packet of a set; to a port that the destination declares, if there is one.
pub(super) fn sample(traffic: &TrafficSet, to: &Member) -> Option<PortQuestion> {
    let declared = to.pod().into_iter().flat_map(|pod| pod.declared_ports());
    let mut declared = declared.filter(|(protocol, port)| traffic.contains(*protocol, *port));
    if let Some(&(protocol, port)) = declared.next() {
        return Some(PortQuestion::Number(protocol, port));
    }
    for protocol in Protocol::WITH_PORTS {
        let range = traffic.ports(protocol).and_then(|ports| ports.ranges().next());
        if let Some(range) = range {
            return Some(PortQuestion::Number(protocol, range.first()));
        }
    }
    let icmp = [Protocol::ICMP, Protocol::ICMPV6];
    let known = icmp
        .into_iter()
        .find(|&protocol| traffic.portless.contains(protocol));
    known
        .or_else(|| traffic.portless.iter().next())
        .map(PortQuestion::Portless)
}
