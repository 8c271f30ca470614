//! Packets of pods that come back to them through a service, with the address of the node's translation.

use picket_cluster::{Endpoint, Flow, Node, Object, Semantics, Snapshot};
use picket_net::{Family, Protocol};
use picket_policy::{Direction, Labels};
use picket_testing::build::{pod, policy, prefix};
use picket_testing::generate::{Shape, semantics, snapshot};
use picket_vpp::acl::meaning::{Packet, Way};
use picket_vpp::acl::text;
use picket_vpp::loopback;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::acl::{SERVICE, check, with_service};
use crate::journey::Cluster;

/// The same with a service, where nodes have the addresses of their translation.
fn with_loopbacks(snapshot: Snapshot) -> Snapshot {
    let mut snapshot = with_service(snapshot);
    loopback::add(&mut snapshot);
    snapshot
}

/// Sends from each pod to an address of a service that is translated to the pod itself, and back. Gives how often that passed.
fn come_back(snapshot: &Snapshot, semantics: &Semantics) -> Result<usize, TestCaseError> {
    let cluster = Cluster::new(snapshot, semantics);
    let mut count = 0;
    for pod in snapshot.live_pods().filter(|pod| !pod.host_network) {
        let Some(node) = pod.node.as_ref().and_then(|node| snapshot.nodes.get(node)) else {
            continue;
        };
        for own in pod.addresses.iter() {
            let family = Family::of(own);
            let mut of_nat = loopback::of(node).into_iter();
            // A pod may have it.
            let is_its = |address: &_| Family::of(*address) == family && node.addresses.contains(address);
            let Some(of_nat) = of_nat.find(is_its) else {
                continue;
            };
            let service = SERVICE[usize::from(own.is_ipv6())];
            let before = Packet::opening(own, service.parse().expect("an address"), Protocol::TCP, 80);
            let after = Packet {
                source: of_nat,
                destination: own,
                ..before
            };
            let back = Flow {
                source: Endpoint::Node {
                    name: node.name.clone(),
                    address: of_nat,
                },
                destination: Endpoint::Pod(pod.object.clone()),
                family,
                protocol: Protocol::TCP,
                port: 80,
            };
            // Only the cluster's default can keep its node from a pod.
            let judged = picket_reference::judge(snapshot, semantics, &back);
            let allowed = judged.verdict().is_allow();
            let hops = [Way::In, Way::Out].map(|way| cluster.at(pod, way));
            let mut running = cluster.start();
            let lists = || cluster.acls.values().map(text).collect::<Vec<_>>().join("\n");
            let passes = running.translated(&hops, &before, &after);
            prop_assert_eq!(passes, allowed, "{:?}\n{}", before, lists());
            let answered = running.answers(&hops, &before, &after);
            prop_assert!(answered || !passes, "no answer: {before:?}\n{}", lists());
            count += usize::from(passes);
        }
    }
    Ok(count)
}

#[test]
fn a_pod_reaches_itself_through_a_service_whatever_its_policies_say() {
    let node = Node {
        name: "a".into(),
        labels: Labels::default(),
        addresses: ["192.168.0.1".parse().expect("an address")].into(),
        pod_cidrs: vec![prefix("10.20.0.0/24"), prefix("fd00:20::/64")],
    };
    let server = pod("x/server").ip("10.0.0.1").ip("fd00::1").on("a").build();
    let none = policy("x/none")
        .isolates(Direction::Ingress)
        .isolates(Direction::Egress);
    let objects = [
        Object::Node(node),
        Object::from(server),
        Object::Policy(none.build()),
    ];
    let snapshot = with_loopbacks(objects.into_iter().collect());
    let count = come_back(&snapshot, &Semantics::default()).expect("what the reference says");
    assert_eq!(count, 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_address_of_a_nodes_translation_counts_as_the_nodes(
        snapshot in snapshot(Shape::Dialects, 5),
        semantics in semantics(),
    ) {
        let snapshot = with_loopbacks(snapshot);
        check(&snapshot, &semantics)?;
        come_back(&snapshot, &semantics)?;
    }
}
