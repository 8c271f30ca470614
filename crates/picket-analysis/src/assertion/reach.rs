//! What can be reached in any number of steps.
//!
//! Whoever reaches an endpoint may go on from there. From every source at once, step by step, each endpoint learns of at
//! most two sources that reach it: one of them may be the endpoint itself, and whoever asks what reaches it wants
//! another. All endpoints of a class reach the same others, but for their own nodes, so that a class is gone through once
//! for each source that comes to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use picket_net::Family;

use super::choose::Chosen;
use super::judge::{KEPT, Wrong, own_node_pairs, sample};
use super::wish::{Plan, Wish, foreign};
use super::world::{Is, Member, World, bit, of_family};
use crate::map::class::{Pair, Rows};
use crate::map::traffic::TrafficId;

/// A way that should not be.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// The connections that make it, from the source to the destination.
    pub(super) steps: Vec<Wrong>,
}

/// The ways that an assertion forbids: how many destinations are reached, and shortest ways to the first of them.
pub(super) fn ways(world: &World<'_>, plan: &Plan<'_>) -> (usize, Vec<Way>) {
    let Some(wish) = plan.wishes.first() else {
        return (0, Vec::new());
    };
    let mut search = Search::new(world, plan, wish);
    search.run();
    let reached = search.reached.len();
    let ways = search
        .reached
        .values()
        .take(KEPT)
        .map(|last| search.way(last))
        .collect();
    (reached, ways)
}

/// How an endpoint was reached from a source.
#[derive(Clone, Copy, Debug)]
struct Label {
    source: usize,
    /// The step before and its family; `None` for the source itself.
    before: Option<(usize, Family)>,
    /// Where that step leads: the endpoint, or another interface of the same pod.
    entered: usize,
}

/// What of an endpoint decides where it can go on to, but for its own node: its class, the families that it is meant in,
/// whether policies are about it, and whether it is the source itself.
type Kind = (usize, u8, bool, bool);

/// The first endpoint of a kind that was gone on from.
#[derive(Clone, Copy, Debug)]
struct First {
    /// The pod or node that the source is.
    whose: usize,
    /// The endpoint; `None` once another went on to it.
    at: Option<usize>,
}

struct Search<'s, 'a> {
    world: &'s World<'a>,
    plan: &'s Plan<'s>,
    wish: &'s Wish,
    /// For each member the first of those that are the same pod or node.
    same: Vec<usize>,
    /// For each member at most two labels of different sources.
    labels: Vec<Vec<Label>>,
    queue: VecDeque<(usize, usize)>,
    /// The destinations that are reached with packets that count.
    reached: BTreeMap<usize, Label>,
    /// For each kind of endpoint who was gone on from, once for each source.
    done: BTreeMap<Kind, Vec<First>>,
    /// For each member the ones on the other side of its own node, to which more may pass.
    own_nodes: BTreeMap<usize, Vec<usize>>,
    /// How many sources each endpoint has to learn of: one, where no destination is a source itself.
    limit: usize,
    /// Per family the packets of the other.
    foreign: [TrafficId; 2],
    rows: Rows,
}

impl<'s, 'a> Search<'s, 'a> {
    fn new(world: &'s World<'a>, plan: &'s Plan<'s>, wish: &'s Wish) -> Self {
        let everything = Chosen::new(world.members.iter().map(|member| member.families).collect());
        let mut own_nodes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (from, to) in own_node_pairs(world, &everything, &everything) {
            own_nodes.entry(from).or_default().push(to);
        }
        let same = same(world);
        let whose = |list: &[usize]| -> BTreeSet<usize> {
            list.iter().filter_map(|&at| same.get(at).copied()).collect()
        };
        let (sources, destinations) = (whose(plan.from.list()), whose(plan.to.list()));
        Self {
            world,
            plan,
            wish,
            limit: if sources.is_disjoint(&destinations) { 1 } else { 2 },
            same,
            labels: vec![Vec::new(); world.members.len()],
            queue: VecDeque::new(),
            reached: BTreeMap::new(),
            done: BTreeMap::new(),
            own_nodes,
            foreign: Family::BOTH.map(|family| world.traffics.borrow_mut().intern(&foreign(family).into())),
            rows: Rows::default(),
        }
    }

    fn run(&mut self) {
        for &source in self.plan.from.list() {
            self.label(
                source,
                Label {
                    source,
                    before: None,
                    entered: source,
                },
            );
        }
        while let Some((at, source)) = self.queue.pop_front() {
            let Some(member) = self.world.members.get(at) else {
                continue;
            };
            self.leave(at, source, member);
            for next in self.own_nodes.get(&at).cloned().unwrap_or_default() {
                let Some(to) = self.world.members.get(next) else {
                    continue;
                };
                let pair = self.world.to_or_from_own_node(member, to);
                self.step((at, source), (next, to), pair);
            }
        }
    }

    /// Goes on from an endpoint, unless another of its kind did. That one did not go on to itself, which this one may.
    fn leave(&mut self, at: usize, source: usize, member: &Member) {
        let is_source = at == source && self.wish.is_lenient;
        let kind = (
            member.class,
            self.families(at, source, member),
            member.is_managed(),
            is_source,
        );
        let whose = self.whose(source);
        let known = self.done.entry(kind).or_default();
        if let Some(first) = known.iter_mut().find(|first| first.whose == whose) {
            let to = first.at.filter(|&first| first != at);
            if let Some((first, to)) = to.and_then(|to| Some((to, self.world.members.get(to)?))) {
                known
                    .iter_mut()
                    .filter(|one| one.whose == whose)
                    .for_each(|one| one.at = None);
                if !World::is_own_node(member, to) {
                    self.step((at, source), (first, to), self.world.passes(member, to));
                }
            }
        } else if known.len() < self.limit {
            known.push(First { whose, at: Some(at) });
            self.go_on(at, source, member);
        }
    }

