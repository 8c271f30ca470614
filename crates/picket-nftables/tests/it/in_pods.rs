//! Packets that a pod's table judges while another takes its place.

use std::cell::Cell;

use picket_cluster::{Event, Object, Snapshot, Store};
use picket_dataplane::{Objects, Packet};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_nftables::diff::{PORTION, Stages, mixes};
use picket_nftables::meaning::Interpreter;
use picket_nftables::model::{InterfaceName, Table};
use picket_nftables::print;
use picket_nftables::render::documented::{Options, OtherEnds, PodView, render};
use picket_policy::{Direction, ObjectRef};
use picket_testing::build::{accept, pod, pods_in, policy};
use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, cluster, events, policies};
use picket_testing::snapshot;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use crate::reference::packet;

/// No packet asks the sets of a table more often.
const LOOKUPS: usize = 30;

/// At most so many packets are sent over each change, at each pod.
const PACKETS: usize = 80;

/// The flag of TCP in the middle of a connection.
const ACK: u8 = 0x10;

/// The table of a pod, if there is such a pod.
fn table(cluster: &Snapshot, pod: &ObjectRef, options: &Options) -> Option<Table> {
    let eth0 = InterfaceName::new("eth0").expect("an interface name");
    let engine = Engine::compile(cluster, Default::default());
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
                if matches!(end, picket_cluster::Endpoint::Pod(object) if object == pod) {
                    packets.push(packet(cluster, &flow, direction));
                }
            }
        }
    }
    let step = packets.len().div_ceil(PACKETS).max(1);
    let packets: Vec<_> = packets.into_iter().step_by(step).collect();
    let going_on = packets.iter().filter(|packet| packet.protocol == Protocol::TCP);
    let going_on = going_on.map(|packet| Packet {
        tcp_flags: Some(ACK),
        ..packet.clone()
    });
    let going_on: Vec<_> = going_on.collect();
    packets.into_iter().chain(going_on).collect()
}

/// Nobody passes on the way from one table to another who does not before or after it.
fn nobody_slips_through(old: &Table, new: &Table, packets: &[Packet]) -> Result<(), TestCaseError> {
    let plan = Table::difference(Some(old), new);
    let stages = Stages::of(Some(old), &plan, PORTION);
    let transactions: Vec<_> = match &stages {
        Some(stages) => stages.all().cloned().collect(),
        None => vec![plan],
    };
    let mut tables = vec![old.clone()];
    for transaction in &transactions {
        let now = Table::applied(tables.last(), transaction).expect("the kernel takes it");
        tables.push(now);
    }
    let passes = |table: &Table, packet| Interpreter::new(table).pass(packet).outcome.is_accept();
    for packet in packets
        .iter()
        .filter(|packet| !passes(old, packet) && !passes(new, packet))
    {
        for (at, pair) in tables.windows(2).enumerate() {
            for lookups in 0..LOOKUPS {
                let between = Interpreter::overtaken(&pair[0], &pair[1], lookups).pass(packet);
                prop_assert!(
                    !between.outcome.is_accept(),
                    "after {} lookups, {:?}:\n{}\nbefore:\n{}",
                    lookups,
                    packet,
                    print::commands(old.name(), &transactions[at]),
                    print::text(&pair[0])
                );
            }
        }
    }
    Ok(())
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
                let mut before = store.snapshot();
                for events in events.chunks(at_once) {
                    for event in events {
                        store.apply(event.clone());
                    }
                    let now = store.snapshot();
                    for pod in before.live_pods().filter(|pod| pod.is_managed()) {
                        let tables = [&before, &now].map(|cluster| table(cluster, &pod.object, &options));
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
                    before = now;
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
    let tables = clusters
        .each_ref()
        .map(|cluster| table(cluster, &own, &Options::default()));
    let [old, new] = tables.map(|table| table.expect("the pod is there"));
    assert!(mixes(&old, &Table::difference(Some(&old), &new)));
    let [before, now] = &clusters;
    let packets = packets([before, now], &own);
    assert!(nobody_slips_through(&old, &new, &packets).is_err());
}
