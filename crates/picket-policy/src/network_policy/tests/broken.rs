//! What is left of a policy that cannot be read whole: never more than was meant.

use super::{errors, lowered, show, with_spec};
use crate::{Options, code};

/// Rows of a spec, what is left of it, and the number of errors.
fn check(rows: &[(&str, &str, usize)]) {
    for (spec, expected, count) in rows {
        let (policy, diagnostics) = with_spec(spec);
        assert_eq!(show(&policy.unwrap()), *expected, "{spec}");
        assert_eq!(
            errors(&diagnostics).len(),
            *count,
            "{spec}: {:?}",
            errors(&diagnostics)
        );
        assert!(
            diagnostics.iter().any(|diagnostic| !diagnostic.notes.is_empty()),
            "{spec}"
        );
    }
}

#[test]
fn a_rule_with_a_mistake_matches_nothing_and_keeps_its_place() {
    check(&[
        (
            "{ingress: [{}, {form: [{podSelector: {}}]}, {}]}",
            "shop/<all> | 0: any; 1: none; 2: any | -",
            1,
        ),
        (
            "{ingress: [{from: {podSelector: {}}}]}",
            "shop/<all> | 0: none | -",
            1,
        ),
        ("{ingress: [null, 1]}", "shop/<all> | 0: none; 1: none | -", 2),
        (
            "{ingress: [{from: [{podSelector: {}}, {}]}]}",
            "shop/<all> | 0: none | -",
            1,
        ),
        (
            "{ingress: [{ports: [{port: 80}, {port: 0}]}]}",
            "shop/<all> | 0: none | -",
            1,
        ),
        (
            "{ingress: [{from: [{}], ports: [{port: 0}]}]}",
            "shop/<all> | 0: none | -",
            2,
        ),
        ("{ingress: [{to: []}]}", "shop/<all> | 0: none | -", 1),
        ("{ingress: [{from: *gone}]}", "shop/<all> | 0: none | -", 2),
        (
            "{ingress: [{from: [{podSelector: {}}], from: []}]}",
            "shop/<all> | 0: none | -",
            2,
        ),
        (
            "{ingress: [{from: [{podSelector: {matchLabels: {a: b, a: c}}}]}]}",
            "shop/<all> | 0: none | -",
            2,
        ),
    ]);
}

#[test]
fn rules_that_are_no_list_allow_nothing() {
    check(&[
        ("{ingress: {from: []}}", "shop/<all> | deny | -", 1),
        ("{egress: {to: []}}", "shop/<all> | deny | deny", 1),
        ("{egress: [], egress: []}", "shop/<all> | deny | deny", 2),
        ("{policyTypes: [Ingress], egress: 1}", "shop/<all> | deny | -", 1),
    ]);
}

#[test]
fn an_unreadable_subject_isolates_all_that_may_be_meant_and_allows_nothing() {
    check(&[
        (
            "{podSelector: {matchLabels: {a: b, c: 1}}, ingress: [{}]}",
            "shop/a=b | 0: none | -",
            1,
        ),
        (
            "{podSelector: {matchLabels: {a: b}, extra: c}, ingress: [{}]}",
            "shop/a=b | 0: none | -",
            1,
        ),
        (
            "{podSelector: {app: web}, ingress: [{}], egress: [{}]}",
            "shop/<all> | 0: none | 0: none",
            1,
        ),
        ("{podSelector: [], ingress: [{}]}", "shop/<all> | 0: none | -", 1),
        (
            "{podSelector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Is}]}, ingress: [{}]}",
            "shop/a=b | 0: none | -",
            1,
        ),
        (
            "{podSelector: {matchLabels: {a: b, a: c, d: e}}, ingress: [{}]}",
            "shop/d=e | 0: none | -",
            2,
        ),
        (
            "{podSelector: {<<: *gone, matchLabels: {a: b}}, ingress: [{}]}",
            "shop/<all> | 0: none | -",
            2,
        ),
    ]);
}

#[test]
fn unclear_policy_types_isolate_both_directions_and_only_listed_directions_allow() {
    check(&[
        (
            "{policyTypes: [ingress], ingress: [{}], egress: [{}]}",
            "shop/<all> | 0: none | 0: none",
            1,
        ),
        (
            "{policyTypes: [Ingress, egress], ingress: [{}], egress: [{}]}",
            "shop/<all> | 0: any | 0: none",
            1,
        ),
        (
            "{policyTypes: [Ingress, Ingress, Ingress], ingress: [{}]}",
            "shop/<all> | 0: any | deny",
            1,
        ),
        (
            "{policyTypes: Ingress, ingress: [{}]}",
            "shop/<all> | 0: none | deny",
            1,
        ),
        (
            "{policyTypes: [Egress], policyTypes: [Ingress]}",
            "shop/<all> | deny | deny",
            2,
        ),
        ("{policyTypes: [null]}", "shop/<all> | deny | deny", 1),
    ]);
}

