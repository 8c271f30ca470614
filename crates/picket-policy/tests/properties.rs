//! What holds for every file, whatever is wrong with it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test support reads what it has made itself"
)]

#[path = "../../../fuzz/checks.rs"]
mod checks;
mod corruption;

use std::sync::Arc;

use checks::damage::is_narrower;
use picket_policy::{Options, Policy, lower, read};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};

use corruption::{Corruption, Printer, hoist, places};

const MANIFESTS: &str = include_str!("../../../fuzz/corpus/network_policy/complete.yaml");

/// Pieces that make text look enough like YAML to get past the parser.
fn yaml_like() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "é",
        "kind",
        "apiVersion",
        "NetworkPolicy",
        "networking.k8s.io/v1",
        "spec",
        "items",
        "List",
        ": ",
        ":",
        "- ",
        "\n",
        "\n  ",
        "\n    ",
        "\r\n",
        "\t",
        "{",
        "}",
        "[",
        "]",
        ",",
        "? ",
        "&a ",
        "*a",
        "<<",
        "!!str ",
        "!x ",
        "|",
        ">-",
        "'",
        "\"",
        "\\u00e9",
        "#",
        "%",
        "---",
        "...",
        "~",
        "null",
        "80",
        "1.5",
        "on",
        "\u{feff}",
        "\u{2028}",
        "@",
        "`",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

#[derive(Clone, Debug)]
enum Mutation {
    Truncate,
    Delete(usize),
    Replace(u8),
    Insert(&'static str),
    Repeat(usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        Just(Mutation::Truncate),
        (1..30usize).prop_map(Mutation::Delete),
        any::<u8>().prop_map(Mutation::Replace),
        prop::sample::select(vec![
            "\t", "*", "&x ", "!", "---\n", "\n", " ", "{", "]", "\"", "é", "<<: ", ": "
        ])
        .prop_map(Mutation::Insert),
        (1..60usize).prop_map(Mutation::Repeat),
    ]
}

fn mutate(bytes: &mut Vec<u8>, at: Index, mutation: &Mutation) {
    let at = at.index(bytes.len().max(1)).min(bytes.len());
    match *mutation {
        Mutation::Truncate => bytes.truncate(at),
        Mutation::Delete(count) => drop(bytes.drain(at..(at + count).min(bytes.len()))),
        Mutation::Replace(byte) => bytes.get_mut(at).into_iter().for_each(|present| *present = byte),
        Mutation::Insert(text) => drop(bytes.splice(at..at, text.bytes())),
        Mutation::Repeat(count) => {
            let piece = bytes[at..(at + count).min(bytes.len())].to_vec();
            drop(bytes.splice(at..at, piece));
        }
    }
}

/// Cases that fail are kept, and tried first from then on.
fn keeping_failures() -> ProptestConfig {
    let file = FileFailurePersistence::Direct("tests/properties.proptest-regressions");
    ProptestConfig {
        failure_persistence: Some(Box::new(file)),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(keeping_failures())]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        checks::document(&bytes);
        checks::network_policy(&bytes);
        checks::prefix(&bytes);
        checks::hosts(&bytes);
    }

    #[test]
    fn text_that_looks_like_yaml_never_panics(text in yaml_like()) {
        checks::document(text.as_bytes());
        checks::network_policy(text.as_bytes());
    }

    #[test]
    fn mutated_manifests_never_panic(mutations in prop::collection::vec((any::<Index>(), mutation()), 1..4)) {
        let mut bytes = MANIFESTS.as_bytes().to_vec();
        for (at, mutation) in &mutations {
            mutate(&mut bytes, *at, mutation);
        }
        checks::document(&bytes);
        checks::network_policy(&bytes);
    }

    #[test]
    fn a_corrupted_policy_is_never_wider(
        policy in policy(),
        place in any::<Index>(),
        corruption in prop::sample::select(vec![
            Corruption::Misspell, Corruption::Retype, Corruption::Nest, Corruption::Repeat, Corruption::Alias,
        ]),
    ) {
        let sound = lowered(&policy.to_string()).expect("it is a policy").expect("it is sound");
        let places = places(&policy, corruption);
        let place = &places[place.index(places.len())];
        let text = Printer { place, corruption }.print(&policy);
        // Without kind, version, spec or namespace there is no policy; otherwise it is one that says no more.
        let unclear = [vec![], vec!["kind"], vec!["apiVersion"], vec!["metadata"], vec!["metadata", "namespace"], vec!["spec"]];
        match lowered(&text) {
            Some(Some(broken)) => prop_assert!(is_narrower(&broken, &sound), "{text}\n{broken:#?}\n{sound:#?}"),
            _ => prop_assert!(unclear.iter().any(|path| path == place), "{text} at {place:?}"),
        }
    }
}

