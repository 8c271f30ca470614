//! Every pair that changed, one row at a time.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::endpoint::Side;
use super::pair::{Delta, Joint, JointClass};
use super::refinement::{Ends, Refinement};
use crate::map::class::{self, Pair};
use crate::map::traffic::{TrafficId, Traffics};
use crate::map::{EndpointKind, Place, is_same_pod};

/// Which pairs may have changed.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// The endpoints, by their ids.
    by_id: Vec<usize>,
    /// For each endpoint whether it may send something else than before to anybody.
    egress: Vec<bool>,
    /// The ranks in `by_id` of the endpoints that may accept something else than before.
    ingress: Vec<usize>,
    /// For each endpoint the ranks of those with which its node lets it speak on either side, whatever policies say.
    partners: Vec<Vec<usize>>,
}

/// The rows of one endpoint on both sides, and whether they were filled.
#[derive(Default)]
struct Filled {
    rows: [class::Rows; 2],
    filled: bool,
}

impl Rows {
    pub(super) fn new(sides: &[Side<'_>; 2], endpoints: &[Joint]) -> Self {
        let mut classes: FxHashMap<JointClass, Ends> = FxHashMap::default();
        for endpoint in endpoints {
            classes.entry(endpoint.classes()).or_default();
        }
        let mut distinct: Vec<_> = classes.keys().copied().collect();
        distinct.sort_unstable();
        let mut refinement = Refinement::new(sides, distinct.iter());
        for class in distinct {
            classes.insert(class, refinement.ends(&class));
        }
        let ends = |endpoint: &Joint| classes.get(&endpoint.classes()).copied().unwrap_or_default();
        let mut by_id: Vec<usize> = (0..endpoints.len()).collect();
        by_id.sort_by_key(|&at| endpoints.get(at).map(|endpoint| &endpoint.endpoint.id));
        let changed = |at: &usize| endpoints.get(*at).is_some_and(|endpoint| ends(endpoint).ingress);
        Self {
            egress: endpoints.iter().map(|endpoint| ends(endpoint).egress).collect(),
            ingress: (0..by_id.len())
                .filter(|&rank| by_id.get(rank).is_some_and(changed))
                .collect(),
            partners: partners(endpoints, &by_id),
            by_id,
        }
    }

    /// Calls `take` with every pair that changed, by the ids of both ends.
    pub(super) fn each<E>(
        &self,
        sides: &[Side<'_>; 2],
        endpoints: &[Joint],
        traffics: &RefCell<Traffics>,
        take: &mut impl FnMut(usize, usize, Delta) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut filled = Filled::default();
        let all: Vec<usize> = (0..self.by_id.len()).collect();
        for &from in &self.by_id {
            let Some(source) = endpoints.get(from) else {
                continue;
            };
            let own: Vec<usize>;
            let candidates = if self.egress.get(from).copied().unwrap_or(false) {
                &all
            } else {
                let partners = self.partners.get(from).map(Vec::as_slice).unwrap_or_default();
                own = merged(&self.ingress, partners);
                &own
            };
            // Filling a row costs about as much as looking at this part of its pairs.
            filled.filled = candidates.len() > self.by_id.len() / 8;
            if filled.filled {
                filled.fill(sides, source, traffics);
            }
            for &rank in candidates {
                let Some(&to) = self.by_id.get(rank) else { continue };
                let Some(destination) = endpoints.get(to).filter(|to| is_pair(source, to)) else {
                    continue;
                };
                let delta = delta(sides, source, destination, &filled, traffics);
                if !delta.is_none() {
                    take(from, to, delta)?;
                }
            }
        }
        Ok(())
    }
}

impl Filled {
    fn fill(&mut self, sides: &[Side<'_>; 2], source: &Joint, traffics: &RefCell<Traffics>) {
        for ((rows, side), place) in self.rows.iter_mut().zip(sides).zip(&source.places) {
            if let Some(place) = place {
                side.classes.fill(rows, place.class, traffics);
            }
        }
    }
}

/// What may pass from one endpoint to another on both sides.
fn delta(
    sides: &[Side<'_>; 2],
    source: &Joint,
    destination: &Joint,
    filled: &Filled,
    traffics: &RefCell<Traffics>,
) -> Delta {
    let [old, new] = sides;
    let ([old_rows, new_rows], rows) = (&filled.rows, filled.filled);
    let ([old_from, new_from], [old_to, new_to]) = (&source.places, &destination.places);
    let of = |side, rows, from: &Option<Place>, to: &Option<Place>| match (from, to) {
        (Some(from), Some(to)) => passes(side, rows, from, to, traffics),
        _ => Pair::NONE,
    };
    Delta {
        old: of(old, rows.then_some(old_rows), old_from, old_to),
        new: of(new, rows.then_some(new_rows), new_from, new_to),
    }
}

/// What may pass between two endpoints on both sides, pair or not.
pub(super) fn by_pair(
    sides: &[Side<'_>; 2],
    source: &Joint,
    destination: &Joint,
    traffics: &RefCell<Traffics>,
) -> Delta {
    delta(sides, source, destination, &Filled::default(), traffics)
}

/// What may pass between two places of one side.
fn passes(
    side: &Side<'_>,
    rows: Option<&class::Rows>,
    from: &Place,
    to: &Place,
    traffics: &RefCell<Traffics>,
) -> Pair {
    let by_policies = || match rows {
        Some(rows) => rows.to(to.class),
        None => {
            let (sent, received) = side.classes.ends(from.class, to.class, traffics);
            meet(sent, received, traffics)
        }
    };
    if from.node.is_some() && from.node == to.on {
        side.classes.sent_by_own_node(from.class, to.class, traffics)
    } else if from.on.is_some() && from.on == to.node {
        side.classes.to_own_node(from.class, to.class, traffics)
    } else {
        by_policies()
    }
}

fn meet(one: Pair, other: Pair, traffics: &RefCell<Traffics>) -> Pair {
    let traffics = &mut *traffics.borrow_mut();
    let mut both = |one: Option<TrafficId>, other: Option<TrafficId>| {
        one.zip(other).map(|(one, other)| traffics.meet(one, other))
    };
    Pair {
        v4: both(one.v4, other.v4),
        v6: both(one.v6, other.v6),
    }
}

fn is_pair(from: &Joint, to: &Joint) -> bool {
    let (one, other) = (&from.endpoint, &to.endpoint);
    match one.kind {
        EndpointKind::External => other.kind != EndpointKind::External,
        EndpointKind::Workload => true,
        EndpointKind::Node | EndpointKind::Pod => !std::ptr::eq(from, to) && !is_same_pod(one, other),
    }
}

/// For each endpoint the ranks of those that are its node, or on it, on either side.
fn partners(endpoints: &[Joint], by_id: &[usize]) -> Vec<Vec<usize>> {
    let mut partners = vec![Vec::new(); endpoints.len()];
    for side in [0, 1] {
        let mut on: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        let mut are: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for (rank, &at) in by_id.iter().enumerate() {
            let places = endpoints.get(at).and_then(|endpoint| endpoint.places.get(side));
            if let Some(place) = places.and_then(Option::as_ref) {
                for (map, node) in [(&mut on, place.on), (&mut are, place.node)] {
                    node.into_iter()
                        .for_each(|node| map.entry(node).or_default().push((at, rank)));
                }
            }
        }
        for (node, pods) in &on {
            for &(host, host_rank) in are.get(node).into_iter().flatten() {
                for &(pod, pod_rank) in pods {
                    for (own, other) in [(pod, host_rank), (host, pod_rank)] {
                        partners
                            .get_mut(own)
                            .into_iter()
                            .for_each(|own: &mut Vec<usize>| own.push(other));
                    }
                }
            }
        }
    }
    partners
}

/// The members of two lists, the first of which is sorted; sorted, each once.
fn merged(sorted: &[usize], other: &[usize]) -> Vec<usize> {
    let mut merged = [sorted, other].concat();
    if !other.is_empty() {
        merged.sort_unstable();
        merged.dedup();
    }
    merged
}
