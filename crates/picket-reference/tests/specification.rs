//! Sentences of the specification, each with the smallest cluster that shows it.

#![expect(
    clippy::unwrap_used,
    reason = "a wrong literal in a test must fail that test at once"
)]

use picket_cluster::{Endpoint, Flow, Reason, Semantics, Snapshot, Verdict};
use picket_net::{Family, Protocol};
use picket_policy::{Direction, ObjectRef};
use picket_reference::judge;
use picket_testing::build::{
    accept, admin_policy, baseline_policy, block, custom_rules, deny, ip, namespace, node, nodes_where, pass,
    pod, pods_in, pods_where, policy,
};
use picket_testing::snapshot;

use Direction::{Egress, Ingress};
use Reason::{
    AllowedByRule, DeniedByRule, IcmpAccepted, LocalNode, NoRuleMatches, NotAPod, NotIsolated, SamePod,
};

/// Reads `x/web` as a pod, `node-1@10.9.0.1` as a node at an address, and an address as an external host.
fn endpoint(text: &str) -> Endpoint {
    if let Some((namespace, name)) = text.split_once('/') {
        return Endpoint::Pod(ObjectRef::new("Pod", namespace, name));
    }
    match text.split_once('@') {
        Some((name, address)) => Endpoint::Node {
            name: name.into(),
            address: ip(address),
        },
        None => Endpoint::External(ip(text)),
    }
}

/// Reads `80/TCP`, or `ICMP`.
fn traffic(text: &str) -> (Protocol, u16) {
    match text.split_once('/') {
        Some((port, protocol)) => (Protocol::from_api_name(protocol).unwrap(), port.parse().unwrap()),
        None if text == "ICMPv6" => (Protocol::ICMPV6, 0),
        None => (Protocol::ICMP, 0),
    }
}

/// Asserts the reasons of both ends for each `(source, destination, port, egress, ingress)`.
#[track_caller]
fn check(snapshot: &Snapshot, expected: &[(&str, &str, &str, Reason, Reason)]) {
    check_with(snapshot, &Semantics::default(), Family::Ipv4, expected);
}

#[track_caller]
fn check_with(
    snapshot: &Snapshot,
    semantics: &Semantics,
    family: Family,
    expected: &[(&str, &str, &str, Reason, Reason)],
) {
    for (source, destination, port, egress, ingress) in expected {
        let (protocol, port) = traffic(port);
        let flow = Flow {
            source: endpoint(source),
            destination: endpoint(destination),
            family,
            protocol,
            port,
        };
        let judgement = judge(snapshot, semantics, &flow);
        let reasons = (judgement.egress.reason, judgement.ingress.reason);
        assert_eq!(
            reasons,
            (*egress, *ingress),
            "{source} → {destination} {protocol}/{port}"
        );
        for end in [judgement.egress, judgement.ingress] {
            let denies = matches!(end.reason, NoRuleMatches | DeniedByRule);
            assert_eq!(end.verdict, Verdict::from_allowed(!denies));
        }
    }
}

#[test]
fn a_pod_that_no_policy_selects_is_open() {
    let snapshot = snapshot![
        pod("x/a").ip("10.0.0.1"),
        pod("y/b").ip("10.0.0.2"),
        policy("x/deny").isolates(Ingress)
    ];
    check(
        &snapshot,
        &[
            ("x/a", "y/b", "80/TCP", NotIsolated, NotIsolated),
            ("y/b", "x/a", "80/TCP", NotIsolated, NoRuleMatches),
            ("192.0.2.1", "x/a", "80/TCP", NotAPod, NoRuleMatches),
            ("x/a", "192.0.2.1", "80/TCP", NotIsolated, NotAPod),
            ("y/b", "x/a", "ICMP", NotIsolated, NoRuleMatches),
        ],
    );
}

#[test]
fn policies_are_a_union_and_ports_and_peers_must_match_in_one_rule() {
    let snapshot = snapshot![
        pod("x/a").label("app", "a").ip("10.0.0.1"),
        pod("x/b").label("app", "b").ip("10.0.0.2"),
        pod("x/c").label("app", "c").ip("10.0.0.3"),
        policy("x/one")
            .selects("app=a")
            .ingress(accept().peer(pods_in("x", "app=b")).port(Protocol::TCP, 80)),
        policy("x/two")
            .selects("app=a")
            .ingress(accept().peer(pods_in("x", "app=c")).port(Protocol::TCP, 81)),
    ];
    check(
        &snapshot,
        &[
            ("x/b", "x/a", "80/TCP", NotIsolated, AllowedByRule),
            ("x/b", "x/a", "81/TCP", NotIsolated, NoRuleMatches),
            ("x/c", "x/a", "81/TCP", NotIsolated, AllowedByRule),
            ("x/c", "x/a", "81/UDP", NotIsolated, NoRuleMatches),
            ("x/c", "x/a", "80/TCP", NotIsolated, NoRuleMatches),
        ],
    );
}

