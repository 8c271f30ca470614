mod properties;

use picket_cluster::{Attachment, Semantics, Snapshot, Verdict};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_policy::{NetworkName, Networks};
use picket_testing::build::{
    accept, admin_policy, baseline_policy, block, deny, ip, namespace, network, node, nodes_where, pass, pod,
    pods_in, pods_where, policy,
};
use picket_testing::snapshot;

use super::*;
use crate::eval::Overall;

fn cluster() -> Snapshot {
    snapshot![
        namespace("shop"),
        namespace("lab").label("team", "red"),
        pod("shop/web").label("app", "web").ip("10.0.0.1").ip("fd00::1"),
        pod("shop/db")
            .label("app", "db")
            .ip("10.0.0.2")
            .ip("fd00::2")
            .port("sql", Protocol::TCP, 5432)
            .on("n1"),
        pod("lab/probe").label("app", "probe").ip("10.1.0.1"),
        pod("shop/agent").on("n1").ip("10.9.0.1").host_network(),
        node("n1").ip("10.9.0.1"),
        policy("shop/db")
            .selects("app=db")
            .ingress(
                accept()
                    .peer(pods_in("shop", "app=web"))
                    .peer(pods_where("team=blue", "app=probe"))
                    .port(Protocol::TCP, 5432)
            )
            .ingress(
                accept()
                    .peer(block("203.0.113.0/24", &["203.0.113.128/25"]))
                    .port_match(picket_policy::PortMatch::Named {
                        protocol: Some(Protocol::TCP),
                        name: "http".into()
                    })
            ),
    ]
}

fn explain(snapshot: &Snapshot, from: &str, to: &str, port: &str) -> Explanation {
    let engine = Engine::compile(snapshot, Semantics::default());
    let evaluator = Evaluator::new(snapshot, engine.program());
    let question = evaluator.question(from, to, port, None).unwrap();
    Explainer::new(&evaluator).explain(&question)
}

/// The explanation of IPv4.
fn four(snapshot: &Snapshot, from: &str, to: &str, port: &str) -> ExplainedFlow {
    explain(snapshot, from, to, port).explained.ipv4.unwrap()
}

/// Why the peers and ports of the rules of the destination do not match, per rule.
fn misses(flow: &ExplainedFlow) -> Vec<Vec<&str>> {
    let tiers = flow.ingress.tiers.iter();
    let rules = tiers
        .flat_map(|tier| &tier.policies)
        .flat_map(|policy| &policy.rules);
    rules
        .map(|rule| {
            let peers = rule.peers.iter().flatten().flat_map(|peer| &peer.misses);
            let ports = rule.ports.iter().flatten().filter_map(|port| port.miss.as_ref());
            peers.chain(ports).map(|miss| miss.text.as_str()).collect()
        })
        .collect()
}

fn changes(flow: &ExplainedFlow) -> Vec<&str> {
    let flip = flow.flip.as_ref().unwrap();
    flip.changes.iter().map(|change| change.text.as_str()).collect()
}

#[test]
fn each_condition_that_fails_is_named() {
    let no_http = "the destination has no such port, but sql (TCP 5432)";
    let not_web = "the pod has app=probe";
    for (from, port, first, second) in [
        (
            "lab/probe",
            "80",
            vec![
                "it is in namespace lab",
                not_web,
                "namespace lab has team=red",
                "the port is 80",
            ],
            vec!["10.1.0.1 is outside", no_http],
        ),
        (
            "203.0.113.200",
            "5432/udp",
            vec![
                "an address is no pod: only an ipBlock can mean it",
                "an address is no pod: only an ipBlock can mean it",
                "the protocol is UDP",
            ],
            vec![
                "203.0.113.200 is excluded by except 203.0.113.128/25",
                "the protocol is UDP",
            ],
        ),
    ] {
        let explained = four(&cluster(), from, "shop/db", port);
        assert_eq!(misses(&explained), [first, second], "{from} {port}");
    }
    let six = explain(&cluster(), "shop/web", "shop/db", "80")
        .explained
        .ipv6
        .unwrap();
    assert_eq!(
        misses(&six)[1],
        ["it holds no IPv6 address", no_http],
        "a block of the other family"
    );
}

#[test]
fn the_nearest_rule_has_the_fewest_failing_conditions() {
    let explained = four(&cluster(), "shop/web", "shop/db", "80");
    let nearest = explained.ingress.nearest.unwrap();
    assert_eq!(
        (nearest.rule, nearest.failing, nearest.misses),
        (0, 1, vec!["the port is 80".to_owned()])
    );
}

