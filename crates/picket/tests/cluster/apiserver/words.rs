//! What picket says about a bad policy is what the API server says.

use std::collections::BTreeSet;
use std::fs;

use picket_testing::apiserver::Server;
use serde_json::{Value, json};

use crate::client::Api;
use crate::objects::network_policy;
use crate::picket;

/// The problems that an answer lists, each with the field.
fn problems(list: &Value) -> BTreeSet<(String, String)> {
    let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
    let problems = list.as_array().unwrap().iter();
    problems
        .map(|problem| (text(problem, "field"), text(problem, "message")))
        .collect()
}

#[test]
fn a_bad_policy_is_refused_in_the_same_words() {
    let server = Server::start();
    let api = Api::new(&server.kubeconfig());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.json");
    let select_all = json!({});
    for spec in [
        json!({"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
        json!({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}}),
        json!({"podSelector": {"matchLabels": {"a b": "c"}}}),
        json!({"podSelector": select_all, "policyTypes": ["Ingress", "Both"]}),
        json!({"podSelector": select_all, "ingress": [{"from": [{}]}]}),
        json!({"podSelector": select_all, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/33"}}]}]}),
        json!({"podSelector": select_all, "ingress": [{"from": [
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}},
        ]}]}),
        json!({"podSelector": select_all, "ingress": [{"from": [
            {"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}},
        ]}]}),
        json!({"podSelector": select_all, "egress": [{"ports": [{"port": 70000}]}]}),
        json!({"podSelector": select_all, "egress": [{"ports": [{"port": "Web_1"}]}]}),
        json!({"podSelector": select_all, "egress": [{"ports": [{"port": 80, "endPort": 10}]}]}),
        json!({"podSelector": select_all, "egress": [{"ports": [{"port": "http", "endPort": 90}]}]}),
        json!({"podSelector": select_all, "egress": [{"ports": [{"endPort": 90}]}]}),
        json!({"podSelector": select_all, "egress": [{"ports": [{"protocol": "ICMP"}]}]}),
    ] {
        let object = network_policy("default", "bad", &spec);
        let path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
        let status = api.try_create(path, &object).unwrap_err();
        assert_eq!(status.code, 422, "{spec}: {}", status.message);
        let details = serde_json::to_value(status.details).unwrap();
        fs::write(&file, object.to_string()).unwrap();
        let ran = picket(
            &server.kubeconfig(),
            &["check", "-o", "json", "-f", file.to_str().unwrap()],
        );
        assert_eq!(ran.status, 1, "{spec}");
        let errors = ran.json()["diagnostics"].as_array().unwrap().clone();
        let errors = errors
            .into_iter()
            .filter(|found| found["severity"] == "error")
            .collect();
        assert_eq!(
            problems(&Value::Array(errors)),
            problems(&details["causes"]),
            "{spec}"
        );
    }
}
