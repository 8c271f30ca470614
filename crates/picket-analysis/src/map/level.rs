//! How much groups of endpoints may exchange, for pictures.

use std::collections::BTreeMap;

use super::class::Rows;
use super::traffic::TrafficId;
use super::{EndpointKind, Map, Place};

/// How much of it all may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Level {
    /// Nothing.
    Nothing,
    /// Some ports or protocols, or not the same in both families.
    Some,
    /// Not the same for all pairs of the two groups.
    Mixed,
    /// Everything.
    Everything,
}

/// Endpoints of a group that nothing tells apart but their names.
#[derive(Clone, Debug)]
struct Part {
    place: Place,
    kind: EndpointKind,
    first: usize,
    count: usize,
}

/// A group of endpoints, as its parts.
#[derive(Clone, Debug)]
pub(super) struct Parts(Vec<Part>);

impl Map<'_> {
    /// The parts of a group.
    pub(super) fn parts(&self, members: &[usize]) -> Parts {
        let mut parts: BTreeMap<_, Part> = BTreeMap::new();
        for &member in members {
            let (Some(place), Some(endpoint)) = (self.places.get(member), self.endpoints.get(member)) else {
                continue;
            };
            let part = parts
                .entry((place.class, place.on, place.node))
                .or_insert_with(|| Part {
                    place: place.clone(),
                    kind: endpoint.kind,
                    first: member,
                    count: 0,
                });
            part.count += 1;
        }
        Parts(parts.into_values().collect())
    }

    /// What each of `groups` may send to each, a row at a time; `None` for groups without pairs.
    pub(super) fn levels<'g>(&'g self, groups: &'g [Parts]) -> impl Iterator<Item = Vec<Option<Level>>> + 'g {
        let mut rows = Rows::default();
        groups.iter().map(move |source| {
            let mut levels = vec![None; groups.len()];
            for from in &source.0 {
                self.classes.fill(&mut rows, from.place.class, &self.traffics);
                for (level, destination) in levels.iter_mut().zip(groups) {
                    let found = destination.0.iter().filter_map(|to| self.level(from, to, &rows));
                    *level = level.iter().copied().chain(found).reduce(together);
                }
            }
            levels
        })
    }

    fn level(&self, from: &Part, to: &Part, rows: &Rows) -> Option<Level> {
        let external = from.kind == EndpointKind::External && to.kind == EndpointKind::External;
        let alone = from.first == to.first && from.count == 1 && to.count == 1;
        if external || alone && from.kind != EndpointKind::Workload {
            return None;
        }
        let mut pair = rows.to(to.place.class);
        if from.place.node.is_some() && from.place.node == to.place.on {
            pair = self
                .classes
                .sent_by_own_node(from.place.class, to.place.class, &self.traffics);
        } else if from.place.on.is_some() && from.place.on == to.place.node {
            pair = self
                .classes
                .to_own_node(from.place.class, to.place.class, &self.traffics);
        }
        match (pair.v4, pair.v6) {
            (None, None) => None,
            (Some(four), Some(six)) if four != six => Some(Level::Some),
            (Some(TrafficId::NONE), _) | (None, Some(TrafficId::NONE)) => Some(Level::Nothing),
            (Some(TrafficId::ALL), _) | (None, Some(TrafficId::ALL)) => Some(Level::Everything),
            _ => Some(Level::Some),
        }
    }
}

fn together(one: Level, other: Level) -> Level {
    if one == other { one } else { Level::Mixed }
}
