//! What a change does to connectivity: what may pass after it that could not before, and the other way round.
//!
//! Two programs that [`picket_engine::equivalent`] calls equal have no difference, and nothing is enumerated. Otherwise
//! every endpoint of either side gets a place on both, external addresses are cut where either side tells them apart,
//! and only pairs are looked at of which an end allows something else than before ([`refinement`]).

mod cause;
mod endpoint;
mod pair;
mod policies;
mod refinement;
mod rows;
mod summary;
#[cfg(test)]
mod tests;
pub mod write;

use std::cell::RefCell;
use std::convert::Infallible;

use picket_cluster::Snapshot;
use picket_engine::{Program, equivalent};
use picket_net::TrafficSet;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::map::class::mixed;
use crate::map::traffic::{TrafficId, Traffics};
use crate::map::{By, ConnectionFamily, EndpointKind, MapEndpoint};
use endpoint::Side;
pub use pair::Kind;
use pair::{Delta, Joint};
pub use policies::{PolicyChange, PolicyDifference};
use rows::Rows;
pub use summary::{Cause, CauseGroup, Line, Passing, Summary};

/// A cluster and its policies, compiled.
#[derive(Clone, Copy, Debug)]
pub struct Version<'a> {
    /// What exists.
    pub snapshot: &'a Snapshot,
    /// The same, compiled.
    pub program: &'a Program,
}

/// One of the two versions that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Only {
    /// The one before the change.
    Old,
    /// The one after it.
    New,
}

/// What a connection gained or lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed<'a> {
    /// Who opens it.
    pub from: &'a MapEndpoint,
    /// To whom.
    pub to: &'a MapEndpoint,
    /// In which families.
    pub family: ConnectionFamily,
    /// What may pass on one side only; never nothing.
    pub allow: TrafficSet,
}

/// How many ordered pairs of endpoints changed, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nothing could pass before.
    pub added: usize,
    /// Nothing may pass any more.
    pub removed: usize,
    /// More may pass than before.
    pub widened: usize,
    /// Less may pass than before.
    pub narrowed: usize,
    /// Something more and something less.
    pub replaced: usize,
}

impl Counts {
    /// Whether something may pass that could not before.
    pub fn any_added(&self) -> bool {
        self.added + self.widened + self.replaced > 0
    }

    /// Whether something may not pass any more that could before.
    pub fn any_removed(&self) -> bool {
        self.removed + self.narrowed + self.replaced > 0
    }

    fn count(&mut self, kind: Kind) {
        match kind {
            Kind::Added => self.added += 1,
            Kind::Removed => self.removed += 1,
            Kind::Widened => self.widened += 1,
            Kind::Narrowed => self.narrowed += 1,
            Kind::Replaced => self.replaced += 1,
        }
    }
}

