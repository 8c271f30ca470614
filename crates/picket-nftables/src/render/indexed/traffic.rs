//! Numbers of classes of traffic.

use std::collections::{BTreeMap, BTreeSet};

use picket_net::TrafficSet;
use sha2::{Digest, Sha256};

use super::view::LocalSide;

/// The traffic class of everything. nft prints it as `8000:1`.
pub(super) const ANY_TRAFFIC: u32 = 0x8000_0001;

/// The lowest number of a traffic class; peer classes are below.
pub(super) const TRAFFIC_BASE: u32 = 0x8000_0000;

/// The highest number of a traffic class. nft prints the one above as `root`.
pub(super) const TRAFFIC_LAST: u32 = 0xffff_fffe;

/// The traffic other than all that sides allow with anybody.
pub(super) fn distinct(sides: &[LocalSide]) -> BTreeSet<&TrafficSet> {
    sides
        .iter()
        .flat_map(|side| side.allowed.iter().map(|(traffic, _)| traffic))
        .filter(|traffic| !traffic.is_all())
        .collect()
}

/// Numbers that depend on the traffic alone: the same traffic has the same number on every node and after every
/// restart, so that one more port set changes no other element.
pub(super) fn traffic_classes(distinct: BTreeSet<&TrafficSet>) -> BTreeMap<TrafficSet, u32> {
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
