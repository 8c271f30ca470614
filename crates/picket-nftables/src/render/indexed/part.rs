//! The parts of a table that differ, before and now, from which the plan follows as it does from whole tables.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_dataplane::{Objects, Plan};
use picket_net::{Family, TrafficSet};

use super::class::{Changed, Classes, Pair};
use super::counters::Counters;
use super::view::{LocalSide, Role};
use super::{IndexedError, Options, TABLE, chains, guard, name, sets};
use crate::diff::Operation;
use crate::model::{Draft, ModelError, Table};

/// Objects before and now. Of sets and maps that there are before and now only the elements that may differ.
pub(super) struct Part {
    before: Draft,
    now: Draft,
}

impl Default for Part {
    fn default() -> Self {
        let nothing = Draft::new(name(TABLE));
        Self {
            before: nothing.clone(),
            now: nothing,
        }
    }
}

impl Part {
    /// What leads from the one to the other.
    pub(super) fn plan(self) -> Plan<Operation> {
        Table::difference(Some(&self.before.part()), &self.now.part())
    }

    /// The addresses of own pods.
    pub(super) fn pods(
        &mut self,
        before: &BTreeSet<IpAddr>,
        now: &BTreeSet<IpAddr>,
    ) -> Result<(), ModelError> {
        self.before.sets.extend(guard::pods(before)?);
        self.now.sets.extend(guard::pods(now)?);
        Ok(())
    }

    /// The chains of sides, what they allow, and what they count with.
    pub(super) fn sides(
        &mut self,
        pairs: &[Pair<'_>],
        sides: &[LocalSide],
        classes: &Classes,
        counters: &Counters,
        changed: &Changed,
        options: &Options,
    ) -> Result<(), IndexedError> {
        let differing = pairs.iter().filter_map(|&(before, now)| {
            let side = now.or(before)?;
            Some((side.id(), (before, now)))
        });
        // What a side says stays the same when somebody of whom it speaks comes or goes, and what it allows does not.
        let staying = sides.iter().filter(|side| changed.sides.contains_key(&side.id()));
        let staying = staying.map(|side| (side.id(), (Some(side), Some(side))));
        let all: BTreeMap<_, Pair<'_>> = staying.chain(differing).collect();
        for (id, (before, now)) in all {
            let [allowed, allows] = classes.allows(&id, changed);
            let is_same = before.zip(now).is_some_and(|(before, now)| before.acts_as(now));
            if !is_same || allowed != allows {
                let chain = |side: Option<&LocalSide>, allows| {
                    side.map(|side| chains::subject(side, allows, counters, options))
                };
                self.before.chains.extend(chain(before, allowed));
                self.now.chains.extend(chain(now, allows));
            }
            let Some(([old, new], side)) = changed.sides.get(&id).zip(now.or(before)) else {
                continue;
            };
            if allowed {
                self.before.maps.push(sets::side_map(&side.name, old)?);
            }
            if allows {
                self.now.maps.push(sets::side_map(&side.name, new)?);
            }
        }
        Ok(())
    }

    /// Which pods are of which side.
    pub(super) fn own_pods(
        &mut self,
        pairs: &[Pair<'_>],
        before: &[LocalSide],
        now: &[LocalSide],
    ) -> Result<(), IndexedError> {
        let moved: Vec<_> = pairs
            .iter()
            .filter(|(before, now)| before.map(|side| &side.addresses) != now.map(|side| &side.addresses))
            .collect();
        if moved.is_empty() {
            return Ok(());
        }
        self.before.sets.extend(sets::own_pods(before)?);
        self.now.sets.extend(sets::own_pods(now)?);
        for role in Role::ALL {
            if !moved
                .iter()
                .any(|(before, now)| before.or(*now).is_some_and(|side| side.role == role))
            {
                continue;
            }
            for family in Family::BOTH {
                let old = moved.iter().filter_map(|(before, _)| *before);
                let new = moved.iter().filter_map(|(_, now)| *now);
                self.before.maps.push(sets::subjects_map(old, role, family)?);
                self.now.maps.push(sets::subjects_map(new, role, family)?);
            }
        }
        Ok(())
    }

    /// The classes of addresses and of traffic.
    pub(super) fn classes(&mut self, classes: &Classes, changed: &Changed) -> Result<(), ModelError> {
        for family in Family::BOTH {
            if let Some(before) = &changed.blocks {
                self.before.maps.push(sets::blocks_map(before, family)?);
                self.now.maps.push(sets::blocks_map(&classes.blocks, family)?);
            }
            let [before, now] = &changed.peers;
            if !before.is_empty() || !now.is_empty() {
                self.before.maps.push(sets::peers_map(before, family)?);
                self.now.maps.push(sets::peers_map(now, family)?);
            }
        }
        if let Some(before) = &changed.traffic {
            let without = |these: &BTreeMap<TrafficSet, u32>, others: &BTreeMap<TrafficSet, u32>| {
                let mut these = these.clone();
                these.retain(|traffic, _| !others.contains_key(traffic));
                these
            };
            let (gone, new) = (
                without(before, &classes.traffic),
                without(&classes.traffic, before),
            );
            self.before
                .sets
                .extend(sets::exact(&gone, &sets::kinds_of(before))?);
            self.now
                .sets
                .extend(sets::exact(&new, &sets::kinds_of(&classes.traffic))?);
        }
        Ok(())
    }

    /// The counters of policies that sides count for now, and did not before.
    pub(super) fn new_counters(
        &mut self,
        pairs: &[Pair<'_>],
        counters: &mut Counters,
    ) -> Result<(), IndexedError> {
        for side in counting_otherwise(pairs).filter_map(|(_, now)| *now) {
            self.now.counters.extend(counters.enter(side)?);
        }
        Ok(())
    }

    /// The counters of policies that sides counted for, and do not any more; after the new ones.
    pub(super) fn old_counters(&mut self, pairs: &[Pair<'_>], counters: &mut Counters) {
        for side in counting_otherwise(pairs).filter_map(|(before, _)| *before) {
            self.before.counters.extend(counters.leave(side));
        }
    }
}

/// The sides that do not count for the policies for which they did.
fn counting_otherwise<'p, 's>(pairs: &'p [Pair<'s>]) -> impl Iterator<Item = &'p Pair<'s>> {
    let counts_otherwise =
        |(before, now): &&Pair<'_>| before.map(|side| &side.denying) != now.map(|side| &side.denying);
    pairs.iter().filter(counts_otherwise)
}
