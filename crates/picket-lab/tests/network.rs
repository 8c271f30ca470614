//! A real network without policies: everything reaches everything.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use picket_cluster::{Snapshot, Verdict};
use picket_lab::{Network, Observation, Ports, Progress, Servers, Topology, all_pairs, ask};
use picket_linux::run_with_input;
use picket_net::Protocol;
use picket_testing::build::{accept, block, node, pod, policy};
use picket_testing::snapshot;

fn cluster() -> Snapshot {
    snapshot![
        node("n1").ip("172.16.0.1").ip("fd00::1"),
        pod("x/a")
            .ip("10.0.0.1")
            .ip("fd00:1::1")
            .declares(Protocol::TCP, 80),
        pod("x/b")
            .ip("10.0.0.2")
            .ip("fd00:1::2")
            .on("n1")
            .declares(Protocol::UDP, 53),
        pod("y/c")
            .ip("192.168.7.9")
            .on("n1")
            .declares(Protocol::SCTP, 132),
        pod("y/d").ip("fd00:1::4"),
        pod("y/host").ip("172.16.0.1").host_network().on("n1"),
        policy("x/p").ingress(accept().peer(block("203.0.113.0/24", &["203.0.113.0/28"]))),
    ]
}

#[test]
fn without_rulesets_every_pair_answers_on_every_port_in_both_families() {
    let topology = Topology::plan(&cluster(), 2, &BTreeSet::new()).unwrap();
    let network = Network::build(&topology, &Progress::hidden()).unwrap();
    let ports = Ports::of_snapshot(&topology.snapshot);
    let _servers = Servers::start(&network, &topology, &ports).unwrap();
    let probes: Vec<_> = all_pairs(&topology, &ports)
        .into_iter()
        .map(|probe| (probe, Verdict::Allow))
        .collect();
    let timeout = Duration::from_secs(1);
    let seen = ask(
        &network,
        &topology,
        &ports,
        &probes,
        timeout,
        0,
        &Progress::hidden(),
    )
    .unwrap();
    for ((probe, _), seen) in probes.iter().zip(seen) {
        let flow = probe.flow(&topology.hosts).unwrap();
        assert_eq!(seen, Observation::Answered, "{flow:?}");
    }
    assert!(probes.len() > 500, "{}", probes.len());
    // What is learnt counts towards the bound that all namespaces share.
    for place in network.places() {
        let mut ip = Command::new("ip");
        let namespace = network.namespace(place).unwrap();
        let shown = run_with_input(namespace, ip.args(["neigh", "show"]), b"", "iproute2").unwrap();
        let shown = String::from_utf8(shown).unwrap();
        assert!(!shown.is_empty(), "{place}");
        assert!(
            shown.lines().all(|line| line.ends_with("PERMANENT ")),
            "{place}: {shown}"
        );
    }
}
