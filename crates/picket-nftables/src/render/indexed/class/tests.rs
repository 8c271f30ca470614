use super::super::traffic::{TRAFFIC_BASE, TRAFFIC_LAST};
use super::super::view::{LocalSide, Role, side_name};
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
        name: side_name(Role::Ingress, &[subject]),
        role: Role::Ingress,
        subject: [subject].into(),
        addresses: Arc::default(),
        allowed: allowed
            .iter()
            .map(|(traffic, peers)| (traffic.clone(), peers.iter().copied().collect()))
            .collect(),
        denying: BTreeSet::new().into(),
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
    let view = view(vec![
        side(1, &[(tcp(80), &[10, 11, 12])]),
        side(2, &[(tcp(80), &[10, 11]), (tcp(443), &[12])]),
    ]);
    let classes = Classes::of(&view);
    let peers: Vec<u32> = classes.peers.values().copied().collect();
    assert_eq!(peers, [11, 11, 13]);
    assert_eq!(classes.of_side(&view.sides[0]).len(), 2);
    assert_eq!(classes.of_side(&view.sides[1])[&13], classes.traffic[&tcp(443)]);
}

#[test]
fn an_address_stands_among_the_peers_only_where_the_blocks_say_something_else() {
    let all = TrafficSet::all();
    let view = view(vec![side(1, &[(all, &[12, 20, 21])])]);
    let classes = Classes::of(&view);
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
    assert_eq!(*classes.of_side(&view.sides[0]), [(13, ANY_TRAFFIC)].into());
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
