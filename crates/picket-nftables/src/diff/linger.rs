//! Addresses that lose a number of their own, where what they are part of gets another.
//!
//! A packet finds the number of the block that an address is in, and then that of the address itself, if it has one. Where a
//! transaction between the two lookups gives the block another number and takes that of the address away, the packet would keep the
//! number that the block had, and be judged as others are. Therefore such an address has a number of its own a little longer: with
//! that transaction the one that the block has from then on, and none in one that follows.

use super::Operation;
use super::course::{Course, number};
use crate::model::Datum;

/// What addresses keep for a moment.
#[derive(Debug, Default)]
pub(super) struct Lingering {
    /// What gives it to them, with the transaction that would take all away.
    pub(super) kept: Vec<Operation>,
    /// What takes it from them.
    pub(super) clean: Vec<Operation>,
}

impl Lingering {
    /// What a plan needs.
    pub(super) fn of(course: &Course<'_>) -> Self {
        let mut lingering = Self::default();
        for map in course.numbering.values() {
            let lost = course.lost(map.name());
            let kept = lost.filter(|key| course.changes_block(map, key)).map(|key| {
                let now = course.in_block_after(map, key).cloned();
                (key.clone(), now.unwrap_or_else(|| means_nothing(course)))
            });
            let kept: Vec<_> = kept.collect();
            if !kept.is_empty() {
                let keys = kept.iter().map(|(key, _)| key.clone()).collect();
                lingering
                    .clean
                    .push(Operation::DeleteElements(map.name().clone(), keys));
                lingering
                    .kept
                    .push(Operation::AddMapElements(map.name().clone(), kept));
            }
        }
        lingering
    }
}

/// A number that means nothing, before and after.
fn means_nothing(course: &Course<'_>) -> Datum {
    let is_free = |given: &u32| {
        let key = number(*given);
        let mut maps = course.meanings.values();
        maps.all(|map| !map.elements().contains_key(&key) && course.after(map, &key).is_none())
    };
    // INVARIANT: maps do not hold every number.
    Datum::Priority((0..).find(is_free).unwrap_or_default())
}
