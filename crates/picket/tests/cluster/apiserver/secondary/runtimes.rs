//! What differs from runtime to runtime: how the agent learns of sandboxes, and where the network of a pod is.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use picket_linux::NetworkNamespace;
use picket_node::PodsStatus;
use picket_testing::runtime::Kind;
use picket_testing::with_every_runtime;
use serde_json::{Value, json};

use super::{holds, labelled, named, simple};
use crate::pods::{Node, Pod, expect, place_of, table};

with_every_runtime!(
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

/// Runs a program on the node; what it prints.
fn on_node(node: &Node, command: &str) -> String {
    let mut nsenter = Command::new("nsenter");
    // Programs of mounts need the `/proc` that they are in.
    for (option, kind) in [("mount", "mnt"), ("pid", "pid")] {
        let namespace = node.runtime.prefix().with_file_name(format!("ns/{kind}"));
        nsenter.arg(format!("--{option}={}", namespace.display()));
    }
    let output = nsenter.args(command.split(' ')).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The file that is the network of a pod where CRI-O keeps namespaces, as the node sees it.
fn file_of(node: &Node, pod: &Pod) -> String {
    let number = fs::metadata(place_of(&pod.inside)).unwrap().ino().to_string();
    let files = on_node(node, "ls /run/netns");
    let mut files = files.lines().map(|name| format!("/run/netns/{name}"));
    let found = files.find(|file| on_node(node, &format!("stat --format=%i {file}")).trim() == number);
    found.unwrap()
}

#[test]
fn a_sandbox_that_cannot_be_entered_holds_up_no_other() {
    let mut node = Node::with(Kind::Crio);
    let pods = simple(&mut node);
    let file = file_of(&node, &pods["server"]);
    on_node(&node, &format!("mount --bind /dev/null {file}"));
    let from = |pods: &Value, peer: &str| json!({"podSelector": pods, "ingress": [{"from": named(&[peer])}]});
    node.policy("default", "from-a", "default/net", &from(&json!({}), "a"));
    node.launch(&[]);
    let until = |what: &str, count: usize| {
        let is_so = |status: &PodsStatus| {
            let mut sandboxes = status.sandboxes.iter();
            sandboxes.all(|sandbox| match sandbox.pod.as_str() {
                "default/server" => sandbox.policies.is_empty() && sandbox.waiting.len() == 1,
                "default/b" => sandbox.policies.len() == count && sandbox.waiting.is_empty(),
                _ => sandbox.policies.len() == 1 && sandbox.waiting.is_empty(),
            })
        };
        node.until_status(what, |status| {
            let pods = status.pods.as_ref();
            pods.is_some_and(|pods| pods.known && pods.sandboxes.len() == 5 && is_so(pods))
        })
    };
    let status = until("rules in the others", 1);
    assert!(!status.ready, "{status:#?}");
    let (code, why) = node.readiness();
    assert_eq!(code, 503, "{why}");
    let named: Vec<_> = why.lines().filter(|line| line.starts_with("default/")).collect();
    assert!(
        named.len() == 1 && named[0].starts_with("default/server: "),
        "{why}"
    );
    expect(&pods, &["c->b server->b"], false, "beside it");
    expect(&pods, &["a->b"], true, "beside it");
    assert_eq!(table(&pods["server"]), "");
    // What comes later comes into force too.
    let about_b = labelled("name", "b");
    node.policy("default", "from-c", "default/net", &from(&about_b, "c"));
    until("another policy", 2);
    expect(&pods, &["a->b c->b"], true, "with another policy");
    expect(&pods, &["server->b"], false, "with another policy");
    on_node(&node, &format!("umount {file}"));
    node.until("an agent that is ready", PodsStatus::is_well);
    holds(&pods, "a->server", "b->server", "in the end");
}

#[test]
fn an_agent_that_cannot_enter_a_sandbox_with_policies_is_not_ready() {
    let mut node = Node::with(Kind::Crio);
    let pods = simple(&mut node);
    // As where an agent does not see what the node mounts.
    on_node(&node, "mount -t tmpfs none /run/netns");
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
    on_node(&node, "umount /run/netns");
    node.until("an agent that is ready", |status| status.is_well());
    expect(&pods, &["a->server"], true, "in the end");
    expect(&pods, &["b->server"], false, "in the end");
}

/// The programs of the processes that are in the network of a pod.
fn programs_in(pod: &Pod) -> Vec<String> {
    let own = fs::metadata(place_of(&pod.inside)).unwrap();
    let processes = fs::read_dir("/proc").unwrap().map(Result::unwrap);
    let is_there = |process: &fs::DirEntry| {
        let network = fs::metadata(process.path().join("ns/net"));
        network.is_ok_and(|network| (network.dev(), network.ino()) == (own.dev(), own.ino()))
    };
    let name = |process: fs::DirEntry| fs::read_to_string(process.path().join("comm"));
    let names = processes
        .filter(is_there)
        .filter_map(|process| name(process).ok());
    names.map(|name| name.trim().to_owned()).collect()
}

#[test]
fn sandboxes_of_crio_have_processes_where_it_is_to_keep_them_and_else_none() {
    for (kind, programs) in [(Kind::Crio, vec![]), (Kind::CrioWithProcesses, vec!["pause"])] {
        let mut node = Node::with(kind);
        for pod in simple(&mut node).values() {
            assert_eq!(programs_in(pod), programs, "{kind:?}: {}", pod.name);
        }
    }
}