#[test]
fn a_network_that_the_policy_does_not_name_is_why_a_peer_does_not_match() {
    let name = |text: &str| NetworkName::parse(text, "shop").unwrap();
    let on = |app: &str, network: &str, address: &str| {
        let mut pod = pod(&format!("shop/{app}")).label("app", app).build();
        pod.attachments.push(Attachment {
            network: name(network),
            interface: "net1".into(),
            addresses: [ip(address)].into_iter().collect(),
            synthetic: false,
        });
        pod
    };
    let mut cluster = snapshot![
        network("shop/red", "macvlan/eth1"),
        network("shop/blue", "macvlan/eth1"),
        on("db", "red", "10.1.0.1"),
        on("web", "blue", "10.1.0.2"),
    ];
    let rule = accept().peer(pods_in("shop", "app=web"));
    let mut policy = policy("shop/db").selects("app=db").ingress(rule).build();
    policy.object.kind = "MultiNetworkPolicy".into();
    for (networks, expected) in [
        (
            vec![name("red")],
            vec!["it is on network shop/blue, which the policy does not name"],
        ),
        (vec![name("blue"), name("red")], vec![]),
    ] {
        policy.networks = Networks::Attached(networks);
        cluster
            .policies
            .insert(policy.object.clone(), policy.clone().into());
        let flow = four(&cluster.on(&name("red")), "shop/web", "shop/db", "80");
        assert_eq!(flow.verdict.is_allow(), expected.is_empty());
        if flow.verdict.is_allow() {
            continue;
        }
        assert_eq!(misses(&flow), [expected]);
        assert_eq!(
            changes(&flow),
            ["add the peer 10.1.0.2/32 to ingress rule 0 of MultiNetworkPolicy shop/db"]
        );
    }
}

#[test]
fn the_smallest_change_is_named() {
    let mut both = cluster();
    both.policies.extend(
        snapshot![
            policy("shop/web")
                .selects("app=web")
                .egress(accept().peer(pods_in("shop", "app=db,role=main")))
        ]
        .policies,
    );
    let admin = |first: picket_testing::build::RuleBuilder| {
        let mut snapshot = cluster();
        snapshot.policies.extend(
            snapshot![
                admin_policy("guard", 1)
                    .ingress(first)
                    .ingress(deny().peer(pods_where("", "app=web")))
            ]
            .policies,
        );
        snapshot
    };
    for (snapshot, from, to, port, expected) in [
        (
            &cluster(),
            "shop/web",
            "shop/db",
            "80",
            vec!["add the port TCP 80 to ingress rule 0 of NetworkPolicy shop/db"],
        ),
        (
            &cluster(),
            "lab/probe",
            "shop/db",
            "5432",
            vec![
                "add the peer pods app=probe in namespaces kubernetes.io/metadata.name=lab to ingress rule 0 of \
                 NetworkPolicy shop/db",
            ],
        ),
        (
            &cluster(),
            "shop/web",
            "shop/db",
            "5432",
            vec!["remove ingress rule 0 of NetworkPolicy shop/db"],
        ),
        (
            &cluster(),
            "shop/db",
            "lab/probe",
            "80",
            vec!["add a NetworkPolicy that isolates pods app=probe in namespace lab for ingress"],
        ),
        (
            &both,
            "shop/web",
            "shop/db",
            "80",
            vec![
                "add the label role=main to Pod shop/db",
                "add the port TCP 80 to ingress rule 0 of NetworkPolicy shop/db",
            ],
        ),
        (
            &admin(pass().peer(pods_where("", "app=none"))),
            "shop/web",
            "shop/db",
            "5432",
            vec![
                "add to ClusterNetworkPolicy guard the ingress rule before rule 1: accept from pods app=web in \
                 namespaces kubernetes.io/metadata.name=shop on TCP 5432",
            ],
        ),
    ] {
        assert_eq!(
            changes(&four(snapshot, from, to, port)),
            expected,
            "{from} → {to} {port}"
        );
    }
}

/// The complete ways to make it the other verdict, the best first.
fn ways(flow: &ExplainedFlow) -> Vec<Vec<&str>> {
    let flip = flow.flip.iter();
    let ways = flip.flat_map(|flip| std::iter::once(&flip.changes).chain(&flip.others));
    ways.map(|way| way.iter().map(|change| change.text.as_str()).collect())
        .collect()
}

