//! A counter for each policy and direction because of which packets of the node's pods can be dropped, or could be if the
//! policy were not only audited.

use std::collections::BTreeMap;

use picket_policy::{Direction, ObjectRef};
use rustc_hash::FxHashMap;

use super::view::LocalSide;
use super::{IndexedError, guard, name};
use crate::model::{Comment, Counter, Name, NameDigest};
use crate::render::documented::{hashed, policy_hash, title};
use crate::render::drops::of_mid_stream;

/// `drop-<direction>-<digest>`: packets that were dropped in this direction and that the policy may be why.
///
/// The digest is as long as one must be of which nobody can find two policies: those would keep each other out of the table.
pub fn counter_name(policy: &ObjectRef, direction: Direction) -> Name {
    named("drop", policy, direction)
}

/// `audit-<direction>-<digest>`: packets that passed in this direction and that would be dropped if the policy, which is only
/// audited, were enforced.
pub fn audit_counter_name(policy: &ObjectRef, direction: Direction) -> Name {
    named("audit", policy, direction)
}

fn named(what: &str, policy: &ObjectRef, direction: Direction) -> Name {
    name(&format!("{what}-{direction}-{}", NameDigest::of(&hashed(policy))))
}

/// The policies that sides count for.
#[derive(Debug, Default)]
pub(super) struct Counters {
    counted: FxHashMap<Kind, FxHashMap<ObjectRef, Counted>>,
    owners: BTreeMap<Name, ObjectRef>,
}

/// The direction of what a counter counts, and whether the packets pass because the policy is only audited.
type Kind = (Direction, bool);

/// A counter, and how many sides count with it.
#[derive(Debug)]
struct Counted {
    sides: usize,
    counter: Counter,
}

/// The counter with which a side counts for a policy.
pub(super) fn counter_of(side: &LocalSide, policy: &ObjectRef) -> Counter {
    let named = match side.role.audits() {
        true => audit_counter_name,
        false => counter_name,
    };
    Counter {
        name: named(policy, side.role.direction()),
        comment: Some(Comment::cut(&title(policy), || policy_hash(policy))),
    }
}

impl Counters {
    /// Those of these sides.
    pub(super) fn of(sides: &[LocalSide]) -> Result<Self, IndexedError> {
        let mut counters = Self::default();
        for side in sides {
            counters.enter(side)?;
        }
        Ok(counters)
    }

    /// All counters of the table.
    pub(super) fn all(&self) -> Vec<Counter> {
        let counted = self.counted.values().flat_map(FxHashMap::values);
        let mut counters: Vec<_> = counted.map(|counted| counted.counter.clone()).collect();
        counters.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        counters.push(of_mid_stream());
        counters
    }

    /// The names of the counters of a side.
    pub(super) fn of_side(&self, side: &LocalSide) -> Vec<Name> {
        let known = self.counted.get(&kind(side));
        let names = side.denying.iter().map(|policy| {
            let counted = known.and_then(|known| known.get(policy));
            counted.map_or_else(
                || counter_of(side, policy).name,
                |counted| counted.counter.name.clone(),
            )
        });
        names.collect()
    }

    /// Counts what a side counts for; the counters that are new.
    pub(super) fn enter(&mut self, side: &LocalSide) -> Result<Vec<Counter>, IndexedError> {
        let mut new = Vec::new();
        let known = self.counted.entry(kind(side)).or_default();
        for policy in &*side.denying {
            if let Some(counted) = known.get_mut(policy) {
                counted.sides += 1;
                continue;
            }
            let counter = counter_of(side, policy);
            if let Some(other) = self.owners.insert(counter.name.clone(), policy.clone()) {
                return Err(IndexedError::Collision(Box::new(other), Box::new(policy.clone())));
            }
            new.push(counter.clone());
            known.insert(policy.clone(), Counted { sides: 1, counter });
        }
        Ok(new)
    }

    /// Counts no more what a side counted for; the counters that are gone.
    pub(super) fn leave(&mut self, side: &LocalSide) -> Vec<Counter> {
        let mut gone = Vec::new();
        let Some(known) = self.counted.get_mut(&kind(side)) else {
            return gone;
        };
        for policy in &*side.denying {
            let Some(counted) = known.get_mut(policy) else {
                continue;
            };
            counted.sides -= 1;
            if counted.sides == 0 {
                self.owners.remove(&counted.counter.name);
                gone.extend(known.remove(policy).map(|counted| counted.counter));
            }
        }
        gone
    }
}

fn kind(side: &LocalSide) -> Kind {
    (side.role.direction(), side.role.audits())
}

/// The counter of packets from and to pods that rules from before do not know, which were dropped. It is there as long as
/// that lasts.
pub fn unknown_counter() -> Name {
    name(guard::UNKNOWN_COUNTER)
}
