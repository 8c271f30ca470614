use crate::tiered::tests::check;

/// A ClusterNetworkPolicy with the given fields of its spec.
fn cnp(spec: &str, expected: &str, errors: &[&str]) {
    let head =
        "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\n";
    check(&format!("{head}spec: {spec}\n"), expected, errors);
}

/// One about every pod, in the tier Admin and of priority 5, with the given fields besides.
fn about_all(rules: &str, expected: &str, errors: &[&str]) {
    let spec = format!("{{tier: Admin, priority: 5, subject: {{namespaces: {{}}}}, {rules}}}");
    cnp(&spec, &format!("Admin 5 [<all>]/<all> | {expected}"), errors);
}

#[test]
fn a_policy_has_a_tier_a_priority_and_a_subject() {
    for (spec, expected) in [
        (
            "{tier: Admin, priority: 0, subject: {namespaces: {}}}",
            "Admin 0 [<all>]/<all> | - | -",
        ),
        (
            "{tier: Baseline, priority: 1000, subject: {namespaces: {matchLabels: {a: b}}}}",
            "Baseline 1000 [a=b]/<all> | - | -",
        ),
        (
            "{tier: Admin, priority: 1, subject: {pods: {namespaceSelector: {matchLabels: {a: b}}, podSelector: {matchLabels: {c: d}}}}}",
            "Admin 1 [a=b]/c=d | - | -",
        ),
        (
            "{tier: Admin, priority: 1, subject: {pods: {podSelector: {}}}}",
            "Admin 1 [<all>]/<all> | - | -",
        ),
    ] {
        cnp(spec, expected, &[]);
    }
}

#[test]
fn rules_keep_their_order_and_action() {
    about_all(
        "ingress: [{name: a, action: Accept, from: [{namespaces: {}}]}, \
         {action: Pass, from: [{pods: {podSelector: {matchLabels: {a: b}}}}]}, {action: Deny, from: [{namespaces: {}}]}]",
        "0 Accept [<all>]/<all>; 1 Pass [<all>]/a=b; 2 Deny [<all>]/<all> | -",
        &[],
    );
}

#[test]
fn destinations_may_be_nodes_networks_and_domain_names() {
    about_all(
        "egress: [{action: Deny, to: [{nodes: {matchLabels: {a: b}}}, {networks: [10.0.0.0/8, 'fd00::/8']}]}, \
         {action: Accept, to: [{domainNames: ['*.Example.com', a.example.com.]}]}]",
        "- | 0 Deny nodes a=b or 10.0.0.0/8 or fd00::/8; 1 Accept *.example.com or a.example.com",
        &[],
    );
}

#[test]
fn protocols_have_ports() {
    about_all(
        "ingress: [{action: Accept, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 80}}}, \
         {udp: {destinationPort: {range: {start: 5, end: 6}}}}, {sctp: {destinationPort: {number: 65535}}}, \
         {destinationNamedPort: web}]}]",
        "0 Accept [<all>]/<all> on TCP:80,UDP:5-6,SCTP:65535,web | -",
        &[],
    );
}

