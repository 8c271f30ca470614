use std::sync::Arc;

use crate::{
    ClusterDefault, List, Lowered, Manifest, Options, Severity, V1beta1, lower, namespace_isolation, read,
};

fn manifest(text: &str) -> Manifest {
    let (mut manifests, _) = read(&Arc::from("np.yaml"), text.as_bytes());
    assert_eq!(manifests.len(), 1, "{text}");
    manifests.remove(0)
}

fn errors(lowered: &Lowered) -> Vec<String> {
    let errors = lowered.diagnostics.iter();
    let errors = errors.filter(|found| found.severity == Severity::Error);
    errors
        .map(|found| format!("{}: {}", found.field, found.message))
        .collect()
}

const HEAD: &str =
    "apiVersion: extensions/v1beta1\nkind: NetworkPolicy\nmetadata: {name: web, namespace: shop}\n";

const PROPOSAL: Options = Options {
    enforce_audited: false,
    strict_cidr: false,
    v1beta1: V1beta1::Proposal,
    v1beta1_default: ClusterDefault::Allow,
};

/// A policy of the proposal with the given spec: for each rule `peers/ports` as counts, `*` for anything.
fn check(spec: &str, expected: &str, problems: &[&str]) {
    let lowered = lower(&manifest(&format!("{HEAD}spec: {spec}\n")), PROPOSAL).unwrap();
    assert_eq!(errors(&lowered), problems, "{spec}");
    let policy = lowered.policy.unwrap();
    assert!(!policy.ingress.isolates && !policy.egress.isolates && policy.egress.rules.is_empty());
    fn count<T>(list: &List<T>) -> String {
        match list {
            List::Absent => "*".to_owned(),
            List::Items(items) => items.len().to_string(),
        }
    }
    let rules = policy.ingress.rules.iter();
    let rules = rules.map(|rule| format!("{}/{}", count(&rule.peers), count(&rule.ports)));
    assert_eq!(rules.collect::<Vec<_>>().join(" "), expected, "{spec}");
}

#[test]
fn lists_are_absent_empty_or_have_items() {
    for (spec, expected) in [
        ("{podSelector: {}}", ""),
        ("{podSelector: {}, ingress: []}", ""),
        ("{podSelector: {}, ingress: [{}]}", "*/*"),
        ("{podSelector: {}, ingress: [{from: [], ports: []}]}", "0/0"),
        ("{podSelector: {}, ingress: [{from: [], ports: null}]}", "0/*"),
        (
            "{podSelector: {}, ingress: [{from: [{podSelector: {}}, {namespaceSelector: {}}], ports: [{port: 80}, {protocol: UDP, port: dns}]}]}",
            "2/2",
        ),
    ] {
        check(spec, expected, &[]);
    }
}

#[test]
fn what_the_proposal_does_not_have_matches_nothing() {
    let rule = "spec.ingress[0]";
    for (item, problem) in [
        (
            "from: [{podSelector: {}, namespaceSelector: {}}]",
            ".from[0]: Forbidden: may not specify both podSelector and namespaceSelector",
        ),
        ("from: [{}]", ".from[0]: Required value: must specify a peer"),
        (
            "from: [{ipBlock: {cidr: 10.0.0.0/8}}]",
            ".from[0].ipBlock: unknown field `spec.ingress[0].from[0].ipBlock`",
        ),
        (
            "ports: [{protocol: SCTP, port: 80}]",
            ".ports[0].protocol: Unsupported value: \"SCTP\": supported values: \"TCP\", \"UDP\"",
        ),
        (
            "ports: [{port: 80, endPort: 81}]",
            ".ports[0].endPort: unknown field `spec.ingress[0].ports[0].endPort`",
        ),
    ] {
        let spec = format!("{{podSelector: {{}}, ingress: [{{{item}}}]}}");
        check(&spec, "0/*", &[&format!("{rule}{problem}")]);
    }
    check("{ingress: [{}]}", "0/*", &["spec.podSelector: Required value"]);
    check(
        "{podSelector: {}, policyTypes: [Ingress], ingress: [{}]}",
        "0/*",
        &["spec.policyTypes: unknown field `spec.policyTypes`"],
    );
}

