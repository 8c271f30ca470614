//! What a policy without mistakes means: defaults, empty and missing lists, peers and ports.

use super::{lowered, show, with_spec};
use crate::{Networks, Options, Tier};

fn check(rows: &[(&str, &str)]) {
    for (spec, expected) in rows {
        let (policy, diagnostics) = with_spec(spec);
        assert_eq!(show(&policy.unwrap()), *expected, "{spec}");
        assert_eq!(diagnostics, [], "{spec}");
    }
}

#[test]
fn policy_types_default_to_ingress_and_to_egress_when_there_are_egress_rules() {
    check(&[
        ("{}", "shop/<all> | deny | -"),
        ("{podSelector: {}}", "shop/<all> | deny | -"),
        (
            "{podSelector: null, policyTypes: null, ingress: null, egress: null}",
            "shop/<all> | deny | -",
        ),
        ("{policyTypes: []}", "shop/<all> | deny | -"),
        ("{egress: []}", "shop/<all> | deny | -"),
        ("{egress: [{}]}", "shop/<all> | deny | 0: any"),
        ("{policyTypes: [], egress: [{}]}", "shop/<all> | deny | 0: any"),
        ("{ingress: [{}], egress: [{}]}", "shop/<all> | 0: any | 0: any"),
        ("{policyTypes: [Ingress]}", "shop/<all> | deny | -"),
        ("{policyTypes: [Egress]}", "shop/<all> | - | deny"),
        ("{policyTypes: [Egress, Ingress]}", "shop/<all> | deny | deny"),
        ("{policyTypes: [Ingress, Ingress]}", "shop/<all> | deny | -"),
    ]);
}

#[test]
fn rules_of_a_direction_that_is_not_listed_are_inert() {
    check(&[
        ("{policyTypes: [Egress], ingress: [{}]}", "shop/<all> | - | deny"),
        (
            "{policyTypes: [Ingress], egress: [{}], ingress: [{}]}",
            "shop/<all> | 0: any | -",
        ),
    ]);
}

#[test]
fn missing_and_empty_lists_mean_the_same() {
    check(&[
        ("{ingress: []}", "shop/<all> | deny | -"),
        ("{ingress: [{from: [], ports: []}]}", "shop/<all> | 0: any | -"),
        (
            "{ingress: [{from: null, ports: null}]}",
            "shop/<all> | 0: any | -",
        ),
        ("{ingress: [{ports: [{}]}]}", "shop/<all> | 0: any on TCP | -"),
        (
            "{ingress: [{ports: [{protocol: null, port: null, endPort: null}]}]}",
            "shop/<all> | 0: any on TCP | -",
        ),
        (
            "{ingress: [{from: [{podSelector: {}}]}]}",
            "shop/<all> | 0: shop/<all> | -",
        ),
        (
            "{ingress: [{from: [{namespaceSelector: {}}]}]}",
            "shop/<all> | 0: [<all>]/<all> | -",
        ),
        (
            "{ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: []}}]}]}",
            "shop/<all> | 0: 0.0.0.0/0 | -",
        ),
    ]);
}

#[test]
fn peers_in_one_item_are_joined_and_items_are_alternatives() {
    check(&[
        (
            "{ingress: [{from: [{podSelector: {matchLabels: {a: b}}, namespaceSelector: {matchLabels: {team: m}}}]}]}",
            "shop/<all> | 0: [team=m]/a=b | -",
        ),
        (
            "{ingress: [{from: [{podSelector: {matchLabels: {a: b}}}, {namespaceSelector: {matchLabels: {team: m}}}]}]}",
            "shop/<all> | 0: shop/a=b or [team=m]/<all> | -",
        ),
        (
            "{egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.2.0.0/16, 10.1.0.0/16, 10.1.0.0/16]}}]}]}",
            "shop/<all> | deny | 0: 10.0.0.0/8-10.1.0.0/16-10.2.0.0/16",
        ),
        (
            "{egress: [{to: [{ipBlock: {cidr: '2001:db8::/32', except: ['2001:db8:1::/48']}}]}]}",
            "shop/<all> | deny | 0: 2001:db8::/32-2001:db8:1::/48",
        ),
    ]);
}

#[test]
fn ports_are_numbers_ranges_or_names_of_one_protocol() {
    check(&[
        (
            "{ingress: [{ports: [{port: 80}]}]}",
            "shop/<all> | 0: any on TCP:80 | -",
        ),
        (
            "{ingress: [{ports: [{port: 0x50, protocol: UDP}]}]}",
            "shop/<all> | 0: any on UDP:80 | -",
        ),
        (
            "{ingress: [{ports: [{protocol: SCTP}]}]}",
            "shop/<all> | 0: any on SCTP | -",
        ),
        (
            "{ingress: [{ports: [{port: 80, endPort: 80}]}]}",
            "shop/<all> | 0: any on TCP:80 | -",
        ),
        (
            "{ingress: [{ports: [{port: 1, endPort: 65535}]}]}",
            "shop/<all> | 0: any on TCP:1-65535 | -",
        ),
        (
            "{ingress: [{ports: [{port: http}, {port: 9-p}]}]}",
            "shop/<all> | 0: any on TCP:http,TCP:9-p | -",
        ),
    ]);
}

#[test]
fn selectors_have_every_operator() {
    check(&[(
        "{podSelector: {matchLabels: {b: '1', a: ''}, matchExpressions: [{key: c, operator: In, values: [v, u, u]}, \
         {key: d, operator: NotIn, values: [z]}, {key: e/f, operator: Exists}, {key: g, operator: DoesNotExist, \
         values: []}]}}",
        "shop/a=,b=1,c in (u,v),d notin (z),e/f,!g | deny | -",
    )]);
}

#[test]
fn an_object_has_its_names_tier_and_places() {
    let text = "# first\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata:\n  name: web\n  uid: u-1\nspec:\n  \
                ingress:\n  - from:\n    - podSelector: {}\n  -\n    ports:\n    - port: 80\nstatus: {}\n";
    let (policy, diagnostics) = lowered(text, Options::default());
    let policy = policy.unwrap();
    assert_eq!(diagnostics, []);
    assert_eq!(policy.object.to_string(), "NetworkPolicy default/web");
    assert_eq!(policy.object.uid, "u-1");
    assert_eq!(policy.position.to_string(), "np.yaml:2");
    assert_eq!(
        (policy.tier, policy.priority, &policy.networks),
        (Tier::NetworkPolicy, 0, &Networks::Cluster)
    );
    let lines: Vec<_> = policy
        .ingress
        .rules
        .iter()
        .map(|rule| rule.position.line)
        .collect();
    assert_eq!(lines, [9, 12]);
}

#[test]
fn a_generated_name_follows_from_the_text() {
    let text = |name: &str| {
        let head = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata:";
        lowered(
            &format!("{head} {{generateName: {name}}}\nspec: {{}}\n"),
            Options::default(),
        )
    };
    let (policy, diagnostics) = text("web-");
    let name = policy.unwrap().object.name;
    assert!(name.starts_with("web-") && name.len() == 9, "{name}");
    assert_eq!(diagnostics, []);
    assert_eq!(text("web-").0.unwrap().object.name, name);
    assert_ne!(text("wxb-").0.unwrap().object.name[4..], name[4..]);
}