#[test]
fn what_cannot_be_placed_comes_first_and_only_denies() {
    let rules = "ingress: [{action: Accept, from: [{namespaces: {}}]}, {action: Pass, from: [{namespaces: {}}]}, \
                 {action: Deny, from: [{pods: {podSelector: {}}}]}]";
    let left = "0 Accept none; 1 Deny [<all>]/<all>; 2 Deny [<all>]/<all> | -";
    for (place, shown, error) in [
        (
            "tier: admin, priority: 5, subject: {namespaces: {}}",
            "Admin 5 [<all>]/<all>",
            "spec.tier: Unsupported value: \"admin\": supported values: \"Admin\", \"Baseline\"",
        ),
        (
            "priority: 5, subject: {namespaces: {}}",
            "Admin 5 [<all>]/<all>",
            "spec.tier: Required value",
        ),
        (
            "tier: Baseline, subject: {namespaces: {}}",
            "Baseline 0 [<all>]/<all>",
            "spec.priority: Required value",
        ),
        (
            "tier: Baseline, priority: 1001, subject: {namespaces: {}}",
            "Baseline 0 [<all>]/<all>",
            "spec.priority: Invalid value: 1001: spec.priority in body should be less than or equal to 1000",
        ),
        (
            "tier: Admin, priority: -1, subject: {namespaces: {}}",
            "Admin 0 [<all>]/<all>",
            "spec.priority: Invalid value: -1: spec.priority in body should be greater than or equal to 0",
        ),
        (
            "tier: Admin, priority: 5",
            "Admin 5 [<all>]/<all>",
            "spec.subject: Required value",
        ),
        (
            "tier: Admin, priority: 5, subject: {}",
            "Admin 5 [<all>]/<all>",
            "spec.subject: Invalid value: 0: spec.subject in body should have at least 1 properties",
        ),
        (
            "tier: Admin, priority: 5, subject: {namespaces: {matchLabels: {a: b}}, pods: {podSelector: {}}}",
            "Admin 5 [<all>]/<all>",
            "spec.subject: Too many: 2: must have at most 1 items",
        ),
        (
            "tier: Admin, priority: 5, subject: {pods: {namespaceSelector: {matchLabels: {a: b}}}}",
            "Admin 5 [a=b]/<all>",
            "spec.subject.pods.podSelector: Required value",
        ),
        (
            "tier: Admin, priority: 5, subject: {namespaces: {matchLabels: {a: b}, matchLables: {}}}",
            "Admin 5 [a=b]/<all>",
            "spec.subject.namespaces.matchLables: unknown field `spec.subject.namespaces.matchLables`",
        ),
    ] {
        cnp(
            &format!("{{{place}, {rules}}}"),
            &format!("{shown} | {left}"),
            &[error],
        );
    }
}

/// A rule with something unreadable, and its error: what accepts matches nothing, what denies or passes denies all.
fn fails_closed(direction: &str, rest: &str, error: &str) {
    let field = format!("spec.{direction}[0]");
    let error = error.replace("AT", &field);
    for (action, left) in [
        ("Accept", "0 Accept none"),
        ("Deny", "0 Deny any"),
        ("Pass", "0 Deny any"),
    ] {
        let rules = format!("{direction}: [{{action: {action}, {rest}}}]");
        let expected = match direction {
            "ingress" => format!("{left} | -"),
            _ => format!("- | {left}"),
        };
        about_all(&rules, &expected, &[&error]);
    }
}

#[test]
fn unknown_and_empty_peers_fail_closed() {
    for (rest, error) in [
        (
            "from: [{}]",
            "AT.from[0]: Invalid value: 0: AT.from[0] in body should have at least 1 properties",
        ),
        (
            "from: []",
            "AT.from: Invalid value: 0: AT.from in body should have at least 1 items",
        ),
        ("name: a", "AT.from: Required value"),
        (
            "from: [{serviceAccounts: {}}]",
            "AT.from[0].serviceAccounts: unknown field `AT.from[0].serviceAccounts`",
        ),
        (
            "from: [{networks: [10.0.0.0/8]}]",
            "AT.from[0].networks: unknown field `AT.from[0].networks`",
        ),
        (
            "from: [{namespaces: {}, pods: {podSelector: {}}}]",
            "AT.from[0]: Too many: 2: must have at most 1 items",
        ),
        (
            "from: [{namespaces: {}}, {pods: {}}]",
            "AT.from[1].pods.podSelector: Required value",
        ),
        (
            "form: [], from: [{namespaces: {}}]",
            "AT.form: unknown field `AT.form`",
        ),
    ] {
        fails_closed("ingress", rest, error);
    }
    for (rest, error) in [
        (
            "to: [{networks: [10.0.0.1]}]",
            "AT.to[0].networks[0]: Invalid value: \"10.0.0.1\": Invalid CIDR format provided",
        ),
        (
            "to: [{networks: [010.0.0.0/8]}]",
            "AT.to[0].networks[0]: Invalid value: \"010.0.0.0/8\": Invalid CIDR format provided",
        ),
        (
            "to: [{nodes: {}}], protocols: [{destinationNamedPort: web}]",
            "AT: Invalid value: networks/nodes/domainNames peer cannot be set with namedPorts since there are no \
             namedPorts for networks/nodes/domainNames",
        ),
        (
            "to: [{domainNames: [localhost]}]",
            "AT.to[0].domainNames[0]: Invalid value: \"localhost\": AT.to[0].domainNames[0] in body should match \
             '^(\\*\\.)?([a-zA-Z0-9]([-a-zA-Z0-9_]*[a-zA-Z0-9])?\\.)+[a-zA-Z0-9]([-a-zA-Z0-9_]*[a-zA-Z0-9])?\\.?$'",
        ),
    ] {
        fails_closed("egress", rest, error);
    }
}

