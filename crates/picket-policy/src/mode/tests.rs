use std::sync::Arc;

use crate::{Direction, Lowered, Mode, Options, lower, read};

/// The mode of a policy of each kind with the given annotations, and what is said about it.
fn check(annotations: &str, options: Options, expected: Mode, problems: &[&str]) {
    for (version, kind, spec) in [
        ("networking.k8s.io/v1", "NetworkPolicy", "{podSelector: {}}"),
        (
            "k8s.cni.cncf.io/v1beta1",
            "MultiNetworkPolicy",
            "{podSelector: {}}",
        ),
        (
            "policy.networking.k8s.io/v1alpha2",
            "ClusterNetworkPolicy",
            "{tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}",
        ),
        (
            "policy.networking.k8s.io/v1alpha1",
            "BaselineAdminNetworkPolicy",
            "{subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}",
        ),
    ] {
        let text = format!(
            "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: default, annotations: \
             {{k8s.v1.cni.cncf.io/policy-for: a, {annotations}}}}}\nspec: {spec}\n"
        );
        let (manifests, found) = read(&Arc::from("a.yaml"), text.as_bytes());
        let Lowered { policy, diagnostics } = lower(&manifests[0], options).unwrap();
        let policy = policy.unwrap();
        assert_eq!(policy.mode, expected, "{text}");
        assert_eq!(policy.can_deny(Direction::Ingress), expected == Mode::Enforce);
        assert!(policy.would_deny(Direction::Ingress));
        let found: Vec<_> = found
            .iter()
            .chain(&diagnostics)
            .map(|found| {
                format!(
                    "{:?}: {}: {} ({})",
                    found.severity,
                    found.field,
                    found.message,
                    found.notes.join("; ")
                )
            })
            .collect();
        assert_eq!(found, problems, "{text}");
    }
}

#[test]
fn an_annotation_says_whether_a_policy_is_audited() {
    let options = Options::default();
    check("a: b", options, Mode::Enforce, &[]);
    check("picket.dev/mode: enforce", options, Mode::Enforce, &[]);
    check("picket.dev/mode: ' audit '", options, Mode::Audit, &[]);
    let enforced = Options {
        enforce_audited: true,
        ..options
    };
    check("picket.dev/mode: audit", enforced, Mode::Enforce, &[]);
}

#[test]
fn what_is_no_mode_enforces() {
    let unsupported = |text: &str| {
        format!(
            "Error: metadata.annotations.picket.dev/mode: Unsupported value: {text:?}: supported values: \"audit\", \
             \"enforce\" (the policy is enforced)"
        )
    };
    let options = Options::default();
    for text in ["Audit", "aduit", ""] {
        check(
            &format!("picket.dev/mode: {text:?}"),
            options,
            Mode::Enforce,
            &[&unsupported(text)],
        );
    }
}

#[test]
fn what_is_no_text_or_there_twice_enforces() {
    for annotations in [
        "picket.dev/mode: [audit]",
        "picket.dev/mode: true",
        "picket.dev/mode: audit, picket.dev/mode: audit",
    ] {
        let text = format!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: a, annotations: \
             {{{annotations}}}}}\nspec: {{podSelector: {{}}}}\n"
        );
        let (manifests, mut found) = read(&Arc::from("a.yaml"), text.as_bytes());
        let Lowered { policy, diagnostics } = lower(&manifests[0], Options::default()).unwrap();
        found.extend(diagnostics);
        assert_eq!(policy.unwrap().mode, Mode::Enforce, "{text}");
        assert!(!found.is_empty(), "{text}");
    }
}
