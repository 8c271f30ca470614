//! A difference as people read it: by cause, and by groups of endpoints that changed alike.

use std::collections::{BTreeMap, BTreeSet};

use picket_net::TrafficSet;
use rustc_hash::FxHashMap;

use super::cause::Causes;
use super::pair::Delta;
use super::{Counts, Diff, Kind, Only, PolicyDifference};
use crate::map::class::Pair;
use crate::map::{EndpointKind, MapEndpoint};

/// Why something changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A policy came, went or changed.
    Policy(PolicyDifference),
    /// An endpoint is only on one side.
    Endpoint(Only, String),
    /// The labels, ports, addresses or node of an endpoint, or the labels of a namespace: what, and of what.
    Object(&'static str, String),
    /// None of these.
    Unknown,
}

/// What may pass, in both families together or in each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Passing {
    /// The same in all families that there are.
    Same(TrafficSet),
    /// IPv4 and IPv6 differ.
    Differ(TrafficSet, TrafficSet),
}

/// Something that changed alike for all pairs of some endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// How it changed.
    pub kind: Kind,
    /// Who opens connections, by id.
    pub from: Vec<&'a MapEndpoint>,
    /// To whom, by id.
    pub to: Vec<&'a MapEndpoint>,
    /// What could pass before.
    pub old: Passing,
    /// What may pass now.
    pub new: Passing,
}

/// Everything that has the same causes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CauseGroup<'a> {
    /// The causes, at least one.
    pub causes: Vec<Cause>,
    /// What changed.
    pub lines: Vec<Line<'a>>,
}

/// A difference as people read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary<'a> {
    /// What changed, by cause.
    pub groups: Vec<CauseGroup<'a>>,
    /// Policies that differ without any effect.
    pub without_effect: Vec<PolicyDifference>,
    /// Endpoints that only one side has, by kind and then by id.
    pub only: Vec<(Only, &'a MapEndpoint)>,
    /// How many pairs changed.
    pub counts: Counts,
}

/// What changed for one endpoint that opens connections: to whom, what, and the number of the causes.
type Row = Vec<(usize, Delta, usize)>;

impl Diff<'_> {
    /// The difference by cause.
    pub fn summary(&self) -> Summary<'_> {
        let mut causes = Causes::new(self);
        let rows = self.grouped_rows(&mut causes);
        // Rows that share something are said together where they do.
        let mut lines: BTreeMap<(usize, Delta, Vec<usize>), Vec<usize>> = BTreeMap::new();
        for (row, from) in rows {
            let mut alike: BTreeMap<(usize, Delta), Vec<usize>> = BTreeMap::new();
            for (to, delta, cause) in row {
                if from != [to] {
                    alike.entry((cause, delta)).or_default().push(to);
                }
            }
            for ((cause, delta), to) in alike {
                lines.entry((cause, delta, to)).or_default().extend(&from);
            }
        }
        let mut groups: BTreeMap<Vec<Cause>, Vec<Line<'_>>> = BTreeMap::new();
        for ((cause, delta, to), from) in lines {
            let line = self.line(&from, &to, delta);
            groups.entry(causes.get(cause)).or_default().push(line);
        }
        let groups: Vec<_> = groups
            .into_iter()
            .map(|(causes, mut lines)| {
                let id = |endpoints: &[&MapEndpoint]| endpoints.first().map(|first| first.id.clone());
                lines.sort_by_cached_key(|line| (id(&line.to), id(&line.from), line.kind));
                CauseGroup { causes, lines }
            })
            .collect();
        let effective: BTreeSet<_> = groups.iter().flat_map(|group| &group.causes).cloned().collect();
        let without_effect = self.policies().iter().cloned();
        Summary {
            without_effect: without_effect
                .filter(|policy| !effective.contains(&Cause::Policy(policy.clone())))
                .collect(),
            groups,
            only: self
                .endpoints()
                .filter_map(|(endpoint, only)| Some((only?, endpoint)))
                .collect(),
            counts: self.counts,
        }
    }

    /// The distinct rows, each with the endpoints that have it, by id. The row of a pod holds what would have changed
    /// between it and another pod of its kind, so that pods that changed among themselves have one row.
    fn grouped_rows(&self, causes: &mut Causes<'_, '_>) -> Vec<(Row, Vec<usize>)> {
        let mut numbers: FxHashMap<Row, usize> = FxHashMap::default();
        let mut rows: Vec<(Row, Vec<usize>)> = Vec::new();
        let mut current: (Option<usize>, Row) = (None, Row::new());
        let mut finish = |(from, mut row): (Option<usize>, Row), causes: &mut Causes<'_, '_>| {
            let Some(from) = from else { return };
            if let Some(delta) = self.among_themselves(from) {
                row.push((from, delta, causes.of(from, from, delta)));
            }
            row.sort_unstable();
            let number = *numbers.entry(row).or_insert_with_key(|row| {
                rows.push((row.clone(), Vec::new()));
                rows.len() - 1
            });
            if let Some((_, members)) = rows.get_mut(number) {
                members.push(from);
            }
        };
        self.each(&mut |from, to, delta| {
            if current.0 != Some(from) {
                finish(std::mem::replace(&mut current, (Some(from), Row::new())), causes);
            }
            current.1.push((to, delta, causes.of(from, to, delta)));
            Ok::<_, std::convert::Infallible>(())
        })
        .unwrap_or_else(|never| match never {});
        finish(current, causes);
        rows
    }

    /// What changed between two pods like this one.
    fn among_themselves(&self, at: usize) -> Option<Delta> {
        let joint = self
            .endpoints
            .get(at)
            .filter(|joint| joint.endpoint.kind == EndpointKind::Pod)?;
        let sides = self.sides.as_ref()?;
        let delta = super::rows::by_pair(sides, joint, joint, &self.traffics);
        (!delta.is_none()).then_some(delta)
    }

    fn line(&self, from: &[usize], to: &[usize], delta: Delta) -> Line<'_> {
        let named = |numbers: &[usize]| {
            let endpoints = numbers.iter().filter_map(|&at| self.endpoints.get(at));
            let mut endpoints: Vec<_> = endpoints.map(|joint| &joint.endpoint).collect();
            endpoints.sort_by(|one, other| one.id.cmp(&other.id));
            endpoints
        };
        let kind = delta.kind(&mut self.traffics.borrow_mut());
        Line {
            kind,
            from: named(from),
            to: named(to),
            old: self.passing(delta.old),
            new: self.passing(delta.new),
        }
    }

    fn passing(&self, pair: Pair) -> Passing {
        let traffics = self.traffics.borrow();
        match (pair.v4, pair.v6) {
            (Some(four), Some(six)) if four != six => {
                Passing::Differ(traffics.get(four).clone(), traffics.get(six).clone())
            }
            (Some(both), _) | (None, Some(both)) => Passing::Same(traffics.get(both).clone()),
            (None, None) => Passing::Same(TrafficSet::empty()),
        }
    }
}
