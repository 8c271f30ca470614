//! A counter for each policy and direction because of which packets of the node's pods can be dropped.

use std::collections::BTreeMap;

use picket_policy::{Direction, ObjectRef};

use super::view::LocalSide;
use super::{IndexedError, guard, name};
use crate::model::{Counter, Name};
use crate::render::drops::{of_mid_stream, of_policy};

/// The policies that sides count for.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// How many sides do.
    uses: BTreeMap<(Direction, ObjectRef), usize>,
    owners: BTreeMap<Name, (Direction, ObjectRef)>,
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
        let owners = self.owners.values();
        let policies = owners.map(|(direction, policy)| of_policy(policy, *direction));
        policies.chain([of_mid_stream()]).collect()
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
            let counter = of_policy(policy, direction);
            let owner = (direction, policy.clone());
            if let Some((_, owner)) = self.owners.insert(counter.name.clone(), owner) {
                return Err(IndexedError::Collision(Box::new(owner), Box::new(policy.clone())));
            }
            new.push(counter);
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
                let counter = of_policy(policy, direction);
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