#[test]
fn unknown_and_empty_protocols_fail_closed() {
    for (protocol, error) in [
        (
            "{}",
            "AT: Invalid value: 0: AT in body should have at least 1 properties",
        ),
        ("{icmp: {}}", "AT.icmp: unknown field `AT.icmp`"),
        (
            "{tcp: {}}",
            "AT.tcp: Invalid value: 0: AT.tcp in body should have at least 1 properties",
        ),
        (
            "{tcp: {destinationPort: {}}}",
            "AT.tcp.destinationPort: Invalid value: 0: AT.tcp.destinationPort in body should have at least 1 properties",
        ),
        (
            "{tcp: {destinationPort: {number: 0}}}",
            "AT.tcp.destinationPort.number: Invalid value: 0: AT.tcp.destinationPort.number in body should be greater \
             than or equal to 1",
        ),
        (
            "{udp: {destinationPort: {range: {start: 80, end: 80}}}}",
            "AT.udp.destinationPort.range: Invalid value: Start port must be less than End port",
        ),
        (
            "{udp: {destinationPort: {range: {start: 80}}}}",
            "AT.udp.destinationPort.range.end: Required value",
        ),
        (
            "{destinationNamedPort: ''}",
            "AT.destinationNamedPort: Invalid value: \"\": an empty name is no name",
        ),
    ] {
        let error = error.replace("AT", "AT.protocols[0]");
        let rest = format!("from: [{{namespaces: {{}}}}], protocols: [{protocol}]");
        fails_closed("ingress", &rest, &error);
    }
    let error = "AT.protocols: Invalid value: 0: AT.protocols in body should have at least 1 items";
    fails_closed("ingress", "from: [{namespaces: {}}], protocols: []", error);
}

#[test]
fn only_accepts_may_name_domains() {
    let rule = |action: &str| format!("egress: [{{action: {action}, to: [{{domainNames: [example.com]}}]}}]");
    about_all(&rule("Accept"), "- | 0 Accept example.com", &[]);
    let error = "spec.egress[0]: Invalid value: DomainNames is only supported for Accept rules";
    about_all(&rule("Deny"), "- | 0 Deny any", &[error]);
    about_all(&rule("Pass"), "- | 0 Deny any", &[error]);
}

#[test]
fn a_rule_without_a_readable_action_denies() {
    about_all(
        "ingress: [{action: Allow, from: [{namespaces: {}}]}, {from: [{namespaces: {}}]}, null]",
        "0 Deny any; 1 Deny any; 2 Deny any | -",
        &[
            "spec.ingress[0].action: Unsupported value: \"Allow\": supported values: \"Accept\", \"Deny\", \"Pass\"",
            "spec.ingress[1].action: Required value",
            "spec.ingress[2]: must be an object, not null",
        ],
    );
    about_all(
        "ingress: {action: Accept}",
        "0 Deny any | -",
        &["spec.ingress: must be an array, not an object"],
    );
}