#[test]
fn causes_name_every_rule_that_accepts_or_every_policy_that_isolates() {
    let snapshot = snapshot![
        pod("x/a").ip("10.0.0.1"),
        pod("x/b").ip("10.0.0.2"),
        policy("x/two")
            .ingress(accept().port(Protocol::TCP, 9))
            .ingress(accept().ports(Protocol::TCP, 1, 99)),
        policy("x/one").ingress(accept().protocol(Protocol::TCP)),
        policy("x/zero").isolates(Ingress),
    ];
    let causes = |port| {
        let (source, destination) = (endpoint("x/b"), endpoint("x/a"));
        let flow = Flow {
            source,
            destination,
            family: Family::Ipv4,
            protocol: Protocol::TCP,
            port,
        };
        let udp = Flow {
            protocol: Protocol::UDP,
            ..flow.clone()
        };
        let named = |flow| -> Vec<_> {
            let end = judge(&snapshot, &Semantics::default(), &flow).ingress;
            end.causes
                .into_iter()
                .map(|cause| (cause.object.name.to_string(), cause.rule))
                .collect()
        };
        (named(flow), named(udp))
    };
    let (accepting, isolating) = causes(80);
    assert_eq!(
        accepting,
        [("one".to_owned(), Some(0)), ("two".to_owned(), Some(1))]
    );
    assert_eq!(
        isolating,
        [
            ("one".to_owned(), None),
            ("two".to_owned(), None),
            ("zero".to_owned(), None)
        ]
    );
}

#[test]
fn a_pod_reaches_itself_and_its_own_node_but_not_others() {
    let snapshot = snapshot![
        node("n1").ip("10.9.0.1"),
        node("n2").ip("10.9.0.2"),
        pod("x/a").ip("10.0.0.1").on("n1"),
        pod("x/host1").ip("10.9.0.1").on("n1").host_network(),
        pod("x/host2").ip("10.9.0.2").on("n2").host_network(),
        policy("x/deny").isolates(Ingress).isolates(Egress),
    ];
    check(
        &snapshot,
        &[
            ("x/a", "x/a", "80/TCP", SamePod, SamePod),
            ("n1@10.9.0.1", "x/a", "80/TCP", NotAPod, LocalNode),
            ("x/a", "n1@10.9.0.1", "80/TCP", LocalNode, NotAPod),
            ("x/host1", "x/a", "80/TCP", NotAPod, LocalNode),
            ("x/a", "x/host1", "80/TCP", LocalNode, NotAPod),
            ("n2@10.9.0.2", "x/a", "80/TCP", NotAPod, NoRuleMatches),
            ("x/host2", "x/a", "80/TCP", NotAPod, NoRuleMatches),
            ("x/a", "x/host2", "80/TCP", NoRuleMatches, NotAPod),
            ("x/host2", "x/host1", "80/TCP", NotAPod, NotAPod),
        ],
    );
}

#[test]
fn a_pod_without_a_node_has_no_own_node() {
    let snapshot = snapshot![
        node("n1").ip("10.9.0.1"),
        pod("x/a").ip("10.0.0.1"),
        pod("x/host").ip("10.9.0.9").host_network(),
        policy("x/deny").isolates(Ingress),
    ];
    check(
        &snapshot,
        &[
            ("n1@10.9.0.1", "x/a", "80/TCP", NotAPod, NoRuleMatches),
            ("x/host", "x/a", "80/TCP", NotAPod, NoRuleMatches),
        ],
    );
}

