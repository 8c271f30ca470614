//! Numbers of classes of traffic.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_net::TrafficSet;
use sha2::{Digest, Sha256};

use super::class::Pair;
use super::view::LocalSide;

/// The traffic class of everything. nft prints it as `8000:1`.
pub(super) const ANY_TRAFFIC: u32 = 0x8000_0001;

/// The lowest number of a traffic class; peer classes are below.
pub(super) const TRAFFIC_BASE: u32 = 0x8000_0000;

/// The highest number of a traffic class. nft prints the one above as `root`.
pub(super) const TRAFFIC_LAST: u32 = 0xffff_fffe;

/// The traffic other than all that sides allow with anybody, with how many of them do.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses(BTreeMap<TrafficSet, usize>);

impl Uses {
    /// Follows the sides that differ.
    pub(super) fn follow(&mut self, sides: &[Pair<'_>]) {
        let differing = || {
            sides.iter().filter(|(before, now)| {
                before.map(|side| Arc::as_ptr(&side.allowed)) != now.map(|side| Arc::as_ptr(&side.allowed))
            })
        };
        for traffic in differing().filter_map(|(_, now)| *now).flat_map(others) {
            match self.0.get_mut(traffic) {
                Some(uses) => *uses += 1,
                None => drop(self.0.insert(traffic.clone(), 1)),
            }
        }
        for traffic in differing().filter_map(|(before, _)| *before).flat_map(others) {
            if let Some(uses) = self.0.get_mut(traffic) {
                *uses -= 1;
                if *uses == 0 {
                    self.0.remove(traffic);
                }
            }
        }
    }

    /// Each kind of traffic once, ascending.
    pub(super) fn traffic(&self) -> impl Iterator<Item = &TrafficSet> {
        self.0.keys()
    }
}

/// The traffic other than all that a side allows.
fn others(side: &LocalSide) -> impl Iterator<Item = &TrafficSet> {
    let allowed = side.allowed.iter().map(|(traffic, _)| traffic);
    allowed.filter(|traffic| !traffic.is_all())
}

/// Numbers that depend on the traffic alone: the same traffic has the same number on every node and after every
/// restart, so that one more port set changes no other element.
pub(super) fn traffic_classes<'t>(
    distinct: impl Iterator<Item = &'t TrafficSet>,
) -> BTreeMap<TrafficSet, u32> {
    let mut taken = BTreeSet::from([ANY_TRAFFIC]);
    let mut classes = BTreeMap::new();
    for traffic in distinct {
        let digest = Sha256::digest(traffic.to_string().as_bytes());
        let hash = digest
            .iter()
            .take(4)
            .fold(0, |hash, &byte| hash << 8 | u32::from(byte));
        let mut class = (TRAFFIC_BASE | hash).min(TRAFFIC_LAST);
        while !taken.insert(class) {
            class = if class == TRAFFIC_LAST {
                TRAFFIC_BASE
            } else {
                class + 1
            };
        }
        classes.insert(traffic.clone(), class);
    }
    classes
}
