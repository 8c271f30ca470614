//! Endpoints that behave alike, for presentations that people read.

use std::collections::BTreeMap;

use picket_net::TrafficSet;

use super::class::Rows;
use super::{EndpointKind, Map, MapEndpoint};

/// Endpoints of one kind that policies let do the same. What a node and its own pods may do besides is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// What they are.
    pub kind: EndpointKind,
    /// The endpoints, by id; at least one.
    pub members: Vec<&'a MapEndpoint>,
    class: usize,
}

impl Group<'_> {
    /// Whether members may speak to each other: there are several, or one that stands for several.
    fn has_inner_pairs(&self) -> bool {
        self.kind == EndpointKind::Workload || self.members.len() > 1
    }
}

/// What may pass from one group to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// There is no such pair, or no family in common.
    NoPair,
    /// The same in all families that there are.
    Same(TrafficSet),
    /// IPv4 and IPv6 differ.
    Differ(TrafficSet, TrafficSet),
}

impl Map<'_> {
    /// The groups, by kind and then by their first member; pods first, external addresses last.
    pub fn groups(&self) -> Vec<Group<'_>> {
        let mut alike: BTreeMap<_, Vec<(usize, &MapEndpoint)>> = BTreeMap::new();
        for (endpoint, place) in self.endpoints.iter().zip(&self.places) {
            let key = (
                std::cmp::Reverse(endpoint.kind),
                self.classes.behaviour(place.class),
            );
            let key = (
                key,
                endpoint.kind == EndpointKind::External && endpoint.id.contains(':'),
            );
            alike.entry(key).or_default().push((place.class, endpoint));
        }
        let groups = alike.into_values().filter_map(|members| {
            let &(class, first) = members.first()?;
            Some(Group {
                kind: first.kind,
                members: members.into_iter().map(|(_, endpoint)| endpoint).collect(),
                class,
            })
        });
        let mut groups: Vec<_> = groups.collect();
        let shown = |kind| match kind {
            EndpointKind::Workload | EndpointKind::Pod => 0,
            EndpointKind::Node => 1,
            EndpointKind::External => 2,
        };
        groups.sort_by_key(|group| (shown(group.kind), group.members.first().map(|first| &first.id)));
        groups
    }

    /// What each of `groups` may send to each, one row at a time.
    pub fn cells<'g>(&'g self, groups: &'g [Group<'_>]) -> impl Iterator<Item = Vec<Cell>> + 'g {
        let mut rows = Rows::default();
        groups.iter().enumerate().map(move |(from, source)| {
            self.classes.fill(&mut rows, source.class, &self.traffics);
            let traffics = self.traffics.borrow();
            let cells = groups.iter().enumerate().map(|(to, destination)| {
                let external =
                    source.kind == EndpointKind::External && destination.kind == EndpointKind::External;
                if external || (from == to && !source.has_inner_pairs()) {
                    return Cell::NoPair;
                }
                let pair = rows.to(destination.class);
                match (pair.v4, pair.v6) {
                    (None, None) => Cell::NoPair,
                    (Some(four), Some(six)) if four != six => {
                        Cell::Differ(traffics.get(four).clone(), traffics.get(six).clone())
                    }
                    (Some(both), _) | (None, Some(both)) => Cell::Same(traffics.get(both).clone()),
                }
            });
            cells.collect()
        })
    }
}
