//! A table that stands in for another while that is made anew.

use std::sync::Arc;

use picket_dataplane::{Objects, Plan};

use super::hold::Hold;
use super::sync::{is_missing, is_unanswered, made_anew, whole};
use super::{ApplyError, Client};
use crate::diff::{Operation, mixes};
use crate::model::{Name, Table};

/// A table that is there only while another is made anew or changed, until it is known to be gone.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    name: Name,
    /// Whether the other is made anew.
    is_other_anew: bool,
}

impl Client {
    /// Where a plan makes a table anew that is there, or leaves it [in doubt](Self::is_in_doubt) for a moment, makes another with the
    /// rules to which it leads, for as long as that takes; the generation that follows.
    ///
    /// The kernel has the base chains of both tables then, those of the new one first, and a packet enters each by the rules of that
    /// moment: the new one while it is empty still, and the old one when it is empty already. What passes both is what the new
    /// one lets pass. Where the kernel does not
    /// take such a table it goes on without; what is wrong with the rules is found when they are made.
    pub(super) fn guard(
        &mut self,
        observed: Option<&Table>,
        plan: &Plan<Operation>,
        generation: Option<u32>,
    ) -> Option<u32> {
        let desired = match (made_anew(plan), observed) {
            (Some(anew), _) => Some(anew.clone()),
            (None, Some(observed)) if self.is_in_doubt(observed, plan) => {
                Table::applied(Some(observed), plan).ok()
            }
            _ => None,
        };
        let Some(table) = desired.and_then(guard_of) else {
            return generation;
        };
        self.guard = Some(Guard {
            name: table.name().clone(),
            is_other_anew: made_anew(plan).is_some(),
        });
        let plan = whole(&Arc::new(table));
        match self.commit(None, &plan, Hold::Briefly, generation, self.portion) {
            Ok(next) => next,
            // It may be there.
            Err(error) if is_unanswered(&error) => generation,
            Err(_) => {
                self.guard = None;
                generation
            }
        }
    }

    /// Whether a packet that is just judged might be by rules of one table and sets of the other. In the table of a node, where
    /// nobody is to be wary of, numbers keep that from happening ([`crate::diff::Stages`]).
    fn is_in_doubt(&self, observed: &Table, plan: &Plan<Operation>) -> bool {
        self.is_wary && mixes(observed, plan)
    }

    /// Takes such a table away, if there is one; whether there was.
    pub(super) fn unguard(&mut self) -> Result<bool, ApplyError> {
        let Some(guard) = self.guard.clone() else {
            return Ok(false);
        };
        if guard.is_other_anew {
            // Who was on its way to the one that has gone is not judged by the next one.
            self.await_packets();
        }
        let plan = Plan::from_iter([Operation::Delete(guard.name)]);
        let was_there = match self.carry_out_alone(None, &plan) {
            Ok(()) => true,
            Err(error) if is_missing(&error) => false,
            Err(error) => return Err(error),
        };
        self.guard = None;
        Ok(was_there)
    }
}

/// The same rules in another table.
fn guard_of(table: Table) -> Option<Table> {
    let name = Name::new(&format!("{}-meanwhile", table.name()))?;
    let mut draft = table.into_draft();
    draft.name = name;
    draft.check().ok()
}

#[cfg(test)]
mod tests;