proptest! {
    #![proptest_config(keeping_failures())]

    #[test]
    fn a_field_at_the_wrong_indentation_never_widens(policy in policy(), place in any::<Index>()) {
        let sound = lowered(&policy.to_string()).expect("it is a policy").expect("it is sound");
        let places = places(&policy, Corruption::Misspell);
        let place = &places[place.index(places.len())];
        let text = hoist(&policy, place).to_string();
        // Without namespace there is no policy; otherwise it is one that says no more.
        match lowered(&text) {
            Some(Some(broken)) => prop_assert!(is_narrower(&broken, &sound), "{text}\n{broken:#?}\n{sound:#?}"),
            _ => prop_assert_eq!(place, &["metadata", "namespace"]),
        }
    }
}

proptest! {
    #![proptest_config(keeping_failures())]

    #[test]
    fn a_syntax_error_never_widens(
        policy in policy(), place in any::<Index>(), slip in slip(), block in any::<bool>(),
    ) {
        let sound = lowered(&policy.to_string()).expect("it is a policy").expect("it is sound");
        let text = if block { in_block_style(&policy, 0) } else { format!("{policy:#}\n") };
        let text = slip.in_text(&text, 0..text.len(), place);
        let (manifests, diagnostics) = read(&Arc::from("a.yaml"), text.as_bytes());
        for manifest in manifests.iter().filter(|manifest| manifest.is_broken()) {
            let policy = lower(manifest, Options::default()).and_then(|lowered| lowered.policy);
            if let Some(broken) = policy {
                prop_assert!(is_narrower(&broken, &sound), "{text}\n{broken:#?}\n{sound:#?}");
            }
        }
        prop_assert!(manifests.iter().all(|manifest| !manifest.is_broken()) || !diagnostics.is_empty());
    }

    #[test]
    fn a_syntax_error_in_an_item_loses_no_other(policy in policy(), place in any::<Index>(), slip in slip()) {
        let items = json!([neighbour("before"), policy, neighbour("after")]);
        let text = in_block_style(&json!({"apiVersion": "v1", "items": items, "kind": "List"}), 0);
        let start = text.match_indices("\n- ").nth(1).expect("there are three items").0 + 3;
        let end = text.match_indices("\n- ").nth(2).expect("there are three items").0;
        let text = slip.in_text(&text, start..end, place);
        let (manifests, diagnostics) = read(&Arc::from("a.yaml"), text.as_bytes());
        let whole = |name: &str| manifests.iter().any(|manifest| {
            let metadata = manifest.root().get("metadata").and_then(|metadata| metadata.get("name"));
            !manifest.is_broken() && metadata.and_then(|name| name.as_str()).is_some_and(|found| found == name)
        });
        prop_assert!(whole("before") && whole("after"), "{text}\n{diagnostics:#?}");
    }
}

/// A slip of the hand that brackets, quotes and indentation do not survive.
#[derive(Clone, Debug)]
enum Slip {
    /// One character is missing.
    Lose,
    /// One is too much.
    Add(char),
}

fn slip() -> impl Strategy<Value = Slip> {
    let marks = prop::sample::select("\"'{}[],:-".chars().collect::<Vec<_>>());
    prop_oneof![Just(Slip::Lose), marks.prop_map(Slip::Add)]
}

impl Slip {
    /// The text with the slip somewhere in `range`, at a character that structures it. No other character is touched:
    /// another letter is another policy.
    fn in_text(&self, text: &str, range: std::ops::Range<usize>, place: Index) -> String {
        let marks: Vec<_> = text
            .char_indices()
            .filter(|(at, mark)| range.contains(at) && "\"'{}[],: \n".contains(*mark))
            .collect();
        let (at, mark) = marks[place.index(marks.len())];
        match self {
            Self::Lose => [&text[..at], &text[at + mark.len_utf8()..]].concat(),
            Self::Add(mark) => format!("{}{mark}{}", &text[..at], &text[at..]),
        }
    }
}