#[test]
fn selectors_match_labels_as_apimachinery_does() {
    let snapshot = snapshot![
        namespace("y").label("team", "red"),
        pod("x/server").label("role", "server").ip("10.0.0.1"),
        pod("x/none").ip("10.0.0.2"),
        pod("x/web").label("app", "web").ip("10.0.0.3"),
        pod("y/web").label("app", "web").ip("10.0.0.4"),
    ];
    for (peer, none, web, other) in [
        (pods_in("x", "app notin (db)"), true, true, false),
        (pods_in("x", "!app"), true, false, false),
        (pods_in("x", "app"), false, true, false),
        (pods_in("x", "app in (web,db)"), false, true, false),
        (pods_in("x", ""), true, true, false),
        (pods_where("", "app=web"), false, true, true),
        (pods_where("team=red", ""), false, false, true),
        (pods_where("team!=red", ""), true, true, false),
        (
            pods_where("kubernetes.io/metadata.name=x", "app=web"),
            false,
            true,
            false,
        ),
        (pods_where("", ""), true, true, true),
    ] {
        let text = format!("{peer:?}");
        let mut snapshot = snapshot.clone();
        let policy = policy("x/p")
            .selects("role=server")
            .ingress(accept().peer(peer))
            .build();
        snapshot.policies.insert(policy.object.clone(), policy.into());
        for (source, expected) in [("x/none", none), ("x/web", web), ("y/web", other)] {
            let (source, destination) = (endpoint(source), endpoint("x/server"));
            let flow = Flow {
                source,
                destination,
                family: Family::Ipv4,
                protocol: Protocol::TCP,
                port: 80,
            };
            let verdict = judge(&snapshot, &Semantics::default(), &flow).verdict();
            assert_eq!(verdict.is_allow(), expected, "{text} from {:?}", flow.source);
        }
    }
}

#[test]
fn selectors_never_match_addresses_host_network_pods_or_nodes() {
    let snapshot = snapshot![
        node("n1").label("app", "web").ip("10.9.0.1"),
        pod("x/a").label("role", "server").ip("10.0.0.1"),
        pod("x/host").label("app", "web").ip("10.9.0.2").host_network(),
        policy("x/p")
            .selects("role=server")
            .ingress(accept().peer(pods_where("", ""))),
        policy("y/q").ingress(accept().peer(nodes_where("app=web"))),
        pod("y/b").ip("10.0.0.2"),
    ];
    check(
        &snapshot,
        &[
            ("x/host", "x/a", "80/TCP", NotAPod, NoRuleMatches),
            ("192.0.2.1", "x/a", "80/TCP", NotAPod, NoRuleMatches),
            ("n1@10.9.0.1", "x/a", "80/TCP", NotAPod, NoRuleMatches),
            ("y/b", "x/a", "80/TCP", NotIsolated, AllowedByRule),
            ("n1@10.9.0.1", "y/b", "80/TCP", NotAPod, AllowedByRule),
            ("x/host", "y/b", "80/TCP", NotAPod, NoRuleMatches),
        ],
    );
}

#[test]
fn an_except_takes_from_its_own_block_only() {
    let snapshot = snapshot![
        pod("x/a").ip("10.0.0.1"),
        policy("x/p").ingress(
            accept()
                .peer(block("10.0.0.0/8", &["10.1.0.0/16"]))
                .peer(block("10.1.2.0/24", &["10.1.2.3/32"]))
        ),
        policy("x/q").ingress(accept().peer(block("10.1.9.9/32", &[]))),
    ];
    check(
        &snapshot,
        &[
            ("10.2.0.1", "x/a", "80/TCP", NotAPod, AllowedByRule),
            ("10.1.0.1", "x/a", "80/TCP", NotAPod, NoRuleMatches),
            ("10.1.2.1", "x/a", "80/TCP", NotAPod, AllowedByRule),
            ("10.1.2.3", "x/a", "80/TCP", NotAPod, NoRuleMatches),
            ("10.1.9.9", "x/a", "80/TCP", NotAPod, AllowedByRule),
            ("11.0.0.1", "x/a", "80/TCP", NotAPod, NoRuleMatches),
        ],
    );
}

#[test]
fn a_block_matches_pods_by_address_unless_told_otherwise() {
    let snapshot = snapshot![
        pod("x/a").label("role", "server").ip("10.0.0.1"),
        pod("x/b").ip("10.0.0.2"),
        pod("x/made-up").ip("198.18.0.1").synthetic(),
        pod("x/host").ip("10.0.0.9").host_network(),
        policy("x/p").selects("role=server").ingress(
            accept()
                .peer(block("10.0.0.0/8", &[]))
                .peer(block("198.18.0.0/15", &[]))
        ),
        policy("x/q")
            .selects("role=server")
            .ingress(accept().peer(block("0.0.0.0/0", &[])).port(Protocol::TCP, 443)),
    ];
    check(
        &snapshot,
        &[
            ("x/b", "x/a", "80/TCP", NotIsolated, AllowedByRule),
            ("x/host", "x/a", "80/TCP", NotAPod, AllowedByRule),
            ("x/made-up", "x/a", "80/TCP", NotIsolated, NoRuleMatches),
            ("x/made-up", "x/a", "443/TCP", NotIsolated, AllowedByRule),
        ],
    );
    let without_pods = Semantics {
        ipblock_matches_pods: false,
        ..Semantics::default()
    };
    check_with(
        &snapshot,
        &without_pods,
        Family::Ipv4,
        &[
            ("x/b", "x/a", "80/TCP", NotIsolated, NoRuleMatches),
            ("x/b", "x/a", "443/TCP", NotIsolated, NoRuleMatches),
            ("x/host", "x/a", "80/TCP", NotAPod, AllowedByRule),
            ("10.1.0.1", "x/a", "80/TCP", NotAPod, AllowedByRule),
        ],
    );
}

