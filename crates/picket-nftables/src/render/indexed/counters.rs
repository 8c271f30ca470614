//! A counter for each policy and direction because of which packets of the node's pods can be dropped, or could be if the
//! policy were not only audited.

use std::collections::BTreeMap;

use picket_policy::{Direction, ObjectRef};

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
    /// How many sides do.
    uses: BTreeMap<Use, usize>,
    owners: BTreeMap<Name, (ObjectRef, Counter)>,
}

/// What a counter counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Use {
    direction: Direction,
    /// Whether the packets pass.
    audited: bool,
    pub(super) policy: ObjectRef,
}

impl Use {
    /// Those of a side.
    pub(super) fn of(side: &LocalSide) -> impl Iterator<Item = Self> + '_ {
        side.denying.iter().map(|policy| Self {
            direction: side.role.direction(),
            audited: side.role.audits(),
            policy: policy.clone(),
        })
    }

    pub(super) fn counter(&self) -> Counter {
        let named = match self.audited {
            true => audit_counter_name,
            false => counter_name,
        };
        Counter {
            name: named(&self.policy, self.direction),
            comment: Some(Comment::cut(&title(&self.policy), || policy_hash(&self.policy))),
        }
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
        let counters = self.owners.values().map(|(_, counter)| counter.clone());
        counters.chain([of_mid_stream()]).collect()
    }

    /// Counts what a side counts for; the counters that are new.
    pub(super) fn enter(&mut self, side: &LocalSide) -> Result<Vec<Counter>, IndexedError> {
        let mut new = Vec::new();
        for used in Use::of(side) {
            let uses = self.uses.entry(used.clone()).or_default();
            *uses += 1;
            if *uses > 1 {
                continue;
            }
            let counter = used.counter();
            let owner = (used.policy.clone(), counter.clone());
            if let Some((other, _)) = self.owners.insert(counter.name.clone(), owner) {
                return Err(IndexedError::Collision(Box::new(other), Box::new(used.policy)));
            }
            new.push(counter);
        }
        Ok(new)
    }

    /// Counts no more what a side counted for; the counters that are gone.
    pub(super) fn leave(&mut self, side: &LocalSide) -> Vec<Counter> {
        let mut gone = Vec::new();
        for used in Use::of(side) {
            let Some(uses) = self.uses.get_mut(&used) else {
                continue;
            };
            *uses -= 1;
            if *uses == 0 {
                self.uses.remove(&used);
                let counter = used.counter();
                self.owners.remove(&counter.name);
                gone.push(counter);
            }
        }
        gone
    }
}

/// The counter of packets from and to pods that rules from before do not know, which were dropped. It is there as long as
/// that lasts.
pub fn unknown_counter() -> Name {
    name(guard::UNKNOWN_COUNTER)
}
