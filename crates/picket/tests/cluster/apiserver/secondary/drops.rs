//! How many packets policies drop in pods.

use serde_json::json;

use super::{labelled, named, pod, simple};
use crate::agents::denied;
use crate::pods::{Node, expect};

/// The metric of a policy of the namespace `default`.
fn dropped(node: &Node, policy: &str, direction: &str) -> u64 {
    counted(node, "dropped", policy, direction)
}

fn counted(node: &Node, what: &str, policy: &str, direction: &str) -> u64 {
    node.metric(&format!(
        "picket_{what}_packets_total{{kind=\"MultiNetworkPolicy\",namespace=\"default\",name=\"{policy}\",direction=\"{direction}\"}}"
    ))
}

#[test]
fn drops_count_for_the_policies_of_the_interface_and_outlive_pods() {
    let mut node = Node::new();
    let mut pods = simple(&mut node);
    pod(
        &mut node,
        &mut pods,
        "e",
        &json!({"name": "e"}),
        "default/other",
        16,
    );
    node.start(&[]);
    let spec = json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": named(&["a"])}], "egress": [{}]});
    node.policy("default", "few", "default/net", &spec);
    let elsewhere = json!({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": []});
    node.policy("default", "none", "default/other", &elsewhere);
    node.until_enforced();
    assert_eq!(dropped(&node, "few", "ingress"), 0);
    expect(&pods, &["b->server:udp/5555"], false, "at first");
    let once = dropped(&node, "few", "ingress");
    // One packet in each family.
    assert_eq!(once, 2);
    expect(&pods, &["b->c:udp/5555"], false, "in another pod");
    assert_eq!(dropped(&node, "few", "ingress"), 4);
    assert_eq!(dropped(&node, "few", "egress"), 0);
    assert_eq!(dropped(&node, "none", "ingress"), 0, "nobody is denied there");
    // A pod goes, and takes nothing out of the sum.
    let gone = pods.remove("c").unwrap();
    node.stop(&gone);
    node.until_gone(&gone);
    // What changes in a table leaves its counters.
    let more = json!({"podSelector": labelled("name", "server"), "policyTypes": ["Ingress"], "ingress": []});
    node.policy("default", "more", "default/net", &more);
    node.until_enforced();
    assert_eq!(dropped(&node, "few", "ingress"), 4);
    expect(&pods, &["b->server:udp/5555"], false, "with two policies");
    assert_eq!(dropped(&node, "few", "ingress"), 6);
    assert_eq!(dropped(&node, "more", "ingress"), 2);
}

#[test]
fn what_an_audited_policy_denies_passes_and_is_counted() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&["--log-format", "json"]);
    let spec = json!({"podSelector": labelled("name", "server"), "policyTypes": ["Ingress"],
        "ingress": [{"from": named(&["a"])}]});
    node.policy("default", "tried", "default/net", &spec);
    node.set_mode("default", "tried", "audit");
    node.until_enforced();
    expect(
        &pods,
        &["a->server:udp/5555", "b->server:udp/5555"],
        true,
        "audited",
    );
    // One packet in each family.
    assert_eq!(counted(&node, "audited", "tried", "ingress"), 2);
    node.until("two lines", |_| denied(&node.log()).len() == 2);
    for (fields, source) in denied(&node.log()).iter().zip(&pods["b"].addresses) {
        for (field, expected) in [
            ("message", "audited, else denied"),
            ("from", "default/b"),
            ("source", &source.to_string()),
            ("to", "default/server"),
            ("direction", "ingress"),
            ("pod", "default/server"),
            ("interface", "net1"),
            ("network", "default/net"),
            ("policies", "MultiNetworkPolicy default/tried"),
        ] {
            assert_eq!(fields[field], expected, "{fields}");
        }
    }
    let none = json!({"podSelector": labelled("name", "server"), "policyTypes": ["Ingress"], "ingress": []});
    node.policy("default", "none", "default/net", &none);
    node.until_enforced();
    expect(
        &pods,
        &["a->server:udp/5555"],
        true,
        "accepted by the audited one",
    );
    expect(&pods, &["b->server:udp/5555"], false, "denied by the other one");
    assert_eq!(dropped(&node, "none", "ingress"), 2);
    node.delete_policy("default", "none");
    node.set_mode("default", "tried", "enforce");
    node.until_enforced();
    expect(&pods, &["a->server:udp/5555"], true, "enforced");
    expect(&pods, &["b->server:udp/5555"], false, "enforced");
    assert_eq!(dropped(&node, "tried", "ingress"), 2);
}
