use crate::tiered::tests::check;

/// An AdminNetworkPolicy of priority 5 about every pod, with the given fields besides.
fn anp(rules: &str, expected: &str, errors: &[&str]) {
    let text = format!(
        "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {{name: p}}\n\
         spec: {{priority: 5, subject: {{namespaces: {{}}}}, {rules}}}\n"
    );
    check(&text, &format!("Admin 5 [<all>]/<all> | {expected}"), errors);
}

/// A BaselineAdminNetworkPolicy of the given name, about every pod, with the given fields besides.
fn banp(name: &str, rules: &str, expected: &str, errors: &[&str]) {
    let text = format!(
        "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: BaselineAdminNetworkPolicy\n\
         metadata: {{name: {name}}}\nspec: {{subject: {{namespaces: {{}}}}, {rules}}}\n"
    );
    check(&text, &format!("Baseline 0 [<all>]/<all> | {expected}"), errors);
}

#[test]
fn allow_accepts() {
    let rules =
        "ingress: [{action: Allow, from: [{namespaces: {}}]}, {action: Deny, from: [{namespaces: {}}]}]";
    let shown = "0 Accept [<all>]/<all>; 1 Deny [<all>]/<all> | -";
    anp(rules, shown, &[]);
    banp("default", rules, shown, &[]);
}

#[test]
fn only_the_admin_tier_passes() {
    let rules = "ingress: [{action: Pass, from: [{namespaces: {}}]}]";
    anp(rules, "0 Pass [<all>]/<all> | -", &[]);
    let error = "spec.ingress[0].action: Unsupported value: \"Pass\": supported values: \"Allow\", \"Deny\"";
    banp("default", rules, "0 Deny any | -", &[error]);
    let error = "spec.ingress[0].action: Unsupported value: \"Accept\": supported values: \"Allow\", \"Deny\", \"Pass\"";
    let rules = "ingress: [{action: Accept, from: [{namespaces: {}}]}]";
    anp(rules, "0 Deny any | -", &[error]);
}

#[test]
fn the_baseline_has_one_policy_and_no_priority() {
    let rules =
        "ingress: [{action: Allow, from: [{namespaces: {}}]}, {action: Deny, from: [{namespaces: {}}]}]";
    let error = "metadata.name: Invalid value: Only one baseline admin network policy with \
                 metadata.name=\"default\" can be created in the cluster";
    banp(
        "other",
        rules,
        "0 Accept none; 1 Deny [<all>]/<all> | -",
        &[error],
    );
    let error = "spec.priority: unknown field `spec.priority`";
    banp("default", "priority: 3", "0 Deny any | 0 Deny any", &[error]);
}

#[test]
fn ports_are_numbers_names_or_ranges() {
    let rule =
        |ports: &str| format!("ingress: [{{action: Allow, from: [{{namespaces: {{}}}}], ports: [{ports}]}}]");
    anp(
        &rule(
            "{portNumber: {port: 80}}, {portNumber: {protocol: UDP, port: 53}}, {namedPort: web}, \
             {portRange: {protocol: SCTP, start: 5, end: 6}}",
        ),
        "0 Accept [<all>]/<all> on TCP:80,UDP:53,web,SCTP:5-6 | -",
        &[],
    );
    for (port, error) in [
        (
            "{}",
            ": Invalid value: 0: AT in body should have at least 1 properties",
        ),
        (
            "{portNumber: {protocol: ICMP, port: 80}}",
            ".portNumber.protocol: Unsupported value: \"ICMP\": supported values: \"TCP\", \"UDP\", \"SCTP\"",
        ),
        ("{portNumber: {}}", ".portNumber.port: Required value"),
        (
            "{portRange: {start: 6, end: 5}}",
            ".portRange: Invalid value: Start port must be less than End port",
        ),
        ("{portRange: {end: 5}}", ".portRange.start: Required value"),
        (
            "{portNumber: {port: 80, endPort: 81}}",
            ".portNumber.endPort: unknown field `AT.portNumber.endPort`",
        ),
        (
            "{namedPort: ''}",
            ".namedPort: Invalid value: \"\": an empty name is no name",
        ),
    ] {
        let at = "spec.ingress[0].ports[0]";
        let error = format!("{at}{}", error.replace("AT", at));
        anp(&rule(port), "0 Accept none | -", &[&error]);
    }
}

#[test]
fn pods_are_named_with_their_namespaces() {
    let error = "spec.ingress[0].from[0].pods.namespaceSelector: Required value";
    let rules = "ingress: [{action: Deny, from: [{pods: {podSelector: {}}}]}]";
    anp(rules, "0 Deny any | -", &[error]);
}

#[test]
fn the_baseline_knows_no_domain_names() {
    let rules = "egress: [{action: Allow, to: [{domainNames: [example.com]}]}]";
    anp(rules, "- | 0 Accept example.com", &[]);
    let error = "spec.egress[0].to[0].domainNames: unknown field `spec.egress[0].to[0].domainNames`";
    banp("default", rules, "- | 0 Accept none", &[error]);
    let error = "spec.egress[0]: Invalid value: DomainNames is only supported for Allow rules";
    anp(&rules.replace("Allow", "Deny"), "- | 0 Deny any", &[error]);
}

#[test]
fn names_of_ports_are_names_of_pods() {
    let rules = "egress: [{action: Allow, to: [{nodes: {}}], ports: [{namedPort: web}]}]";
    let kinds = "networks/nodes";
    let error = format!(
        "spec.egress[0]: Invalid value: {kinds} peer cannot be set with namedPorts since there are no namedPorts for \
         {kinds}"
    );
    banp("default", rules, "- | 0 Accept none", &[&error]);
}
