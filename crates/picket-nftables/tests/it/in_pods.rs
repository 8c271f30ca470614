//! Packets that a pod's table judges while another takes its place.

use std::cell::Cell;

use picket_cluster::{Endpoint, Event, Object, Semantics, Snapshot, Store};
use picket_dataplane::{Objects, Packet};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_nftables::diff::mixes;
use picket_nftables::model::{InterfaceName, Table};
use picket_nftables::render::documented::{Options, OtherEnds, PodView, render};
use picket_policy::{Direction, ObjectRef};
use picket_testing::build::{accept, pod, pods_in, policy};
use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, cluster, events, policies};
use picket_testing::snapshot;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use crate::overtaken::{self, mid_stream, way};
use crate::reference::packet;

/// At most so many packets are sent over each change, at each pod.
const PACKETS: usize = 80;

/// The table of a pod, if there is such a pod.
fn table(engine: &Engine, pod: &ObjectRef, options: &Options) -> Option<Table> {
    let eth0 = InterfaceName::new("eth0").expect("an interface name");
    let view = PodView::of(engine.program(), &OtherEnds::default(), pod, &eth0)?;
    Some(render(&view, options).expect("a table").0)
}

/// What a pod sends and receives in two clusters.
fn packets(clusters: [&Snapshot; 2], pod: &ObjectRef) -> Vec<Packet> {
    let mut packets = Vec::new();
    for cluster in clusters {
        for flow in representative_flows(cluster) {
            for direction in Direction::BOTH {
                let end = match direction {
                    Direction::Ingress => &flow.destination,
                    Direction::Egress => &flow.source,
                };
                if matches!(end, Endpoint::Pod(object) if object == pod) {
                    packets.push(packet(cluster, &flow, direction));
                }
            }
        }
    }
    let step = packets.len().div_ceil(PACKETS).max(1);
    let packets: Vec<_> = packets.into_iter().step_by(step).collect();
    let going_on = packets.iter().filter(|packet| packet.protocol == Protocol::TCP);
    let going_on = going_on.cloned().map(mid_stream);
    let going_on: Vec<_> = going_on.collect();
    packets.into_iter().chain(going_on).collect()
}

/// Nobody passes on the way from one table to another who does not before or after it.
fn nobody_slips_through(old: &Table, new: &Table, packets: &[Packet]) -> Result<(), TestCaseError> {
    overtaken::nobody_slips_through(old, &way(old, new), packets, "of a pod", Table::clone)
}

/// Where a change is made without another table beside it, which judges every packet by the new rules alone.
#[test]
fn where_nothing_stands_in_nobody_passes_in_between() {
    let [alone, behind] = [(); 2].map(|()| Cell::new(0));
    let config = Config {
        cases: 600,
        failure_persistence: None,
        ..Config::default()
    };
    let changes = (
        cluster(),
        policies(Shape::V1, 5),
        events(Shape::V1, 8),
        1..4_usize,
        any::<bool>(),
    );
    TestRunner::new(config)
        .run(
            &changes,
            |(cluster, policies, events, at_once, refuse_mid_stream)| {
                let options = Options {
                    refuse_mid_stream,
                    count_drops: refuse_mid_stream,
                    ..Options::default()
                };
                let mut store = Store::new();
                let policies = policies.into_iter().map(Object::Policy);
                for object in cluster.into_iter().chain(policies) {
                    store.apply(Event::Apply(object));
                }
                let compiled = |cluster: &Snapshot| Engine::compile(cluster, Semantics::default());
                let mut before = store.snapshot();
                let mut engine = compiled(&before);
                for events in events.chunks(at_once) {
                    for event in events {
                        store.apply(event.clone());
                    }
                    let now = store.snapshot();
                    let next = compiled(&now);
                    for pod in before.live_pods().filter(|pod| pod.is_managed()) {
                        let tables = [&engine, &next].map(|engine| table(engine, &pod.object, &options));
                        let [Some(old), Some(new)] = &tables else { continue };
                        if old == new {
                            continue;
                        }
                        let plan = Table::difference(Some(old), new);
                        if mixes(old, &plan) {
                            behind.set(behind.get() + 1);
                            continue;
                        }
                        alone.set(alone.get() + 1);
                        nobody_slips_through(old, new, &packets([&before, &now], &pod.object))?;
                    }
                    (before, engine) = (now, next);
                }
                Ok(())
            },
        )
        .unwrap();
    let met = [alone, behind].map(Cell::into_inner);
    assert!(met[0] > 300 && met[1] > 10, "{met:?}");
}

/// A policy that is about other peers and other ports from one moment to the next.
#[test]
fn where_another_table_stands_in_somebody_would_pass_without_it() {
    let cluster = |peer: &str, port: u16| {
        let lets_in = accept().peer(pods_in("x", peer)).port(Protocol::UDP, port);
        let at = |id: &str, name: &str, address: &str| pod(id).label("name", name).ip(address);
        snapshot![
            at("x/own", "own", "10.0.0.1"),
            at("x/a", "a", "10.0.0.2"),
            at("x/b", "b", "10.0.0.3"),
            policy("x/p").selects("name=own").ingress(lets_in)
        ]
    };
    let clusters = [cluster("name=a", 80), cluster("name=b", 81)];
    let own = ObjectRef::new("Pod", "x", "own");
    let tables = clusters.each_ref().map(|cluster| {
        let engine = Engine::compile(cluster, Semantics::default());
        table(&engine, &own, &Options::default())
    });
    let [old, new] = tables.map(|table| table.expect("the pod is there"));
    assert!(mixes(&old, &Table::difference(Some(&old), &new)));
    let [before, now] = &clusters;
    let packets = packets([before, now], &own);
    assert!(nobody_slips_through(&old, &new, &packets).is_err());
}
