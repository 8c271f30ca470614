//! The documented layout means what the specification says.

use std::collections::BTreeMap;
use std::net::IpAddr;

use picket_cluster::{Endpoint, Flow, Semantics, Snapshot};
use picket_dataplane::{Crossing, Meaning, Packet};
use picket_engine::Engine;
use picket_nftables::meaning::Interpreter;
use picket_nftables::model::{InterfaceName, Table};
use picket_nftables::print;
use picket_nftables::render::documented::{Options, PodView, render};
use picket_policy::{Direction, ObjectRef};
use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, snapshot};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

fn semantics() -> impl Strategy<Value = Semantics> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(ipblock_matches_pods, accept_icmp, accept_icmpv6)| Semantics {
            ipblock_matches_pods,
            accept_icmp,
            accept_icmpv6,
        },
    )
}

/// The table of every managed pod, and whether some policy of its has no exact form.
fn tables(snapshot: &Snapshot, semantics: &Semantics) -> BTreeMap<ObjectRef, (Table, bool)> {
    let engine = Engine::compile(snapshot, semantics.clone());
    let eth0 = InterfaceName::new("eth0").expect("an interface name");
    let options = Options {
        accept_icmp: semantics.accept_icmp,
        accept_icmpv6: semantics.accept_icmpv6,
    };
    let managed = snapshot.live_pods().filter(|pod| pod.is_managed());
    managed
        .map(|pod| {
            let view = PodView::of(engine.program(), &pod.object, &eth0).expect("a pod of the snapshot");
            let (table, shortfalls) = render(&view, options).expect("a table");
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
fn packet(snapshot: &Snapshot, flow: &Flow, direction: Direction) -> Packet {
    let crossing = match direction {
        Direction::Ingress => Crossing::Receive { input: "eth0".into() },
        Direction::Egress => Crossing::Send {
            output: "eth0".into(),
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
    let tables = tables(snapshot, semantics);
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
            let accepted = interpreter.outcome(&packet).is_accept();
            let allowed = end.verdict.is_allow();
            prop_assert!(
                accepted == allowed || (*narrower && !accepted),
                "{direction} of {pod}: the table says {accepted}, the specification {end:?}\n{flow:?}\n{packet:?}\n{}",
                print::block(&tables[pod].0),
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn network_policies_mean_what_the_specification_says(
        snapshot in snapshot(Shape::V1, 5), semantics in semantics(),
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
