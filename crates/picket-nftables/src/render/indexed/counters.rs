//! A counter for each policy and direction because of which packets of the node's pods can be dropped, or could be if the
//! policy were not only audited.

use std::collections::BTreeMap;

use picket_policy::{Direction, ObjectRef};

use super::view::LocalSide;
use super::{IndexedError, guard, name};
use crate::model::{Counter, Name};
use crate::render::drops::{of_audited, of_mid_stream, of_policy};

/// The policies that sides count for.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// How many sides do.
    uses: BTreeMap<Use, usize>,
    owners: BTreeMap<Name, Use>,
}

/// What a counter counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    direction: Direction,
    /// Whether the packets pass.
    audited: bool,
    policy: ObjectRef,
}

impl Use {
    /// Those of a side.
    fn of(side: &LocalSide) -> impl Iterator<Item = Self> + '_ {
        side.denying.iter().map(|policy| Self {
            direction: side.role.direction(),
            audited: side.role.audits(),
            policy: policy.clone(),
        })
    }

    fn counter(&self) -> Counter {
        match self.audited {
            true => of_audited(&self.policy, self.direction),
            false => of_policy(&self.policy, self.direction),
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
        let owners = self.owners.values();
        let policies = owners.map(Use::counter);
        policies.chain([of_mid_stream()]).collect()
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
            if let Some(owner) = self.owners.insert(counter.name.clone(), used.clone()) {
                let (one, other) = (Box::new(owner.policy), Box::new(used.policy));
                return Err(IndexedError::Collision(one, other));
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
