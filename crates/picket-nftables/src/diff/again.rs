//! Packets that are judged at one end by what was, and at the other by what is.
//!
//! Where a chain judges who sends a packet and then who receives it, a transaction between the two may let one pass that is denied
//! before it and after it: its source might send it before, and its destination receives it now. Therefore such a chain looks at last
//! into the set [`CHANGING`], which holds nothing but while such a transaction comes into force: with an element in it, which comes in a
//! transaction before and goes in one that follows, the source is judged once more. What passes then one state allows at both
//! ends: the one before, where the destination had been judged already, and else the one that follows.

use std::collections::BTreeSet;

use super::Operation;
use super::course::number;
use crate::model::{Key, Name, Set, Table};

/// The set that has sources judged once more while [`ANYTHING`] is in it.
pub(crate) const CHANGING: &str = "changing";

/// What is looked up in it.
pub(crate) const ANYTHING: u32 = 0;

/// What has sources judged again while a plan comes into force.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// What begins it; nothing where an agent that went no further has begun it.
    pub(super) there: Vec<Operation>,
    /// What ends it.
    pub(super) ended: Option<Operation>,
}

impl Again {
    /// What a plan of these operations needs for a table.
    pub(super) fn of(observed: &Table, operations: &[Operation]) -> Self {
        let mut sets = observed.sets().iter();
        let set = sets.find(|set| set.name().as_str() == CHANGING);
        // With the set goes all that judges anybody.
        let stays = |set: &&Set| {
            !operations
                .iter()
                .any(|operation| matches!(operation, Operation::DeleteSet(name) if name == set.name()))
        };
        let Some(set) = set.filter(stays).filter(|_| may_change_both_ends(operations)) else {
            return Self::default();
        };
        let element = || vec![number(ANYTHING)];
        let begun = Operation::AddElements(set.name().clone(), element());
        Self {
            there: Vec::from_iter(set.elements().is_empty().then_some(begun)),
            ended: Some(Operation::DeleteElements(set.name().clone(), element())),
        }
    }

    /// What takes back what has begun it.
    pub(super) fn back(&self) -> Vec<Operation> {
        let ended = self.ended.iter().filter(|_| !self.there.is_empty());
        ended.cloned().collect()
    }
}

/// Whether operations may change both what a packet meets because of its source and what it meets because of its destination. One
/// element is about one of them: of the number of an address, to each packet.
fn may_change_both_ends(operations: &[Operation]) -> bool {
    let (mut made, mut changed) = (BTreeSet::new(), BTreeSet::<(&Name, Option<&Key>)>::new());
    for operation in operations {
        match operation {
            Operation::AddChain { name, .. } => drop(made.insert(name)),
            Operation::DeleteElements(name, keys) | Operation::AddElements(name, keys) => {
                changed.extend(keys.iter().take(2).map(|key| (name, Some(key))));
            }
            Operation::AddMapElements(name, pairs) => {
                changed.extend(pairs.iter().take(2).map(|(key, _)| (name, Some(key))));
            }
            Operation::AddRules(name, _) if made.contains(name) => {}
            Operation::Flush(name)
            | Operation::AddRules(name, _)
            | Operation::DeleteMap(name)
            | Operation::DeleteSet(name) => drop(changed.insert((name, None))),
            _ => {}
        }
        if changed.len() > 1 {
            return true;
        }
    }
    false
}
