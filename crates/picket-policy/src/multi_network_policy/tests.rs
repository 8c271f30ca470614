use std::sync::Arc;

use crate::{Lowered, Options, Severity, lower, read};

/// The networks of a policy with the given metadata and spec, `-` when there is no policy, and its errors and warnings.
fn check(metadata: &str, spec: &str, expected: &str, problems: &[&str]) {
    for version in ["v1beta1", "v1beta2"] {
        let text = format!(
            "apiVersion: k8s.cni.cncf.io/{version}\nkind: MultiNetworkPolicy\nmetadata: {metadata}\nspec: {spec}\n"
        );
        let (manifests, found) = read(&Arc::from("mnp.yaml"), text.as_bytes());
        assert_eq!(found, [], "{text}");
        let Lowered { policy, diagnostics } = lower(&manifests[0], Options::default()).unwrap();
        let networks = policy.as_ref().map(|policy| {
            let networks = policy.networks.attached().iter().map(ToString::to_string);
            networks.collect::<Vec<_>>().join(" ")
        });
        assert_eq!(networks.as_deref().unwrap_or("-"), expected, "{text}");
        let found: Vec<_> = diagnostics
            .iter()
            .map(|found| {
                let severity = if found.severity == Severity::Error {
                    "error"
                } else {
                    "warning"
                };
                format!("{severity} {} {}: {}", found.code, found.field, found.message)
            })
            .collect();
        assert_eq!(found, problems, "{text}");
    }
}

/// Metadata with the annotation.
fn policy_for(list: &str) -> String {
    format!("{{name: web, namespace: shop, annotations: {{k8s.v1.cni.cncf.io/policy-for: {list:?}}}}}")
}

const EVERY_POD: &str = "{podSelector: {}}";
const FIELD: &str = "metadata.annotations.k8s.v1.cni.cncf.io/policy-for";

#[test]
fn networks_are_listed_with_or_without_namespace() {
    for (list, expected) in [
        ("net1", "shop/net1"),
        ("net1,net2", "shop/net1 shop/net2"),
        (" net2 , infra/net1 ", "infra/net1 shop/net2"),
        ("net1,shop/net1,net1", "shop/net1"),
    ] {
        check(&policy_for(list), EVERY_POD, expected, &[]);
    }
}

#[test]
fn without_the_annotation_it_applies_to_nothing() {
    let warning = format!("warning P110 {FIELD}: there is no annotation `k8s.v1.cni.cncf.io/policy-for`");
    check("{name: web, namespace: shop}", EVERY_POD, "", &[&warning]);
    check(&policy_for(" "), EVERY_POD, "", &[&warning]);
}

#[test]
fn an_entry_that_names_no_network_is_an_error_and_the_others_count() {
    let error =
        format!("error P110 {FIELD}: Invalid value: \"a/b/c\": a network is `name` or `namespace/name`");
    check(&policy_for("a/b/c,net1"), EVERY_POD, "shop/net1", &[&error]);
    let error = format!("error P110 {FIELD}: Invalid value: \"\": a network is `name` or `namespace/name`");
    check(&policy_for("net1,"), EVERY_POD, "shop/net1", &[&error]);
}

#[test]
fn a_name_that_no_network_can_have_is_an_error() {
    for (entry, network) in [
        ("Net", "shop/Net"),
        ("in fra/net", "in fra/net"),
        ("a.b/net", "a.b/net"),
    ] {
        let error = format!(
            "error P110 {FIELD}: Invalid value: {entry:?}: no NetworkAttachmentDefinition can have that name"
        );
        check(&policy_for(entry), EVERY_POD, network, &[&error]);
    }
}

#[test]
fn an_interface_means_its_whole_network() {
    let error = format!(
        "error P110 {FIELD}: Invalid value: \"net1@eth1\": the list has networks, not interfaces such as `eth1`"
    );
    check(&policy_for("net1@eth1"), EVERY_POD, "shop/net1", &[&error]);
}

#[test]
fn a_pod_selector_is_required() {
    let error = "error P108 spec.podSelector: Required value";
    check(&policy_for("net1"), "{}", "shop/net1", &[error]);
}

#[test]
fn the_spec_is_checked_as_that_of_a_network_policy() {
    let error = "error P101 spec.ingress[0].ports[0].protocol: Unsupported value: \"ICMP\": supported values: \
                 \"TCP\", \"UDP\", \"SCTP\"";
    let spec = "{podSelector: {}, ingress: [{ports: [{protocol: ICMP}]}]}";
    check(&policy_for("net1"), spec, "shop/net1", &[error]);
}