#[test]
fn what_an_audited_policy_of_a_tier_accepts_is_denied_before_it_or_after_it() {
    let with = |policies: Snapshot| {
        let mut snapshot = cluster();
        snapshot.policies.extend(policies.policies);
        snapshot
    };
    let web = || accept().peer(pods_where("", "app=web"));
    let trial = |priority| admin_policy("trial", priority).ingress(web()).audited();
    let removed = "remove ingress rule 0 of ClusterNetworkPolicy trial";
    let exact = "deny from pods app=web in namespaces kubernetes.io/metadata.name=shop on TCP";
    let before = |port| {
        format!(
            "add a ClusterNetworkPolicy in tier Admin with priority 4 that selects pods app=db in namespaces \
             kubernetes.io/metadata.name=shop and has the ingress rule: {exact} {port}"
        )
    };
    let isolated = "add a NetworkPolicy that isolates pods app=web in namespace shop for egress";

    let one = with(snapshot![trial(5)]);
    let denied_after = four(&one, "shop/web", "shop/db", "80");
    assert_eq!(
        ways(&denied_after),
        [vec![removed], vec![&before(80)], vec![isolated]]
    );
    let accepted_after = four(&one, "shop/web", "shop/db", "5432");
    let both = vec![removed, "remove ingress rule 0 of NetworkPolicy shop/db"];
    assert_eq!(
        ways(&accepted_after),
        [both.clone(), vec![&before(5432)], vec![isolated]]
    );

    let first = with(snapshot![trial(0)]);
    let nothing_before = four(&first, "shop/web", "shop/db", "5432");
    assert_eq!(ways(&nothing_before), [both, vec![isolated]]);

    let guarded = with(snapshot![
        trial(5),
        admin_policy("guard", 1).ingress(deny().peer(pods_where("", "app=probe"))),
        admin_policy("rest", 9).ingress(accept())
    ]);
    let guard = format!("add to ClusterNetworkPolicy guard the ingress rule before rule 0: {exact} 80");
    assert_eq!(
        ways(&four(&guarded, "shop/web", "shop/db", "80")),
        [vec![guard.as_str()], vec![isolated]]
    );
}

#[test]
fn what_an_audited_policy_of_the_last_tier_accepts_is_denied_by_isolation() {
    let mut snapshot = cluster();
    let baseline = snapshot![
        baseline_policy("trial", 0)
            .selects("app=web")
            .ingress(accept())
            .audited(),
        baseline_policy("rest", 1).ingress(deny())
    ];
    snapshot.policies.extend(baseline.policies);
    let isolates = |what| format!("add a NetworkPolicy that isolates pods {what}");
    assert_eq!(
        ways(&four(&snapshot, "lab/probe", "shop/web", "80")),
        [
            vec!["remove ingress rule 0 of ClusterNetworkPolicy trial"],
            vec![&isolates("app=web in namespace shop for ingress")],
            vec![&isolates("app=probe in namespace lab for egress")]
        ]
    );
}

#[test]
fn a_host_network_pod_is_its_node_to_rules_about_nodes() {
    let mut snapshot = cluster();
    let no_nodes = snapshot![
        admin_policy("no-nodes", 1)
            .selects("app=web")
            .egress(deny().peer(nodes_where("")))
    ];
    snapshot.policies.extend(no_nodes.policies);
    let flow = four(&snapshot, "shop/web", "shop/agent", "80");
    assert_eq!(flow.verdict, Verdict::Deny);
    let rule = &flow.egress.tiers[0].policies[0].rules[0];
    assert!(rule.matches && rule.decides, "{rule:?}");
}

#[test]
fn what_no_policy_decides_has_no_change() {
    for (from, to, port) in [
        ("shop/web", "shop/web", "80"),
        ("n1", "shop/db", "80"),
        ("192.0.2.1", "n1", "80"),
        ("192.0.2.1", "shop/agent", "80"),
    ] {
        let explained = four(&cluster(), from, to, port);
        assert_eq!(
            (explained.verdict, explained.flip),
            (Verdict::Allow, None),
            "{from} → {to}"
        );
    }
}

#[test]
fn questions_without_a_connection_are_answered_without_one() {
    for (to, port) in [("2001:db8::1", "80"), ("shop/db", "none")] {
        let explanation = explain(&cluster(), "lab/probe", to, port);
        assert_eq!(explanation.answer.verdict, Overall::Deny);
        assert!(explanation.explained.ipv4.is_none());
        let mut text = Vec::new();
        write::text(&explanation, write::Style::default(), &mut text).unwrap();
        assert!(
            String::from_utf8(text)
                .unwrap()
                .contains("policies are not asked")
        );
    }
}

#[test]
fn what_families_say_alike_is_said_once() {
    let explanation = explain(&cluster(), "shop/web", "shop/db", "80");
    let mut text = Vec::new();
    write::text(&explanation, write::Style::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.matches("ingress of shop/db").count(), 1, "{text}");
    assert!(
        text.contains(
            "203.0.113.0/24 except 203.0.113.128/25  IPv4: 10.0.0.1 is outside; IPv6: it holds no IPv6"
        ),
        "{text}"
    );
}
