//! Pairs of ends, each demand once.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use picket_net::BitSet;
use rustc_hash::FxHashMap;

use super::place::{Place, ruled};
use super::side::NOTHING;
use super::{Demand, Demands, End};
use crate::Crossing;

/// Ends by number, and what is demanded between sets of them.
#[derive(Debug)]
pub struct Ends<'d> {
    demands: &'d Demands<'d>,
    ends: Vec<&'d End>,
    /// Those that are judged here.
    judged: BitSet,
    /// Those that have an address of a node of one that is judged here, and are not judged here.
    nodes: BitSet,
    /// The others.
    strangers: BitSet,
    /// The strangers by profile, which is all that policies see of them.
    profiles: BTreeMap<u32, BitSet>,
    /// By side: the strangers by what it allows with them.
    rows: FxHashMap<Option<u32>, Rows>,
}

type Rows = Rc<BTreeMap<Option<u32>, BitSet>>;

impl<'d> Ends<'d> {
    /// Numbers `ends` from 0 on.
    pub fn new(demands: &'d Demands<'d>, ends: impl IntoIterator<Item = &'d End>) -> Self {
        let ends: Vec<&End> = ends.into_iter().collect();
        let here: BTreeSet<_> = ends.iter().flat_map(|end| &end.own_nodes).collect();
        let mut found = Self {
            demands,
            judged: BitSet::empty(),
            nodes: BitSet::empty(),
            strangers: BitSet::empty(),
            profiles: BTreeMap::new(),
            rows: FxHashMap::default(),
            ends: Vec::new(),
        };
        for (number, end) in (0..).zip(&ends) {
            if end.own.is_some() {
                found.judged.push(number);
            } else if end.is_node.iter().any(|node| here.contains(node)) {
                found.nodes.push(number);
            } else {
                found.strangers.push(number);
                found.profiles.entry(end.profile).or_default().push(number);
            }
        }
        Self { ends, ..found }
    }

    /// Everything that is demanded of new connections from one of `sources` to one of `destinations`, each with a pair of
    /// which it is.
    pub fn between(
        &mut self,
        crossing: &Crossing,
        sources: &BitSet,
        destinations: &BitSet,
    ) -> Vec<(Demand, u32, u32)> {
        let mut pairs = Pairs {
            ends: self,
            crossing,
            found: FxHashMap::default(),
            last: None,
        };
        match (&pairs.ends.demands.place, crossing) {
            (Place::Node, Crossing::Forward { .. } | Crossing::Relay { .. }) => {
                pairs.forwarded(sources, destinations);
            }
            // Policies are not about a node itself, but for what the cluster default denies between it and its own pods.
            (Place::Node, Crossing::Send { .. }) => {
                let ruled = pairs
                    .ends
                    .filtered(destinations, |end| end.from_own_node.is_some());
                pairs.all(sources, &ruled);
                let rest = destinations.difference(&ruled);
                let answering = pairs.ends.filtered(&rest, |end| end.to_own_node.is_some());
                pairs.one(sources, &answering);
                pairs.one(sources, &rest.difference(&answering));
            }
            (Place::Node, Crossing::Receive { .. }) => {
                let ruled = pairs.ends.filtered(sources, |end| end.to_own_node.is_some());
                pairs.all(&ruled, destinations);
                let rest = sources.difference(&ruled);
                let answering = pairs.ends.filtered(&rest, |end| end.from_own_node.is_some());
                pairs.one(&answering, destinations);
                pairs.one(&rest.difference(&answering), destinations);
            }
            // Nothing is demanded at an address that is not the pod's own, or the same.
            (Place::Pod { .. }, Crossing::Receive { .. }) => {
                let one = pairs.ends.preferred(destinations).into_iter().collect();
                pairs.all(sources, &one);
            }
            (Place::Pod { .. }, Crossing::Send { .. }) => {
                let one = pairs.ends.preferred(sources).into_iter().collect();
                pairs.all(&one, destinations);
            }
            (Place::Pod { .. }, Crossing::Forward { .. } | Crossing::Relay { .. }) => {
                pairs.one(sources, destinations);
            }
        }
        let found = pairs.found.into_iter();
        let mut found: Vec<_> = found.map(|(demand, (from, to))| (demand, from, to)).collect();
        found.sort_unstable_by_key(|&(_, from, to)| (from, to));
        found
    }

