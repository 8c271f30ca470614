//! The complete example of the documented layout, from manifests and files to the ruleset and its proof.

use crate::{Manifests, Ran};

const POLICY: &str = r#"
apiVersion: k8s.cni.cncf.io/v1beta1
kind: MultiNetworkPolicy
metadata:
  name: web-policy
  namespace: default
  annotations: {k8s.v1.cni.cncf.io/policy-for: "macvlan-net1,macvlan-net2"}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Ingress, Egress]
  ingress:
  - from:
    - podSelector: {matchLabels: {app: frontend}}
    - ipBlock: {cidr: 10.0.0.0/8, except: [10.0.1.0/24]}
    ports: [{protocol: TCP, port: 8080}]
  egress:
  - to:
    - namespaceSelector: {matchLabels: {name: database}}
    ports: [{protocol: TCP, port: 5432}]
---
apiVersion: v1
kind: Namespace
metadata: {name: data, labels: {name: database}}
"#;

/// What the document has in one file for both directions.
const RULES: &str =
    "# Custom IPv4 ingress/egress rules\ntcp dport 9999 accept\nip saddr 192.168.100.0/24 accept\n";

/// Name, label `app`, address on net1, address on net2.
const PODS: [(&str, &str, &str, &str); 5] = [
    ("default/web", "web", "10.244.1.5", "10.244.1.6"),
    // The document has the pod's own address here, which no two pods of one network have.
    ("default/frontend-1", "frontend", "10.244.1.7", "10.244.1.7"),
    ("default/frontend-2", "frontend", "10.244.1.8", "10.244.1.8"),
    ("data/db-1", "db", "10.244.3.10", "10.244.3.10"),
    ("data/db-2", "db", "10.244.3.15", "10.244.3.15"),
];

fn manifests() -> Manifests {
    let pods = PODS.map(|(id, app, net1, net2)| {
        let (namespace, name) = id.split_once('/').unwrap();
        format!(
            "---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: {namespace}
  labels: {{app: {app}}}
  annotations:
    k8s.v1.cni.cncf.io/network-status: >-
      [{{\"name\": \"default/macvlan-net1\", \"interface\": \"net1\", \"ips\": [\"{net1}\"]}},
       {{\"name\": \"default/macvlan-net2\", \"interface\": \"net2\", \"ips\": [\"{net2}\"]}}]
"
        )
    });
    Manifests::new(&[("policy.yaml", POLICY), ("pods.yaml", &pods.concat()[3..])])
}

/// With the flags and files of the document's example.
fn ask(manifests: &Manifests, command: &str, more: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("custom-v4-rules.txt");
    std::fs::write(&file, RULES).unwrap();
    let file = file.to_str().unwrap();
    let options = [
        "--target",
        "nftables",
        "--layout",
        "documented",
        "--pod",
        "default/web",
        "--accept-icmp",
        "--accept-icmpv6",
        "--custom-v4-ingress-rule-file",
        file,
        "--custom-v4-egress-rule-file",
        file,
    ];
    manifests.picket(command, &[&options[..], more].concat())
}

#[test]
fn manifests_flags_and_files_give_every_set_and_chain_of_the_document() {
    let manifests = manifests();
    let ran = ask(&manifests, "render", &[]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let document = include_str!("../../../picket-nftables/src/render/documented/tests/complete_example.nft");
    let document = document.replace("{ 10.244.1.5, 10.244.1.8 }", "{ 10.244.1.7, 10.244.1.8 }");
    let replacing = "add table inet multi_networkpolicy\ndelete table inet multi_networkpolicy\n";
    assert_eq!(ran.stdout, format!("{replacing}{document}"));
}

#[test]
fn it_is_proved_and_every_rule_that_matters_is_missed() {
    let manifests = manifests();
    let ran = ask(&manifests, "verify", &[]);
    assert!(
        ran.status == 0 && ran.stdout.starts_with("proved: "),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    let rules = ask(&manifests, "render", &[]).stdout;
    let path = manifests.path().join("rules.nft");
    let ends = [" accept", " drop", " jump ", "accept comment", "drop comment"];
    let lines: Vec<_> = rules.lines().collect();
    let mut left_out = 0;
    for (index, line) in lines.iter().enumerate() {
        if !line.starts_with("        ") || !ends.iter().any(|end| line.contains(end)) {
            continue;
        }
        let rest: Vec<_> = lines
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index)
            .collect();
        let rest: String = rest.iter().map(|(_, line)| format!("{line}\n")).collect();
        std::fs::write(&path, rest).unwrap();
        let ran = ask(
            &manifests,
            "verify",
            &["--rules", path.to_str().unwrap(), "--limit", "1"],
        );
        // The flag for ICMPv6 accepts these types too, the block has the frontends, and the pod has no such address.
        let before = lines.iter().take(index);
        let sent = before.filter(|line| line.contains("chain common-egress")).count() == 1;
        let harmless = ["icmpv6 type", "_ingress_ipv4_net"]
            .iter()
            .any(|part| line.contains(part))
            || (sent && line.contains("192.168.100.0/24"));
        assert_eq!(
            ran.status,
            i32::from(!harmless),
            "{line}\n{}{}",
            ran.stdout,
            ran.stderr
        );
        left_out += 1;
    }
    // Thirty rules and the hooks of two chains.
    assert_eq!(left_out, 32, "{rules}");
}
