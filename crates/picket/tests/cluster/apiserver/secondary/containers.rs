//! Containers come and go in a sandbox: its rules are there before the first one, and stay.

use std::net::SocketAddr;

use jiff::Timestamp;
use picket_node::PodsStatus;
use picket_testing::runtime::Kind;
use picket_testing::with_each_runtime;
use serde_json::json;

use super::{labelled, named, simple};
use crate::pods::{Interface, Node, Pod, Pods, expect, forget_neighbours};
use crate::prober::Prober;

with_each_runtime!(rules_are_there_whatever_becomes_of_containers);

const PODS: &str = "/api/v1/namespaces/default/pods";

const LATE: Interface<'_> = Interface {
    network: "default/net",
    name: "net1",
    addresses: &["2.2.5.20/24", "2001:db8::20/64"],
};

/// How many packets a sender must have sent at least.
const SENT: usize = 1000;

/// Senders from a pod to each address of another, all the time.
fn probers(from: &Pod, to: &Pod) -> Vec<Prober> {
    let addresses = to.addresses.iter();
    let probers = addresses.map(|address| {
        let target = SocketAddr::new(*address, 7000 + u16::from(from.name == "b"));
        Prober::between(&from.inside, &to.inside, target)
    });
    probers.collect()
}

/// How many pods come one after the other.
const TIMES: usize = 5;

/// What a pod is that has not got beyond its init containers.
fn initialize(node: &Node, name: &str) {
    let waits = json!([{"name": "main", "image": "main", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "PodInitializing"}}}]);
    let status = json!({"phase": "Pending", "podIP": "10.123.0.2", "podIPs": [{"ip": "10.123.0.2"}],
        "conditions": [{"type": "Initialized", "status": "False"}], "containerStatuses": waits});
    node.api.set_status(PODS, name, &status);
}

fn holds(pods: &Pods, when: &str) {
    expect(pods, &["a->late"], true, when);
    expect(pods, &["b->late"], false, when);
}

/// When the rules of a sandbox last changed.
fn changed(status: &PodsStatus, sandbox: &str) -> Option<Timestamp> {
    let mut sandboxes = status.sandboxes.iter();
    sandboxes.find(|found| found.sandbox == sandbox)?.changed
}

fn rules_are_there_whatever_becomes_of_containers(kind: Kind) {
    let mut node = Node::with(kind);
    let mut pods = simple(&mut node);
    let spec = json!({"podSelector": labelled("name", "late"), "ingress": [{"from": named(&["a"])}]});
    node.policy("default", "from-a", "default/net", &spec);
    node.start(&[]);
    let uid = node.ask_for("default", "late", &json!({"name": "late"}), &[LATE]);
    node.tell("default", "late", &[LATE]);
    initialize(&node, "late");
    node.until_enforced();
    let sandbox = node.runtime.run_pod("default", "late", &uid);
    let status = node.until("rules in the sandbox", |status| {
        changed(status, &sandbox).is_some()
    });
    let first = changed(&status, &sandbox);
    let late = node.attached("late", sandbox.clone(), &[LATE]);
    let (denied, allowed) = (probers(&pods["b"], &late), probers(&pods["a"], &late));
    pods.insert("late".to_owned(), late);
    holds(&pods, "before the first container");
    // As one that ends is made again.
    for time in ["first", "second"] {
        let container = node.runtime.create_container(&sandbox, "default", "late", &uid);
        holds(&pods, &format!("when the {time} container is there"));
        node.runtime.start_container(&container);
        holds(&pods, &format!("when the {time} container runs"));
        node.runtime.remove_container(&container);
        holds(&pods, &format!("when the {time} container is gone"));
    }
    let container = node.runtime.create_container(&sandbox, "default", "late", &uid);
    node.runtime.start_container(&container);
    node.tell("default", "late", &[LATE]);
    let status = node.until_enforced();
    holds(&pods, "when the pod runs");
    for prober in denied {
        let (_, received) = prober.end_after(SENT);
        assert_eq!(received, 0);
    }
    for prober in allowed {
        let (_, received) = prober.end_after(SENT);
        assert!(received > 0);
    }
    // Nor was anything done about the rules in between.
    assert_eq!(changed(&status, &sandbox), first);
}

/// As kubelets do it: a container is made, and started, as soon as the runtime says that its sandbox is there. CRI-O tells others of
/// that before, and takes longer for a container than they need, if the machine is not too busy; containerd does not, and what is
/// open until then is measured.
#[test]
fn with_crio_rules_come_before_the_process_of_the_first_container_starts() {
    let mut node = Node::with(Kind::Crio);
    let mut pods = simple(&mut node);
    let spec = json!({"podSelector": labelled("name", "late"), "ingress": [{"from": named(&["a"])}]});
    node.policy("default", "from-a", "default/net", &spec);
    node.start(&[]);
    let mut early = 0;
    for _ in 0..TIMES {
        let uid = node.ask_for("default", "late", &json!({"name": "late"}), &[LATE]);
        // Multus says so while the runtime attaches the pod to its networks, before that says that the sandbox is there.
        node.tell("default", "late", &[LATE]);
        node.until_enforced();
        let sandbox = node.runtime.run_pod("default", "late", &uid);
        let container = node.runtime.create_container(&sandbox, "default", "late", &uid);
        node.runtime.start_container(&container);
        let status = node.until("rules in the sandbox", |status| {
            changed(status, &sandbox).is_some()
        });
        let in_force = changed(&status, &sandbox).unwrap().as_nanosecond();
        let started = i128::from(node.runtime.started(&container));
        early += usize::from(in_force < started);
        let late = node.attached("late", sandbox, &[LATE]);
        pods.insert("late".to_owned(), late);
        forget_neighbours(&pods);
        holds(&pods, "when the first container has started");
        let gone = pods.remove("late").unwrap();
        node.api.delete(PODS, "late");
        node.runtime.remove_container(&container);
        node.stop(&gone);
        node.until_gone(&gone);
    }
    assert!(early > 0, "never before the process");
}
