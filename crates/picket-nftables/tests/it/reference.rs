//! The documented layout means what the specification says.

use std::collections::BTreeMap;
use std::net::IpAddr;

use picket_cluster::{Cause, Endpoint, Flow, Object, Semantics, Snapshot};
use picket_dataplane::{Crossing, Packet};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_nftables::custom::CustomRules;
use picket_nftables::meaning::Interpreter;
use picket_nftables::model::{InterfaceName, Table};
use picket_nftables::print;
use picket_nftables::render::documented::{Options, OtherEnds, PodView, render};
use picket_policy::{Direction, ObjectRef, Tier};
use picket_testing::build::{
    accept, admin_policy, baseline_policy, block, deny, node, nodes_where, pod, policy,
};
use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, semantics, snapshot};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::custom::custom_rules;

/// The tables of pods, each with whether it means less than the policies say.
pub(crate) type Tables = BTreeMap<ObjectRef, (Table, bool)>;

/// The table of every managed pod, and whether some policy of its has no exact form.
pub(crate) fn tables(snapshot: &Snapshot, semantics: &Semantics) -> Tables {
    tables_with(snapshot, semantics, Vec::new())
}

/// The same, with custom rules, which the snapshot has as policies.
fn tables_with(snapshot: &Snapshot, semantics: &Semantics, custom: Vec<CustomRules>) -> Tables {
    let engine = Engine::compile(snapshot, semantics.clone());
    let eth0 = InterfaceName::new("eth0").expect("an interface name");
    let options = Options {
        accept_icmp: semantics.accept_icmp,
        accept_icmpv6: semantics.accept_icmpv6,
        custom,
        count_drops: true,
        ..Options::default()
    };
    let managed = snapshot.live_pods().filter(|pod| pod.is_managed());
    managed
        .map(|pod| {
            let view = PodView::of(engine.program(), &OtherEnds::default(), &pod.object, &eth0)
                .expect("a pod of the snapshot");
            let (table, shortfalls) = render(&view, &options).expect("a table");
            (pod.object.clone(), (table, !shortfalls.is_empty()))
        })
        .collect()
}

fn address(snapshot: &Snapshot, endpoint: &Endpoint, flow: &Flow) -> IpAddr {
    match endpoint {
        Endpoint::Pod(pod) => snapshot.pods[pod]
            .addresses
            .of(flow.family)
            .expect("an address of the family"),
        Endpoint::Node { address, .. } | Endpoint::External(address) => *address,
    }
}

/// What the pod at one end sees of a flow.
pub(crate) fn packet(snapshot: &Snapshot, flow: &Flow, direction: Direction) -> Packet {
    packet_over("eth0", snapshot, flow, direction)
}

/// What the pod at one end sees of a flow over one of its interfaces.
pub(crate) fn packet_over(interface: &str, snapshot: &Snapshot, flow: &Flow, direction: Direction) -> Packet {
    let crossing = match direction {
        Direction::Ingress => Crossing::Receive {
            input: interface.into(),
        },
        Direction::Egress => Crossing::Send {
            output: interface.into(),
        },
    };
    let (source, destination) = (
        address(snapshot, &flow.source, flow),
        address(snapshot, &flow.destination, flow),
    );
    // Where a protocol has no ports, something stands there all the same.
    let port = if flow.protocol.has_ports() { flow.port } else { 80 };
    Packet::opening(crossing, source, destination, flow.protocol, port)
}

/// Holds every representative flow of a snapshot against the specification, at both ends.
fn check(snapshot: &Snapshot, semantics: &Semantics) -> Result<(), TestCaseError> {
    check_tables(snapshot, semantics, &tables(snapshot, semantics))
}

