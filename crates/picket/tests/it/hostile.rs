//! What whoever writes a policy or an annotation of a pod must not be able to do: open more than is written, take a
//! policy away from others, or write into the ruleset.

use crate::{Manifests, Ran};

const PODS: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: server
  namespace: x
  labels: {app: server}
  annotations:
    k8s.v1.cni.cncf.io/network-status: '[{"name": "x/lan", "interface": "net1", "ips": ["10.7.0.1", "fd07::1"]}]'
---
apiVersion: v1
kind: Pod
metadata:
  name: peer
  namespace: x
  labels: {app: peer}
  annotations:
    k8s.v1.cni.cncf.io/network-status: '[{"name": "x/lan", "interface": "STATUS", "ips": ["10.7.0.2", "fd07::2"]}]'
---
apiVersion: v1
kind: Pod
metadata:
  name: stranger
  namespace: x
  annotations:
    k8s.v1.cni.cncf.io/network-status: '[{"name": "x/lan", "interface": "net1", "ips": ["10.7.0.3", "fd07::3"]}]'
"#;

/// A policy whose first rule is `rule`, and whose second lets the peer in on port 80.
fn manifests(rule: &str, interface: &str) -> Manifests {
    let policy = format!(
        "apiVersion: k8s.cni.cncf.io/v1beta1
kind: MultiNetworkPolicy
metadata: {{name: p, namespace: x, annotations: {{k8s.v1.cni.cncf.io/policy-for: lan}}}}
spec:
  podSelector: {{matchLabels: {{app: server}}}}
  ingress:
  - {rule}
  - {{from: [{{podSelector: {{matchLabels: {{app: peer}}}}}}], ports: [{{port: 80}}]}}
"
    );
    let pods = PODS.replace("STATUS", interface);
    Manifests::new(&[("pods.yaml", &pods), ("policy.yaml", &policy)])
}

fn ask(manifests: &Manifests, command: &str, pod: &str) -> Ran {
    let place = ["--target", "nftables", "--layout", "documented", "--pod", pod];
    manifests.picket(command, &place)
}

/// The verdict that picket gives to TCP 80 from one pod to `x/server`.
fn verdict(manifests: &Manifests, from: &str) -> String {
    let question = [
        "--network",
        "x/lan",
        "--from",
        from,
        "--to",
        "x/server",
        "--port",
        "80",
        "-o",
        "json",
    ];
    let answer = manifests.picket("eval", &question).json();
    let verdict = answer.get("verdict").and_then(|verdict| verdict.as_str());
    verdict.unwrap().to_owned()
}

#[test]
fn no_rule_writes_into_the_ruleset_or_takes_the_others_away() {
    for (rule, code) in [
        (
            r#"{ports: [{protocol: "tcp accept\nadd table inet evil", port: 80}]}"#,
            "protocol",
        ),
        (
            r#"{ports: [{port: "80 } accept; include \"/etc/passwd\""}]}"#,
            "port",
        ),
        (r#"{ports: [{protocol: ICMP}]}"#, "protocol"),
        (r#"{ports: [{port: 90, endPort: 80}]}"#, "endPort"),
        (r#"{ports: [{port: http, endPort: 80}]}"#, "endPort"),
        (r#"{ports: [{port: no-such-service}]}"#, "no-such-service"),
        (r#"{from: [{ipBlock: {cidr: "10.7.0.0/24 accept"}}]}"#, "cidr"),
        // IPv4 written as IPv6, which means the IPv4 block.
        (
            r#"{from: [{ipBlock: {cidr: "::ffff:10.6.0.0/112"}}]}"#,
            "10.6.0.0/16",
        ),
        (
            r#"{from: [{ipBlock: {cidr: 10.7.0.0/24, except: [10.0.0.0/8]}}]}"#,
            "except",
        ),
        (r#"{from: [{}]}"#, "from"),
        (
            r#"{from: [{podSelector: {matchExpressions: [{key: app, operator: Like, values: [x]}]}}]}"#,
            "operator",
        ),
    ] {
        let manifests = manifests(rule, "net1");
        let ran = ask(&manifests, "render", "x/server");
        assert_eq!(ran.status, 0, "{rule}\n{}", ran.stderr);
        assert!(ran.stderr.contains(code), "{rule}\n{}", ran.stderr);
        for foreign in ["evil", "include", "passwd", "no-such"] {
            assert!(!ran.stdout.contains(foreign), "{rule}\n{}", ran.stdout);
        }
        let proof = ask(&manifests, "verify", "x/server");
        assert_eq!(proof.status, 0, "{rule}\n{}{}", proof.stdout, proof.stderr);
        assert_eq!(verdict(&manifests, "x/peer"), "allow", "{rule}");
        assert_eq!(verdict(&manifests, "x/stranger"), "deny", "{rule}");
    }
}

#[test]
fn no_name_of_an_interface_opens_anything_or_takes_the_policy_away() {
    for interface in [
        "",
        "lo",
        "*",
        "net*",
        "a b",
        "-",
        "9",
        "}",
        "drop",
        "a-name-that-is-too-long-for-the-kernel",
        "x accept # ",
        r#"n\" accept \""#,
    ] {
        let manifests = manifests("{ports: [{port: 81}]}", interface);
        let ran = ask(&manifests, "verify", "x/server");
        assert_eq!(ran.status, 0, "{interface}\n{}{}", ran.stdout, ran.stderr);
        assert_eq!(verdict(&manifests, "x/stranger"), "deny", "{interface}");
        // The pod that says so itself: its own ruleset is proved, or refused for the name.
        let ran = ask(&manifests, "verify", "x/peer");
        let refused = ran.status == 2 && ran.stderr.contains("interface");
        assert!(
            ran.status == 0 || refused,
            "{interface}\n{}{}",
            ran.stdout,
            ran.stderr
        );
    }
}

#[test]
fn an_annotation_that_cannot_be_read_leaves_the_others_isolated() {
    for status in [
        "nonsense",
        r#"[{"name": "x/lan", "interface": 3, "ips": [7]}]"#,
        r#"[{"name": "x/lan", "interface": "net1", "ips": ["10.7.0.1", "fd07::1"]}]"#,
        r#"[{"name": "x/lan", "interface": "net1", "ips": ["10.7.0.9/24", "300.1.1.1", ""]}]"#,
    ] {
        let manifests = manifests("{ports: [{port: 81}]}", "net1");
        let pods = PODS.replace(
            r#"[{"name": "x/lan", "interface": "STATUS", "ips": ["10.7.0.2", "fd07::2"]}]"#,
            status,
        );
        std::fs::write(manifests.path().join("pods.yaml"), pods).unwrap();
        let ran = ask(&manifests, "verify", "x/server");
        assert_eq!(ran.status, 0, "{status}\n{}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("pods.yaml:"), "{status}\n{}", ran.stderr);
        assert_eq!(verdict(&manifests, "x/stranger"), "deny", "{status}");
    }
}
