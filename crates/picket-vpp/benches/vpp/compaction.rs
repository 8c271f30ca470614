//! How many rules there are where adjacent prefixes and ports are joined, and how many there would be.

use std::collections::BTreeSet;

use picket_cluster::Semantics;
use picket_engine::{Engine, Program};
use picket_net::{Family, Prefix, Protocol, TrafficSet};
use picket_policy::Direction;
use picket_testing::synthetic::{self, Size};
use picket_vpp::acl::{Acls, Options, render};

const NODE: &str = "node-0";

/// Nodes of 110 pods in clusters of several sizes.
pub(crate) fn measure() {
    for size in [Size::of(110, 12, 250), Size::of(1_000, 110, 2_500), Size::REAL] {
        let mut snapshot = synthetic::cluster(size);
        synthetic::crowd(&mut snapshot, NODE);
        let engine = Engine::compile(&snapshot, Semantics::default());
        let program = engine.program();
        let acls = render(program, Some(NODE), &Options::default());
        println!(
            "{} pods, {} policies; 110 pods of one node",
            size.pods, size.policies
        );
        for (what, direction) in [
            ("sent out of the node", Direction::Egress),
            ("received", Direction::Ingress),
        ] {
            let [every, ranges] = [true, false].map(|every_port| uncompacted(program, direction, every_port));
            let made = compacted(&acls, program, direction);
            println!(
                "  what may be {what:<21} {every:>8} rules for each address, block and port; {ranges:>8} with ranges of ports; {made:>7} here, 1 of {:.1}",
                every as f64 / made as f64
            );
        }
    }
}

/// One rule for each address, each piece of a block without its exceptions, and each port; and one that denies the rest.
fn uncompacted(program: &Program, direction: Direction, every_port: bool) -> usize {
    let mut count = 0;
    for pod in program.pods_on(NODE) {
        let Some(subject) = pod.subject(direction) else {
            continue;
        };
        for (traffic, peers) in program.allow_set(subject).entries() {
            let ports = rules_of(traffic, every_port);
            for identity in program.identities().filter(|one| peers.contains(one.number())) {
                let pods = program.pods_with(identity).len();
                let nodes = program.nodes_with(identity).len();
                let pieces: BTreeSet<Prefix> = program
                    .region(identity)
                    .ranges()
                    .flat_map(|range| range.prefixes())
                    .collect();
                count += (pods + nodes + pieces.len()) * ports;
            }
        }
        count += Family::BOTH.len();
    }
    count
}

fn rules_of(traffic: &TrafficSet, every_port: bool) -> usize {
    if traffic.is_all() {
        return 1;
    }
    let of = |protocol: Protocol| {
        let ranges = traffic
            .ports(protocol)
            .into_iter()
            .flat_map(|ports| ports.ranges());
        ranges
            .map(
                |range| match range.first() == 1 && range.last() == u16::MAX || !every_port {
                    true => 1,
                    false => usize::from(range.last() - range.first()) + 1,
                },
            )
            .sum::<usize>()
    };
    Protocol::WITH_PORTS.into_iter().map(of).sum()
}

/// The rules that are there, of each pod on its own: the global list, or those to pods.
fn compacted(acls: &Acls, program: &Program, direction: Direction) -> usize {
    match direction {
        Direction::Egress => {
            let uplink = &acls.interfaces["uplink"];
            let tags: Vec<_> = uplink.output.to_vec();
            acls.rules(&tags).count()
        }
        Direction::Ingress => {
            let pods = program.pods_on(NODE);
            let pods = pods.iter().filter(|pod| pod.subject(direction).is_some());
            let lists = pods.filter_map(|pod| acls.interfaces.get(pod.pod().id().as_str()));
            lists.map(|lists| acls.rules(&lists.output).count()).sum()
        }
    }
}