#[test]
fn a_block_of_one_family_still_isolates_the_other() {
    let snapshot = snapshot![
        pod("x/a").ip("10.0.0.1").ip("2001:db8::1"),
        policy("x/p").ingress(accept().peer(block("0.0.0.0/0", &[]))),
    ];
    check(
        &snapshot,
        &[("192.0.2.1", "x/a", "80/TCP", NotAPod, AllowedByRule)],
    );
    let only_v4 = [("2001:db8::9", "x/a", "80/TCP", NotAPod, NoRuleMatches)];
    check_with(&snapshot, &Semantics::default(), Family::Ipv6, &only_v4);
}

#[test]
fn a_named_port_is_the_destinations_own() {
    let snapshot = snapshot![
        pod("x/a")
            .label("role", "server")
            .port("web", Protocol::TCP, 80)
            .ip("10.0.0.1"),
        pod("x/b")
            .label("role", "server")
            .port("web", Protocol::TCP, 8080)
            .ip("10.0.0.2"),
        pod("x/c")
            .label("role", "server")
            .port("web", Protocol::UDP, 80)
            .ip("10.0.0.3"),
        pod("y/client").ip("10.0.0.4"),
        policy("x/in").ingress(accept().named("web", Protocol::TCP)),
        policy("y/out").egress(accept().named("web", Protocol::TCP)),
    ];
    check(
        &snapshot,
        &[
            ("y/client", "x/a", "80/TCP", AllowedByRule, AllowedByRule),
            ("y/client", "x/a", "8080/TCP", NoRuleMatches, NoRuleMatches),
            ("y/client", "x/b", "8080/TCP", AllowedByRule, AllowedByRule),
            ("y/client", "x/c", "80/UDP", NoRuleMatches, NoRuleMatches),
            ("y/client", "x/c", "80/TCP", NoRuleMatches, NoRuleMatches),
            ("y/client", "192.0.2.1", "80/TCP", NoRuleMatches, NotAPod),
        ],
    );
}

#[test]
fn present_but_empty_lists_match_nothing() {
    let snapshot = snapshot![
        pod("x/a").ip("10.0.0.1"),
        policy("x/p")
            .ingress(accept().no_peer())
            .ingress(accept().no_port()),
    ];
    check(
        &snapshot,
        &[("192.0.2.1", "x/a", "80/TCP", NotAPod, NoRuleMatches)],
    );
}

#[test]
fn rules_count_for_a_pod_that_another_policy_isolates() {
    let snapshot = |isolated: bool| {
        let mut rules = policy("x/rules")
            .ingress(accept().port(Protocol::TCP, 80))
            .build();
        rules.ingress.isolates = false;
        let mut snapshot = snapshot![pod("x/a").ip("10.0.0.1")];
        snapshot.policies.insert(rules.object.clone(), rules.into());
        if isolated {
            let deny = policy("x/deny").isolates(Ingress).build();
            snapshot.policies.insert(deny.object.clone(), deny.into());
        }
        snapshot
    };
    check(
        &snapshot(false),
        &[("192.0.2.1", "x/a", "81/TCP", NotAPod, NotIsolated)],
    );
    check(
        &snapshot(true),
        &[
            ("192.0.2.1", "x/a", "80/TCP", NotAPod, AllowedByRule),
            ("192.0.2.1", "x/a", "81/TCP", NotAPod, NoRuleMatches),
        ],
    );
}

#[test]
fn the_icmp_flags_open_isolated_pods_for_icmp_only() {
    let snapshot = snapshot![
        pod("x/a").ip("10.0.0.1").ip("2001:db8::1"),
        policy("x/p").isolates(Ingress)
    ];
    let flags = Semantics {
        accept_icmp: true,
        ..Semantics::default()
    };
    let v4 = [
        ("192.0.2.1", "x/a", "ICMP", NotAPod, IcmpAccepted),
        ("192.0.2.1", "x/a", "80/TCP", NotAPod, NoRuleMatches),
    ];
    check_with(&snapshot, &flags, Family::Ipv4, &v4);
    let v6 = [("2001:db8::9", "x/a", "ICMPv6", NotAPod, NoRuleMatches)];
    check_with(&snapshot, &flags, Family::Ipv6, &v6);
}

