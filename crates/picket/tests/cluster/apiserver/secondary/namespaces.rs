//! Policies whose peers are namespaces alone, and pods of these that come after the policies, and go.

use serde_json::{Value, json};

use super::{labelled, pod};
use crate::pods::{Node, Pods, expect, forget_neighbours, table};

const PODS: &str = "/api/v1/namespaces/red/pods";

/// All pods of red namespaces, and no others.
fn red() -> Value {
    json!([{"namespaceSelector": labelled("team", "red")}])
}

/// Pods `server`, which red namespaces may reach, and `a`, which may reach only these; of namespaces no pod yet.
fn populate(node: &mut Node) -> Pods {
    let mut pods = Pods::new();
    for (name, number) in [("server", 11), ("a", 12)] {
        pod(
            node,
            &mut pods,
            name,
            &json!({"name": name}),
            "default/net",
            number,
        );
    }
    for (name, team) in [("red", "red"), ("blue", "blue")] {
        node.namespace(name, &json!({"team": team}));
    }
    let ingress = json!({"podSelector": labelled("name", "server"), "policyTypes": ["Ingress"],
        "ingress": [{"from": red()}]});
    let egress =
        json!({"podSelector": labelled("name", "a"), "policyTypes": ["Egress"], "egress": [{"to": red()}]});
    node.policy("default", "from-red", "default/net", &ingress);
    node.policy("default", "to-red", "default/net", &egress);
    pods
}

/// Runs a pod on the network; waits until the policies know of it.
fn come(node: &mut Node, pods: &mut Pods, name: &str, number: u8) {
    pod(node, pods, name, &json!({}), "default/net", number);
    forget_neighbours(pods);
    node.until_enforced();
}

/// What a pod may that is a peer of both policies, or of none; the way there is open.
fn is_peer(pods: &Pods, name: &str, expected: bool, when: &str) {
    let open = format!("server->{name}");
    expect(pods, &[&open], true, when);
    let restricted = format!("{name}->server a->{name}");
    expect(pods, &[&restricted], expected, when);
}

#[test]
fn peers_are_the_pods_that_are_there_now_and_in_namespaces_as_they_are_now() {
    let mut node = Node::new();
    let mut pods = populate(&mut node);
    node.start(&[]);
    node.until_enforced();
    expect(&pods, &["a->server"], false, "before any peer");

    come(&mut node, &mut pods, "red/e", 13);
    is_peer(&pods, "red/e", true, "when it has come");
    come(&mut node, &mut pods, "blue/f", 14);
    is_peer(&pods, "blue/f", false, "when it has come");

    // Whoever gets the address of a pod that has gone is not that pod.
    let gone = pods.remove("red/e").unwrap();
    node.stop(&gone);
    node.api.delete(PODS, "e");
    node.until("one address less", |_| {
        ["server", "a"].map(|name| table(&pods[name]).contains("2.2.5.13")) == [false; 2]
    });
    come(&mut node, &mut pods, "blue/heir", 13);
    is_peer(&pods, "blue/heir", false, "with the address of one that was");
    come(&mut node, &mut pods, "red/g", 15);
    is_peer(&pods, "red/g", true, "as the next of its namespace");

    let label = |namespace: &str, team: &str| {
        let fields = json!({"metadata": {"labels": {"team": team}}});
        node.api.patch("/api/v1/namespaces", namespace, &fields);
        node.until_enforced();
    };
    label("blue", "red");
    for name in ["blue/f", "blue/heir", "red/g"] {
        is_peer(&pods, name, true, "when both namespaces are red");
    }
    label("red", "blue");
    is_peer(&pods, "red/g", false, "when its namespace is red no more");
    is_peer(&pods, "blue/f", true, "when another namespace is red no more");
    label("blue", "blue");
    for name in ["blue/f", "blue/heir", "red/g"] {
        is_peer(&pods, name, false, "when no namespace is red");
    }
}
