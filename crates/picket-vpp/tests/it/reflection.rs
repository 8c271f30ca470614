//! What is denied leaves nothing behind by which something else would pass.

use std::sync::Arc;

use picket_cluster::{Flow, Object, Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_policy::Direction;
use picket_testing::build::{accept, block, pod, policy};
use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, semantics, snapshot};
use picket_vpp::acl::meaning::{Packet, Way};
use picket_vpp::acl::verify::{Fault, verify};
use picket_vpp::acl::{Acl, AclAction, Options, Role, render, text};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::acl::{SERVICE, pods_called, with_service};
use crate::journey::{Cluster, Hop};

/// Whether a packet enters a node by an interface that leads out of it.
fn is_from_outside(hops: &[Hop]) -> bool {
    hops.first()
        .is_some_and(|(_, interface, way)| (interface.as_str(), *way) == ("uplink", Way::In))
}

/// Sends what is denied into a node, and then what would answer it out of it, directly and to an address of a service that is
/// translated to who was denied. Gives how often that was done.
fn check(snapshot: &Snapshot, semantics: &Semantics) -> Result<usize, TestCaseError> {
    let cluster = Cluster::new(snapshot, semantics);
    let is_allowed = |flow: &Flow| {
        let judged = picket_reference::judge(snapshot, semantics, flow);
        judged.verdict().is_allow()
    };
    let mut count = 0;
    for flow in representative_flows(snapshot) {
        let Some(hops) = cluster.hops(&flow).filter(|hops| is_from_outside(hops)) else {
            continue;
        };
        if !flow.protocol.has_ports() || is_allowed(&flow) {
            continue;
        }
        let ends = [&flow.source, &flow.destination].map(|end| cluster.address(end, &flow));
        let denied = Packet::opening(ends[0], ends[1], flow.protocol, flow.port);
        let back = Flow {
            source: flow.destination.clone(),
            destination: flow.source.clone(),
            port: denied.first,
            ..flow.clone()
        };
        let allowed = is_allowed(&back);
        let hops_back = cluster.hops(&back).expect("the same way");
        let answer = denied.reply();
        let service = SERVICE[usize::from(ends[0].is_ipv6())];
        let to_service = Packet {
            destination: service.parse().expect("an address"),
            ..answer
        };
        for before in [answer, to_service] {
            let mut running = cluster.start();
            prop_assert!(!running.passes(&hops, &denied), "{flow:?}");
            let passes = running.translated(&hops_back, &before, &answer);
            let lists = || cluster.acls.values().map(text).collect::<Vec<_>>().join("\n");
            prop_assert_eq!(passes, allowed, "{:?}: {:?}\n{}", flow, before, lists());
            count += 1;
        }
    }
    Ok(count)
}

/// A pod that may receive only from 172.16.0.0/16 at port 80, and send only there.
fn isolated() -> Snapshot {
    let server = pod("x/server").ip("10.0.0.1").build();
    let peer = || accept().peer(block("172.16.0.0/16", &[])).port(Protocol::TCP, 80);
    let policy = policy("x/both").ingress(peer()).egress(peer()).build();
    let objects = [Object::from(server), Object::Policy(policy)];
    with_service(objects.into_iter().collect())
}

#[test]
fn what_a_pod_must_not_receive_does_not_let_it_answer() {
    let count = check(&isolated(), &Semantics::default()).expect("what the reference says");
    assert!(count > 0);
}

#[test]
fn what_a_pod_may_receive_it_answers_whatever_it_may_send() {
    let snapshot = isolated();
    let cluster = Cluster::new(&snapshot, &Semantics::default());
    let flows = representative_flows(&snapshot).into_iter();
    let mut allowed = flows.filter(|flow| {
        let judged = picket_reference::judge(&snapshot, &Semantics::default(), flow);
        let hops = cluster.hops(flow);
        judged.verdict().is_allow() && hops.is_some_and(|hops| is_from_outside(&hops))
    });
    let flow = allowed.next().expect("what is allowed");
    let hops = cluster.hops(&flow).expect("through the node");
    let ends = [&flow.source, &flow.destination].map(|end| cluster.address(end, &flow));
    let packet = Packet::opening(ends[0], ends[1], flow.protocol, flow.port);
    let mut running = cluster.start();
    assert!(running.passes(&hops, &packet) && running.answers(&hops, &packet, &packet));
}

