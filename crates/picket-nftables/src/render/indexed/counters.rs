//! A counter for each policy and direction because of which packets of the node's pods can be dropped.

use std::collections::BTreeMap;

use picket_policy::{Direction, ObjectRef};

use super::view::LocalSide;
use super::{IndexedError, chains, guard, name};
use crate::model::{Comment, Counter, Name};
use crate::render::documented::{policy_hash, title};

/// The policies that sides count for.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// How many sides do.
    uses: BTreeMap<(Direction, ObjectRef), usize>,
    owners: BTreeMap<Name, ObjectRef>,
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
        let mid_stream = Counter {
            name: mid_stream_counter(),
            comment: Some(Comment::of("TCP of no known connection")),
        };
        let policies = self
            .owners
            .iter()
            .map(|(name, policy)| counter(name.clone(), policy));
        policies.chain([mid_stream]).collect()
    }

    /// Counts what a side counts for; the counters that are new.
    pub(super) fn enter(&mut self, side: &LocalSide) -> Result<Vec<Counter>, IndexedError> {
        let mut new = Vec::new();
        let direction = side.role.direction();
        for policy in side.denying.iter() {
            let uses = self.uses.entry((direction, policy.clone())).or_default();
            *uses += 1;
            if *uses > 1 {
                continue;
            }
            let name = counter_name(policy, direction);
            if let Some(owner) = self.owners.insert(name.clone(), policy.clone()) {
                return Err(IndexedError::Collision(Box::new(owner), Box::new(policy.clone())));
            }
            new.push(counter(name, policy));
        }
        Ok(new)
    }

    /// Counts no more what a side counted for; the counters that are gone.
    pub(super) fn leave(&mut self, side: &LocalSide) -> Vec<Counter> {
        let mut gone = Vec::new();
        let direction = side.role.direction();
        for policy in side.denying.iter() {
            let key = (direction, policy.clone());
            let Some(uses) = self.uses.get_mut(&key) else {
                continue;
            };
            *uses -= 1;
            if *uses == 0 {
                self.uses.remove(&key);
                let name = counter_name(policy, direction);
                self.owners.remove(&name);
                gone.push(counter(name, policy));
            }
        }
        gone
    }
}

fn counter(name: Name, policy: &ObjectRef) -> Counter {
    Counter {
        name,
        comment: Some(Comment::new(&title(policy), policy_hash(policy))),
    }
}

/// `drop-<direction>-<hash>`: packets that were dropped in this direction and that the policy may be why.
pub fn counter_name(policy: &ObjectRef, direction: Direction) -> Name {
    name(&format!("drop-{direction}-{}", policy_hash(policy)))
}

/// The counter of TCP packets of restricted pods that belong to no known connection and begin none, which were dropped.
pub fn mid_stream_counter() -> Name {
    name(chains::MID_STREAM_COUNTER)
}

/// The counter of packets that were dropped because the way back to their source does not lead where they came from.
pub fn spoofed_counter() -> Name {
    name(guard::SPOOFED_COUNTER)
}

/// The counter of packets from and to pods that rules from before do not know, which were dropped. It is there as long as
/// that lasts.
pub fn unknown_counter() -> Name {
    name(guard::UNKNOWN_COUNTER)
}
