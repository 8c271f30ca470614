//! Records say of policies what those of Contiv's reflector did, by the cases of its tests: ours in its words.
//!
//! The name of a port there is `my_name`, which the API server refuses: here it is `my-name`.

use picket_policy::{List, NamespaceScope, Peer, PodSelector, PortMatch, Requirement, Selector, Side};
use serde::Deserialize;

use super::*;

/// What somebody writes, and the record that was made of it. The last is another version of the first.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    spec: Value,
    record: Value,
}

fn words(policy: &Policy) -> Value {
    let namespace = policy.object.namespace.as_str();
    json!({
        "name": policy.object.name.as_str(),
        "namespace": namespace,
        "pods": of_selector(&policy.subject.pods),
        "policy_type": match (policy.ingress.isolates, policy.egress.isolates) {
            (true, true) => "INGRESS_AND_EGRESS",
            (true, false) => "INGRESS",
            (false, true) => "EGRESS",
            (false, false) => "DEFAULT",
        },
        "ingress_rule": of_side(&policy.ingress, "from", namespace),
        "egress_rule": of_side(&policy.egress, "to", namespace),
    })
}

fn of_side(side: &Side, peers: &str, namespace: &str) -> Value {
    let rules = side.rules.iter();
    let rules =
        rules.map(|rule| json!({"port": each(&rule.ports, of_port), peers: each(&rule.peers, |peer| of_peer(peer, namespace))}));
    rules.collect()
}

fn each<T>(list: &List<T>, words: impl Fn(&T) -> Value) -> Value {
    match list {
        List::Absent => json!([]),
        List::Items(items) => items.iter().map(words).collect(),
    }
}

fn of_port(port: &PortMatch) -> Value {
    match port {
        PortMatch::Range(protocol, range) if range.first() == range.last() => {
            json!({"protocol": protocol.to_string(), "port": {"type": "NUMBER", "number": range.first()}})
        }
        PortMatch::Named {
            protocol: Some(protocol),
            name,
        } => json!({"protocol": protocol.to_string(), "port": {"type": "NAME", "name": name.as_str()}}),
        other => panic!("{other:?} is in no case"),
    }
}

fn of_peer(peer: &Peer, own: &str) -> Value {
    match peer {
        Peer::Pods(PodSelector { namespaces, pods }) => match namespaces {
            NamespaceScope::Named(namespace) if namespace == own => json!({"pods": of_selector(pods)}),
            NamespaceScope::Matching(namespaces) if pods.is_everything() => {
                json!({"namespaces": of_selector(namespaces)})
            }
            _ => panic!("{peer:?} is in no case"),
        },
        Peer::Block(block) => {
            let except = block.except.iter().map(ToString::to_string);
            let except: Vec<_> = except.collect();
            json!({"ip_block": {"cidr": block.prefix.to_string(), "except": except}})
        }
        Peer::Nodes(_) | Peer::Domain(_) => panic!("{peer:?} is in no case"),
    }
}

fn of_selector(selector: &Selector) -> Value {
    let label = |requirement: &Requirement| match requirement {
        Requirement::In(key, values) if values.len() == 1 => {
            json!({"key": key.as_str(), "value": values[0].as_str()})
        }
        other => panic!("{other:?} is in no case"),
    };
    let labels: Vec<_> = selector.requirements().iter().map(label).collect();
    json!({"match_label": labels, "match_expression": []})
}

#[test]
fn records_of_policies_say_what_those_of_the_original_did() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("contiv.json")).unwrap();
    assert_eq!(cases.len(), 4);
    let mut reading = Reading::new();
    reading.intake.list(&listing(&[])).unwrap();
    for Case { spec, record } in cases {
        let policy = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": record["name"], "namespace": record["namespace"]},
            "spec": spec,
        });
        let (key, bytes) = written(&policy);
        reading.hear(&key, &bytes);
        let snapshot = reading.snapshot();
        let named = snapshot
            .policies
            .values()
            .find(|policy| *policy.object.name == record["name"]);
        assert_eq!(words(named.unwrap()), record);
    }
    assert_eq!(reading.snapshot().policies.len(), 3);
}
