//! What every pair of classes may exchange, and what both ends say about it.

use std::collections::{BTreeMap, BTreeSet};

use picket_net::Family;
use picket_policy::Direction;

use crate::eval::Evaluator;
use crate::map::Map;
use crate::map::class::{Pair, Rows};
use crate::map::traffic::TrafficId;
use crate::map::why::{Interned, Why};

/// A number per family, IPv4 first; `None` where the two ends do not both have it.
pub(super) type PerFamily = (Option<usize>, Option<usize>);

/// The values of a row of a table, each with the number of times that it stands there.
pub(super) type Runs = Vec<usize>;

/// Tables over the classes that endpoints have, in the order in which endpoints have them first.
#[derive(Debug)]
pub(super) struct Pairs<'m, 'e> {
    pub(super) why: Why<'m, 'e>,
    /// For each class of the map its number here.
    pub(super) numbers: Vec<usize>,
    pub(super) cells: Interned<(Option<TrafficId>, Option<TrafficId>)>,
    pub(super) sayings: Interned<PerFamily>,
    pub(super) rows: Vec<Runs>,
    pub(super) egress: Vec<Runs>,
    pub(super) ingress: Vec<Runs>,
    pub(super) own: Vec<[usize; 5]>,
}

impl<'m, 'e> Pairs<'m, 'e> {
    pub(super) fn new(map: &'m Map<'m>, evaluator: &'e Evaluator<'e>) -> Self {
        let mut classes = Vec::new();
        let mut numbers = Vec::new();
        for place in &map.places {
            if numbers.len() <= place.class {
                numbers.resize(place.class + 1, usize::MAX);
            }
            if let Some(number) = numbers
                .get_mut(place.class)
                .filter(|number| **number == usize::MAX)
            {
                *number = classes.len();
                classes.push(place.class);
            }
        }
        let mut pairs = Self {
            why: Why::new(map, evaluator),
            numbers,
            cells: Interned::new(),
            sayings: Interned::new(),
            rows: Vec::new(),
            egress: Vec::new(),
            ingress: Vec::new(),
            own: Vec::new(),
        };
        pairs.take_policies(map, &classes);
        pairs.take_own_nodes(map);
        pairs
    }

    fn take_policies(&mut self, map: &Map<'_>, classes: &[usize]) {
        let mut rows = Rows::default();
        for &from in classes {
            map.classes.fill(&mut rows, from, &map.traffics);
            let mut row = Runs::new();
            for &to in classes {
                let pair = rows.to(to);
                push(&mut row, self.cells.number((pair.v4, pair.v6)));
            }
            self.rows.push(row);
        }
        self.egress = self.sides(Direction::Egress, classes);
        self.ingress = self.sides(Direction::Ingress, classes);
    }

    /// What each class says to each other at its end.
    fn sides(&mut self, direction: Direction, classes: &[usize]) -> Vec<Runs> {
        let rows = classes.iter().map(|&own| {
            let mut side = self.why.side(direction, own);
            let mut row = Runs::new();
            let mut last = None;
            for &other in classes {
                let [four, six] = Family::BOTH.map(|family| self.why.end(&mut side, other, family));
                let said = match last {
                    Some((ends, said)) if ends == (four, six) => said,
                    _ => self.sayings.number((four, six)),
                };
                last = Some(((four, six), said));
                push(&mut row, said);
            }
            row
        });
        rows.collect()
    }

    /// Pairs of a node, or a hostNetwork pod, and a pod on it.
    fn take_own_nodes(&mut self, map: &Map<'_>) {
        let mut on: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut nodes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, place) in map.places.iter().enumerate() {
            for (found, at) in [(&mut on, place.on), (&mut nodes, place.node)] {
                if let Some(at) = at {
                    found.entry(at).or_default().push(number);
                }
            }
        }
        let mut known = BTreeSet::new();
        for (at, pods) in &on {
            for &pod in pods {
                for &node in nodes.get(at).into_iter().flatten() {
                    for ends in [(node, pod), (pod, node)] {
                        self.take_own(map, ends, ends.0 == node, &mut known);
                    }
                }
            }
        }
    }

    /// One of them: only what the pod says counts.
    fn take_own(
        &mut self,
        map: &Map<'_>,
        (from, to): (usize, usize),
        from_node: bool,
        known: &mut BTreeSet<(usize, usize)>,
    ) {
        let class = |endpoint: usize| map.places.get(endpoint).map(|place| place.class);
        let (Some(source), Some(destination)) = (class(from), class(to)) else {
            return;
        };
        if !known.insert((source, destination)) {
            return;
        }
        let pair = if from_node {
            map.classes.sent_by_own_node(source, destination, &map.traffics)
        } else {
            map.classes.to_own_node(source, destination, &map.traffics)
        };
        let all = pair.replaced(TrafficId::ALL);
        let (sent, received) = if from_node { (all, pair) } else { (pair, all) };
        let egress = self.own_saying(Direction::Egress, (from, to), sent);
        let ingress = self.own_saying(Direction::Ingress, (from, to), received);
        let number = |class: usize| self.numbers.get(class).copied().unwrap_or_default();
        let (source, destination) = (number(source), number(destination));
        let cell = self.cells.number((pair.v4, pair.v6));
        self.own.push([source, destination, cell, egress, ingress]);
    }

    fn own_saying(&mut self, direction: Direction, ends: (usize, usize), said: Pair) -> usize {
        let [four, six] = [(Family::Ipv4, said.v4), (Family::Ipv6, said.v6)].map(|(family, allowed)| {
            allowed.and_then(|allowed| self.why.own_node_end(direction, ends, family, allowed))
        });
        self.sayings.number((four, six))
    }
}

/// Adds a value to a row.
fn push(runs: &mut Runs, value: usize) {
    if let [.., last, count] = runs.as_mut_slice()
        && *last == value
    {
        *count += 1;
        return;
    }
    runs.extend([value, 1]);
}