    /// The families in which one goes on: a source is meant in some of them only.
    fn families(&self, at: usize, source: usize, member: &Member) -> u8 {
        let own = if at == source {
            self.plan.from.mask(at)
        } else {
            member.families
        };
        own & self.wish.families
    }

    fn whose(&self, at: usize) -> usize {
        self.same.get(at).copied().unwrap_or(at)
    }

    /// Every step by what policies say.
    fn go_on(&mut self, at: usize, source: usize, member: &Member) {
        self.world.fill(&mut self.rows, member.class);
        for (next, to) in self.world.members.iter().enumerate() {
            let pair = self.rows.to(to.class);
            if pair != Pair::NONE && !World::is_own_node(member, to) {
                self.step((at, source), (next, to), pair);
            }
        }
    }

    fn step(&mut self, (at, source): (usize, usize), (next, to): (usize, &Member), pair: Pair) {
        let Some(from) = self.world.members.get(at).filter(|from| World::is_pair(from, to)) else {
            return;
        };
        let families = self.families(at, source, from) & to.families;
        for (family, foreign) in Family::BOTH.into_iter().zip(self.foreign) {
            let passes = of_family(pair, family).filter(|_| families & bit(family) != 0);
            let passes = passes.map(|passes| self.world.traffics.borrow_mut().difference(passes, foreign));
            let Some(passes) = passes.filter(|passes| *passes != TrafficId::NONE) else {
                continue;
            };
            let label = Label {
                source,
                before: Some((at, family)),
                entered: next,
            };
            self.hit((from, at), (next, to), passes, label);
            let goes_on = match &self.plan.through {
                Some(through) => through.contains(next),
                None => to.pod().is_some(),
            };
            if goes_on {
                self.label(next, label);
            }
        }
    }

    /// Notes that a destination is reached, if the last step is with packets that count.
    fn hit(
        &mut self,
        (from, at): (&Member, usize),
        (next, to): (usize, &Member),
        passes: TrafficId,
        label: Label,
    ) {
        let Some((_, family)) = label.before else { return };
        let is_destination = self.plan.to.mask(next) & bit(family) != 0;
        if !is_destination || self.reached.contains_key(&next) || self.is_itself(label.source, to) {
            return;
        }
        // What nothing can prevent is left out where everything is meant.
        if at == label.source && !self.wish.is_about(from, to) {
            return;
        }
        let wanted = self.wish.packets.towards(to, family);
        if !self
            .world
            .traffics
            .borrow()
            .get(passes)
            .intersection(&wanted)
            .is_empty()
        {
            self.reached.insert(next, label);
        }
    }

    /// Whether a source is the destination, or another interface of it.
    fn is_itself(&self, source: usize, to: &Member) -> bool {
        let source = self.world.members.get(source);
        source.is_some_and(|source| !World::is_pair(source, to))
    }

    /// Notes a way to an endpoint, and to the other interfaces of the same pod: whoever is in the pod can use them all.
    fn label(&mut self, at: usize, label: Label) {
        let whose = self.whose(at);
        let siblings = match self.world.members.get(at).and_then(Member::pod) {
            Some(pod)
                if pod
                    .interface
                    .as_ref()
                    .is_some_and(|interface| interface.is_one_of_several()) =>
            {
                self.same
                    .iter()
                    .enumerate()
                    .filter(|(_, same)| **same == whose)
                    .map(|(at, _)| at)
                    .collect()
            }
            _ => vec![at],
        };
        for at in siblings {
            let source = self.whose(label.source);
            let known = self
                .labels
                .get(at)
                .into_iter()
                .flatten()
                .any(|known| self.whose(known.source) == source);
            // A source keeps what it is, and learns of one other.
            if let Some(labels) = self
                .labels
                .get_mut(at)
                .filter(|labels| !known && labels.len() < self.limit)
            {
                labels.push(label);
                self.queue.push_back((at, label.source));
            }
        }
    }

    fn way(&self, last: &Label) -> Way {
        let mut steps = Vec::new();
        let mut label = *last;
        while let Some((before, family)) = label.before {
            steps.extend(self.connection(before, label.entered, family, steps.is_empty()));
            let mut known = self.labels.get(before).into_iter().flatten();
            let Some(next) = known.find(|known| known.source == label.source) else {
                break;
            };
            label = *next;
        }
        steps.reverse();
        Way { steps }
    }

    /// One step, with a packet that may pass.
    fn connection(&self, from: usize, to: usize, family: Family, is_last: bool) -> Option<Wrong> {
        let (source, destination) = (self.world.members.get(from)?, self.world.members.get(to)?);
        let pair = self.world.passes(source, destination);
        let passes = self.world.traffics.borrow().get(of_family(pair, family)?).clone();
        let counts = if is_last {
            passes.intersection(&self.wish.packets.towards(destination, family))
        } else {
            passes.difference(&foreign(family).into())
        };
        Some(Wrong {
            from,
            to,
            expected: false,
            family: Some(family),
            port: sample(&counts, destination)?,
        })
    }
}

/// For each member the first of those that are the same pod or node.
fn same(world: &World<'_>) -> Vec<usize> {
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    let same = world.members.iter().enumerate().map(|(at, member)| {
        let name = match &member.is {
            Is::Pod(pod) if pod.interface.is_some() => {
                let whole = pod.whole();
                format!("{}/{}", whole.namespace, whole.name)
            }
            Is::Pod(_) => member.id.clone(),
            Is::Node(name, _) => name.to_string(),
            Is::External(_) => member.id.clone(),
        };
        *first.entry(name).or_insert(at)
    });
    same.collect()
}
