mod properties;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use picket_policy::{Diagnostic, Options, Severity};
use picket_source::{Loaded, Text, load_texts};

use super::{ALL, Input, LINTS, check};

/// What the loader and the lints say about one file.
fn load(text: &str) -> (Loaded, Vec<Diagnostic>) {
    let file = Text {
        name: Arc::from("policies.yaml"),
        bytes: text.as_bytes().into(),
    };
    let loaded = load_texts(&[file], Options::default());
    let found = lint(&loaded, &[]);
    (loaded, found)
}

fn lint(loaded: &Loaded, ignored: &[&str]) -> Vec<Diagnostic> {
    let errors = loaded.diagnostics.iter();
    let errors = errors.filter(|found| found.severity == Severity::Error);
    let broken: BTreeSet<_> = errors.filter_map(|found| found.object.clone()).collect();
    let ignored = ignored.iter().map(|code| super::code(code).unwrap());
    check(&Input {
        snapshot: &loaded.snapshot,
        v1beta1: loaded.v1beta1,
        sources: &loaded.sources,
        broken: &broken,
        ignored: &ignored.collect(),
    })
}

fn codes(found: &[Diagnostic]) -> Vec<&'static str> {
    found.iter().map(|found| found.code.0).collect()
}

/// What is wrong with the files, beside what is only said to be known.
fn problems(loaded: &Loaded) -> Vec<&'static str> {
    let found = loaded.diagnostics.iter();
    let found = found.filter(|found| found.severity != Severity::Note);
    found.map(|found| found.code.0).collect()
}

#[test]
fn every_lint_is_explained_and_explains_nothing_else() {
    let explained: Vec<_> = ALL.iter().map(|explanation| explanation.code).collect();
    let lints: Vec<_> = LINTS.iter().map(|lint| lint.code).collect();
    assert_eq!(explained, lints);
    assert!(lints.is_sorted_by(|one, other| one < other));
}

#[test]
fn bad_examples_give_their_lint_and_good_ones_nothing() {
    for lint in LINTS {
        let (bad, found) = load(lint.bad);
        assert_eq!(
            problems(&bad),
            [""; 0],
            "{} bad: {:#?}",
            lint.code,
            bad.diagnostics
        );
        assert_eq!(codes(&found), [lint.code.0], "{} bad: {found:#?}", lint.code);
        let (good, found) = load(lint.good);
        assert_eq!(problems(&good), [""; 0], "{} good", lint.code);
        assert_eq!(codes(&found), [""; 0], "{} good: {found:#?}", lint.code);
    }
}

#[test]
fn every_finding_has_a_place_in_the_text_and_a_remedy_or_a_reason() {
    for lint in LINTS {
        for found in load(lint.bad).1 {
            assert!(!found.labels.is_empty(), "{}", lint.code);
            assert!(found.object.is_some() && !found.message.is_empty());
            assert!(
                !found.notes.is_empty() || !found.fixes.is_empty(),
                "{}",
                lint.code
            );
        }
    }
}

#[test]
fn an_annotation_of_the_policy_silences_a_lint() {
    for lint in LINTS.iter().filter(|lint| lint.code.0 != "L018") {
        let annotated = format!(
            "  annotations: {{picket.dev/ignore: \"{}, L999\"}}\nspec:",
            lint.code
        );
        let below =
            |text: &str, last: &str| text.replace(&format!("{last}\nspec:"), &format!("{last}\n{annotated}"));
        let text = below(&below(lint.bad, "  namespace: shop"), "  name: deny");
        assert_ne!(text, lint.bad);
        let (_, found) = load(&text);
        assert!(
            found.iter().all(|found| found.code.0 == "L018"),
            "{}: {found:#?}",
            lint.code
        );
    }
}

#[test]
fn lints_that_nobody_wants_are_left_out() {
    for one in LINTS {
        let (loaded, _) = load(one.bad);
        assert_eq!(codes(&lint(&loaded, &[one.code.0])), [""; 0]);
    }
}

#[test]
fn policies_with_errors_are_left_alone() {
    let text = LINTS[0].bad.replace("podSelector:", "podSelectr:");
    let (loaded, found) = load(&text);
    assert!(!loaded.diagnostics.is_empty());
    assert_eq!(codes(&found), [""; 0]);
}

