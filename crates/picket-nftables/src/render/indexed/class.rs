//! Numbers for the scratch field: classes of peers, and classes of traffic.
//!
//! Two identities that no subject of the node tells apart share a peer class, so a node's maps hold what its own pods
//! need and no more. The two kinds of classes have disjoint numbers: a peer class left in the scratch field by a
//! lookup that found nothing is no traffic class, and matches nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_net::{AddressRange, Family, TrafficSet};
use sha2::{Digest, Sha256};

use super::view::{NodeView, next};

/// The peer class of addresses with which no subject may exchange anything. nft prints it as `none`.
pub(super) const NOBODY: u32 = 0;

/// The traffic class of everything. nft prints it as `8000:1`.
pub(super) const ANY_TRAFFIC: u32 = 0x8000_0001;

/// The lowest number of a traffic class; peer classes are below.
const TRAFFIC_BASE: u32 = 0x8000_0000;

/// The highest number of a traffic class. nft prints the one above as `root`.
const TRAFFIC_LAST: u32 = 0xffff_fffe;

/// Every class that one node's table uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Classes {
    /// Classes of traffic other than all.
    pub(super) traffic: BTreeMap<TrafficSet, u32>,
    /// For each side of the view, in its order: peer class to traffic class.
    pub(super) sides: Vec<BTreeMap<u32, u32>>,
    /// The peer class of addresses by range, ascending, without [`NOBODY`]; adjacent ranges differ.
    pub(super) blocks: Vec<(AddressRange, u32)>,
    /// The peer class of single addresses where `blocks` says something else.
    pub(super) peers: BTreeMap<IpAddr, u32>,
}

impl Classes {
    /// The classes of a node.
    pub(super) fn of(view: &NodeView) -> Self {
        let traffic = traffic_classes(view);
        let identities = view.identities();
        let mut signatures: BTreeMap<u32, Vec<(usize, u32)>> = BTreeMap::new();
        for (index, side) in view.sides.iter().enumerate() {
            for (allowed, peers) in &side.allowed {
                let class = traffic.get(allowed).copied().unwrap_or(ANY_TRAFFIC);
                for peer in peers.intersection(&identities).iter() {
                    signatures.entry(peer).or_default().push((index, class));
                }
            }
        }
        let mut sides = vec![BTreeMap::new(); view.sides.len()];
        let mut numbers = BTreeMap::new();
        let mut of_identity = BTreeMap::new();
        for (identity, signature) in signatures {
            // The lowest identity names the class, so that one more identity in it renumbers nobody.
            let class = *numbers.entry(signature).or_insert(identity + 1);
            of_identity.insert(identity, class);
        }
        for (signature, &class) in &numbers {
            for &(index, traffic) in signature {
                if let Some(side) = sides.get_mut(index) {
                    side.insert(class, traffic);
                }
            }
        }
        let class = |identity: &u32| of_identity.get(identity).copied().unwrap_or(NOBODY);
        let blocks = merged(
            view.regions
                .iter()
                .map(|(range, identity)| (*range, class(identity))),
        );
        let peers = view
            .endpoints
            .iter()
            .map(|(&address, identity)| (address, class(identity)))
            .filter(|&(address, class)| class_at(&blocks, address) != class)
            .collect();
        Self {
            traffic,
            sides,
            blocks,
            peers,
        }
    }

    /// The blocks of one family.
    pub(super) fn blocks_of(&self, family: Family) -> impl Iterator<Item = (AddressRange, u32)> + '_ {
        self.blocks
            .iter()
            .copied()
            .filter(move |(range, _)| range.family() == family)
    }

    /// The peers of one family.
    pub(super) fn peers_of(&self, family: Family) -> impl Iterator<Item = (IpAddr, u32)> + '_ {
        self.peers
            .iter()
            .map(|(&address, &class)| (address, class))
            .filter(move |&(address, _)| Family::of(address) == family)
    }
}

