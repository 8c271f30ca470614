//! Which ends allow something else than before.
//!
//! Identities of two programs mean different things. What both can be said of is a pair of them: one for every address
//! that both sides have. An end whose allow sets agree on every such pair, agrees with its former self about everybody.

use std::collections::BTreeSet;

use picket_engine::SubjectId;
use picket_net::Family;
use picket_policy::Direction;
use rustc_hash::FxHashMap;

use super::endpoint::Side;
use super::pair::JointClass;
use crate::map::class::{Class, Lookup};
use crate::map::traffic::TrafficId;

/// Whether the allow sets of an endpoint changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) egress: bool,
    pub(super) ingress: bool,
}

/// What can be said of identities on both sides.
pub(super) struct Refinement<'s, 'a> {
    sides: &'s [Side<'a>; 2],
    /// For each side and identity the numbers of its pairs.
    pairs: [Vec<Vec<u32>>; 2],
    count: u32,
    known: FxHashMap<[Option<SubjectId>; 2], bool>,
}

impl<'s, 'a> Refinement<'s, 'a> {
    /// The refinement by `classes`, which are those of all endpoints.
    pub(super) fn new<'c>(sides: &'s [Side<'a>; 2], classes: impl Iterator<Item = &'c JointClass>) -> Self {
        let mut distinct = BTreeSet::new();
        for joint in classes {
            if let [Some(old), Some(new)] = both(sides, joint) {
                for family in Family::BOTH {
                    let identities = old.identities(family).iter().zip(new.identities(family));
                    distinct.extend(identities.map(|(old, new)| (old.number(), new.number())));
                }
            }
        }
        let mut pairs = [Vec::new(), Vec::new()];
        let mut count = 0;
        for (old, new) in distinct {
            for (pairs, identity) in pairs.iter_mut().zip([old, new]) {
                let at = identity as usize;
                if pairs.len() <= at {
                    pairs.resize_with(at + 1, Vec::new);
                }
                pairs
                    .get_mut(at)
                    .into_iter()
                    .for_each(|pairs: &mut Vec<u32>| pairs.push(count));
            }
            count += 1;
        }
        Self {
            sides,
            pairs,
            count,
            known: FxHashMap::default(),
        }
    }

    /// Whether endpoints of a class allow something else than before. One that only one side has, or that has another
    /// family or number of addresses on the other, does.
    pub(super) fn ends(&mut self, joint: &JointClass) -> Ends {
        let changed = Ends {
            egress: true,
            ingress: true,
        };
        let [Some(old), Some(new)] = both(self.sides, joint) else {
            return changed;
        };
        let other_families = |family| old.identities(family).len() != new.identities(family).len();
        if Family::BOTH.into_iter().any(other_families) {
            return changed;
        }
        let subjects = |direction| match direction {
            Direction::Egress => [old.egress, new.egress],
            Direction::Ingress => [old.ingress, new.ingress],
        };
        let [ingress, egress] = Direction::BOTH.map(|direction| self.differ(subjects(direction)));
        Ends { egress, ingress }
    }

    fn differ(&mut self, subjects: [Option<SubjectId>; 2]) -> bool {
        if subjects == [None, None] {
            return false;
        }
        if let Some(&known) = self.known.get(&subjects) {
            return known;
        }
        let [old, new] = subjects;
        let [old_side, new_side] = self.sides;
        let [old_pairs, new_pairs] = &self.pairs;
        let old = self.refined(old.map(|subject| old_side.classes.lookup(subject)), old_pairs);
        let new = self.refined(new.map(|subject| new_side.classes.lookup(subject)), new_pairs);
        let differ = old != new;
        self.known.insert(subjects, differ);
        differ
    }

    /// What is allowed with each pair, but for those with which nothing is; `None` stands for no subject.
    fn refined(&self, lookup: Option<Option<&Lookup>>, pairs: &[Vec<u32>]) -> Vec<(u32, TrafficId)> {
        let Some(lookup) = lookup else {
            return (0..self.count).map(|pair| (pair, TrafficId::ALL)).collect();
        };
        let mut refined = Vec::new();
        for &(first, last, traffic) in lookup.into_iter().flatten() {
            let identities = pairs.iter().skip(first as usize);
            let identities = identities.take((last - first) as usize + 1);
            refined.extend(identities.flatten().map(|&pair| (pair, traffic)));
        }
        refined.sort_unstable();
        refined
    }
}

fn both<'s>(sides: &'s [Side<'_>; 2], joint: &JointClass) -> [Option<&'s Class>; 2] {
    let ([old, new], [old_class, new_class]) = (sides, joint);
    [
        old_class.and_then(|class| old.classes.get(class)),
        new_class.and_then(|class| new.classes.get(class)),
    ]
}
