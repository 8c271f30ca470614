//! Whom selectors select, as in the tests of the cache of Contiv's policy plugin.
//!
//! Some of its pods and namespaces have two values for one label, which Kubernetes does not let them: here they have the first.

use crate::corrected::{namespace, pod, policy, story};

/// The pods of its tests: names, addresses and labels.
const PODS: [(&str, &str, &str); 6] = [
    ("ns1/pod1", "10.1.1.1", "role: db, app: datastore"),
    ("ns1/pod2", "10.1.1.2", "role: db"),
    ("ns2/pod3", "10.1.2.3", "app: datastore, role: frontend"),
    ("ns2/pod4", "10.1.2.4", "role: db"),
    ("ns1/pod5", "10.1.1.5", ""),
    ("ns1/pod6", "10.1.1.6", "app1: random1, app2: random2"),
];

/// Another, of whom nothing is said.
const ASIDE: &str = "default/aside";

fn cluster() -> Vec<String> {
    let pods = PODS.map(|(name, address, labels)| pod(name, address, labels, ""));
    let namespaces = [namespace("ns1", ""), namespace("ns2", "app: test1")];
    let aside = pod(ASIDE, "10.1.1.9", "", "");
    namespaces.into_iter().chain(pods).chain([aside]).collect()
}

/// What becomes of packets between pods that are selected, and others, and somebody else.
fn verdicts(selected: &[&str], judged: impl Fn(&str) -> String, verdicts: [&str; 2]) -> String {
    let [of_selected, of_others] = verdicts;
    let (selected, others): (Vec<_>, Vec<_>) = PODS
        .iter()
        .map(|(name, ..)| *name)
        .partition(|name| selected.contains(name));
    let each = [(of_selected, selected), (of_others, others)];
    let lines = each.into_iter().filter(|(_, pods)| !pods.is_empty());
    lines
        .map(|(verdict, pods)| format!("{verdict} {} : TCP/80\n", judged(&pods.join(" "))))
        .collect()
}

/// Who may send to somebody else where only these peers, in YAML, may.
fn are_peers(peer: &str, selected: &[&str]) {
    let only = policy(&format!("podSelector: {{}}, ingress: [{{from: [{{{peer}}}]}}]"));
    let to_aside = verdicts(selected, |pods| format!("{pods} -> {ASIDE}"), ["allow", "deny"]);
    story().with(&cluster()).with(&[only]).then(&to_aside).holds();
}

#[test]
fn pods_of_a_namespace_are_selected_by_their_labels_as_by_the_original() {
    let database = "matchLabels: {role: db}";
    let datastore = "matchLabels: {app: datastore}, matchExpressions: [{key: role, operator: NotIn, values: [random]}, \
                     {key: role, operator: Exists}";
    for (of, selector, selected) in [
        (
            "ns1",
            "",
            ["ns1/pod1", "ns1/pod2", "ns1/pod5", "ns1/pod6"].as_slice(),
        ),
        (
            "ns1",
            &format!("{database}, matchExpressions: [{{key: random, operator: DoesNotExist}}]"),
            &["ns1/pod1", "ns1/pod2"],
        ),
        (
            "ns2",
            &format!(
                "{datastore}, {{key: app, operator: In, values: [datastore]}}, {{key: random, operator: DoesNotExist}}]"
            ),
            &["ns2/pod3"],
        ),
        (
            "ns2",
            &format!("{datastore}, {{key: app, operator: In, values: [datastore]}}]"),
            &["ns2/pod3"],
        ),
        ("ns2", &format!("{datastore}]"), &["ns2/pod3"]),
        ("ns2", database, &["ns2/pod4"]),
        (
            "ns1",
            "matchLabels: {role: random, app: datastore}, matchExpressions: [{key: role, operator: In, values: [db]}]",
            &[],
        ),
        (
            "ns1",
            "matchExpressions: [{key: role, operator: NotIn, values: [db]}]",
            &["ns1/pod5", "ns1/pod6"],
        ),
        (
            "ns1",
            "matchExpressions: [{key: role, operator: DoesNotExist}]",
            &["ns1/pod5", "ns1/pod6"],
        ),
    ] {
        let closed = policy(&format!("podSelector: {{{selector}}}"))
            .replace("namespace: default", &format!("namespace: {of}"));
        let to_them = verdicts(selected, |pods| format!("{ASIDE} -> {pods}"), ["deny", "allow"]);
        story().with(&cluster()).with(&[closed]).then(&to_them).holds();
        let named = format!("namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {of}}}}}");
        are_peers(&format!("{named}, podSelector: {{{selector}}}"), selected);
    }
}

#[test]
fn pods_are_selected_by_their_namespaces_as_by_the_original() {
    let all = PODS.map(|(name, ..)| name);
    let is_of = |namespace: &str| {
        let of = |name: &&str| name.starts_with(&format!("{namespace}/"));
        all.into_iter().filter(of).collect::<Vec<_>>()
    };
    for (selector, selected) in [
        ("", all.to_vec()),
        ("matchLabels: {app: test1}", is_of("ns2")),
        (
            "matchLabels: {app: test1}, matchExpressions: [{key: app, operator: In, values: [test3]}]",
            Vec::new(),
        ),
        ("matchLabels: {kubernetes.io/metadata.name: ns1}", is_of("ns1")),
        ("matchLabels: {kubernetes.io/metadata.name: ns2}", is_of("ns2")),
        ("matchLabels: {kubernetes.io/metadata.name: nsN}", Vec::new()),
    ] {
        are_peers(&format!("namespaceSelector: {{{selector}}}"), &selected);
    }
}
