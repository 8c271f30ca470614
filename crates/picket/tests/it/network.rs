//! Questions about a secondary network.

use serde_json::json;

use crate::{Manifests, Ran, schema::assert_valid};

pub(crate) const STORAGE: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: shop
  labels: {app: web}
  annotations:
    k8s.v1.cni.cncf.io/network-status: '[{"name": "infra/storage", "interface": "net1", "ips": ["10.7.0.1"]}]'
status: {podIP: 10.0.0.1}
---
apiVersion: v1
kind: Pod
metadata:
  name: db
  namespace: shop
  labels: {app: db}
  annotations:
    k8s.v1.cni.cncf.io/network-status: >-
      [{"name": "infra/storage", "interface": "data0", "ips": ["10.7.0.2"]},
       {"name": "infra/storage", "interface": "data1", "ips": ["10.7.0.3"]}]
status: {podIP: 10.0.0.2}
---
apiVersion: k8s.cni.cncf.io/v1beta1
kind: MultiNetworkPolicy
metadata:
  name: db
  namespace: shop
  annotations: {k8s.v1.cni.cncf.io/policy-for: infra/storage}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]}]
"#;

fn picket(command: &str, arguments: &[&str]) -> Ran {
    Manifests::new(&[("storage.yaml", STORAGE)]).picket(command, arguments)
}

/// The verdict on network `infra/storage`, or on the cluster network.
fn verdict(network: bool, from: &str, to: &str, port: &str) -> String {
    let question = ["--from", from, "--to", to, "--port", port, "-o", "json"];
    let on: &[&str] = if network {
        &["--network", "infra/storage"]
    } else {
        &[]
    };
    let ran = picket("eval", &[&question, on].concat());
    let answer = ran.json();
    assert_valid("eval", std::slice::from_ref(&answer));
    assert_eq!(answer.get("network").is_some(), network);
    let verdict = answer.get("verdict").and_then(|verdict| verdict.as_str());
    verdict.unwrap().to_owned()
}

#[test]
fn a_network_has_its_own_addresses_and_policies() {
    for (network, from, to, port, expected) in [
        (true, "shop/web", "shop/db@data0", "5432", "allow"),
        (true, "shop/web", "shop/db@data1", "5432", "allow"),
        (true, "shop/web", "shop/db@data1", "80", "deny"),
        (true, "shop/db@data0", "shop/db@data1", "80", "allow"),
        (true, "10.0.0.1", "shop/db@data0", "5432", "deny"),
        (true, "10.7.0.1", "10.7.0.2", "5432", "allow"),
        (false, "shop/web", "shop/db", "80", "allow"),
        (false, "10.7.0.1", "shop/db", "80", "allow"),
    ] {
        assert_eq!(
            verdict(network, from, to, port),
            expected,
            "{network}: {from} → {to}, {port}"
        );
    }
}

#[test]
fn every_answer_names_the_interface() {
    let question = ["--from", "shop/web", "--to", "shop/db@data1", "--port", "80"];
    let ran = picket("eval", &[&question[..], &["--network", "infra/storage"]].concat());
    let first = ran.stdout.lines().next();
    let expected = "deny: shop/web (net1) → shop/db@data1 (data1), TCP 80 on network infra/storage";
    assert_eq!(first, Some(expected));
    let map = picket("matrix", &["-o", "json", "--network", "infra/storage"]).json();
    assert_valid("matrix", std::slice::from_ref(&map));
    let interfaces: Vec<_> = map["endpoints"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|endpoint| endpoint["kind"] == "pod")
        .map(|endpoint| (&endpoint["id"], &endpoint["interface"]))
        .collect();
    assert_eq!(
        json!(interfaces),
        json!([
            ["shop/db@data0", "data0"],
            ["shop/db@data1", "data1"],
            ["shop/web", "net1"],
        ])
    );
    let within = |connection: &serde_json::Value| {
        connection["from"] == "shop/db@data0" && connection["to"] == "shop/db@data1"
    };
    assert!(!map["connections"].as_array().unwrap().iter().any(within));
}

#[test]
fn an_unknown_network_is_an_error_that_names_those_there_are() {
    for (network, message) in [
        (
            "infra/store",
            "there is no network `infra/store`; there are `infra/storage`",
        ),
        (
            "storage",
            "there is no network `default/storage`; there are `infra/storage`",
        ),
        ("a/b/c", "`a/b/c` is no network: write `namespace/name`"),
    ] {
        let ran = picket("matrix", &["--network", network]);
        assert_eq!(ran.status, 2);
        assert!(ran.stderr.contains(message), "{}", ran.stderr);
    }
}

#[test]
fn a_pods_table_has_the_rules_of_every_network() {
    let render = [
        "--target",
        "nftables",
        "--layout",
        "documented",
        "--pod",
        "shop/db",
    ];
    let ran = picket("render", &render);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    for line in [
        r#"elements = { "data0", "data1" }"#,
        r#"iifname "data0" ip saddr 10.7.0.2 drop"#,
        r#"iifname "data1" ip saddr @snp-HASH_ingress_ipv4_data1_0 tcp dport 5432 accept"#,
    ] {
        let line = line.replace("HASH", &hash(&ran.stdout));
        assert!(ran.stdout.contains(&line), "{line}\n{}", ran.stdout);
    }
    let ran = picket("render", &[&render[..], &["--interface", "data0"]].concat());
    let message = "`data0` is an interface of pod `shop/db` on a secondary network";
    assert!(ran.status == 2 && ran.stderr.contains(message), "{}", ran.stderr);
}

/// The hash in the name of the only policy's chain.
fn hash(table: &str) -> String {
    let (_, rest) = table.split_once("chain cnp-").unwrap();
    rest.chars().take(16).collect()
}

#[test]
fn two_pods_of_a_workload_are_two_ends_there_too() {
    let workload = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop}
spec:
  template:
    metadata: {labels: {app: db}, annotations: {k8s.v1.cni.cncf.io/networks: infra/storage}}
    spec: {containers: []}
"#;
    let manifests = Manifests::new(&[("storage.yaml", STORAGE), ("workload.yaml", workload)]);
    let both = ["--from", "shop/Deployment/api", "--to", "shop/Deployment/api"];
    for command in ["eval", "explain"] {
        let on = ["--port", "80", "--network", "infra/storage", "-o", "json"];
        let answer = manifests.picket(command, &[&both[..], &on].concat()).json();
        assert_eq!(
            answer["ingress"]["reason"], "no-rule-matches",
            "{command}: {answer:#}"
        );
    }
}
