//! Pods at addresses beside each other, which blocks name too, as they come and go: what is known of them is changed address by
//! address, and is what would be rendered from nothing.

use picket_cluster::{Event, Object};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_policy::{Direction, ObjectRef};
use picket_testing::build::{self, accept, block, pods_where};
use picket_vpp::session;
use proptest::prelude::*;

use crate::renderer::{acls_follow, rules_follow};

/// One of eight pods, of one of three applications. Few have no address.
fn pod(number: u8, app: u8, is_here: bool, has_address: bool) -> Event {
    let node = if is_here { "node-0" } else { "node-1" };
    let mut pod = build::pod(&format!("x/pod-{number}"))
        .label("app", &format!("a{app}"))
        .on(node);
    if has_address {
        pod = pod
            .ip(&format!("10.0.0.{number}"))
            .ip(&format!("fd00::{number:x}"));
    }
    Event::Apply(Object::from(pod.build()))
}

/// What an application may exchange with another on a port, or with 82 on all, and with a block on that or the next.
fn policy(app: u8, with: u8, port: u16, block_at: (u8, u8), directions: u8) -> Event {
    let (at, length) = block_at;
    let size = 1 << (32 - length);
    let block = block(&format!("10.0.0.{}/{length}", at / size * size), &[]);
    let mut policy = build::policy(&format!("x/a{app}")).selects(&format!("app=a{app}"));
    for (number, direction) in Direction::BOTH.into_iter().enumerate() {
        if directions & (1 << number) == 0 {
            continue;
        }
        let pods = accept().peer(pods_where("", &format!("app=a{with}")));
        let rules = [
            if port == 82 {
                pods
            } else {
                pods.port(Protocol::TCP, port)
            },
            accept()
                .peer(block.clone())
                .port(Protocol::TCP, port + u16::from(at % 2)),
        ];
        for rule in rules {
            policy = match direction {
                Direction::Ingress => policy.ingress(rule),
                Direction::Egress => policy.egress(rule),
            };
        }
    }
    Event::Apply(Object::Policy(policy.build()))
}

fn event() -> impl Strategy<Value = Event> {
    let gone = |kind: &str, name: String| Event::Delete(ObjectRef::new(kind, "x", &name));
    prop_oneof![
        6 => (0..8u8, 0..3u8, prop::bool::weighted(0.7), prop::bool::weighted(0.95))
            .prop_map(|(number, app, is_here, has_address)| pod(number, app, is_here, has_address)),
        3 => (0..8u8).prop_map(move |number| gone("Pod", format!("pod-{number}"))),
        2 => (0..3u8, 0..3u8, 80..83u16, (0..8u8, 29..=32u8), 1..4u8)
            .prop_map(|(app, with, port, block, directions)| policy(app, with, port, block, directions)),
        1 => (0..3u8).prop_map(move |app| gone("NetworkPolicy", format!("a{app}"))),
        1 => (0..8u8).prop_map(|at| {
            let node = build::node("node-0").ip(&format!("10.0.0.{at}"));
            Event::Apply(Object::Node(node.build()))
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_is_changed_address_by_address_is_what_is_made_from_nothing(
        events in prop::collection::vec(event(), 1..60),
        at_once in 1..4usize,
        most_rules in prop_oneof![Just(100_000), 0..120usize],
    ) {
        let engine = || Engine::new(picket_cluster::Semantics::default());
        let options = session::Options { most_rules };
        rules_follow(&mut engine(), &events, at_once, Some("node-0"), options)?;
        acls_follow(&mut engine(), &events, at_once, Some("node-0"))?;
    }
}
