//! The tables of all nodes together mean what the reference says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_cluster::{Endpoint, Flow, Pod, Reason, Semantics, Snapshot};
use picket_dataplane::{Crossing, Packet};
use picket_nftables::meaning::Interpreter;
use picket_nftables::model::Table;
use picket_policy::Direction;
use picket_testing::build::{accept, block, node, pod, policy};
use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, semantics, snapshot};
use proptest::prelude::*;
use smol_str::SmolStr;

use super::{table, table_with};

/// The tables of a cluster: one for each node, or one for all pods where there are no nodes.
pub(crate) struct Cluster<'a> {
    snapshot: &'a Snapshot,
    tables: BTreeMap<Option<SmolStr>, Table>,
}

impl<'a> Cluster<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, semantics: &Semantics) -> Self {
        let nodes: Vec<Option<SmolStr>> = if snapshot.nodes.is_empty() {
            vec![None]
        } else {
            snapshot.nodes.keys().cloned().map(Some).collect()
        };
        let table = |node: &Option<SmolStr>| table_with(snapshot, semantics, node.as_deref());
        let tables = nodes
            .into_iter()
            .map(|node| (node.clone(), table(&node)))
            .collect();
        Self { snapshot, tables }
    }

    fn pod(&self, endpoint: &Endpoint) -> Option<&'a Pod> {
        match endpoint {
            Endpoint::Pod(object) => self.snapshot.pods.get(object).map(|pod| &**pod),
            Endpoint::Node { .. } | Endpoint::External(_) => None,
        }
    }

    fn address(&self, endpoint: &Endpoint, flow: &Flow) -> IpAddr {
        match endpoint {
            Endpoint::Node { address, .. } | Endpoint::External(address) => *address,
            Endpoint::Pod(_) => {
                let pod = self.pod(endpoint).expect("a pod of the snapshot");
                pod.addresses.of(flow.family).expect("an address of the family")
            }
        }
    }

    /// The node that an endpoint is, if it is one.
    fn as_node(&self, endpoint: &Endpoint) -> Option<SmolStr> {
        match endpoint {
            Endpoint::Node { name, .. } => Some(name.clone()),
            Endpoint::External(_) => None,
            Endpoint::Pod(_) => self.pod(endpoint).filter(|pod| pod.host_network)?.node.clone(),
        }
    }

    /// The packets that open a connection, each with the node that sees it; `None` when an end runs nowhere.
    pub(crate) fn packets(&self, flow: &Flow) -> Option<BTreeSet<(Option<SmolStr>, Packet)>> {
        let (source, destination) = (
            self.address(&flow.source, flow),
            self.address(&flow.destination, flow),
        );
        let mut packets = BTreeSet::new();
        for (end, other, is_source) in [
            (&flow.source, &flow.destination, true),
            (&flow.destination, &flow.source, false),
        ] {
            let Some(pod) = self.pod(end).filter(|pod| !pod.host_network) else {
                continue;
            };
            let node = pod.node.clone();
            if !self.tables.contains_key(&node) && !self.snapshot.nodes.is_empty() {
                return None;
            }
            let inside: SmolStr = "pod".into();
            let crossing = match (self.as_node(other) == node && node.is_some(), is_source) {
                (true, true) => Crossing::Receive { input: inside },
                (true, false) => Crossing::Send { output: inside },
                (false, _) => Crossing::Forward {
                    input: inside.clone(),
                    output: inside,
                },
            };
            let table = if self.snapshot.nodes.is_empty() {
                None
            } else {
                node
            };
            let packet = Packet::opening(crossing, source, destination, flow.protocol, flow.port);
            packets.insert((table, packet));
        }
        Some(packets)
    }

    /// If every node lets the first packet pass, the directions in which it is audited; checks that nobody's marks are touched.
    pub(crate) fn passes(
        &self,
        packets: &BTreeSet<(Option<SmolStr>, Packet)>,
        disguise: u32,
    ) -> Option<BTreeSet<Direction>> {
        let mut audited = BTreeSet::new();
        let passes = packets.iter().all(|(node, packet)| {
            let packet = Packet {
                mark: disguise,
                connection_mark: disguise.rotate_left(16),
                priority: disguise % 8,
                ..packet.clone()
            };
            let passage = Interpreter::new(&self.tables[node]).pass(&packet);
            let left = &passage.packet;
            assert_eq!(
                (left.mark, left.connection_mark),
                (packet.mark, packet.connection_mark)
            );
            if let Crossing::Forward { output, .. } = &packet.crossing {
                // The same happens where the kernel's load balancer sends it on.
                let output = output.clone();
                let relayed = Packet {
                    crossing: Crossing::Relay { output },
                    ..packet.clone()
                };
                let relayed = Interpreter::new(&self.tables[node]).pass(&relayed);
                assert_eq!(relayed.outcome.is_accept(), passage.outcome.is_accept());
                assert_eq!(relayed.counted, passage.counted);
                if passage.outcome.is_accept() {
                    let priorities = [left.priority, relayed.packet.priority];
                    assert_eq!(priorities, [packet.priority; 2], "{packet:?}");
                }
            }
            let counted = |direction: &Direction| {
                let prefix = format!("audit-{direction}-");
                passage
                    .counted
                    .iter()
                    .any(|name| name.as_str().starts_with(&prefix))
            };
            audited.extend(Direction::BOTH.into_iter().filter(counted));
            passage.outcome.is_accept()
        });
        passes.then_some(audited)
    }
}