#[test]
fn an_unknown_field_of_the_spec_silences_the_policy() {
    check(&[
        (
            "{policyType: [Egress], ingress: [{}]}",
            "shop/<all> | 0: none | deny",
            1,
        ),
        (
            "{policyTypes: [Ingress], ingres: [], ingress: [{}]}",
            "shop/<all> | 0: none | -",
            1,
        ),
        (
            "{policyTypes: [], podSelectors: {}, ingress: [{}]}",
            "shop/<all> | 0: none | deny",
            1,
        ),
    ]);
}

/// The whole text of a policy, with `{}` for the spec.
fn whole(text: &str) -> (String, Vec<String>) {
    let (policy, diagnostics) = lowered(text, Options::default());
    (
        policy.map_or_else(|| "nothing".to_owned(), |policy| show(&policy)),
        errors(&diagnostics),
    )
}

#[test]
fn fields_beside_the_spec_silence_the_policy() {
    let head =
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web, namespace: shop}\n";
    let (shown, errors) = whole(&format!(
        "{head}spec: {{ingress: [{{}}]}}\npolicyTypes: [Egress]\n"
    ));
    assert_eq!(shown, "shop/<all> | 0: none | deny");
    assert_eq!(errors, ["policyTypes: unknown field `policyTypes`"]);
}

#[test]
fn without_a_readable_spec_or_namespace_there_is_no_policy() {
    let head = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n";
    let named = format!("{head}metadata: {{name: web, namespace: shop}}\n");
    for (text, expected) in [
        (named.clone(), "spec: Required value: a policy needs a `spec`"),
        (
            format!("{named}spec:\n"),
            "spec: Required value: a policy needs a `spec`",
        ),
        (
            format!("{named}spec: []\n"),
            "spec: must be an object, not an array",
        ),
        (
            format!("{head}metadata: {{name: web, namespace: 1}}\nspec: {{}}\n"),
            "metadata.namespace: must be a string, not an integer",
        ),
        (
            format!("{head}metadata: [web]\nspec: {{}}\n"),
            "metadata: must be an object, not an array",
        ),
        (
            format!("{head}metadata: {{name: web, namspace: shop}}\nspec: {{}}\n"),
            "metadata.namspace: unknown field `metadata.namspace`",
        ),
    ] {
        assert_eq!(
            whole(&text),
            ("nothing".to_owned(), vec![expected.to_owned()]),
            "{text}"
        );
    }
    let (policy, diagnostics) = lowered(&format!("{named}spec: {{}}\nspec: {{}}\n"), Options::default());
    assert_eq!(policy, None);
    let codes: Vec<_> = diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(codes, [code::DUPLICATE_KEY, code::UNREADABLE]);
    let note = "nobody can tell which pods the policy is about, so it isolates nothing";
    assert_eq!(diagnostics[1].notes, [note]);
}

#[test]
fn a_policy_that_breaks_off_isolates_what_it_may_select() {
    let head = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n";
    let web = "metadata:\n  name: web\n  namespace: shop\n";
    let selector = "  podSelector:\n    matchLabels:\n      app: web\n    matchExpressions:\n    - {key: a, operator: In, values: [b]}\n    - {key: c, operator: Exists}\n";
    for (text, expected) in [
        (
            format!("{web}spec:\n{selector}  policyTypes: [Ingress]\n  ingress:\n  - from: [}}\n"),
            Some("shop/app=web,c"),
        ),
        (
            format!("{web}spec:\n{selector}  ingress:\n  - from:\n   - x\n"),
            Some("shop/app=web,c"),
        ),
        (format!("{web}spec:\n{selector}   x: y\n"), Some("shop/<all>")),
        (
            format!("{web}spec:\n  podSelector:\n    matchLabels:\n      app: 'web\n"),
            Some("shop/<all>"),
        ),
        (format!("{web}spec:\n  ingress: [\n"), Some("shop/<all>")),
        (format!("{web}spec: [\n"), None),
        (format!("{web}x: [\nspec: {{}}\n"), None),
        ("metadata:\n  name: 'web\nspec: {}\n".to_owned(), None),
        (format!("spec:\n{selector}metadata: [\n"), None),
    ] {
        let (policy, diagnostics) = lowered(&format!("{head}{text}"), Options::default());
        assert_eq!(diagnostics[0].code, code::SYNTAX, "{text}");
        let note = "lines 1 to ";
        assert!(diagnostics[0].notes[0].starts_with(note), "{:?}", diagnostics[0]);
        assert_eq!(diagnostics[1].code, code::UNREADABLE, "{text}");
        let left = policy.map(|policy| {
            assert!(policy.ingress.isolates && policy.egress.isolates, "{text}");
            assert!(
                policy.ingress.rules.is_empty() && policy.egress.rules.is_empty(),
                "{text}"
            );
            show(&policy).split(" | ").next().unwrap().to_owned()
        });
        assert_eq!(left.as_deref(), expected, "{text}");
    }
}
