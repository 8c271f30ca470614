//! Clusters in which every dialect and every tier meet, on the cluster network and on each other network: what is
//! written is what is read, reference and engine say the same, and what is rendered means it and is proved.

use std::collections::BTreeSet;

use picket_cluster::{Attachment, Pod, Semantics, Snapshot, resolve_domains};
use picket_engine::Engine;
use picket_net::Family;
use picket_policy::{ClusterDefault, Direction, Hosts, Policy, Position, Tier};
use picket_testing::flows::representative_flows;
use picket_testing::generate::{self, HOSTS, Shape, snapshot};
use picket_testing::manifest::{self, Style};
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestCaseError};

use crate::custom::{self, custom_rules};
use crate::networks::{self, networks};
use crate::{indexed, verify};

/// A policy without the places of its text.
fn without_places(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    policy.position = Position::unknown();
    for rule in policy.ingress.rules.iter_mut().chain(&mut policy.egress.rules) {
        rule.position = Position::unknown();
    }
    policy
}

/// What a manifest says of a pod: no addresses of workloads, and none that are made up.
fn as_written(pod: &Pod) -> Pod {
    let known = pod.object.kind == "Pod" && !pod.synthetic;
    let finished = pod.object.kind == "Pod" && pod.finished;
    let attachments = pod.attachments.iter().map(|own| Attachment {
        addresses: own.addresses.iter().filter(|_| !own.synthetic).collect(),
        ..own.clone()
    });
    Pod {
        addresses: pod.addresses.iter().filter(|_| known).collect(),
        synthetic: !known && !finished,
        finished,
        owner: pod.owner.clone().filter(|_| pod.object.kind == "Pod"),
        attachments: attachments.collect(),
        ..pod.clone()
    }
}

/// Holds what was read against what was written.
fn reads_back(written: &Snapshot, read: &Snapshot) -> Result<(), TestCaseError> {
    let mut written = written.clone();
    let (hosts, _) = Hosts::read(&"hosts".into(), HOSTS.as_bytes());
    resolve_domains(&mut written, &hosts, &|_| None);
    let policies = |snapshot: &Snapshot| -> Vec<_> {
        snapshot
            .policies
            .values()
            .map(|policy| without_places(policy))
            .collect()
    };
    prop_assert_eq!(policies(&written), policies(read));
    let pods =
        |snapshot: &Snapshot| -> Vec<_> { snapshot.pods.values().map(|pod| as_written(pod)).collect() };
    prop_assert_eq!(pods(&written), pods(read));
    prop_assert_eq!(&written.nodes, &read.nodes);
    prop_assert_eq!(&written.networks, &read.networks);
    Ok(())
}

/// Reference and engine give the same judgements, with the same causes.
fn judged_alike(snapshot: &Snapshot, semantics: &Semantics) -> Result<usize, TestCaseError> {
    let engine = Engine::compile(snapshot, semantics.clone());
    let flows = representative_flows(snapshot);
    for flow in &flows {
        let expected = picket_reference::judge(snapshot, semantics, flow);
        prop_assert_eq!(engine.program().judge(flow), expected, "{:?}", flow);
    }
    Ok(flows.len())
}

/// What its text says of a cluster, with the same cluster default.
fn read(snapshot: &Snapshot, text: &str) -> Snapshot {
    let default = snapshot
        .policies
        .values()
        .any(|policy| policy.tier == Tier::ClusterDefault);
    let default = if default {
        ClusterDefault::Deny
    } else {
        ClusterDefault::Allow
    };
    manifest::read(text, HOSTS, default)
}

/// A cluster that somebody wrote, and its text.
fn written() -> impl Strategy<Value = (Snapshot, String)> {
    (snapshot(Shape::Dialects, 6), any::<u64>()).prop_map(|(snapshot, seed)| {
        let text = manifest::file(&snapshot, &mut Style::new(seed));
        (snapshot, text)
    })
}