#[test]
fn unknown_fields_of_the_policy_may_have_denied() {
    about_all(
        "ingres: [], egress: [{action: Accept, to: [{namespaces: {}}]}]",
        "0 Deny any | 0 Deny any",
        &["spec.ingres: unknown field `spec.ingres`"],
    );
    check(
        "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\n\
         ingress: []\nspec: {tier: Baseline, priority: 5, subject: {namespaces: {matchLabels: {a: b}}}}\n",
        "Baseline 5 [a=b]/<all> | 0 Deny any | 0 Deny any",
        &["ingress: unknown field `ingress`"],
    );
}

#[test]
fn too_much_of_something_is_an_error_and_read() {
    let many = |count: usize, item: &str| vec![item; count].join(", ");
    let rules = many(26, "{action: Deny, from: [{namespaces: {}}]}");
    let spec = format!("{{tier: Admin, priority: 5, subject: {{namespaces: {{}}}}, ingress: [{rules}]}}");
    let shown: Vec<_> = (0..26)
        .map(|index| format!("{index} Deny [<all>]/<all>"))
        .collect();
    cnp(
        &spec,
        &format!("Admin 5 [<all>]/<all> | {} | -", shown.join("; ")),
        &["spec.ingress: Too many: 26: must have at most 25 items"],
    );
    about_all(
        "egress: [{action: Deny, to: [{networks: [10.0.0.0/8, 10.0.0.0/8]}]}]",
        "- | 0 Deny 10.0.0.0/8",
        &["spec.egress[0].to[0].networks[1]: Duplicate value: \"10.0.0.0/8\""],
    );
    let name = "n".repeat(101);
    about_all(
        &format!("ingress: [{{name: {name}, action: Deny, from: [{{namespaces: {{}}}}]}}]"),
        "0 Deny [<all>]/<all> | -",
        &["spec.ingress[0].name: Too long: may not be more than 100 bytes"],
    );
}

#[test]
fn a_policy_that_breaks_off_denies_what_it_may_select() {
    let head =
        "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata:\n  name: p\n";
    for (spec, expected) in [
        (
            "spec:\n  tier: Baseline\n  priority: 7\n  subject:\n    namespaces:\n      matchLabels:\n        a: b\n  ingress:\n  - {action\n",
            "Admin 0 [a=b]/<all> | 0 Deny any | 0 Deny any",
        ),
        (
            "spec:\n  subject:\n    pods:\n      podSelector:\n        matchLabels:\n          a: b\n  egress: [\n",
            "Admin 0 [<all>]/a=b | 0 Deny any | 0 Deny any",
        ),
        (
            "spec:\n  priority: 1\n  subject: {\n",
            "Admin 0 [<all>]/<all> | 0 Deny any | 0 Deny any",
        ),
    ] {
        let error = ": a part of this policy cannot be parsed, so it denies everything to and from the pods that it \
                     may select";
        check(&format!("{head}{spec}"), expected, &[error]);
    }
}

#[test]
fn without_a_spec_nobody_can_tell_whom_it_denies() {
    let head =
        "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\n";
    check(
        head,
        "nothing",
        &["spec: Required value: a policy needs a `spec`"],
    );
    check(
        &format!("{head}spec: []\n"),
        "nothing",
        &["spec: must be an object, not an array"],
    );
}

#[test]
fn metadata_that_cannot_be_read_loses_no_rule() {
    let rest = "spec: {tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}\n";
    let shown = "Admin 1 [<all>]/<all> | 0 Deny [<all>]/<all> | -";
    for (metadata, error) in [
        ("metadata: []\n", "metadata: must be an object, not an array"),
        (
            "",
            "metadata.name: Required value: name or generateName is required",
        ),
        (
            "metadata: {name: p, namespace: x}\n",
            "metadata.namespace: Forbidden: not allowed on this type",
        ),
        (
            "metadata: {name: p, namespce: x}\n",
            "metadata.namespce: unknown field `metadata.namespce`",
        ),
    ] {
        let head = "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\n";
        check(&format!("{head}{metadata}{rest}"), shown, &[error]);
    }
}