#[test]
fn what_v1_has_beyond_it_is_said_to_be_of_v1() {
    for (spec, of_v1) in [
        ("{podSelector: {}, egress: []}", true),
        ("{podSelector: {}, policyTypes: [Ingress]}", true),
        (
            "{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}",
            true,
        ),
        (
            "{podSelector: {}, ingress: [{ports: [{port: 1, endPort: 2}]}]}",
            true,
        ),
        ("{podSelector: {}, ingress: [{ports: [{protocol: SCTP}]}]}", true),
        (
            "{podSelector: {}, ingress: [{from: [{podSelector: {}, namespaceSelector: {}}]}]}",
            true,
        ),
        ("{podSelector: {}, ingres: []}", false),
        ("{podSelector: {}, ingress: [{ports: [{protocol: ICMP}]}]}", false),
        ("{podSelector: {}, ingress: [{from: [{}]}]}", false),
        ("{}", false),
    ] {
        let lowered = lower(&manifest(&format!("{HEAD}spec: {spec}\n")), PROPOSAL).unwrap();
        let notes = lowered.diagnostics.iter().flat_map(|found| &found.notes);
        let said = notes.filter(|note| note.contains("`--v1beta1=v1`")).count();
        assert_eq!(said, usize::from(of_v1), "{spec}: {:?}", lowered.diagnostics);
    }
}

#[test]
fn without_the_proposal_it_means_what_v1_means() {
    let text = "apiVersion: extensions/v1beta1\nkind: NetworkPolicy\nmetadata: {name: web, namespace: shop}\n\
                spec: {podSelector: {}, ingress: [{from: []}]}\n";
    for v1beta1 in [V1beta1::Automatic, V1beta1::V1] {
        let options = Options {
            v1beta1,
            ..Options::default()
        };
        let policy = lower(&manifest(text), options).unwrap().policy.unwrap();
        assert!(policy.ingress.isolates);
        assert_eq!(policy.ingress.rules[0].peers, List::Absent);
    }
}

#[test]
fn a_namespace_isolates_by_annotation_or_structure() {
    let annotated = |text: &str| {
        format!("metadata: {{name: x, annotations: {{net.beta.kubernetes.io/network-policy: {text:?}}}}}\n")
    };
    let spec = |text: &str| format!("metadata: {{name: x}}\nspec: {{networkPolicy: {text}}}\n");
    for (rest, isolates, problems) in [
        (
            annotated("{\"ingress\": {\"isolation\": \"DefaultDeny\"}}"),
            true,
            0,
        ),
        (annotated("{\"ingress\": {}}"), false, 0),
        (annotated("{}"), false, 0),
        (annotated("{\"ingress\": {\"isolation\": \"Deny\"}}"), true, 1),
        (annotated("{\"ingres\": {}}"), true, 1),
        (annotated("{"), true, 1),
        (spec("{ingress: {isolation: DefaultDeny}}"), true, 0),
        (spec("{ingress: {isolation: null}}"), false, 0),
        (spec("{}"), false, 0),
        (spec("{ingress: [1]}"), true, 1),
    ] {
        let text = format!("apiVersion: v1\nkind: Namespace\n{rest}");
        let lowered = namespace_isolation(&manifest(&text)).unwrap();
        let isolated = lowered
            .policy
            .as_ref()
            .is_some_and(|policy| policy.ingress.isolates);
        assert_eq!((isolated, errors(&lowered).len()), (isolates, problems), "{text}");
    }
    let plain = "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n";
    assert_eq!(namespace_isolation(&manifest(plain)), None);
}
