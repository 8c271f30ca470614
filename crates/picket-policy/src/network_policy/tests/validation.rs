//! What the API server refuses, in its words (kube-apiserver 1.36.4).

use super::{errors, lowered, show, with_spec};
use crate::{Options, Severity, code, lower, read};

/// Rows of a spec, and the errors that it gives.
fn check(rows: &[(&str, &[&str])]) {
    for (spec, expected) in rows {
        let (policy, diagnostics) = with_spec(spec);
        assert_eq!(errors(&diagnostics), *expected, "{spec}");
        assert!(policy.is_some(), "{spec}");
        for diagnostic in &diagnostics {
            assert!(
                !diagnostic.labels.is_empty() && !diagnostic.notes.is_empty(),
                "{diagnostic:?}"
            );
            assert_eq!(
                diagnostic.object.as_ref().unwrap().to_string(),
                "NetworkPolicy shop/web"
            );
        }
    }
}

#[test]
fn ports() {
    let rows: Vec<(&str, &[&str])> = vec![
        (
            "{protocol: ICMP}",
            &[r#"protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP""#],
        ),
        (
            "{protocol: ''}",
            &[r#"protocol: Unsupported value: "": supported values: "TCP", "UDP", "SCTP""#],
        ),
        ("{protocol: 6}", &["protocol: must be a string, not an integer"]),
        (
            "{port: 0}",
            &["port: Invalid value: 0: must be between 1 and 65535, inclusive"],
        ),
        (
            "{port: 70000}",
            &["port: Invalid value: 70000: must be between 1 and 65535, inclusive"],
        ),
        (
            "{port: -1}",
            &["port: Invalid value: -1: must be between 1 and 65535, inclusive"],
        ),
        (
            "{port: 80.5}",
            &["port: must be an integer or a string, not a number"],
        ),
        (
            "{port: yes}",
            &["port: must be an integer or a string, not a boolean"],
        ),
        (
            "{port: [80]}",
            &["port: must be an integer or a string, not an array"],
        ),
        (
            "{port: 80, endPort: 79}",
            &["endPort: Invalid value: 80: must be greater than or equal to `port`"],
        ),
        (
            "{port: 80, endPort: 70000}",
            &["endPort: Invalid value: 70000: must be between 1 and 65535, inclusive"],
        ),
        (
            "{port: 80, endPort: 0}",
            &[
                "endPort: Invalid value: 80: must be greater than or equal to `port`",
                "endPort: Invalid value: 0: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            "{port: http, endPort: 90}",
            &["endPort: Invalid value: 90: may not be specified when `port` is non-numeric"],
        ),
        (
            "{endPort: 90}",
            &["endPort: Invalid value: 90: may not be specified when `port` is not specified"],
        ),
        (
            "{port: 80, endPort: '90'}",
            &["endPort: must be an integer, not a string"],
        ),
        (
            "{port: abcdefghijklmnop}",
            &[r#"port: Invalid value: "abcdefghijklmnop": must be no more than 15 bytes"#],
        ),
        (
            "{port: HTTP}",
            &[
                r#"port: Invalid value: "HTTP": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"#,
                r#"port: Invalid value: "HTTP": must contain at least one letter (a-z)"#,
            ],
        ),
        (
            "{port: '80'}",
            &[r#"port: Invalid value: "80": must contain at least one letter (a-z)"#],
        ),
        (
            "{port: a--b}",
            &[r#"port: Invalid value: "a--b": must not contain consecutive hyphens"#],
        ),
        (
            "{port: -a}",
            &[r#"port: Invalid value: "-a": must not begin or end with a hyphen"#],
        ),
        (
            "{port: a-}",
            &[r#"port: Invalid value: "a-": must not begin or end with a hyphen"#],
        ),
        (
            "{ports: 80}",
            &["ports: unknown field `spec.ingress[1].ports[0].ports`"],
        ),
        ("null", &["must be an object, not null"]),
        ("80", &["must be an object, not an integer"]),
    ];
    for (port, expected) in rows {
        let (policy, diagnostics) = with_spec(&format!("{{ingress: [{{}}, {{ports: [{port}]}}]}}"));
        let expected: Vec<_> = expected
            .iter()
            .map(|error| match error.split_once(": ") {
                Some((field, _)) if !field.contains(' ') => format!("spec.ingress[1].ports[0].{error}"),
                _ => format!("spec.ingress[1].ports[0]: {error}"),
            })
            .collect();
        assert_eq!(errors(&diagnostics), expected, "{port}");
        assert_eq!(
            show(&policy.unwrap()),
            "shop/<all> | 0: any; 1: none | -",
            "{port}"
        );
        let note = "the rule `spec.ingress[1]` matches nothing";
        assert!(
            diagnostics
                .iter()
                .all(|diagnostic| diagnostic.notes.contains(&note.to_owned())),
            "{port}"
        );
    }
}

#[test]
fn peers() {
    let cidr = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    let rows: Vec<(&str, String)> = vec![
        ("{}", "Required value: must specify a peer".into()),
        ("null", "must be an object, not null".into()),
        (
            "{ipBlock: {cidr: 10.0.0.0/8}, podSelector: {}}",
            "Forbidden: may not specify both ipBlock and another peer".into(),
        ),
        (
            "{ipBlock: {cidr: 10.0.0.0/8}, namespaceSelector: {}}",
            "Forbidden: may not specify both ipBlock and another peer".into(),
        ),
        ("{ipBlock: {}}", ".ipBlock.cidr: Required value".into()),
        ("{ipBlock: {cidr: ''}}", ".ipBlock.cidr: Required value".into()),
        (
            "{ipBlock: {cidr: 10.0.0.1}}",
            format!(".ipBlock.cidr: Invalid value: \"10.0.0.1\": {cidr}"),
        ),
        (
            "{ipBlock: {cidr: x}}",
            format!(".ipBlock.cidr: Invalid value: \"x\": {cidr}"),
        ),
        (
            "{ipBlock: {cidr: 10}}",
            ".ipBlock.cidr: must be a string, not an integer".into(),
        ),
        (
            "{ipBlock: {cidr: 10.0.0.0/8, except: [x]}}",
            format!(".ipBlock.except[0]: Invalid value: \"x\": {cidr}"),
        ),
        (
            "{ipBlock: {cidr: 10.0.0.0/8, except: 10.1.0.0/16}}",
            ".ipBlock.except: must be an array, not a string".into(),
        ),
        (
            "{ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/16]}}",
            ".ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`".into(),
        ),
        (
            "{ipBlock: {cidr: 10.0.0.0/8, except: [10.0.0.0/8]}}",
            ".ipBlock.except[0]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`".into(),
        ),
        (
            "{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16, 0.0.0.0/0]}}",
            ".ipBlock.except[1]: Invalid value: \"0.0.0.0/0\": must be a strict subset of `cidr`".into(),
        ),
        (
            "{ipBlock: {cidr: 10.0.0.0/8, except: ['fd00::/64']}}",
            ".ipBlock.except[0]: Invalid value: \"fd00::/64\": must be a strict subset of `cidr`".into(),
        ),
        (
            "{ipBlock: {cidr: 10.0.0.0/8, excpt: []}}",
            ".ipBlock.excpt: unknown field `spec.egress[0].to[0].ipBlock.excpt`".into(),
        ),
        (
            "{ipBlocks: {}}",
            ".ipBlocks: unknown field `spec.egress[0].to[0].ipBlocks`".into(),
        ),
        (
            "{podSelector: {}, matchLabels: {a: b}}",
            ".matchLabels: unknown field `spec.egress[0].to[0].matchLabels`".into(),
        ),
        (
            "{podSelector: []}",
            ".podSelector: must be an object, not an array".into(),
        ),
        (
            "{podSelector: {matchLabels: {a: 1}}}",
            ".podSelector.matchLabels.a: must be a string, not an integer".into(),
        ),
    ];
    for (peer, expected) in rows {
        let (policy, diagnostics) = with_spec(&format!("{{egress: [{{to: [{peer}]}}]}}"));
        let separator = if expected.starts_with('.') { "" } else { ": " };
        assert_eq!(
            errors(&diagnostics),
            [format!("spec.egress[0].to[0]{separator}{expected}")],
            "{peer}"
        );
        assert_eq!(show(&policy.unwrap()), "shop/<all> | deny | 0: none", "{peer}");
    }
}

#[test]
fn policy_types() {
    check(&[
        (
            "{policyTypes: [Ingress, Egress, Ingress]}",
            &[
                r#"spec.policyTypes: Invalid value: ["Ingress","Egress","Ingress"]: may not specify more than two policyTypes"#,
            ],
        ),
        (
            "{policyTypes: [ingress]}",
            &[r#"spec.policyTypes[0]: Unsupported value: "ingress": supported values: "Ingress", "Egress""#],
        ),
        (
            "{policyTypes: ['']}",
            &[r#"spec.policyTypes[0]: Unsupported value: "": supported values: "Ingress", "Egress""#],
        ),
        (
            "{policyTypes: Ingress}",
            &["spec.policyTypes: must be an array, not a string"],
        ),
        (
            "{policyTypes: [Egress, 1]}",
            &["spec.policyTypes[1]: must be a string, not an integer"],
        ),
    ]);
}

#[test]
fn selectors() {
    let label = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                 character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                 must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
                 used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                     must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let long = "x".repeat(64);
    let long_label = format!("{{matchLabels: {{a: {long}}}}}");
    let rows: Vec<(&str, String)> = vec![
        (
            "{matchExpressions: [{key: a, operator: In}]}",
            ".matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'".into(),
        ),
        (
            "{matchExpressions: [{key: a, operator: NotIn, values: []}]}",
            ".matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'".into(),
        ),
        (
            "{matchExpressions: [{key: a, operator: Exists, values: [b]}]}",
            ".matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'".into(),
        ),
        (
            "{matchExpressions: [{key: a, operator: in, values: [b]}]}",
            ".matchExpressions[0].operator: Invalid value: \"in\": not a valid selector operator".into(),
        ),
        (
            "{matchExpressions: [{key: a}]}",
            ".matchExpressions[0].operator: Invalid value: \"\": not a valid selector operator".into(),
        ),
        (
            "{matchExpressions: [{key: a b, operator: Exists}]}",
            format!(".matchExpressions[0].key: Invalid value: \"a b\": name part {label}"),
        ),
        (
            "{matchExpressions: [{key: a, operator: In, values: [b, c d]}]}",
            format!(".matchExpressions[0].values[1]: Invalid value: \"c d\": {value}"),
        ),
        ("{matchExpressions: [{key: a, operator: Exists, value: b}]}", ".matchExpressions[0].value: unknown field `spec.podSelector.matchExpressions[0].value`".into()),
        ("{matchLabels: {-a: b}}", format!(".matchLabels: Invalid value: \"-a\": name part {label}")),
        ("{matchLabels: {a/b/c: d}}", format!(".matchLabels: Invalid value: \"a/b/c\": a valid label key {label} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")),
        ("{matchLabels: {A/b: d}}", format!(".matchLabels: Invalid value: \"A/b\": prefix part {subdomain}")),
        ("{matchLabels: {/b: d}}", ".matchLabels: Invalid value: \"/b\": prefix part must be non-empty".into()),
        ("{matchLabels: {a: b c}}", format!(".matchLabels: Invalid value: \"b c\": {value}")),
        (&long_label, format!(".matchLabels: Invalid value: \"{long}\": must be no more than 63 bytes")),
        ("{matchLabels: {a: true}}", ".matchLabels.a: must be a string, not a boolean".into()),
        ("{matchLabels: a}", ".matchLabels: must be an object, not a string".into()),
        ("{app: web}", ".app: unknown field `spec.podSelector.app`".into()),
        ("web", ": must be an object, not a string".into()),
    ];
    for (selector, expected) in rows {
        check(&[(
            &format!("{{podSelector: {selector}}}"),
            &[&format!("spec.podSelector{expected}")],
        )]);
    }
    check(&[(
        "{podSelector: {matchExpressions: [{operator: Exists}]}}",
        &[
            "spec.podSelector.matchExpressions[0].key: Invalid value: \"\": name part must be non-empty",
            &format!("spec.podSelector.matchExpressions[0].key: Invalid value: \"\": name part {label}"),
        ],
    )]);
}

#[test]
fn metadata() {
    let label =
        "(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    for (metadata, expected) in [
        ("{}", vec!["metadata.name: Required value: name or generateName is required".to_owned()]),
        ("{name: ''}", vec!["metadata.name: Required value: name or generateName is required".to_owned()]),
        ("null", vec!["metadata.name: Required value: name or generateName is required".to_owned()]),
        (
            "{name: a, namespace: A}",
            vec![format!(
                "metadata.namespace: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case \
                 alphanumeric characters or '-', and must start and end with an alphanumeric character {label}"
            )],
        ),
        ("{name: a, namespace: a.b}", vec!["metadata.namespace: Invalid value: \"a.b\": must not contain dots".to_owned()]),
        (
            "{name: a_b}",
            vec!["metadata.name: Invalid value: \"a_b\": a lowercase RFC 1123 subdomain must consist of lower case \
                  alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
                  'example.com', regex used for validation is \
                  '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned()],
        ),
        ("{name: 7}", vec!["metadata.name: must be a string, not an integer".to_owned()]),
        ("{name: a, label: {}}", vec!["metadata.label: unknown field `metadata.label`".to_owned()]),
        ("{name: a, labels: {a: 1}}", vec!["metadata.labels.a: must be a string, not an integer".to_owned()]),
    ] {
        let text = format!("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {metadata}\nspec: {{}}\n");
        let (policy, diagnostics) = lowered(&text, Options::default());
        assert_eq!(errors(&diagnostics), expected, "{metadata}");
        assert!(policy.unwrap().ingress.isolates, "{metadata}");
    }
}

#[test]
fn non_standard_address_blocks_are_warnings_or_with_strict_cidr_errors() {
    for (cidr, read_as, warning, error) in [
        (
            "192.168.0.5/24",
            "192.168.0.0/24",
            vec![
                "CIDR value \"192.168.0.5/24\" is ambiguous in this context (should be \"192.168.0.0/24\" or \"192.168.0.5/32\"?)",
            ],
            Some("must not have bits set beyond the prefix length"),
        ),
        (
            "010.0.0.0/8",
            "10.0.0.0/8",
            vec!["non-standard CIDR value \"010.0.0.0/8\" is invalid: use \"10.0.0.0/8\""],
            Some("must not have leading 0s in IP or prefix length"),
        ),
        (
            "::ffff:10.0.0.0/104",
            "10.0.0.0/8",
            vec!["non-standard CIDR value \"::ffff:10.0.0.0/104\" is invalid: use \"10.0.0.0/8\""],
            Some("must not have an IPv4-mapped IPv6 address"),
        ),
        (
            "192.012.2.8/24",
            "192.12.2.0/24",
            vec![
                "CIDR value \"192.012.2.8/24\" is ambiguous in this context (should be \"192.12.2.0/24\" or \"192.12.2.8/32\"?)",
                "non-standard CIDR value \"192.012.2.8/24\" is invalid: use \"192.12.2.0/24\"",
            ],
            Some("must not have leading 0s in IP or prefix length"),
        ),
        (
            "2001:db8:0:0::/64",
            "2001:db8::/64",
            vec![
                "IPv6 CIDR value \"2001:db8:0:0::/64\" should be in RFC 5952 canonical format (\"2001:db8::/64\")",
            ],
            None,
        ),
    ] {
        let text = format!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: a}}\nspec: {{ingress: [{{from: \
             [{{ipBlock: {{cidr: '{cidr}'}}}}]}}]}}\n"
        );
        let (policy, diagnostics) = lowered(&text, Options::default());
        let messages: Vec<_> = diagnostics
            .iter()
            .map(|diagnostic| diagnostic.message.as_str())
            .collect();
        assert_eq!(messages, warning, "{cidr}");
        assert!(
            diagnostics
                .iter()
                .all(|d| d.severity == Severity::Warning && d.code == code::SLOPPY_CIDR)
        );
        assert_eq!(
            show(&policy.unwrap()),
            format!("default/<all> | 0: {read_as} | -")
        );

        let (policy, diagnostics) = lowered(
            &text,
            Options {
                strict_cidr: true,
                ..Options::default()
            },
        );
        let expected = error
            .map(|error| format!("spec.ingress[0].from[0].ipBlock.cidr: Invalid value: {cidr:?}: {error}"));
        assert_eq!(errors(&diagnostics), Vec::from_iter(expected), "{cidr}");
        let rule = if error.is_some() { "none" } else { read_as };
        assert_eq!(show(&policy.unwrap()), format!("default/<all> | 0: {rule} | -"));
    }
}

#[test]
fn other_versions_and_dialects_are_named_and_other_kinds_are_not_policies() {
    let network_policy = "it is read as `networking.k8s.io/v1`, `extensions/v1beta1`";
    let multi = "it is read as `k8s.cni.cncf.io/v1beta1`, `k8s.cni.cncf.io/v1beta2`";
    let unknown = "picket reads `NetworkPolicy`, `MultiNetworkPolicy`, `ClusterNetworkPolicy`, `AdminNetworkPolicy`, `BaselineAdminNetworkPolicy`";
    for (version, kind, expected) in [
        ("extensions/v1", "NetworkPolicy", Some(network_policy)),
        ("networking.k8s.io/v2", "NetworkPolicy", Some(network_policy)),
        ("k8s.cni.cncf.io/v1", "MultiNetworkPolicy", Some(multi)),
        ("projectcalico.org/v3", "GlobalNetworkPolicy", Some(unknown)),
        ("v1", "Pod", None),
    ] {
        let text = format!("apiVersion: {version}\nkind: {kind}\n");
        let (manifests, _) = read(&"a".into(), text.as_bytes());
        let lowered = lower(&manifests[0], Options::default());
        assert!(lowered.as_ref().is_none_or(|lowered| lowered.policy.is_none()));
        let found = lowered.map(|lowered| errors(&lowered.diagnostics));
        let expected = expected.map(|expected| {
            vec![format!(
                "apiVersion: `{kind}` of `{version}` is not supported; {expected}"
            )]
        });
        assert_eq!(found, expected);
    }
}

#[test]
fn likely_mistakes_come_with_an_edit_that_mends_them() {
    for (spec, place, replacement) in [
        ("{podSelecter: {}}", "podSelecter", "podSelector"),
        ("{policyTypes: [ingress]}", "ingress", "Ingress"),
        ("{ingress: [{form: []}]}", "form", "from"),
        ("{ingress: [{ports: [{port: '80'}]}]}", "'80'", "80"),
        ("{ingress: [{ports: [{protocol: tcp}]}]}", "tcp", "TCP"),
        ("{ingress: [{ports: [{port: 1, endPort: \"9\"}]}]}", "\"9\"", "9"),
        ("{podSelector: {matchLabels: {v: 1}}}", "1", "\"1\""),
        (
            "{podSelector: {matchExpressions: [{key: a, operator: notin, values: [b]}]}}",
            "notin",
            "NotIn",
        ),
        (
            "{ingress: [{from: [{ipBlock: {cidr: 010.0.0.0/8}}]}]}",
            "010.0.0.0/8",
            "10.0.0.0/8",
        ),
    ] {
        let (_, diagnostics) = with_spec(spec);
        assert_eq!(diagnostics.len(), 1, "{spec}");
        let edit = &diagnostics[0].fixes[0].edits[0];
        let head = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web, namespace: shop}\nspec: ";
        let text = format!("{head}{spec}\n");
        assert_eq!(&text[edit.span.start..edit.span.end], place, "{spec}");
        assert_eq!(edit.replacement, replacement, "{spec}");
    }
}