#[test]
fn a_rule_without_ports_allows_every_protocol() {
    let snapshot = snapshot![pod("x/a").ip("10.0.0.1"), policy("x/p").ingress(accept())];
    check(
        &snapshot,
        &[
            ("192.0.2.1", "x/a", "ICMP", NotAPod, AllowedByRule),
            ("192.0.2.1", "x/a", "9/SCTP", NotAPod, AllowedByRule),
        ],
    );
}

#[test]
fn tiers_are_judged_in_order_and_the_network_policy_tier_is_final() {
    let snapshot = snapshot![
        pod("x/isolated").label("app", "isolated").ip("10.0.0.1"),
        pod("x/open").label("app", "open").ip("10.0.0.2"),
        admin_policy("second", 20)
            .ingress(accept().port(Protocol::TCP, 1))
            .ingress(accept().port(Protocol::TCP, 3)),
        admin_policy("first", 10)
            .ingress(deny().port(Protocol::TCP, 1))
            .ingress(pass().port(Protocol::TCP, 2))
            .ingress(deny().port(Protocol::TCP, 2)),
        policy("x/np")
            .selects("app=isolated")
            .ingress(accept().port(Protocol::TCP, 2)),
        baseline_policy("base", 0).ingress(deny().ports(Protocol::TCP, 1, 10)),
    ];
    check(
        &snapshot,
        &[
            ("192.0.2.1", "x/isolated", "1/TCP", NotAPod, DeniedByRule),
            ("192.0.2.1", "x/isolated", "2/TCP", NotAPod, AllowedByRule),
            ("192.0.2.1", "x/open", "2/TCP", NotAPod, DeniedByRule),
            ("192.0.2.1", "x/isolated", "3/TCP", NotAPod, AllowedByRule),
            ("192.0.2.1", "x/isolated", "4/TCP", NotAPod, NoRuleMatches),
            ("192.0.2.1", "x/open", "4/TCP", NotAPod, DeniedByRule),
            ("192.0.2.1", "x/open", "11/TCP", NotAPod, NotIsolated),
        ],
    );
}

#[test]
fn an_administrator_may_deny_the_way_to_the_own_node_but_not_back() {
    let snapshot = snapshot![
        node("n1").ip("10.9.0.1"),
        pod("x/a").ip("10.0.0.1").on("n1"),
        admin_policy("deny", 0)
            .egress(pass().port(Protocol::TCP, 22))
            .egress(deny().port(Protocol::TCP, 22))
            .egress(deny().port(Protocol::TCP, 10250))
            .ingress(deny()),
        policy("x/deny").isolates(Egress),
    ];
    check(
        &snapshot,
        &[
            ("x/a", "n1@10.9.0.1", "10250/TCP", DeniedByRule, NotAPod),
            ("x/a", "n1@10.9.0.1", "22/TCP", LocalNode, NotAPod),
            ("x/a", "n1@10.9.0.1", "80/TCP", LocalNode, NotAPod),
            ("n1@10.9.0.1", "x/a", "80/TCP", NotAPod, LocalNode),
            ("x/a", "192.0.2.1", "80/TCP", NoRuleMatches, NotAPod),
        ],
    );
}

#[test]
fn custom_rules_accept_and_deny_nothing_where_isolation_is_only_audited() {
    let custom = || {
        custom_rules("custom", 0)
            .ingress(deny().port(Protocol::TCP, 1))
            .ingress(accept().ports(Protocol::TCP, 1, 2))
            .ingress(pass().port(Protocol::TCP, 3))
            .ingress(accept().port(Protocol::TCP, 3))
    };
    let snapshot = snapshot![
        pod("x/tried").label("app", "tried").ip("10.0.0.1"),
        pod("x/open").ip("10.0.0.2"),
        custom(),
        policy("x/tried").selects("app=tried").isolates(Ingress).audited(),
        admin_policy("closed", 0).ingress(deny()),
    ];
    check(
        &snapshot,
        &[
            ("192.0.2.1", "x/tried", "1/TCP", NotAPod, AllowedByRule),
            ("192.0.2.1", "x/tried", "2/TCP", NotAPod, AllowedByRule),
            ("192.0.2.1", "x/tried", "3/TCP", NotAPod, DeniedByRule),
            ("192.0.2.1", "x/open", "2/TCP", NotAPod, DeniedByRule),
        ],
    );
    check(
        &snapshot.enforced(),
        &[
            ("192.0.2.1", "x/tried", "1/TCP", NotAPod, DeniedByRule),
            ("192.0.2.1", "x/tried", "2/TCP", NotAPod, AllowedByRule),
        ],
    );
}
