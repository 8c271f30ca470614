//! What differs from runtime to runtime: how the agent learns of sandboxes, and where the network of a pod is.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::Command;

use picket_linux::NetworkNamespace;
use picket_testing::runtime::Kind;
use picket_testing::with_each_runtime;
use serde_json::json;

use super::{labelled, named, simple};
use crate::pods::{Node, expect, table};

with_each_runtime!(
    rules_come_when_the_runtime_tells_of_a_pod,
    a_pod_in_the_network_of_its_node_is_never_entered,
);

const PODS: &str = "/api/v1/namespaces/default/pods";

/// How many sandboxes the agent learned of in a way.
fn found(node: &Node, learned: &str) -> u64 {
    node.count(&format!("picket_sandboxes_total{{learned=\"{learned}\"}}"))
}

fn rules_come_when_the_runtime_tells_of_a_pod(kind: Kind) {
    let mut node = Node::with(kind);
    let everybody = json!({"podSelector": {}, "ingress": [{"from": named(&["a"])}]});
    node.policy("default", "from-a", "default/net", &everybody);
    node.start(&[]);
    let pods = simple(&mut node);
    node.until("rules in every pod", |status| {
        let restricted = status.sandboxes.iter();
        restricted.filter(|sandbox| sandbox.changed.is_some()).count() == pods.len()
    });
    expect(&pods, &["a->server a->b"], true, "as soon as there are rules");
    expect(
        &pods,
        &["b->server server->a"],
        false,
        "as soon as there are rules",
    );
    // One that comes when it is just being asked may be found by that.
    let (told, asked) = (found(&node, "event"), found(&node, "asking"));
    assert_eq!(told > 0, kind.has_events(), "{told} and {asked}");
    assert_eq!(told + asked, 5);
}

/// The tables in the network of a node.
fn tables(node: &Node) -> String {
    let file = File::open(node.runtime.prefix().with_file_name("ns/net")).unwrap();
    let namespace = NetworkNamespace::from(OwnedFd::from(file));
    let mut command = Command::new("nft");
    command.args(["list", "tables"]);
    let output = namespace.run(|| command.output()).unwrap().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn a_pod_in_the_network_of_its_node_is_never_entered(kind: Kind) {
    let mut node = Node::with(kind);
    let pods = simple(&mut node);
    node.start(&[]);
    // The API server does not say where it is, and it says itself that it is on the network.
    let status = json!([{"name": "default/net", "interface": "net1", "ips": ["2.2.5.99"]}]);
    let annotations = json!({
        "k8s.v1.cni.cncf.io/networks": "default/net",
        "k8s.v1.cni.cncf.io/network-status": status.to_string(),
    });
    let created = node.api.create(
        PODS,
        &json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "proxy", "labels": {"name": "server"}, "annotations": annotations},
            "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "main"}]},
        }),
    );
    let before = found(&node, "event") + found(&node, "asking");
    let uid = created["metadata"]["uid"].as_str().unwrap();
    node.runtime.run_host_pod("default", "proxy", uid);
    let spec = json!({"podSelector": labelled("name", "server"), "ingress": [{"from": named(&["a"])}]});
    node.policy("default", "from-a", "default/net", &spec);
    node.until_enforced();
    node.until("a sandbox more", |_| {
        found(&node, "event") + found(&node, "asking") == before + 1
    });
    // Whatever is done for a sandbox is done for all of them, and after this one came.
    node.policy(
        "default",
        "nobody",
        "default/net",
        &json!({"podSelector": labelled("name", "b")}),
    );
    let status = node.until_enforced();
    expect(&pods, &["a->server"], true, "beside a pod of the node");
    expect(&pods, &["b->server a->b"], false, "beside a pod of the node");
    assert_ne!(table(&pods["server"]), "");
    assert_eq!(tables(&node), "");
    assert!(status.is_well(), "{status:#?}");
}

/// Does something with the folder in which CRI-O keeps namespaces, as the node sees it.
fn at_namespaces(node: &Node, command: &str) {
    let mounts = node.runtime.prefix().with_file_name("ns/mnt");
    let mut nsenter = Command::new("nsenter");
    nsenter.arg(format!("--mount={}", mounts.display()));
    nsenter.args(command.split(' ')).arg("/run/netns");
    assert!(nsenter.status().unwrap().success(), "{command}");
}

#[test]
fn an_agent_that_cannot_enter_a_sandbox_with_policies_is_not_ready() {
    let mut node = Node::with(Kind::Crio);
    let pods = simple(&mut node);
    // As where an agent does not see what the node mounts.
    at_namespaces(&node, "mount -t tmpfs none");
    node.start(&[]);
    let spec = json!({"podSelector": labelled("name", "server"), "ingress": [{"from": named(&["a"])}]});
    assert_eq!(node.readiness().0, 200, "without policies");
    node.kill();
    node.policy("default", "from-a", "default/net", &spec);
    node.launch(&[]);
    let status = node.until_status("a policy that waits", |status| {
        let pods = status.pods.as_ref().filter(|pods| pods.known);
        pods.is_some_and(|pods| pods.sandboxes.iter().any(|sandbox| !sandbox.waiting.is_empty()))
    });
    assert!(!status.ready, "{status:#?}");
    let (code, why) = node.readiness();
    assert_eq!(code, 503, "{why}");
    assert!(why.contains("default/server: ") && why.contains("netns"), "{why}");
    assert_eq!(node.metric("picket_policies_waiting"), 1);
    assert_eq!(node.metric("picket_policies"), 0);
    at_namespaces(&node, "umount");
    node.until("an agent that is ready", |status| status.is_well());
    expect(&pods, &["a->server"], true, "in the end");
    expect(&pods, &["b->server"], false, "in the end");
}
