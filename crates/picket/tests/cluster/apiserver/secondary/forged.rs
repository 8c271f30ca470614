//! Pods that say of themselves what is not so, to get at others: nobody is less isolated for it, and who was created before
//! has what it had.

use serde_json::{Value, json};

use super::{labelled, named, simple};
use crate::pods::{Node, Pods, expect, forget_neighbours};

/// A pod says which interfaces it has.
fn say(node: &Node, pod: &str, status: &Value) {
    let annotations = json!({"k8s.v1.cni.cncf.io/network-status": status.to_string()});
    let fields = json!({"metadata": {"annotations": annotations}});
    node.api.patch("/api/v1/namespaces/default/pods", pod, &fields);
}

fn interface(name: &str, addresses: &[String]) -> Value {
    json!({"name": "default/net", "interface": name, "ips": addresses})
}

/// A pod, younger than all others, that says that it has an interface with these addresses; on another node, or on none.
fn elsewhere(node: &Node, name: &str, on: Option<&str>, addresses: &[String]) {
    let status = json!([interface("net1", addresses)]).to_string();
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"k8s.v1.cni.cncf.io/network-status": status}},
        "spec": {"nodeName": on, "containers": [{"name": "main", "image": "main"}]},
    });
    let created = node.api.try_create("/api/v1/namespaces/default/pods", &pod);
    created.unwrap();
}

/// What is said of pods that do not have the addresses on a network that they say they have.
fn lost(node: &Node) -> Vec<String> {
    let mut messages = node.messages();
    messages.retain(|message| message.contains(" on network `default/net`, which "));
    messages
}

/// The addresses of the pod with a number.
fn of(number: u8) -> Vec<String> {
    vec![format!("2.2.5.{number}"), format!("2001:db8::{number}")]
}

/// Pods of which only `a` may reach the server.
fn isolated(node: &mut Node) -> Pods {
    let pods = simple(node);
    let spec = json!({"podSelector": labelled("name", "server"), "ingress": [{"from": named(&["a"])}]});
    node.policy("default", "few", "default/net", &spec);
    node.start(&[]);
    node.until_enforced();
    expect(&pods, &["a->server"], true, "before anybody lies");
    expect(
        &pods,
        &["b->server c->server d->server"],
        false,
        "before anybody lies",
    );
    pods
}

#[test]
fn who_claims_the_address_of_an_older_pod_takes_nothing_from_it() {
    let mut node = Node::new();
    let pods = isolated(&mut node);
    // By their names these are later than whoever was created in the same second.
    elsewhere(&node, "x", Some("node-2"), &of(11));
    elsewhere(&node, "y", Some("node-2"), &of(12));
    let found = node.until_enforced();
    assert_eq!(found.sandboxes.len(), 1, "{found:?}");
    forget_neighbours(&pods);
    expect(
        &pods,
        &["a->server"],
        true,
        "when others elsewhere claim addresses",
    );
    let denied = ["b->server c->server d->server"];
    expect(&pods, &denied, false, "when others elsewhere claim addresses");
    assert_eq!(lost(&node), [""; 0]);
}

#[test]
fn who_has_no_node_takes_nothing_from_those_who_come_later() {
    let mut node = Node::new();
    // By its name it is the first of whoever is created in the same second.
    elsewhere(&node, "0", None, &of(12));
    isolated(&mut node);
    assert_eq!(lost(&node), [""; 0]);
}

#[test]
fn who_claims_the_address_of_another_opens_nothing() {
    let mut node = Node::new();
    let pods = isolated(&mut node);
    // Later pods that claim the server's addresses, those of the one that may, or names of other interfaces.
    for (pod, claims) in [
        ("b", interface("net1", &of(11))),
        ("c", interface("net1", &of(12))),
        ("d", interface("eth0", &of(15))),
    ] {
        say(&node, pod, &json!([claims]));
    }
    node.until_enforced();
    forget_neighbours(&pods);
    expect(
        &pods,
        &["b->server c->server d->server"],
        false,
        "when others claim addresses",
    );
    // Which of two is younger, who was created in the same second, the names say.
    let found = lost(&node);
    for of_two in [
        ["Pod default/server ", "Pod default/b "],
        ["Pod default/a ", "Pod default/c "],
    ] {
        let is_one = |message: &&String| of_two.iter().any(|pod| message.starts_with(pod));
        // An address of each family.
        assert_eq!(found.iter().filter(is_one).count(), 2, "{found:?}");
    }
    for (pod, number) in [("b", 13), ("c", 14), ("d", 15)] {
        say(&node, pod, &json!([interface("net1", &of(number))]));
    }
    node.until_enforced();
    expect(&pods, &["a->server"], true, "when everybody says what is so");
    expect(
        &pods,
        &["b->server c->server d->server"],
        false,
        "when everybody says what is so",
    );
}

#[test]
fn who_says_very_much_is_heard_or_named_and_others_are_enforced() {
    let mut node = Node::new();
    let pods = isolated(&mut node);
    let many = (0..2500).map(|number| {
        let addresses = [format!("2.3.{}.{}", number / 250, number % 250 + 1)];
        interface(&format!("x{number}"), &addresses)
    });
    let many: Vec<_> = many.chain([interface("net1", &of(13))]).collect();
    say(&node, "b", &json!(many));
    say(
        &node,
        "c",
        &json!([
            interface("\"; accept #\n", &of(14)),
            interface("net1", &["0.0.0.0/0".to_owned()])
        ]),
    );
    node.until_enforced();
    expect(
        &pods,
        &["b->server c->server d->server"],
        false,
        "when others say much",
    );
    expect(&pods, &["a->server"], true, "when others say much");
    let spec = json!({"podSelector": labelled("name", "a"), "ingress": []});
    node.policy("default", "more", "default/net", &spec);
    node.until_enforced();
    expect(&pods, &["b->a server->a"], false, "after another policy");
    assert!(
        node.findings().iter().any(|object| object == "Pod default/c"),
        "{:?}",
        node.findings()
    );
}