/// Every representative packet gets the verdict that the reference gives to what `seen` makes of its flow.
pub(crate) fn check(snapshot: &Snapshot, semantics: &Semantics, seen: impl Fn(&Cluster<'_>, &Flow) -> Flow) {
    let cluster = Cluster::new(snapshot, semantics);
    for (index, flow) in (0_u32..).zip(representative_flows(snapshot)) {
        let Some(packets) = cluster.packets(&flow) else {
            continue;
        };
        let expected = picket_reference::judge(snapshot, semantics, &seen(&cluster, &flow));
        // One interface of a pod reaches another over `lo`.
        if flow.source != flow.destination && expected.egress.reason == Reason::SamePod {
            continue;
        }
        let passes = cluster.passes(&packets, index.wrapping_mul(0x9e37_79b9));
        let ends = [
            (Direction::Egress, &expected.egress),
            (Direction::Ingress, &expected.ingress),
        ];
        let audited = ends.into_iter().filter(|(_, end)| !end.audited.is_empty());
        assert_eq!(
            passes,
            expected
                .verdict()
                .is_allow()
                .then(|| audited.map(|(direction, _)| direction).collect()),
            "{flow:?}\n{expected:?}\n{packets:?}"
        );
    }
}

/// The flow as packets show it: a hostNetwork pod sends from its node's address, and peers that are nodes, which only
/// tiered policies name, mean that address.
pub(crate) fn on_the_wire(cluster: &Cluster<'_>, flow: &Flow) -> Flow {
    let seen = |end: &Endpoint| match cluster.as_node(end) {
        Some(name) => Endpoint::Node {
            name,
            address: cluster.address(end, flow),
        },
        None => end.clone(),
    };
    Flow {
        source: seen(&flow.source),
        destination: seen(&flow.destination),
        ..flow.clone()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn network_policies_mean_what_the_reference_says(snapshot in snapshot(Shape::V1, 4), semantics in semantics()) {
        check(&snapshot, &semantics, |_, flow| flow.clone());
    }

    #[test]
    fn tiers_mean_what_the_reference_says(snapshot in snapshot(Shape::Custom, 4), semantics in semantics()) {
        check(&snapshot, &semantics, on_the_wire);
    }
}

#[test]
fn a_node_without_restricted_pods_looks_at_nothing() {
    let cluster = picket_testing::snapshot![
        node("one"),
        node("two"),
        pod("x/a").ip("10.0.0.1").on("one"),
        policy("x/p").ingress(accept().peer(block("10.0.0.0/8", &[]))),
    ];
    let idle = table(&cluster, Some("two"));
    assert!(idle.sets().is_empty() && idle.maps().is_empty() && idle.counters().is_empty());
    assert!(idle.chains().iter().all(|chain| chain.rules.is_empty()));
    assert!(table(&cluster, Some("one")).maps().len() > 1);
}
