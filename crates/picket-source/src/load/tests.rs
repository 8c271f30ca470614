use std::fs;

use picket_policy::ObjectRef;
use proptest::prelude::*;

use super::*;

const CLUSTER: &str = "\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: red}}}
- {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, status: {podIP: 10.0.0.5}}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: api, namespace: shop}, spec: {template: {metadata: {labels: {app: api}}}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: more}
";

const POLICY: &str = "\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: web
  namespace: shop
spec:
  podSelector: {}
  ingress:
  - ports: [{port: http}]
  - from:
    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: nowhere}}
";

fn texts(files: &[(&str, &str)]) -> Vec<Text> {
    let text = |(name, text): &(&str, &str)| Text {
        name: (*name).into(),
        bytes: text.as_bytes().to_vec(),
    };
    files.iter().map(text).collect()
}

/// `code file:line:column field` of each.
fn found(loaded: &Loaded) -> Vec<String> {
    let line = |found: &Diagnostic| {
        let span = &found.labels[0].span;
        format!(
            "{} {}:{}:{} {}",
            found.code, span.file, span.line, span.column, found.field
        )
    };
    loaded.diagnostics.iter().map(line).collect()
}

#[test]
fn a_kind_that_does_not_exist_is_reported_and_counted_as_ignored() {
    let text = POLICY.replace("NetworkPolicy", "networkPolicy");
    let loaded = load_texts(&texts(&[("policy.yaml", &text)]), Options::default());
    assert_eq!(found(&loaded), ["C010 policy.yaml:2:7 kind"]);
    assert_eq!(loaded.ignored, BTreeMap::from([("networkPolicy".into(), 1)]));
}

#[test]
fn files_become_one_snapshot() {
    let loaded = load_texts(
        &texts(&[("policy.yaml", POLICY), ("cluster.yaml", CLUSTER)]),
        Options::default(),
    );
    let pods: Vec<_> = loaded.snapshot.pods.values().map(|pod| pod.id()).collect();
    assert_eq!(pods, ["shop/Deployment/api", "shop/web"]);
    let policy = &loaded.snapshot.policies[&ObjectRef::new("NetworkPolicy", "shop", "web")];
    assert!(policy.ingress.isolates && policy.ingress.rules.len() == 2);
    assert_eq!(loaded.ignored, BTreeMap::from([("ConfigMap".into(), 2)]));
    assert_eq!(loaded.files, ["policy.yaml".into(), "cluster.yaml".into()]);
    assert_eq!(&*loaded.sources["policy.yaml"], POLICY);
    assert!(loaded.unparsable.is_empty());
    let expected = [
        "C008 policy.yaml:9:20 spec.ingress[0].ports[0].port",
        "C007 policy.yaml:11:70 spec.ingress[1].from[0].namespaceSelector",
    ];
    assert_eq!(found(&loaded), expected);
}

#[test]
fn a_file_that_cannot_be_parsed_takes_no_other_with_it() {
    let broken = "apiVersion: v1\nkind: [\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n";
    let mut texts = texts(&[
        ("broken.yaml", broken),
        ("cluster.yaml", CLUSTER),
        ("binary.yaml", ""),
    ]);
    texts[2].bytes = vec![0xff, 0xfe, 0];
    let loaded = load_texts(&texts, Options::default());
    assert_eq!(loaded.snapshot.pods.len(), 3);
    let unparsable: Vec<_> = loaded.unparsable.iter().map(|file| &**file).collect();
    assert_eq!(unparsable, ["binary.yaml", "broken.yaml"]);
}

