//! Policies of which etcd takes no record, because they are too large.

use serde_json::{Value, json};

use super::{Reading, listing, record, written};

/// A policy that allows some pods many ports.
fn policy(name: &str, selector: &Value) -> Value {
    let ports: Vec<_> = (1..100).map(|port| json!({"port": port})).collect();
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"podSelector": selector, "policyTypes": ["Ingress"], "ingress": [{"ports": ports}]},
    })
}

/// The key of a policy about all pods, the record of it, and the one that etcd takes where it is too small for that.
fn too_large(name: &str) -> (String, Vec<u8>, Vec<u8>) {
    let (key, whole) = written(&policy(name, &json!({})));
    let closed = record::smaller(&whole, "too large").unwrap();
    (key, whole, closed)
}

/// How many rules each policy that is known has, all of which isolate.
fn rules(reading: &Reading) -> Vec<usize> {
    let snapshot = reading.snapshot();
    assert!(snapshot.policies.values().all(|policy| policy.ingress.isolates));
    let policies = snapshot.policies.values();
    policies.map(|policy| policy.ingress.rules.len()).collect()
}

#[test]
fn a_policy_that_is_too_large_isolates_for_readers_that_know_nothing_of_it() {
    let (key, whole, closed) = too_large("web");
    let mut reading = Reading::of(&[(key.clone(), closed.clone())]);
    assert!(reading.known.borrow().is_complete);
    assert_eq!(rules(&reading), [0]);
    let said = reading.unreadable().unwrap();
    assert!(said.contains("too large"), "{said}");
    // It is not what was known before.
    let everybody = String::from_utf8(closed.clone()).unwrap();
    let another = everybody.replace(
        r#""podSelector":{}"#,
        r#""podSelector":{"matchLabels":{"a":"b"}}"#,
    );
    assert_ne!(another, everybody);
    let before = reading.snapshot();
    reading.hear(&key, another.as_bytes());
    assert_ne!(reading.snapshot(), before);
    reading.hear(&key, &whole);
    assert_eq!((rules(&reading), reading.unreadable()), (vec![1], None));
    // Now something is known, and holds.
    reading.hear(&key, &closed);
    assert_eq!(rules(&reading), [1]);
    assert!(reading.unreadable().is_some());
    reading.intake.list(&listing(&[(key, closed)])).unwrap();
    assert_eq!(rules(&reading), [1]);
    reading.intake.list(&listing(&[])).unwrap();
    assert_eq!((rules(&reading).len(), reading.unreadable()), (0, None));
}

#[test]
fn what_is_too_large_is_cut_until_nothing_is_left_of_it() {
    let selector = json!({"matchLabels": {"a": "b".repeat(1000)}});
    let (key, whole) = written(&policy("web", &selector));
    let sizes: Vec<_> = std::iter::successors(Some(whole), |record| record::smaller(record, "too large"))
        .map(|record| {
            let reading = Reading::of(&[(key.clone(), record.clone())]);
            let said = reading.unreadable().unwrap_or_default();
            (record.len() > 1000, said.contains("too large"), rules(&reading))
        })
        .collect();
    assert_eq!(
        sizes,
        [
            (true, false, vec![1]),
            (true, true, vec![0]),
            (false, true, vec![0]),
            (false, true, vec![]),
        ]
    );
}

#[test]
fn nothing_stands_for_other_objects() {
    let (key, pod) = written(&json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"a": "b".repeat(1000)}},
    }));
    let problem = record::smaller(&pod, "too large").unwrap();
    let reading = Reading::of(&[(key, problem.clone())]);
    assert!(!reading.known.borrow().is_complete);
    assert_eq!(record::smaller(&problem, "too large"), None);
}
