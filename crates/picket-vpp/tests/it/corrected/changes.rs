//! What follows from labels, pods and namespaces that change.

use super::{namespace, pod, policy, story};

/// A policy with rules of both directions, which the original looked at again least.
fn both_directions(from: &str) -> String {
    policy(&format!(
        "podSelector: {{matchLabels: {{app: web}}}}, policyTypes: [Ingress, Egress], \
         ingress: [{{from: [{from}]}}], egress: [{{to: [{{podSelector: {{matchLabels: {{role: db}}}}}}]}}]"
    ))
}

const FROM_FE: &str = "{podSelector: {matchLabels: {role: fe}}}";

/// H: it kept its rules (`bug_pod_relabelled_out_of_selection`).
#[test]
fn a_pod_that_is_selected_no_more_is_open() {
    story()
        .with(&[
            pod("default/p1", "10.1.1.1", "app: web", ""),
            policy("podSelector: {matchLabels: {app: web}}"),
        ])
        .then("deny 8.8.8.8 -> default/p1 : TCP/80")
        .with(&[pod("default/p1", "10.1.1.1", "app: other", "")])
        .then("allow 8.8.8.8 -> default/p1 : TCP/80")
        .holds();
}

/// H: it stayed open (`bug_pod_relabelled_into_selection`).
#[test]
fn a_pod_that_becomes_selected_is_isolated() {
    story()
        .with(&[
            pod("default/p1", "10.1.1.1", "app: other", ""),
            pod("default/fe", "10.1.1.2", "role: fe", ""),
            both_directions(FROM_FE),
        ])
        .then("allow 8.8.8.8 default/fe -> default/p1 : TCP/80\nallow default/p1 -> 8.8.8.8 : TCP/80")
        .with(&[pod("default/p1", "10.1.1.1", "app: web", "")])
        .then(
            "allow default/fe -> default/p1 : TCP/80
             deny 8.8.8.8 -> default/p1 : TCP/80
             deny default/p1 -> 8.8.8.8 : TCP/80",
        )
        .holds();
}

/// I: it was not (`bug_peer_pod_added_in_and_out_policy`).
#[test]
fn a_new_peer_is_let_in() {
    story()
        .with(&[
            pod("default/p1", "10.1.1.1", "app: web", ""),
            both_directions(FROM_FE),
        ])
        .then("deny 10.1.1.2 10.1.2.2 -> default/p1 : TCP/80")
        .with(&[
            pod("default/near", "10.1.1.2", "role: fe", ""),
            pod("default/far", "10.1.2.2", "role: fe", ""),
        ])
        .then("allow default/near default/far -> default/p1 : TCP/80")
        .without("Pod default/far")
        .then("deny 10.1.2.2 -> default/p1 : TCP/80\nallow default/near -> default/p1 : TCP/80")
        .holds();
}

/// I: `In` never matched a pod that changed, and `NotIn` always did.
#[test]
fn expressions_about_peers_are_looked_at_again() {
    for (expression, before, after) in [
        ("{key: role, operator: In, values: [fe, be]}", "db", "be"),
        ("{key: role, operator: NotIn, values: [db]}", "db", "fe"),
        ("{key: old, operator: DoesNotExist}", "fe, old: x", "fe"),
    ] {
        let q = |role: &str| pod("default/q", "10.1.1.2", &format!("role: {role}"), "");
        story()
            .with(&[
                pod("default/p1", "10.1.1.1", "app: web", ""),
                q(before),
                both_directions(&format!("{{podSelector: {{matchExpressions: [{expression}]}}}}")),
            ])
            .then("deny default/q -> default/p1 : TCP/80")
            .with(&[q(after)])
            .then("allow default/q -> default/p1 : TCP/80")
            .with(&[q(before)])
            .then("deny default/q -> default/p1 : TCP/80")
            .holds();
    }
}

/// J: its pods were let in for ever (`bug_namespace_label_removed`).
#[test]
fn a_namespace_that_loses_a_label_loses_what_it_allowed() {
    story()
        .with(&[
            namespace("other", "ok: 'yes'"),
            pod("default/p1", "10.1.1.1", "app: web", ""),
            pod("other/q", "10.1.2.2", "", ""),
            both_directions("{namespaceSelector: {matchLabels: {ok: 'yes'}}}"),
        ])
        .then("allow other/q -> default/p1 : TCP/80")
        .with(&[namespace("other", "")])
        .then("deny other/q -> default/p1 : TCP/80")
        .holds();
}

/// K: a pod before its namespace ended the agent (`bug_unknown_namespace`).
#[test]
fn a_namespace_of_which_nothing_is_known_has_no_labels() {
    story()
        .with(&[
            pod("default/p1", "10.1.1.1", "app: web", ""),
            pod("other/q", "10.1.2.2", "", ""),
            both_directions("{namespaceSelector: {matchLabels: {ok: 'yes'}}}"),
        ])
        .then("deny other/q -> default/p1 : TCP/80")
        .with(&[namespace("other", "ok: 'yes'")])
        .then("allow other/q -> default/p1 : TCP/80")
        .holds();
}