#[test]
fn duplicates_across_files_name_both_places() {
    let loaded = load_texts(
        &texts(&[("a.yaml", CLUSTER), ("b.yaml", POLICY), ("c.yaml", CLUSTER)]),
        Options::default(),
    );
    let duplicates: Vec<_> = loaded
        .diagnostics
        .iter()
        .filter(|found| found.code == picket_cluster::codes::DUPLICATE)
        .map(|found| {
            found
                .labels
                .iter()
                .map(|label| &*label.span.file)
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(duplicates, [["c.yaml", "a.yaml"]; 3]);
}

#[test]
fn strict_cidr_reaches_the_policies() {
    let policy = POLICY.replace(
        "{port: http}]",
        "{port: 80}]\n    from: [{ipBlock: {cidr: 10.0.0.5/8}}]",
    );
    for (strict_cidr, severity) in [(false, Severity::Warning), (true, Severity::Error)] {
        let loaded = load_texts(
            &texts(&[("policy.yaml", &policy)]),
            Options {
                strict_cidr,
                ..Options::default()
            },
        );
        assert_eq!(loaded.diagnostics[0].severity, severity);
    }
}

#[test]
fn input_without_any_object_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let load = |name: &str, text: &str| {
        let path = root.path().join(name);
        fs::write(&path, text).unwrap();
        super::load(
            crate::Files {
                paths: &[path],
                stdin: &mut std::io::empty(),
            },
            Options::default(),
        )
    };
    for (name, text) in [
        ("empty.yaml", ""),
        ("comment.yaml", "# nothing\n---\n"),
        ("list.yaml", "{apiVersion: v1, kind: List, items: []}"),
    ] {
        let error = load(name, text).map(|loaded| loaded.files).unwrap_err();
        let start = error.to_string();
        assert!(
            start.starts_with("the input holds no object: `") && start.contains(name),
            "{start}"
        );
    }
    assert!(
        load(
            "ignored.yaml",
            "{apiVersion: v1, kind: Secret, metadata: {name: a}}"
        )
        .is_ok()
    );
    let without_kind = load("no-kind.yaml", "{metadata: {name: a}}").unwrap();
    assert_eq!(without_kind.diagnostics[0].code, code::NO_KIND);
}

#[test]
fn the_same_input_gives_the_same_answer() {
    let files = texts(&[("a.yaml", CLUSTER), ("b.yaml", POLICY)]);
    let (one, other) = (
        load_texts(&files, Options::default()),
        load_texts(&files, Options::default()),
    );
    assert_eq!(
        (one.snapshot, one.diagnostics),
        (other.snapshot, other.diagnostics)
    );
}

/// Manifests in which lines are doubled, dropped, cut, indented and swapped.
fn damaged() -> impl Strategy<Value = String> {
    let damage = (0..6u8, any::<prop::sample::Index>(), any::<prop::sample::Index>());
    prop::collection::vec(damage, 1..8).prop_map(|damages| {
        let mut lines: Vec<String> = (CLUSTER.to_owned() + "---\n" + POLICY)
            .lines()
            .map(str::to_owned)
            .collect();
        for (kind, at, other) in damages {
            let (at, other) = (at.index(lines.len()), other.index(lines.len()));
            match kind {
                0 => lines.insert(at, lines[other].clone()),
                1 => drop(lines.remove(at)),
                2 => lines[at].truncate(other),
                3 => lines[at].insert_str(0, "  "),
                4 => lines.swap(at, other),
                _ => lines[at] = lines[at].replace(['x', 'a', '1'], "7"),
            }
            if lines.is_empty() {
                lines.push("- *a".to_owned());
            }
        }
        lines.join("\n")
    })
}

proptest! {
    #[test]
    fn damaged_manifests_never_panic_and_every_place_is_in_the_text(text in damaged()) {
        let loaded = load_texts(&texts(&[("a.yaml", &text)]), Options::default());
        for label in loaded.diagnostics.iter().flat_map(|found| &found.labels) {
            prop_assert!(text.get(label.span.start..label.span.end).is_some(), "{:?}", label);
        }
        for pod in loaded.snapshot.live_pods() {
            prop_assert!(!pod.addresses.is_empty());
        }
    }
}
