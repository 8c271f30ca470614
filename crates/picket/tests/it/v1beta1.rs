//! NetworkPolicy of extensions/v1beta1: how it is read, and the cluster default.

use crate::{Manifests, Ran, run, schema::assert_valid};

const CLUSTER: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: one}
status: {addresses: [{type: InternalIP, address: 172.18.0.2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {nodeName: one}
status: {podIPs: [{ip: 10.0.0.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {nodeName: one}
status: {podIPs: [{ip: 10.0.0.2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: tool, namespace: lab}
spec: {nodeName: one}
status: {podIPs: [{ip: 10.0.0.3}]}
---
apiVersion: extensions/v1beta1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
  - from: [{podSelector: {matchLabels: {app: web}}}]
  - from: []
---
apiVersion: extensions/v1beta1
kind: NetworkPolicy
metadata: {name: tool, namespace: lab}
spec: {podSelector: {}, ingress: [{}]}
"#;

const ISOLATED: &str = r#"
apiVersion: v1
kind: Namespace
metadata:
  name: shop
  annotations: {net.beta.kubernetes.io/network-policy: '{"ingress": {"isolation": "DefaultDeny"}}'}
"#;

const OPEN: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";

fn plain() -> Manifests {
    Manifests::new(&[("cluster.yaml", CLUSTER), ("shop.yaml", OPEN)])
}

fn isolated() -> Manifests {
    Manifests::new(&[("cluster.yaml", CLUSTER), ("shop.yaml", ISOLATED)])
}

/// The verdict and reason at the destination.
fn ingress(manifests: &Manifests, flow: [&str; 2], more: &[&str]) -> String {
    let [from, to] = flow;
    let question = ["--from", from, "--to", to, "--port", "80", "-o", "json"];
    let answer = manifests.picket("eval", &[&question, more].concat()).json();
    assert_valid("eval", std::slice::from_ref(&answer));
    let text = |path| answer.pointer(path).and_then(|value| value.as_str()).unwrap();
    format!("{} {}", text("/ingress/verdict"), text("/ingress/reason"))
}

#[test]
fn the_dialect_is_the_inputs_own_unless_it_is_chosen() {
    for (manifests, more, stranger, web) in [
        (
            isolated(),
            &[][..],
            "deny no-rule-matches",
            "allow allowed-by-rule",
        ),
        (plain(), &[], "allow allowed-by-rule", "allow allowed-by-rule"),
        (
            plain(),
            &["--v1beta1=proposal"],
            "allow not-isolated",
            "allow not-isolated",
        ),
        (
            isolated(),
            &["--v1beta1=v1"],
            "allow allowed-by-rule",
            "allow allowed-by-rule",
        ),
    ] {
        assert_eq!(
            ingress(&manifests, ["lab/tool", "shop/db"], more),
            stranger,
            "{more:?}"
        );
        assert_eq!(
            ingress(&manifests, ["shop/web", "shop/db"], more),
            web,
            "{more:?}"
        );
    }
}

#[test]
fn the_cluster_default_is_about_namespaces_without_isolation() {
    let allow = ["--v1beta1-default=allow"];
    let deny = ["--v1beta1-default=deny"];
    for (flow, more, expected) in [
        (["shop/web", "lab/tool"], &allow, "allow not-isolated"),
        (["shop/web", "lab/tool"], &deny, "deny cluster-default"),
        (["172.18.0.2", "lab/tool"], &allow, "allow local-node"),
        (["172.18.0.2", "lab/tool"], &deny, "deny cluster-default"),
        (["172.18.0.2", "shop/db"], &deny, "allow local-node"),
        (["lab/tool", "shop/db"], &deny, "deny no-rule-matches"),
        (["shop/web", "shop/db"], &deny, "allow allowed-by-rule"),
        (["lab/tool", "lab/tool"], &deny, "allow same-pod"),
    ] {
        assert_eq!(ingress(&isolated(), flow, more), expected, "{flow:?} {more:?}");
    }
}

#[test]
fn every_answer_knows_the_cluster_default() {
    let deny = "--v1beta1-default=deny";
    let manifests = isolated();
    let explained = manifests.picket(
        "explain",
        &["--from", "shop/web", "--to", "lab/tool", "--port", "80", deny],
    );
    for said in [
        "deny, nothing isolates the pod, and the cluster default (`--v1beta1-default`) is to deny",
        "  tier ClusterDefault: deny\n",
        "  - add a NetworkPolicy that selects",
    ] {
        assert!(explained.stdout.contains(said), "{said}: {}", explained.stdout);
    }
    for (pod, said, hidden) in [
        (
            "lab/tool",
            "ingress: not isolated, and the cluster default is to deny\n",
            "isolated: only",
        ),
        (
            "shop/db",
            "ingress: isolated: only what a rule accepts\n",
            "ClusterDefault",
        ),
    ] {
        let explained = manifests.picket("explain", &["--pod", pod, deny]).stdout;
        assert!(
            explained.contains(said) && !explained.contains(hidden),
            "{explained}"
        );
    }
    let matrix = |more: &[&str]| {
        manifests
            .picket("matrix", &[&["-o", "json"], more].concat())
            .json()
    };
    let received = |map: serde_json::Value| {
        let connections = map["connections"].as_array().unwrap().clone();
        connections.iter().filter(|one| one["to"] == "lab/tool").count()
    };
    assert!(received(matrix(&[])) > 0);
    assert_eq!(received(matrix(&[deny])), 0);
    let verified = manifests.picket("verify", &["--target", "nftables", deny]);
    assert_eq!(verified.status, 0, "{}{}", verified.stdout, verified.stderr);
    let pod = [
        "--target",
        "nftables",
        "--layout",
        "documented",
        "--pod",
        "lab/tool",
        deny,
    ];
    let verified = manifests.picket("verify", &pod);
    assert_eq!(verified.status, 0, "{}{}", verified.stdout, verified.stderr);
    let rendered = manifests.picket("render", &["--target", "nftables"]);
    let with_default = manifests.picket("render", &["--target", "nftables", deny]);
    assert!(
        !rendered.stdout.contains("chain from-itself"),
        "{}",
        rendered.stdout
    );
    assert!(
        with_default.stdout.contains("chain from-itself"),
        "{}",
        with_default.stdout
    );
}

#[test]
fn a_cluster_default_that_is_not_applied_is_said_to_be_so() {
    for (manifests, more, applied) in [
        (isolated(), &["--v1beta1-default=deny"][..], true),
        (plain(), &["--v1beta1-default=deny"], false),
        (isolated(), &["--v1beta1-default=deny", "--v1beta1=v1"], false),
        (plain(), &["--v1beta1-default=deny", "--v1beta1=proposal"], true),
        (plain(), &["--v1beta1-default=allow"], true),
    ] {
        let ran = manifests.picket("check", &[more, &["-o", "json"]].concat());
        let said = ran.stdout.contains("the cluster default is not applied");
        assert_eq!(said, !applied, "{more:?}: {}", ran.stdout);
    }
}

fn diff(old: &Manifests, new: &Manifests, more: &[&str]) -> Ran {
    let sides = [old, new].map(|side| side.path().to_str().unwrap());
    run(
        old.path(),
        &[&["diff", "-o", "json"], &sides[..], more].concat(),
        "",
    )
}

#[test]
fn both_sides_of_a_difference_are_read_in_one_dialect() {
    let added = |ran: &Ran| ran.json()["added"].as_array().unwrap().len();
    // Without the annotation nothing is isolated, and not: the policies mean what those of v1 mean.
    let ran = diff(&isolated(), &plain(), &[]);
    let opened = ran.json()["added"].to_string();
    assert!(
        opened.contains(r#""from":"lab/tool""#) && opened.contains(r#""to":"shop/web""#),
        "{opened}"
    );
    assert_eq!(added(&diff(&isolated(), &plain(), &["--v1beta1=v1"])), 0);
    let default = ["--v1beta1=proposal", "--v1beta1-default=deny"];
    let closed = diff(&isolated(), &plain(), &default);
    assert_eq!(added(&closed), 0, "{}", closed.stdout);
    assert_ne!(
        closed.json()["removed"].as_array().unwrap().len(),
        0,
        "{}",
        closed.stdout
    );
}