/// The difference between the connectivity maps of two versions.
///
/// External addresses are those that are neither a pod's nor a node's on either side: an address that comes to be a
/// pod's is that pod. They are cut into the fewest ranges of which one thing can be said.
#[derive(Debug)]
pub struct Diff<'a> {
    versions: [Version<'a>; 2],
    /// `None` when canonical forms are equal, and nothing was looked at.
    sides: Option<[Side<'a>; 2]>,
    /// By kind and then by id.
    endpoints: Vec<Joint>,
    rows: Rows,
    traffics: RefCell<Traffics>,
    policies: Vec<PolicyDifference>,
    counts: Counts,
}

impl<'a> Diff<'a> {
    /// Compares two versions.
    pub fn new(old: Version<'a>, new: Version<'a>, by: By) -> Self {
        let traffics = RefCell::new(Traffics::new());
        let versions = [old, new];
        let mut diff = Self {
            versions,
            sides: None,
            endpoints: Vec::new(),
            rows: Rows::default(),
            traffics,
            policies: policies::differences(old.snapshot, new.snapshot),
            counts: Counts::default(),
        };
        if equivalent(old.program, new.program) {
            return diff;
        }
        diff.enumerate(by);
        diff
    }

    fn enumerate(&mut self, by: By) {
        let taken = self
            .versions
            .map(|version| crate::map::endpoint::taken_addresses(version.snapshot));
        let [old, new] = &taken;
        let taken = old.union(new);
        let sides = self
            .versions
            .map(|version| Side::new(version, &taken, &self.traffics));
        self.endpoints = endpoint::joined(&sides, by, &self.traffics);
        self.rows = Rows::new(&sides, &self.endpoints);
        self.sides = Some(sides);
        self.merge_external();
        let mut counts = Counts::default();
        let mut touched = vec![false; self.endpoints.len()];
        self.each(&mut |from, to, delta| {
            counts.count(delta.kind(&mut self.traffics.borrow_mut()));
            for end in [from, to] {
                if let Some(slot) = touched.get_mut(end) {
                    *slot = true;
                }
            }
            Ok::<_, Infallible>(())
        })
        .unwrap_or_else(|never| match never {});
        self.counts = counts;
        for (endpoint, touched) in self.endpoints.iter_mut().zip(touched) {
            endpoint.touched = touched;
        }
    }

    /// Makes one endpoint of all external ones of a family that changed alike, and drops those that did not change.
    fn merge_external(&mut self) {
        let mut signatures = vec![endpoint::Signature::default(); self.endpoints.len()];
        let mut numbers: FxHashMap<Delta, u64> = FxHashMap::default();
        self.each(&mut |from, to, delta| {
            let next = numbers.len() as u64 + 1;
            let number = *numbers.entry(delta).or_insert(next);
            for (own, other, sends) in [(from, to, 1), (to, from, 0)] {
                let external = self.kind(own) == Some(EndpointKind::External);
                if let Some((count, sum)) = signatures.get_mut(own).filter(|_| external) {
                    *count += 1;
                    *sum = sum.wrapping_add(mixed(other as u64 * 2 + sends, number));
                }
            }
            Ok::<_, Infallible>(())
        })
        .unwrap_or_else(|never| match never {});
        let endpoints = std::mem::take(&mut self.endpoints);
        self.endpoints = endpoint::merge_external(endpoints, &signatures);
        if let Some(sides) = &self.sides {
            self.rows = Rows::new(sides, &self.endpoints);
        }
    }

    /// Whether exactly the same may pass as before.
    pub fn is_empty(&self) -> bool {
        self.counts == Counts::default()
    }

    /// How many pairs changed.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The policies that came, went or changed.
    pub fn policies(&self) -> &[PolicyDifference] {
        &self.policies
    }

    /// The endpoints of changed connections, and those that only one side has, by kind and then by id.
    pub fn endpoints(&self) -> impl Iterator<Item = (&MapEndpoint, Option<Only>)> {
        let said = self
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.touched || endpoint.only().is_some());
        said.map(|endpoint| (&endpoint.endpoint, endpoint.only()))
    }

    /// Calls `take` with everything that may pass on the side `only` and not on the other, by the ids of both ends and
    /// then by family, until it fails.
    ///
    /// # Errors
    /// The first error of `take`.
    pub fn try_for_each<E>(
        &self,
        only: Only,
        mut take: impl FnMut(Changed<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each_changed(only, |from, to, family, id| {
            let (Some(from), Some(to)) = (self.endpoints.get(from), self.endpoints.get(to)) else {
                return Ok(());
            };
            let allow = self.traffics.borrow().get(id).clone();
            take(Changed {
                from: &from.endpoint,
                to: &to.endpoint,
                family,
                allow,
            })
        })
    }

    /// As [`Diff::try_for_each`], by the numbers of endpoints and traffic.
    fn each_changed<E>(
        &self,
        only: Only,
        mut take: impl FnMut(usize, usize, ConnectionFamily, TrafficId) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each(&mut |from, to, delta| {
            let changed = delta.only(only, &mut self.traffics.borrow_mut());
            for (family, traffic) in changed.connections() {
                take(from, to, family, traffic)?;
            }
            Ok(())
        })
    }

    /// Calls `take` with every pair that changed, by the ids of both ends.
    fn each<E>(&self, take: &mut impl FnMut(usize, usize, Delta) -> Result<(), E>) -> Result<(), E> {
        match &self.sides {
            Some(sides) => self.rows.each(sides, &self.endpoints, &self.traffics, take),
            None => Ok(()),
        }
    }

    fn kind(&self, at: usize) -> Option<EndpointKind> {
        self.endpoints.get(at).map(|endpoint| endpoint.endpoint.kind)
    }
}