fn neighbour(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"a": "b"}}})
}

/// JSON as YAML with a line for each value.
fn in_block_style(value: &Value, indent: usize) -> String {
    let pad = " ".repeat(indent);
    let below = |value: &Value, indent| match value {
        Value::Object(fields) if !fields.is_empty() => format!("\n{}", in_block_style(value, indent)),
        Value::Array(items) if !items.is_empty() => format!("\n{}", in_block_style(value, indent)),
        scalar => format!(" {scalar}\n"),
    };
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| {
                let deeper = if value.is_array() { indent } else { indent + 2 };
                format!("{pad}{key}:{}", below(value, deeper))
            })
            .collect(),
        Value::Array(items) => items
            .iter()
            .map(|item| {
                let text = match item {
                    Value::Object(fields) if !fields.is_empty() => in_block_style(item, indent + 2),
                    scalar => format!("{}{scalar}\n", " ".repeat(indent + 2)),
                };
                format!("{pad}- {}", &text[indent + 2..])
            })
            .collect(),
        scalar => format!("{pad}{scalar}\n"),
    }
}

fn lowered(text: &str) -> Option<Option<Policy>> {
    let (manifests, _) = read(&Arc::from("a.yaml"), text.as_bytes());
    let lowered = lower(manifests.first()?, Options::default())?;
    Some(lowered.policy)
}

/// A policy that is sound, with every field that there is.
fn policy() -> impl Strategy<Value = Value> {
    let labels = prop::collection::btree_map("[a-c]", "[de]", 1..3).prop_map(|labels| json!(labels));
    let expression = prop_oneof![
        Just(json!({"key": "x", "operator": "In", "values": ["a", "b"]})),
        Just(json!({"key": "z", "operator": "DoesNotExist"})),
    ];
    let selector = (prop::option::of(labels), prop::collection::vec(expression, 0..3)).prop_map(
        |(labels, expressions)| {
            let mut selector = json!({"matchExpressions": expressions});
            selector
                .as_object_mut()
                .unwrap()
                .extend(labels.map(|labels| ("matchLabels".to_owned(), labels)));
            selector
        },
    );
    let peer = prop_oneof![
        selector
            .clone()
            .prop_map(|selector| json!({"podSelector": selector})),
        (selector.clone(), selector.clone())
            .prop_map(|(pods, namespaces)| json!({"podSelector": pods, "namespaceSelector": namespaces})),
        Just(json!({"ipBlock": {"cidr": "10.0.0.0/8"}})),
        Just(json!({"ipBlock": {"cidr": "fd00::/8", "except": ["fd00:1::/32", "fd00:2::/32"]}})),
    ];
    let port = prop_oneof![
        Just(json!({})),
        Just(json!({"port": 80})),
        Just(json!({"protocol": "UDP", "port": 53, "endPort": 60})),
        Just(json!({"protocol": "SCTP", "port": "http"})),
    ];
    let list = |name: &'static str, items: BoxedStrategy<Value>| {
        prop::option::of(prop::collection::vec(items, 0..3))
            .prop_map(move |items| items.map(|items| (name.to_owned(), json!(items))))
    };
    let rule = |peers: &'static str| {
        (
            list(peers, peer.clone().boxed()),
            list("ports", port.clone().boxed()),
        )
            .prop_map(|(peers, ports)| Value::Object(peers.into_iter().chain(ports).collect()))
    };
    let types = prop::sample::subsequence(vec!["Ingress", "Egress"], 0..=2).prop_map(|types| json!(types));
    (
        prop::option::of(selector),
        list("ingress", rule("from").boxed()),
        list("egress", rule("to").boxed()),
        prop::option::of(types),
    )
        .prop_map(|(selector, ingress, egress, types)| {
            let mut spec = serde_json::Map::new();
            spec.extend(selector.map(|selector| ("podSelector".to_owned(), selector)));
            spec.extend(ingress.into_iter().chain(egress));
            spec.extend(types.map(|types| ("policyTypes".to_owned(), types)));
            json!({
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": {"name": "web", "namespace": "shop", "labels": {"a": "b"}},
                "spec": spec,
            })
        })
}
