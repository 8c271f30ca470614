//! The table for views written by hand.

use std::collections::BTreeSet;
use std::sync::Arc;

use picket_dataplane::{Crossing, Meaning, Outcome, Packet, State};
use picket_net::{AddressRange, PortRange, Protocol, TrafficSet};

use super::view::{LocalSide, Role, side_name};
use super::*;
use crate::meaning::Interpreter;

fn ports(protocol: Protocol, first: u16, last: u16) -> TrafficSet {
    TrafficSet::of(protocol, PortRange::new(first, last).unwrap().into())
}

fn side(role: Role, subject: u32, addresses: &[&str], allowed: &[(TrafficSet, &[u32])]) -> LocalSide {
    LocalSide {
        name: side_name(role, &[subject]),
        role,
        subject: [subject].into(),
        addresses: Arc::new(addresses.iter().map(|text| text.parse().unwrap()).collect()),
        allowed: allowed
            .iter()
            .map(|(traffic, peers)| (traffic.clone(), peers.iter().copied().collect()))
            .collect(),
        denying: BTreeSet::from([ObjectRef::new("NetworkPolicy", "shop", &format!("p{subject}"))]).into(),
    }
}

fn range(first: &str, last: &str) -> AddressRange {
    AddressRange::new(first.parse().unwrap(), last.parse().unwrap()).unwrap()
}

/// web (1) may reach db (2) on 5432 and the world on everything; db admits web only and may not speak first.
fn shop() -> NodeView {
    let web = ["10.0.0.1", "fd00::1"];
    let db = ["10.0.0.2", "fd00::2"];
    let postgres = ports(Protocol::TCP, 5432, 5432);
    let many = ports(Protocol::UDP, 1000, 2000).union(&Protocol::ICMP.into());
    NodeView {
        sides: vec![
            side(
                Role::Egress,
                1,
                &web,
                &[(postgres.clone(), &[2]), (TrafficSet::all(), &[9])],
            ),
            side(Role::Ingress, 2, &db, &[(postgres, &[1]), (many, &[8])]),
            side(Role::Egress, 2, &db, &[]),
        ],
        endpoints: [
            ("10.0.0.1", 1),
            ("fd00::1", 1),
            ("10.0.0.2", 2),
            ("fd00::2", 2),
            ("10.0.9.9", 3),
        ]
        .map(|(address, identity)| (address.parse().unwrap(), identity))
        .into(),
        regions: vec![
            (range("0.0.0.0", "9.255.255.255"), 9),
            (range("10.0.0.0", "10.0.255.255"), 8),
            (range("10.1.0.0", "255.255.255.255"), 9),
            (range("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), 9),
        ],
    }
}

fn forwarded(source: &str, destination: &str, protocol: Protocol, port: u16) -> Packet {
    let crossing = Crossing::Forward {
        input: "a".into(),
        output: "b".into(),
    };
    Packet::opening(
        crossing,
        source.parse().unwrap(),
        destination.parse().unwrap(),
        protocol,
        port,
    )
}

#[test]
fn both_ends_of_a_connection_are_judged_in_one_pass() {
    let table = Made::of(&shop(), &BTreeSet::new(), &Options::default())
        .unwrap()
        .table;
    let interpreter = Interpreter::new(&table);
    for (source, destination, protocol, port, passes) in [
        ("10.0.0.1", "10.0.0.2", Protocol::TCP, 5432, true),
        ("fd00::1", "fd00::2", Protocol::TCP, 5432, true),
        ("10.0.0.1", "10.0.0.2", Protocol::TCP, 5433, false),
        ("10.0.0.1", "10.0.0.2", Protocol::UDP, 5432, false),
        ("10.0.0.1", "1.1.1.1", Protocol::from_number(47), 0, true),
        ("10.0.0.1", "10.0.9.9", Protocol::TCP, 5432, false),
        ("fd00::1", "2001:db8::1", Protocol::SCTP, 7, true),
        ("10.0.0.2", "10.0.0.1", Protocol::TCP, 5432, false),
        ("10.0.0.2", "10.0.0.2", Protocol::TCP, 1, true),
        ("fd00::2", "fd00::2", Protocol::UDP, 1, true),
        ("1.1.1.1", "10.0.0.2", Protocol::TCP, 5432, false),
        ("10.0.5.5", "10.0.0.2", Protocol::UDP, 999, false),
        ("10.0.5.5", "10.0.0.2", Protocol::UDP, 1000, true),
        ("10.0.5.5", "10.0.0.2", Protocol::UDP, 2000, true),
        ("10.0.5.5", "10.0.0.2", Protocol::UDP, 2001, false),
        ("10.0.5.5", "10.0.0.2", Protocol::ICMP, 0, true),
        ("1.1.1.1", "10.0.0.1", Protocol::TCP, 1, true),
        ("1.1.1.1", "10.0.9.9", Protocol::TCP, 1, true),
    ] {
        let packet = forwarded(source, destination, protocol, port);
        let outcome = interpreter.outcome(&packet);
        assert_eq!(
            outcome.is_accept(),
            passes,
            "{source} → {destination} {protocol}/{port}: {outcome:?}"
        );
    }
}

#[test]
fn tcp_of_no_known_connection_that_begins_none_is_dropped_at_restricted_pods() {
    let table = Made::of(&shop(), &BTreeSet::new(), &Options::default())
        .unwrap()
        .table;
    let interpreter = Interpreter::new(&table);
    let [syn, syn_push, ack, syn_ack, rst, fin_ack] = [0x02, 0x0a, 0x10, 0x12, 0x04, 0x11];
    let (web, db, stranger, world) = ("10.0.0.1", "10.0.0.2", "10.0.9.9", "1.1.1.1");
    for (source, destination, flags, state, passes) in [
        // Web may open connections to the world, and db may not; neither goes on with what nobody knows.
        (web, world, syn, State::New, true),
        (web, world, syn_push, State::New, true),
        (web, world, ack, State::New, false),
        (web, world, syn_ack, State::New, false),
        (web, world, rst, State::New, false),
        (web, world, fin_ack, State::New, false),
        (world, web, ack, State::New, false),
        ("fd00::1", "2001:db8::1", ack, State::New, false),
        ("2001:db8::1", "fd00::1", ack, State::New, false),
        (world, db, ack, State::New, false),
        // What is known, what nobody tracks, and what is nobody's business goes on.
        (web, world, ack, State::Established, true),
        (web, world, ack, State::Untracked, true),
        (web, web, ack, State::New, true),
        (stranger, world, ack, State::New, true),
    ] {
        let packet = Packet {
            tcp_flags: Some(flags),
            state,
            ..forwarded(source, destination, Protocol::TCP, 1)
        };
        let outcome = interpreter.outcome(&packet);
        let what = format!("{source} → {destination} flags {flags:#x} {state:?}: {outcome:?}");
        assert_eq!(outcome.is_accept(), passes, "{what}");
        if let Outcome::Drop { counter, .. } = outcome {
            assert_eq!(counter.as_deref(), Some("drop-mid-stream"), "{what}");
        }
    }
}