/// The exception that `picket verify` names: each sends from the port at which it listens, as programs do that gossip.
#[test]
fn two_pods_that_are_kept_apart_exchange_what_both_send_between_the_same_ports() {
    let from = accept().peer(block("172.16.0.0/16", &[]));
    let policy = Object::Policy(policy("x/apart").ingress(from).build());
    let snapshot: Snapshot = pods_called(&["one", "other"]).chain([policy]).collect();
    let cluster = Cluster::new(&snapshot, &Semantics::default());
    let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().expect("an address"));
    let there = Packet {
        first: 7946,
        ..Packet::opening(one, other, Protocol::UDP, 7946)
    };
    let mut vpp = cluster.start().0.remove(&None).expect("a node");
    let mut passes = |from: &str, to: &str, packet: &Packet| {
        vpp.passes(from, Way::In, packet) && vpp.passes(to, Way::Out, packet)
    };
    for _ in 0..2 {
        assert!(!passes("x/one", "x/other", &there), "the other sends nothing");
    }
    for _ in 0..2 {
        assert!(passes("x/other", "x/one", &there.reply()));
        assert!(passes("x/one", "x/other", &there));
    }
}

/// VPP looks a session up by its interface and what is in the packet, on the way in and on the way out.
#[test]
fn a_session_is_of_both_ways_through_its_interface() {
    let snapshot = isolated();
    let cluster = Cluster::new(&snapshot, &Semantics::default());
    let (own, other) = ["10.0.0.1", "172.16.0.1"]
        .map(|address| address.parse().expect("an address"))
        .into();
    let packet = Packet::opening(own, other, Protocol::TCP, 80);
    for passing in [packet, packet.reply()] {
        for way in [Way::In, Way::Out] {
            let mut vpp = cluster.start().0.remove(&None).expect("a node");
            let before = way == Way::In && passing == packet;
            assert_eq!(vpp.passes("x/server", way, &passing), before, "{passing:?}");
            assert!(vpp.passes("x/server", Way::In, &packet));
            assert!(vpp.passes("x/server", way, &passing), "{passing:?}");
            assert!(!vpp.passes("uplink", Way::Out, &Packet { second: 81, ..packet }));
        }
    }
}

/// As lists were once: everything that came in for a pod was reflected, before anything had judged it.
#[test]
fn lists_that_reflect_what_is_denied_are_no_proof() {
    let snapshot = isolated();
    let engine = Engine::compile(&snapshot, Semantics::default());
    let mut acls = render(engine.program(), None, &Options::default());
    let proved = |acls: &_| verify(acls, engine.program(), None, |pod| vec![pod.pod().id().into()], 9);
    assert!(proved(&acls).is_proof());
    let uplink = acls.interfaces.get_mut("uplink").expect("an uplink");
    let mut rules = acls.acls[&uplink.input[0]].rules.clone();
    rules.retain(|rule| rule.source.length() == 0);
    rules[0].action = AclAction::PermitReflect;
    let acl = Acl::new(Role::FromOutside, rules);
    uplink.input[0] = acl.tag.clone();
    acls.acls.insert(acl.tag.clone(), Arc::new(acl));
    let report = proved(&acls);
    assert!(!report.counterexamples.is_empty());
    for found in report.counterexamples {
        assert_eq!(
            (found.interface.as_str(), found.way, found.fault),
            ("uplink", Way::In, Fault::Answered)
        );
    }
}

/// What comes in for a pod that may receive and send everything needs no rule.
#[test]
fn only_pods_that_may_not_send_everything_are_named_outside() {
    let closed = policy("x/closed")
        .selects("name=closed")
        .isolates(Direction::Egress);
    let pods = pods_called(&["open", "closed"]);
    let snapshot: Snapshot = pods.chain([Object::Policy(closed.build())]).collect();
    let engine = Engine::compile(&snapshot, Semantics::default());
    let acls = render(engine.program(), None, &Options::default());
    let rules: Vec<_> = acls.rules(&acls.interfaces["uplink"].input).collect();
    let shown: Vec<_> = rules.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "ipv4 permit+reflect src 0.0.0.0/0 dst 10.0.0.2/32 proto 0 sport 0-65535 dport 0-65535",
            "ipv4 permit src 0.0.0.0/0 dst 0.0.0.0/0 proto 0 sport 0-65535 dport 0-65535",
            "ipv6 permit src ::/0 dst ::/0 proto 0 sport 0-65535 dport 0-65535",
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_is_denied_opens_no_way_back(snapshot in snapshot(Shape::Dialects, 5), semantics in semantics()) {
        check(&with_service(snapshot), &semantics)?;
    }
}
