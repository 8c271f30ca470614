//! Questions about policies of the tiers, and about the domain names that they accept.

use serde_json::json;

use crate::{CLUSTER, Manifests, schema::assert_valid};

const POLICY: &str = r#"
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: web}
spec:
  tier: Admin
  priority: 1
  subject: {pods: {podSelector: {matchLabels: {app: web}}}}
  egress:
  - action: Accept
    to: [{domainNames: ['*.example.com']}]
    protocols: [{tcp: {destinationPort: {number: 443}}}]
  - action: Deny
    to: [{networks: [0.0.0.0/0]}]
"#;

const HOSTS: &str = "192.0.2.1 www.example.com\n192.0.2.2 example.com\n";

fn cluster() -> Manifests {
    Manifests::new(&[("cluster.yaml", CLUSTER), ("cnp.yaml", POLICY), ("hosts", HOSTS)])
}

/// The verdict and the reason of the egress of `shop/web` to an address on TCP 443.
fn egress(to: &str, more: &[&str]) -> (String, String) {
    let question = ["--from", "shop/web", "--to", to, "--port", "443", "-o", "json"];
    let answer = cluster().picket("eval", &[&question, more].concat()).json();
    assert_valid("eval", std::slice::from_ref(&answer));
    let text = |path| {
        let value = answer.pointer(path).and_then(|value| value.as_str());
        value.unwrap_or_else(|| panic!("{path}: {answer}")).to_owned()
    };
    (text("/verdict"), text("/egress/reason"))
}

#[test]
fn a_domain_name_is_accepted_at_the_addresses_that_are_known() {
    for (to, more, expected) in [
        ("192.0.2.1", &["--dns", "hosts"][..], ("allow", "allowed-by-rule")),
        ("192.0.2.2", &["--dns", "hosts"], ("deny", "denied-by-rule")),
        ("192.0.2.1", &[], ("deny", "denied-by-rule")),
    ] {
        let (verdict, reason) = egress(to, more);
        assert_eq!((verdict.as_str(), reason.as_str()), expected, "{to} {more:?}");
    }
}

#[test]
fn a_name_without_a_known_address_is_a_warning() {
    let ran = cluster().picket("check", &["-o", "json"]);
    assert_eq!(ran.status, 0, "{}", ran.stdout);
    let found = ran.json();
    let codes: Vec<_> = found["diagnostics"].as_array().unwrap().iter().collect();
    assert_eq!(codes.len(), 1, "{found}");
    assert_eq!(codes[0]["code"], json!("C015"));
    let ran = cluster().picket("check", &["--dns", "hosts", "-o", "json"]);
    assert_eq!(ran.json()["diagnostics"], json!([]));
}

#[test]
fn a_file_of_hosts_that_is_not_there_is_an_input_error() {
    let ran = cluster().picket("check", &["--dns", "nowhere"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("nowhere"), "{}", ran.stderr);
}