fn check_tables(snapshot: &Snapshot, semantics: &Semantics, tables: &Tables) -> Result<(), TestCaseError> {
    let interpreters: BTreeMap<_, _> = tables
        .iter()
        .map(|(pod, (table, narrower))| (pod, (Interpreter::new(table), *narrower)))
        .collect();
    for flow in representative_flows(snapshot) {
        // A pod reaches itself over `lo`.
        if flow.source == flow.destination {
            continue;
        }
        let judgement = picket_reference::judge(snapshot, semantics, &flow);
        for (direction, endpoint, end) in [
            (Direction::Egress, &flow.source, &judgement.egress),
            (Direction::Ingress, &flow.destination, &judgement.ingress),
        ] {
            let Endpoint::Pod(pod) = endpoint else { continue };
            let Some((interpreter, narrower)) = interpreters.get(pod) else {
                continue;
            };
            let packet = packet(snapshot, &flow, direction);
            let passage = interpreter.pass(&packet);
            let accepted = passage.outcome.is_accept();
            let allowed = end.verdict.is_allow();
            prop_assert!(
                accepted == allowed || (*narrower && !accepted),
                "{direction} of {pod}: the table says {accepted}, the specification {end:?}\n{flow:?}\n{packet:?}\n{}",
                print::block(&tables[pod].0),
            );
            // What tiers say is not counted in this layout, nor is anything where it denies more than they do.
            let is_said = |cause: &Cause| {
                let tier = snapshot.policies[&cause.object].tier;
                [Tier::Custom, Tier::NetworkPolicy].contains(&tier)
            };
            if accepted && !*narrower && end.causes.iter().chain(&end.audited).all(is_said) {
                let prefix = format!("audit-{direction}-");
                let counted = passage
                    .counted
                    .iter()
                    .any(|name| name.as_str().starts_with(&prefix));
                prop_assert_eq!(
                    counted,
                    !end.audited.is_empty(),
                    "{} of {}: {:?}\n{:?}\n{}",
                    direction,
                    pod,
                    end,
                    packet,
                    print::block(&tables[pod].0),
                );
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn custom_rules_mean_what_the_specification_says(
        mut snapshot in prop_oneof![snapshot(Shape::V1, 5), snapshot(Shape::Tiered, 4)],
        (accept_icmp, accept_icmpv6) in (any::<bool>(), any::<bool>()),
        custom in custom_rules(),
    ) {
        let semantics = Semantics { accept_icmp, accept_icmpv6, ..Semantics::default() };
        picket_nftables::custom::add(&custom, &mut snapshot, "eth0");
        let tables = tables_with(&snapshot, &semantics, custom);
        check_tables(&snapshot, &semantics, &tables)?;
    }

    #[test]
    fn network_policies_mean_what_the_specification_says(
        snapshot in prop_oneof![snapshot(Shape::V1, 5), snapshot(Shape::ThreeValued, 4)], semantics in semantics(),
    ) {
        check(&snapshot, &semantics)?;
    }

    #[test]
    fn any_policies_mean_at_most_what_the_specification_says(
        snapshot in snapshot(Shape::Tiered, 4), semantics in semantics(),
    ) {
        check(&snapshot, &semantics)?;
    }
}

/// Every choice of semantics.
fn every_semantics() -> impl Iterator<Item = Semantics> {
    (0..8).map(|bits| Semantics {
        ipblock_matches_pods: bits & 1 == 0,
        accept_icmp: bits & 2 == 0,
        accept_icmpv6: bits & 4 == 0,
    })
}

#[test]
fn what_is_rare_in_random_clusters_means_what_the_specification_says() {
    let web = || {
        pod("x/web")
            .ip("10.0.0.1")
            .ip("fd00::1")
            .on("n1")
            .port("http", Protocol::TCP, 8080)
    };
    let api = || {
        pod("x/api")
            .ip("10.0.0.2")
            .ip("fd00::2")
            .on("n2")
            .port("http", Protocol::TCP, 80)
    };
    let made_up = || {
        pod("x/made-up")
            .ip("198.18.0.10")
            .ip("2001:2::a")
            .synthetic()
            .port("http", Protocol::TCP, 81)
    };
    let host = || {
        pod("x/host")
            .ip("192.0.2.1")
            .on("n1")
            .host_network()
            .port("http", Protocol::TCP, 82)
    };
    let nodes = || {
        [
            node("n1").ip("192.0.2.1").ip("fd00:ffff::1"),
            node("n2").ip("192.0.2.2").label("role", "edge"),
        ]
        .map(Object::from)
    };
    let tcp = |port| accept().port(Protocol::TCP, port);
    let named = || accept().named("http", Protocol::TCP);
    for (sentence, policies) in [
        (
            "a block matches made-up addresses only when it is everything",
            vec![
                policy("x/a")
                    .isolates(Direction::Ingress)
                    .ingress(tcp(1).peer(block("198.18.0.0/15", &[])))
                    .ingress(tcp(2).peer(block("0.0.0.0/0", &[])))
                    .ingress(tcp(3).peer(block("0.0.0.0/0", &["198.18.0.10/32"])))
                    .ingress(tcp(4).peer(block("::/0", &[])).peer(block("2001:2::/48", &[]))),
            ],
        ),
        (
            "an exception takes nothing from another block of the rule",
            vec![
                policy("x/a").isolates(Direction::Egress).egress(
                    tcp(1)
                        .peer(block("10.0.0.0/8", &["10.0.0.0/24"]))
                        .peer(block("10.0.0.2/32", &[])),
                ),
            ],
        ),
        (
            "a port by name means another number on each peer, and nothing on what is no pod",
            vec![
                policy("x/a")
                    .isolates(Direction::Egress)
                    .isolates(Direction::Ingress)
                    .egress(named())
                    .ingress(named().port(Protocol::TCP, 9)),
            ],
        ),
        (
            "a port by name counts for the addresses that a block holds, not for the pod",
            vec![
                policy("x/a")
                    .isolates(Direction::Egress)
                    .egress(named().peer(block("10.0.0.0/31", &[]))),
            ],
        ),
        (
            "another port of the same protocol takes nothing from the whole protocol",
            vec![
                policy("x/a").isolates(Direction::Egress).egress(
                    tcp(80)
                        .protocol(Protocol::TCP)
                        .protocol(Protocol::from_number(47)),
                ),
            ],
        ),
        (
            "an Admin deny of the own node comes first in egress, and last in ingress",
            vec![
                admin_policy("a", 1).egress(deny()).ingress(deny()),
                policy("x/a").isolates(Direction::Egress).egress(accept()),
            ],
        ),
        (
            "a Baseline deny comes after the own node",
            vec![baseline_policy("a", 1).egress(deny()).ingress(deny())],
        ),
        (
            "nodes are peers by their addresses",
            vec![
                policy("x/a")
                    .isolates(Direction::Ingress)
                    .ingress(tcp(1).peer(nodes_where("role=edge"))),
            ],
        ),
    ] {
        let pods = [web(), api(), made_up(), host()].map(Object::from);
        let policies = policies.into_iter().map(Object::from);
        let snapshot: Snapshot = pods.into_iter().chain(nodes()).chain(policies).collect();
        for semantics in every_semantics() {
            let checked = check(&snapshot, &semantics);
            assert!(checked.is_ok(), "{sentence}: {semantics:?}: {checked:?}");
        }
    }
}
