//! No mistake in a ClusterNetworkPolicy makes it accept more or deny less.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test support reads what it has made itself"
)]

mod corruption;
#[path = "../../../fuzz/damage.rs"]
#[expect(dead_code, reason = "what damages texts is for the fuzz targets")]
mod damage;

use std::sync::Arc;

use picket_policy::{Options, Policy, lower, read};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};

use corruption::{Corruption, Printer, hoist, places};
use damage::is_narrower;

fn lowered(text: &str) -> Option<Option<Policy>> {
    let (manifests, _) = read(&Arc::from("a.yaml"), text.as_bytes());
    let lowered = lower(manifests.first()?, Options::default())?;
    Some(lowered.policy)
}

/// A policy that is sound, with every field that there is.
fn policy() -> impl Strategy<Value = Value> {
    let selector = prop_oneof![
        Just(json!({})),
        Just(json!({"matchLabels": {"a": "b", "c": "d"}})),
        Just(json!({"matchExpressions": [{"key": "x", "operator": "In", "values": ["a", "b"]}]})),
    ];
    let pods = (selector.clone(), selector.clone())
        .prop_map(|(namespaces, pods)| json!({"namespaceSelector": namespaces, "podSelector": pods}));
    let source = prop_oneof![
        selector
            .clone()
            .prop_map(|selector| json!({"namespaces": selector})),
        pods.prop_map(|pods| json!({"pods": pods})),
    ];
    let destination = prop_oneof![
        source.clone(),
        selector.prop_map(|selector| json!({"nodes": selector})),
        Just(json!({"networks": ["10.0.0.0/8", "fd00::/8"]})),
    ];
    let accepted = prop_oneof![
        destination.clone(),
        Just(json!({"domainNames": ["example.com", "*.example.org"]})),
    ];
    let protocol = prop_oneof![
        Just(json!({"tcp": {"destinationPort": {"number": 80}}})),
        Just(json!({"udp": {"destinationPort": {"range": {"start": 53, "end": 60}}}})),
    ];
    let rule = |side: &'static str, accepted: BoxedStrategy<Value>, others: BoxedStrategy<Value>| {
        let rest = prop::option::of(prop::collection::vec(protocol.clone(), 1..3));
        let peers = prop_oneof![
            prop::collection::vec(accepted, 1..3).prop_map(|peers| ("Accept", peers)),
            (
                prop::sample::select(vec!["Deny", "Pass"]),
                prop::collection::vec(others, 1..3)
            ),
        ];
        (peers, rest).prop_map(move |((action, peers), protocols)| {
            let mut rule = json!({"name": "a", "action": action, side: peers});
            let fields = rule.as_object_mut().unwrap();
            fields.extend(protocols.map(|protocols| ("protocols".to_owned(), json!(protocols))));
            rule
        })
    };
    let ingress = rule("from", source.clone().boxed(), source.clone().boxed());
    let egress = rule("to", accepted.boxed(), destination.boxed());
    (
        prop::sample::select(vec!["Admin", "Baseline"]),
        0..=1000,
        source,
        prop::collection::vec(ingress, 1..4),
        prop::collection::vec(egress, 1..4),
    )
        .prop_map(|(tier, priority, subject, ingress, egress)| {
            json!({
                "apiVersion": "policy.networking.k8s.io/v1alpha2",
                "kind": "ClusterNetworkPolicy",
                "metadata": {"name": "p", "labels": {"a": "b"}},
                "spec": {
                    "tier": tier,
                    "priority": priority,
                    "subject": subject,
                    "ingress": ingress,
                    "egress": egress,
                },
            })
        })
}

/// Cases that fail are kept, and tried first from then on.
fn keeping_failures() -> ProptestConfig {
    let file = FileFailurePersistence::Direct("tests/tiers.proptest-regressions");
    ProptestConfig {
        failure_persistence: Some(Box::new(file)),
        ..ProptestConfig::default()
    }
}

/// Places at which nobody can tell any more that it is a policy about anything.
const UNCLEAR: [&[&str]; 3] = [&["kind"], &["apiVersion"], &["spec"]];

proptest! {
    #![proptest_config(keeping_failures())]

    #[test]
    fn a_mistake_never_widens(policy in policy(), corruption in prop::sample::select(vec![
        Corruption::Misspell, Corruption::Retype, Corruption::Nest, Corruption::Repeat, Corruption::Alias,
    ]), place in any::<Index>()) {
        let sound = lowered(&policy.to_string()).expect("it is a policy").expect("it is sound");
        let places = places(&policy, corruption);
        let place = &places[place.index(places.len())];
        let text = Printer { place, corruption }.print(&policy);
        match lowered(&text) {
            Some(Some(broken)) => prop_assert!(is_narrower(&broken, &sound), "{text}\n{broken:#?}\n{sound:#?}"),
            _ => prop_assert!(UNCLEAR.iter().any(|path| path == place), "{text} at {place:?}"),
        }
    }

    #[test]
    fn a_field_at_the_wrong_indentation_never_widens(policy in policy(), place in any::<Index>()) {
        let sound = lowered(&policy.to_string()).expect("it is a policy").expect("it is sound");
        let places = places(&policy, Corruption::Misspell);
        let place = &places[place.index(places.len())];
        let text = hoist(&policy, place).to_string();
        let broken = lowered(&text).flatten().expect("it is a policy still");
        prop_assert!(is_narrower(&broken, &sound), "{text}\n{broken:#?}\n{sound:#?}");
    }

    #[test]
    fn a_line_that_is_lost_after_the_spec_began_never_widens(policy in policy(), place in any::<Index>()) {
        let sound = lowered(&policy.to_string()).expect("it is a policy").expect("it is sound");
        let text = format!("{policy:#}\n");
        let begun = text.find("\"spec\"").expect("it has a spec");
        let ends: Vec<_> = text.match_indices('\n').map(|(at, _)| at).filter(|at| *at > begun).collect();
        let end = ends[place.index(ends.len() - 1)];
        let (manifests, _) = read(&Arc::from("a.yaml"), &text.as_bytes()[..end]);
        for manifest in &manifests {
            let policy = lower(manifest, Options::default()).and_then(|lowered| lowered.policy);
            if let Some(broken) = policy {
                prop_assert!(is_narrower(&broken, &sound), "{}\n{broken:#?}\n{sound:#?}", &text[..end]);
            }
        }
    }
}
