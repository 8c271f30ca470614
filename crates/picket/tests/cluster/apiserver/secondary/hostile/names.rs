//! Pods whose names are the longest that there are, and modes of policies that nobody knows.

use picket_testing::runtime::Kind;
use picket_testing::with_each_runtime;
use serde_json::json;

use super::super::{labelled, pod, simple};
use super::{expect_others, expect_readable, others, server_from};
use crate::apiserver::hostile::annotations::modes;
use crate::apiserver::hostile::names::{longest_of_namespaces, longest_of_pods};
use crate::pods::{Node, expect};

with_each_runtime!(pods_with_the_longest_names_are_enforced);

/// The policies with which something is wrong.
fn wrong(node: &Node) -> Vec<String> {
    let found = node.findings().into_iter();
    found.filter(|object| object.starts_with("Multi")).collect()
}

fn pods_with_the_longest_names_are_enforced(kind: Kind) {
    let mut node = Node::with(kind);
    let mut pods = simple(&mut node);
    let (namespace, name) = (longest_of_namespaces(), longest_of_pods());
    let longest = format!("{namespace}/{name}");
    node.namespace(&namespace, &json!({}));
    let labels = json!({"name": "longest"});
    pod(&mut node, &mut pods, &longest, &labels, "default/net", 16);
    let longest_pod = pods.remove(&longest).unwrap();
    pods.insert("longest".to_owned(), longest_pod);
    node.start(&[]);
    others(&node);
    let spec = json!({"podSelector": labelled("name", "longest"), "ingress": [{"ports": [{"port": 7001}]}]});
    node.policy(&namespace, &name, "default/net", &spec);
    let status = node.until_enforced();
    let when = "with the longest names";
    expect(&pods, &["a->longest:7001 longest->b"], true, when);
    expect(&pods, &["a->longest:7002 b->longest"], false, when);
    expect_others(&pods);
    let mut sandboxes = status.sandboxes.iter();
    let found = sandboxes.find(|sandbox| sandbox.pod == longest).unwrap();
    assert_eq!(found.policies, [format!("MultiNetworkPolicy {longest}")]);
    assert!(status.is_well(), "{status:#?}");
    assert_eq!(wrong(&node), [""; 0]);
    let traced = node.asked_by(&["trace", "default/a", &longest, "7002"]);
    let place = format!("input of net1 in {longest}");
    assert!(traced.stdout.contains(&place), "{}", traced.stdout);
    node.until("a line about it", |_| node.log().contains(&longest));
    expect_readable(&node);
}

#[test]
fn a_policy_whose_mode_nobody_knows_is_enforced_and_named() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&[]);
    others(&node);
    node.policy("default", "moded", "default/net", &server_from("a", &[7001]));
    for mode in modes() {
        // What is enforced all the same would pass here.
        node.set_mode("default", "moded", "audit");
        node.until_enforced();
        expect(&pods, &["b->server:7001"], true, "as it is only told of");
        assert_eq!(wrong(&node), [""; 0]);
        node.set_mode("default", "moded", &mode);
        node.until_enforced();
        let when = format!("{mode:.100}");
        expect(&pods, &["b->server:7001"], false, &when);
        expect(&pods, &["a->server:7001"], true, &when);
        expect_others(&pods);
        assert_eq!(wrong(&node), ["MultiNetworkPolicy default/moded"], "{when}");
    }
    expect_readable(&node);
}