/// Numbers that depend on the traffic alone: the same traffic has the same number on every node and after every
/// restart, so that one more port set changes no other element.
fn traffic_classes(view: &NodeView) -> BTreeMap<TrafficSet, u32> {
    let distinct: BTreeSet<&TrafficSet> = view
        .sides
        .iter()
        .flat_map(|side| side.allowed.iter().map(|(traffic, _)| traffic))
        .filter(|traffic| !traffic.is_all())
        .collect();
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

/// Ascending ranges with their class: neighbours of one class become one range, and those of [`NOBODY`] go.
fn merged(ranges: impl Iterator<Item = (AddressRange, u32)>) -> Vec<(AddressRange, u32)> {
    let mut merged: Vec<(AddressRange, u32)> = Vec::new();
    for (range, class) in ranges.filter(|&(_, class)| class != NOBODY) {
        let joined = merged
            .last()
            .filter(|(last, last_class)| *last_class == class && next(last.last()) == Some(range.first()))
            .and_then(|(last, _)| AddressRange::new(last.first(), range.last()));
        match (joined, merged.last_mut()) {
            (Some(joined), Some(last)) => last.0 = joined,
            _ => merged.push((range, class)),
        }
    }
    merged
}

/// The class that sorted ranges give an address.
fn class_at(ranges: &[(AddressRange, u32)], address: IpAddr) -> u32 {
    let after = ranges.partition_point(|(range, _)| range.first() <= address);
    after
        .checked_sub(1)
        .and_then(|at| ranges.get(at))
        .filter(|(range, _)| range.family() == Family::of(address) && address <= range.last())
        .map_or(NOBODY, |&(_, class)| class)
}

#[cfg(test)]
mod tests {
    use super::super::view::{LocalSide, Role};
    use super::*;
    use picket_net::{PortRange, Protocol};

    fn tcp(port: u16) -> TrafficSet {
        TrafficSet::of(Protocol::TCP, PortRange::single(port).unwrap().into())
    }

    fn range(first: &str, last: &str) -> AddressRange {
        AddressRange::new(first.parse().unwrap(), last.parse().unwrap()).unwrap()
    }

    fn side(subject: u32, allowed: &[(TrafficSet, &[u32])]) -> LocalSide {
        LocalSide {
            role: Role::Ingress,
            subject: vec![subject],
            addresses: BTreeSet::new(),
            allowed: allowed
                .iter()
                .map(|(traffic, peers)| (traffic.clone(), peers.iter().copied().collect()))
                .collect(),
            denying: BTreeSet::new(),
        }
    }

    fn view(sides: Vec<LocalSide>) -> NodeView {
        NodeView {
            sides,
            endpoints: [
                ("10.0.0.1", 10),
                ("10.0.0.2", 11),
                ("10.0.0.3", 12),
                ("10.0.0.4", 13),
            ]
            .map(|(address, identity)| (address.parse().unwrap(), identity))
            .into(),
            regions: vec![
                (range("0.0.0.0", "9.255.255.255"), 20),
                (range("10.0.0.0", "10.0.0.255"), 21),
                (range("10.0.1.0", "255.255.255.255"), 20),
            ],
        }
    }

    #[test]
    fn identities_that_no_subject_tells_apart_share_a_class() {
        let classes = Classes::of(&view(vec![
            side(1, &[(tcp(80), &[10, 11, 12])]),
            side(2, &[(tcp(80), &[10, 11]), (tcp(443), &[12])]),
        ]));
        let peers: Vec<u32> = classes.peers.values().copied().collect();
        assert_eq!(peers, [11, 11, 13]);
        assert_eq!(classes.sides[0].len(), 2);
        assert_eq!(classes.sides[1][&13], classes.traffic[&tcp(443)]);
    }

    #[test]
    fn an_address_stands_among_the_peers_only_where_the_blocks_say_something_else() {
        let all = TrafficSet::all();
        let classes = Classes::of(&view(vec![side(1, &[(all, &[12, 20, 21])])]));
        assert_eq!(
            classes.blocks,
            [(range("0.0.0.0", "255.255.255.255"), 13)],
            "regions of one class are one range"
        );
        let expected = ["10.0.0.1", "10.0.0.2", "10.0.0.4"].map(|address| (address.parse().unwrap(), NOBODY));
        assert_eq!(
            classes.peers,
            expected.into(),
            "what is allowed less must be named"
        );
        assert_eq!(classes.sides, [[(13, ANY_TRAFFIC)].into()]);
    }

    #[test]
    fn traffic_classes_are_distinct_and_no_peer_class() {
        let sets: Vec<_> = (1..=2000).map(|port| (tcp(port), &[][..])).collect();
        let classes = Classes::of(&view(vec![side(1, &sets)]));
        let numbers: BTreeSet<u32> = classes.traffic.values().copied().collect();
        assert_eq!(numbers.len(), 2000);
        assert!(
            numbers
                .iter()
                .all(|&class| (TRAFFIC_BASE..=TRAFFIC_LAST).contains(&class) && class != ANY_TRAFFIC)
        );
    }
}
