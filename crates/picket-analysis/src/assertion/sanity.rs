//! Assertions that no policy can make a difference to, and pairs of them that cannot both hold.

use std::collections::BTreeSet;

use picket_net::Family;
use picket_policy::{Diagnostic, Severity};

use super::codes;
use super::judge::own_node_pairs;
use super::wish::{Plan, Wish};
use super::world::{Member, World, bit};

/// What is wrong with an assertion that can never hold, or never fail.
pub(super) fn impossible(world: &World<'_>, plan: &Plan<'_>) -> Option<Diagnostic> {
    let name = &plan.assertion.name;
    if let Some((from, to)) = plan.wishes.iter().find_map(|wish| undeniable(world, wish)) {
        let message = format!(
            "`{name}` can never hold: no policy can keep `{}` from `{}`",
            from.id, to.id
        );
        let why = if from.node.is_some() && from.node == to.on {
            "a node, with all pods on its network, always reaches the pods that run on it"
        } else {
            "no policy is about nodes, pods on the network of a node, and addresses outside: it takes a pod at one of the ends"
        };
        let problem = problem(codes::IMPOSSIBLE, message, plan).note(why);
        return Some(problem.note("leave it out with `notFrom` or `notTo`, or write `from: any`, which leaves out such pairs itself"));
    }
    if !plan.wishes.iter().any(|wish| first_pair(world, wish).is_some()) {
        let message = format!("`{name}` can never fail: there are no two ends that it could be about");
        return Some(problem(codes::IMPOSSIBLE, message, plan).note("two ends have an address family in common and are not both outside, and a pod always reaches itself"));
    }
    None
}

fn problem(code: picket_policy::Code, message: String, plan: &Plan<'_>) -> Diagnostic {
    Diagnostic::new(code, Severity::Error, message).mark(plan.assertion.span.clone(), "")
}

/// A pair that is to be denied and that no policy can keep apart.
fn undeniable<'w>(world: &'w World<'_>, wish: &Wish) -> Option<(&'w Member, &'w Member)> {
    if wish.allowed || wish.is_lenient {
        return None;
    }
    let mut own_nodes = own_node_pairs(world, &wish.from, &wish.to).into_iter();
    let beyond = |&(source, destination): &(usize, usize)| {
        let (from, to) = (world.members.get(source), world.members.get(destination));
        let beyond = from
            .zip(to)
            .is_some_and(|(from, to)| World::is_beyond_policies(from, to));
        beyond && can_be_asked(world, wish, source, destination)
    };
    let unmanaged = |list: &[usize]| -> Vec<usize> {
        let is = |at: &usize| world.members.get(*at).is_some_and(|member| !member.is_managed());
        list.iter().copied().filter(is).collect()
    };
    let (sources, destinations) = (unmanaged(wish.from.list()), unmanaged(wish.to.list()));
    let mut rest = sources
        .iter()
        .flat_map(|&from| destinations.iter().map(move |&to| (from, to)));
    let (from, to) = own_nodes.find(beyond).or_else(|| rest.find(beyond))?;
    Some((world.members.get(from)?, world.members.get(to)?))
}

/// Whether two members are a pair of the wish, and have a family in which it speaks of packets.
fn can_be_asked(world: &World<'_>, wish: &Wish, source: usize, destination: usize) -> bool {
    let Some((from, to)) = world.members.get(source).zip(world.members.get(destination)) else {
        return false;
    };
    let families = wish.from.mask(source) & wish.to.mask(destination) & wish.families;
    let in_common = Family::BOTH
        .into_iter()
        .any(|family| families & bit(family) != 0 && !wish.packets.towards(to, family).is_empty());
    in_common && wish.is_about(from, to)
}

fn first_pair(world: &World<'_>, wish: &Wish) -> Option<(usize, usize)> {
    let pairs = wish
        .from
        .list()
        .iter()
        .flat_map(|&from| wish.to.list().iter().map(move |&to| (from, to)));
    pairs
        .into_iter()
        .find(|&(from, to)| can_be_asked(world, wish, from, to))
}

/// Every two assertions of which one wants allowed what the other wants denied.
pub(super) fn contradictions(world: &World<'_>, plans: &[Plan<'_>]) -> Vec<Diagnostic> {
    // Only those that share a destination can be.
    let mut denying: Vec<Vec<usize>> = vec![Vec::new(); world.members.len()];
    for (number, plan) in plans.iter().enumerate() {
        let denied = plan.wishes.iter().filter(|wish| !wish.allowed);
        let destinations: BTreeSet<_> = denied.flat_map(|wish| wish.to.list()).collect();
        for &&at in &destinations {
            denying
                .get_mut(at)
                .into_iter()
                .for_each(|numbers| numbers.push(number));
        }
    }
    let mut pairs = BTreeSet::new();
    for (number, plan) in plans.iter().enumerate() {
        let mut others = vec![false; plans.len()];
        for at in plan
            .wishes
            .iter()
            .filter(|wish| wish.allowed)
            .flat_map(|wish| wish.to.list())
        {
            let numbers = denying.get(*at).into_iter().flatten();
            numbers.for_each(|&other| others.get_mut(other).into_iter().for_each(|seen| *seen = true));
        }
        let others = others
            .iter()
            .enumerate()
            .filter(|(other, seen)| **seen && *other != number);
        pairs.extend(others.map(|(other, _)| (number.min(other), number.max(other))));
    }
    let clashes = pairs.into_iter().filter_map(|(one, other)| {
        let (one, other) = plans.get(one).zip(plans.get(other))?;
        let wishes = one
            .wishes
            .iter()
            .flat_map(|own| other.wishes.iter().map(move |their| (own, their)));
        let mut opposed = wishes.filter(|(own, their)| own.allowed != their.allowed);
        let (from, to) = opposed.find_map(|(own, their)| clash(world, own, their))?;
        Some(contradiction((one, other), from, to))
    });
    clashes.collect()
}

fn contradiction((one, other): (&Plan<'_>, &Plan<'_>), from: &Member, to: &Member) -> Diagnostic {
    let message = format!(
        "`{}` and `{}` can never both hold: of `{}` → `{}` one wants allowed what the other wants denied",
        one.assertion.name, other.assertion.name, from.id, to.id
    );
    problem(codes::CONTRADICTION, message, other)
        .mark(one.assertion.span.clone(), "the other")
        .note("take it out of one of them, with `notFrom`, `notTo` or other `ports`")
}

/// A pair of which one wish wants allowed what the other wants denied.
fn clash<'w>(world: &'w World<'_>, one: &Wish, other: &Wish) -> Option<(&'w Member, &'w Member)> {
    if one.families & other.families == 0 || one.to.common(&other.to).next().is_none() {
        return None;
    }
    let sources: Vec<_> = one.from.common(&other.from).collect();
    for destination in one.to.common(&other.to) {
        let to = world.members.get(destination)?;
        for family in Family::BOTH
            .into_iter()
            .filter(|&family| one.families & other.families & bit(family) != 0)
        {
            let both = |wish: &Wish, at| wish.from.mask(at) & wish.to.mask(destination) & bit(family) != 0;
            let packets = one.packets.towards(to, family);
            if packets
                .intersection(&other.packets.towards(to, family))
                .is_empty()
            {
                continue;
            }
            let source = sources.iter().find(|&&source| {
                let from = world.members.get(source);
                let about = |wish: &Wish| from.is_some_and(|from| wish.is_about(from, to));
                both(one, source) && both(other, source) && about(one) && about(other)
            });
            if let Some(from) = source.and_then(|&source| world.members.get(source)) {
                return Some((from, to));
            }
        }
    }
    None
}