#[test]
fn a_policy_of_v1beta1_that_means_something_else_as_v1_is_named() {
    let isolated = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\nspec: {networkPolicy: {ingress: {isolation: DefaultDeny}}}\n";
    let v1 = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: v1, namespace: a}\nspec: {podSelector: {}, policyTypes: [Ingress]}\n";
    let elsewhere = isolated.replace("name: a", "name: b");
    let some = v1.replace("{}", "{matchLabels: {app: db}}");
    let pods = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: a, labels: {app: web}}\n---\n\
                apiVersion: v1\nkind: Pod\nmetadata: {name: db, namespace: a, labels: {app: db}}\n";
    let some = format!("{elsewhere}---\n{some}---\n{pods}");
    for (beside, spec, expected) in [
        (isolated, "{podSelector: {}, ingress: [{}]}", None),
        (
            isolated,
            "{podSelector: {}, ingress: [{from: null, ports: [{port: 80}]}]}",
            None,
        ),
        (
            isolated,
            "{podSelector: {}, ingress: [{from: []}]}",
            Some("spec.ingress[0].from"),
        ),
        (
            isolated,
            "{podSelector: {}, ingress: [{}, {ports: []}]}",
            Some("spec.ingress[1].ports"),
        ),
        (isolated, "{podSelector: {}, ingress: []}", Some("spec.ingress")),
        (isolated, "{podSelector: {}}", Some("spec.ingress")),
        (
            &elsewhere,
            "{podSelector: {}, ingress: [{ports: [{port: 80}]}]}",
            Some(""),
        ),
        (
            &format!("{elsewhere}---\n{v1}"),
            "{podSelector: {}, ingress: [{ports: [{port: 80}]}]}",
            None,
        ),
        (
            &some,
            "{podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{port: 80}]}]}",
            Some(""),
        ),
        (&some, "{podSelector: {}, ingress: [{ports: [{port: 80}]}]}", None),
        // Read as v1.
        (
            "kind: ConfigMap\napiVersion: v1\n",
            "{podSelector: {}, ingress: [{from: []}]}",
            Some("spec.ingress[0].from"),
        ),
        (
            "kind: ConfigMap\napiVersion: v1\n",
            "{podSelector: {}, ingress: [{ports: [{port: 80}]}]}",
            None,
        ),
        (
            "kind: ConfigMap\napiVersion: v1\n",
            "{podSelector: {}, egress: [{to: []}], ingress: [{from: []}]}",
            None,
        ),
    ] {
        let policy =
            "apiVersion: extensions/v1beta1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: a}\nspec:";
        let (_, found) = load(&format!("{beside}---\n{policy} {spec}\n"));
        let found: Vec<_> = found.iter().filter(|found| found.code.0 == "L016").collect();
        let fields: Vec<_> = found.iter().map(|found| found.field.as_str()).collect();
        assert_eq!(
            fields,
            expected.into_iter().collect::<Vec<_>>(),
            "{beside}{spec}: {found:#?}"
        );
    }
}

/// Policies as they are found in many places, with what is to be found in them: the file begins with the codes.
#[test]
fn well_known_policies_have_exactly_the_findings_that_they_should() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lint/known");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("cluster.yaml"))
        .collect();
    files.sort();
    assert!(files.len() >= 20);
    let cluster = std::fs::read_to_string(folder.join("cluster.yaml")).unwrap();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let expected = text.lines().next().unwrap().strip_prefix("# finds:").unwrap();
        let expected: Vec<_> = expected.split_whitespace().collect();
        let (loaded, found) = load(&format!("{text}---\n{cluster}"));
        assert_eq!(problems(&loaded), [""; 0], "{}", path.display());
        assert_eq!(codes(&found), expected, "{}: {found:#?}", path.display());
    }
}

#[test]
fn a_policy_for_two_networks_is_redundant_only_when_it_is_on_both() {
    let policy = |name: &str, networks: &str| {
        format!(
            "apiVersion: k8s.cni.cncf.io/v1beta1\nkind: MultiNetworkPolicy\n\
             metadata: {{name: {name}, namespace: shop, annotations: {{k8s.v1.cni.cncf.io/policy-for: \"{networks}\"}}}}\n\
             spec: {{podSelector: {{}}, policyTypes: [Ingress], ingress: [{{from: [{{podSelector: {{}}}}]}}]}}\n---\n"
        )
    };
    let pod = "apiVersion: v1\nkind: Pod\n\
               metadata: {name: web, namespace: shop, annotations: {k8s.v1.cni.cncf.io/networks: \"one, two\"}}\n";
    for (first, second, expected) in [
        ("one,two", "one,two", &["L011"][..]),
        ("one,two", "one", &["L011"]),
        ("one", "one,two", &[]),
    ] {
        let (_, found) = load(&format!("{}{}{pod}", policy("a", first), policy("b", second)));
        assert_eq!(codes(&found), expected, "{first} {second}: {found:#?}");
    }
}