/// Policies of every dialect, with custom rules beside them.
fn lowered() -> impl Strategy<Value = Snapshot> {
    (snapshot(Shape::Dialects, 6), generate::policies(Shape::Custom, 2)).prop_map(|(mut snapshot, more)| {
        for policy in more {
            snapshot.policies.insert(policy.object.clone(), policy.into());
        }
        snapshot
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/it/mixture.proptest-regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_written_is_what_is_read_and_judged_alike_everywhere(
        (snapshot, text) in written(), semantics in generate::semantics(),
    ) {
        let read = read(&snapshot, &text);
        reads_back(&snapshot, &read)?;
        for (_, network) in networks(&read) {
            judged_alike(&network, &semantics)?;
        }
    }

    #[test]
    fn reference_and_engine_judge_alike_on_every_network(
        snapshot in lowered(), semantics in generate::semantics(),
    ) {
        for (_, network) in networks(&snapshot) {
            judged_alike(&network, &semantics)?;
        }
    }

    #[test]
    fn nodes_mean_what_the_reference_says(
        (snapshot, text) in written(), semantics in generate::semantics(),
    ) {
        for (_, network) in networks(&read(&snapshot, &text)) {
            indexed::meaning::check(&network, &semantics, indexed::meaning::on_the_wire);
            verify::check_nodes(&network, &semantics);
        }
    }

    #[test]
    fn pods_mean_at_most_what_the_reference_says_on_each_interface(
        (snapshot, text) in written(),
        semantics in generate::semantics(),
        custom in prop_oneof![2 => Just(Vec::new()), 1 => custom_rules()],
    ) {
        // Only so are custom rules, which match addresses as they are written, policies like others.
        let ipblock_matches_pods = semantics.ipblock_matches_pods || !custom.is_empty();
        let semantics = Semantics { ipblock_matches_pods, ..semantics };
        let read = read(&snapshot, &text);
        networks::check(&read, "a mixture", &semantics, &custom);
        verify::check_pods_everywhere(&read, &semantics, &custom);
    }
}

#[test]
fn isolation_on_another_network_leaves_what_denies_on_the_cluster_network_in_force() {
    let text = r#"
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "x", "annotations":
  {"k8s.v1.cni.cncf.io/networks": "net-a"}}, "status": {"podIP": "10.0.0.1"}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b", "namespace": "x"}, "status": {"podIP": "10.0.0.2"}}
---
{"apiVersion": "k8s.cni.cncf.io/v1beta1", "kind": "MultiNetworkPolicy", "metadata": {"name": "p", "namespace": "x",
  "annotations": {"k8s.v1.cni.cncf.io/policy-for": "net-a"}}, "spec": {"podSelector": {}}}
---
{"apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy", "metadata": {"name": "deny"},
  "spec": {"tier": "Baseline", "priority": 1, "subject": {"namespaces": {}},
    "ingress": [{"action": "Deny", "from": [{"namespaces": {}}]}]}}
"#;
    // Both leave the other network as it is: its flags and custom rules count there alone.
    let custom = [
        Vec::new(),
        vec![custom::read(
            "tcp dport 7 accept\n",
            Direction::Ingress,
            Family::Ipv4,
        )],
    ];
    for ((default, custom), accept_icmp) in [
        (ClusterDefault::Allow, &custom[0]),
        (ClusterDefault::Deny, &custom[1]),
    ]
    .into_iter()
    .flat_map(|one| [(one, false), (one, true)])
    {
        let read = manifest::read(text, "", default);
        let semantics = Semantics {
            accept_icmp,
            ..Semantics::default()
        };
        networks::check(&read, "a baseline", &semantics, custom);
        verify::check_pods_everywhere(&read, &semantics, custom);
    }
}

/// What the properties above are about is not rare.
#[test]
fn mixtures_have_everything() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut kinds, mut several, mut judged) = (BTreeSet::new(), 0, 0);
    for _ in 0..96 {
        let (snapshot, text) = written().new_tree(&mut runner).expect("a cluster").current();
        let read = read(&snapshot, &text);
        kinds.extend(read.policies.keys().map(|object| object.kind.clone()));
        for (_, network) in networks(&read).iter().skip(1) {
            several += network
                .pods
                .values()
                .filter(|pod| pod.interface.as_ref().is_some_and(|own| own.is_one_of_several()))
                .count();
            let restricted = network
                .policies
                .values()
                .any(|policy| policy.isolates(Direction::Ingress));
            judged += usize::from(restricted && network.pods.len() > 1);
        }
    }
    assert_eq!(kinds.len(), 7, "{kinds:?}");
    assert!(
        several > 20 && judged > 15,
        "{several} interfaces, {judged} networks"
    );
}