    fn end(&self, number: u32) -> Option<&'d End> {
        self.ends.get(number as usize).copied()
    }

    fn filtered(&self, numbers: &BitSet, holds: impl Fn(&End) -> bool) -> BitSet {
        let judged = numbers.intersection(&self.judged);
        let held = judged
            .iter()
            .filter(|&number| self.end(number).is_some_and(&holds));
        held.collect()
    }

    /// One that is judged here says more to whoever reads of it.
    fn preferred(&self, numbers: &BitSet) -> Option<u32> {
        numbers.first_common(&self.judged).or_else(|| numbers.first())
    }

    /// The strangers by what a side allows with them, or all of them.
    fn rows(&mut self, side: Option<u32>) -> Rows {
        let rows = self.rows.entry(side).or_insert_with(|| {
            let mut rows = BTreeMap::new();
            let Some(side) = side else {
                rows.insert(None, self.strangers.clone());
                return Rc::new(rows);
            };
            // Most strangers may do nothing.
            for (&profile, strangers) in &self.profiles {
                let row = self.demands.sides.row(side, profile);
                if row != NOTHING {
                    let alike: &mut BitSet = rows.entry(Some(row)).or_default();
                    alike.extend(strangers);
                }
            }
            let met = rows.values();
            let rest = met.fold(self.strangers.clone(), |rest, strangers| {
                rest.difference(strangers)
            });
            rows.insert(Some(NOTHING), rest);
            Rc::new(rows)
        });
        Rc::clone(rows)
    }
}

/// The demands of pairs, each with the first pair of which it was found.
struct Pairs<'p, 'd> {
    ends: &'p mut Ends<'d>,
    crossing: &'p Crossing,
    found: FxHashMap<Demand, (u32, u32)>,
    /// Neighbours mostly are alike.
    last: Option<Demand>,
}

impl Pairs<'_, '_> {
    #[inline]
    fn add(&mut self, demand: Demand, from: u32, to: u32) {
        if self.last != Some(demand) {
            self.found.entry(demand).or_insert((from, to));
            self.last = Some(demand);
        }
    }

    /// One pair that stands for all.
    fn one(&mut self, sources: &BitSet, destinations: &BitSet) {
        let one = self
            .ends
            .preferred(sources)
            .zip(self.ends.preferred(destinations));
        if let Some((from, to)) = one {
            self.all(&[from].into_iter().collect(), &[to].into_iter().collect());
        }
    }

    fn all(&mut self, sources: &BitSet, destinations: &BitSet) {
        for from in sources.iter() {
            for to in destinations.iter() {
                if let Some((source, destination)) = self.ends.end(from).zip(self.ends.end(to)) {
                    let demand = self.ends.demands.of_new(self.crossing, source, destination);
                    self.add(demand, from, to);
                }
            }
        }
    }

    /// Pairs that a node forwards.
    fn forwarded(&mut self, sources: &BitSet, destinations: &BitSet) {
        let of = |numbers: &BitSet, kind: &BitSet| numbers.intersection(kind);
        let judged = [sources, destinations].map(|numbers| of(numbers, &self.ends.judged));
        let nodes = [sources, destinations].map(|numbers| of(numbers, &self.ends.nodes));
        let ([from, to], [from_nodes, to_nodes]) = (&judged, &nodes);
        self.all(from, to);
        self.all(from, to_nodes);
        self.all(from_nodes, to);
        for (from, (side, restricted)) in self.sides(from, |end| end.egress) {
            for (to, row) in self.with_strangers(side, destinations) {
                self.add(ruled(row, None, restricted), from, to);
            }
        }
        for (to, (side, restricted)) in self.sides(to, |end| end.ingress) {
            for (from, row) in self.with_strangers(side, sources) {
                self.add(ruled(None, row, restricted), from, to);
            }
        }
        let [from, to] =
            [(sources, from), (destinations, to)].map(|(all, judged)| all.difference(judged).first());
        if let Some((from, to)) = from.zip(to) {
            self.add(Demand::Accept, from, to);
        }
    }

    /// The sides that some have, and whether these are restricted at all; each with the first that has it.
    fn sides(&self, numbers: &BitSet, side: impl Fn(&End) -> Option<u32>) -> Vec<(u32, (Option<u32>, bool))> {
        let of = |end: &End| (side(end), end.is_restricted());
        let ends = numbers
            .iter()
            .filter_map(|number| Some((number, of(self.ends.end(number)?))));
        let mut sides: Vec<_> = ends.collect();
        sides.sort_by_key(|&(_, side)| side);
        sides.dedup_by_key(|(_, side)| *side);
        sides
    }

    /// What a side allows with the strangers among some, each once with one of them.
    fn with_strangers(&mut self, side: Option<u32>, numbers: &BitSet) -> Vec<(u32, Option<u32>)> {
        let rows = self.ends.rows(side);
        let mut met = Vec::new();
        let mut rest = numbers.intersection(&self.ends.strangers);
        while let Some(stranger) = rest.first() {
            let profile = self.ends.end(stranger).map(|end| end.profile);
            let row = side
                .zip(profile)
                .map(|(side, profile)| self.ends.demands.sides.row(side, profile));
            met.push((stranger, row));
            // Mostly all of them. The first is among its alike, so that the rest always shrinks.
            match rows.get(&row) {
                Some(alike) if !alike.contains_all(&rest) => rest = rest.difference(alike),
                _ => break,
            }
        }
        met
    }
}
