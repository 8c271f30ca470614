//! What the document's implementation got wrong, by the numbers of the list of its defects, with the right outcome.

use std::collections::BTreeSet;

use picket_cluster::{Object, Snapshot};
use picket_net::Protocol;
use picket_neutron::Options;
use picket_neutron::meaning::Meaning;
use picket_policy::{ClusterDefault, Direction, ObjectRef};
use picket_testing::build::{accept, block, ip, namespace, node, pod, pods_in, pods_where, policy};
use picket_testing::manifest::read;
use picket_testing::snapshot;

use crate::cases::{rendered, role};
use crate::plan::fake::Fake;
use crate::plan::world::{groups_of, port, to, with};

#[test]
fn b01_exceptions_of_one_block_all_count() {
    let found = rendered(
        snapshot![
            role("db", 1),
            policy("x/p").ingress(accept().peer(block("10.0.0.0/8", &["10.1.0.0/16", "10.2.0.0/16"]))),
        ],
        &Options::default(),
    );
    assert!(!found.tcp("10.1.0.1", "x/db", 80) && !found.tcp("10.2.0.1", "x/db", 80));
    assert!(found.tcp("10.3.0.1", "x/db", 80));
}

#[test]
fn b02_a_pod_with_other_labels_has_other_groups_at_once() {
    let of = |label: &str| -> Snapshot {
        snapshot![
            pod("x/db").label("role", label).ip("10.0.0.1"),
            role("web", 2),
            policy("x/p").selects("role=db").isolates(Direction::Ingress),
        ]
    };
    let groups = |label| rendered(of(label), &Options::default()).groups("db").clone();
    for (before, after) in [("db", "web"), ("web", "db")] {
        let mut fake = with(&of(before));
        let (plan, _) = to(&mut fake, &of(after));
        assert_eq!(plan.calls().get("update_port"), Some(&1));
        let has: BTreeSet<_> = groups_of(&fake, "db").into_iter().collect();
        assert_eq!(has, groups(after));
        assert_ne!(has, groups(before));
    }
}

#[test]
fn b03_two_policies_of_one_direction_each_isolate_both() {
    let found = rendered(
        snapshot![
            role("db", 1),
            role("web", 2),
            policy("x/in").selects("role=db").isolates(Direction::Ingress),
            policy("x/out").selects("role=db").isolates(Direction::Egress),
        ],
        &Options::default(),
    );
    assert!(!found.tcp("x/web", "x/db", 80) && !found.tcp("x/db", "x/web", 80));
    assert!(found.rules("picket/policy/x/in/ingress").is_empty());
    assert!(found.rules("picket/policy/x/out/egress").is_empty());
}

#[test]
fn b04_pods_of_every_namespace_that_matches_are_peers() {
    let found = rendered(
        snapshot![
            namespace("x"),
            namespace("y").label("team", "a"),
            namespace("z").label("team", "a"),
            role("db", 1),
            pod("y/web").label("app", "web").ip("10.0.1.1"),
            pod("z/web").label("app", "web").ip("10.0.2.1"),
            policy("x/p").ingress(accept().peer(pods_where("team=a", "app=web"))),
        ],
        &Options::default(),
    );
    assert!(found.tcp("y/web", "x/db", 80) && found.tcp("z/web", "x/db", 80));
}

#[test]
fn b05_a_rule_that_allows_everything_counts_in_any_place() {
    let found = rendered(
        snapshot![
            role("db", 1),
            role("web", 2),
            policy("x/p")
                .selects("role=db")
                .ingress(accept().peer(pods_in("x", "role=no")))
                .ingress(accept()),
        ],
        &Options::default(),
    );
    assert!(found.tcp("x/web", "x/db", 80) && found.tcp("192.0.2.1", "x/db", 80));
}

#[test]
fn b06_rules_of_a_direction_that_the_policy_lacks_do_not_count() {
    for (types, rules) in [("Ingress", "egress"), ("Egress", "ingress")] {
        let peer = if rules == "egress" { "to" } else { "from" };
        let text = format!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: p, namespace: x}}\nspec:\n  \
             podSelector: {{}}\n  policyTypes: [{types}]\n  {rules}: [{{{peer}: [{{ipBlock: {{cidr: 10.9.0.0/16}}}}]}}]\n"
        );
        let mut found = read(&text, "", ClusterDefault::Allow);
        let db = role("db", 1).build();
        found.pods.insert(db.object.clone(), db.into());
        let found = rendered(found, &Options::default());
        let [into, out] =
            [("192.0.2.1", "x/db"), ("x/db", "192.0.2.1")].map(|(from, to)| found.tcp(from, to, 80));
        assert_eq!([into, out], [types == "Egress", types == "Ingress"]);
    }
}

#[test]
fn b07_egress_to_a_pod_opens_nothing_else() {
    let found = rendered(
        snapshot![
            role("web", 1),
            role("db", 2),
            pod("y/db").label("role", "db").ip("10.0.1.2"),
            policy("x/p")
                .selects("role=web")
                .egress(accept().peer(pods_in("x", "role=db")).port(Protocol::TCP, 80)),
        ],
        &Options::default(),
    );
    assert!(found.tcp("x/web", "x/db", 80));
    assert!(!found.tcp("x/web", "y/db", 80) && !found.tcp("x/web", "10.96.0.10", 80));
}

#[test]
fn b08_a_protocol_without_a_port_is_all_its_ports() {
    let found = rendered(
        snapshot![
            role("db", 1),
            policy("x/p").ingress(accept().protocol(Protocol::UDP))
        ],
        &Options::default(),
    );
    assert!(found.passes("192.0.2.1", "x/db", Protocol::UDP, 53) && !found.tcp("192.0.2.1", "x/db", 53));
}

#[test]
fn b09_a_port_by_name_is_that_of_each_pod_alone() {
    let found = rendered(
        snapshot![
            pod("x/one")
                .label("role", "db")
                .ip("10.0.0.1")
                .port("http", Protocol::TCP, 80),
            pod("x/other")
                .label("role", "db")
                .ip("10.0.0.2")
                .port("http", Protocol::TCP, 81),
            pod("x/third")
                .label("role", "db")
                .ip("10.0.0.3")
                .port("http", Protocol::UDP, 82),
            policy("x/p").ingress(accept().named("http", Protocol::TCP)),
        ],
        &Options::default(),
    );
    let open = |pod: &str| -> Vec<u16> {
        (79..84)
            .filter(|&port| found.tcp("192.0.2.1", pod, port))
            .collect()
    };
    assert_eq!(
        ["x/one", "x/other", "x/third"].map(open),
        [vec![80], vec![81], vec![]]
    );
    assert!(!found.passes("192.0.2.1", "x/third", Protocol::UDP, 82));
}

#[test]
fn peers_with_one_number_by_several_names_are_all_let_in() {
    let lets_out = accept().named("dns", Protocol::UDP).named("alt", Protocol::UDP);
    let found = rendered(
        snapshot![
            role("client", 1),
            role("one", 2).port("dns", Protocol::UDP, 80),
            role("other", 3).port("alt", Protocol::UDP, 80),
            role("third", 4).port("else", Protocol::UDP, 80),
            policy("x/p").selects("role=client").egress(lets_out),
        ],
        &Options::default(),
    );
    let is_let_in = |peer: &str| found.passes("x/client", peer, Protocol::UDP, 80);
    assert_eq!(
        ["x/one", "x/other", "x/third"].map(is_let_in),
        [true, true, false]
    );
}

#[test]
fn b10_a_port_by_name_without_peers_is_for_everybody() {
    let found = rendered(
        snapshot![
            role("db", 1).port("http", Protocol::TCP, 80),
            policy("x/p").ingress(accept().named("http", Protocol::TCP)),
        ],
        &Options::default(),
    );
    assert!(found.tcp("192.0.2.1", "x/db", 80) && !found.tcp("192.0.2.1", "x/db", 81));
    let group = found
        .groups("db")
        .iter()
        .find(|name| name.starts_with("picket/policy/x/p/ingress/"));
    assert_eq!(found.rules(group.expect("the group of the policy")).len(), 2);
}

#[test]
fn b11_a_peer_that_the_policy_selects_too_has_its_port_by_name() {
    let found = rendered(
        snapshot![
            role("one", 1).port("http", Protocol::TCP, 80),
            role("other", 2).port("http", Protocol::TCP, 8080),
            policy("x/p").egress(accept().peer(pods_in("x", "")).named("http", Protocol::TCP)),
        ],
        &Options::default(),
    );
    assert!(found.tcp("x/one", "x/other", 8080) && !found.tcp("x/one", "x/other", 80));
    assert!(found.tcp("x/other", "x/one", 80));
}

#[test]
fn b12_what_has_ended_and_what_is_its_node_is_no_peer() {
    let found = rendered(
        snapshot![
            node("n").ip("192.168.0.1"),
            role("db", 1),
            pod("x/done").label("app", "web").ip("10.0.0.2").finished(),
            pod("x/host")
                .label("app", "web")
                .ip("192.168.0.1")
                .on("n")
                .host_network(),
            policy("x/p")
                .selects("role=db")
                .ingress(accept().peer(pods_in("x", "app=web"))),
        ],
        &Options::default(),
    );
    assert!(!found.tcp("10.0.0.2", "x/db", 80) && !found.tcp("192.168.0.1", "x/db", 80));
    assert_eq!(found.objects.ports.len(), 1);
}

#[test]
fn b13_a_pod_that_is_gone_is_no_peer_though_its_port_is_there() {
    let web = Object::from(role("web", 2));
    let of = |more: Option<Object>| -> Snapshot {
        let allowed = accept().peer(pods_in("x", "role=web"));
        let policy = policy("x/p").selects("role=db").ingress(allowed);
        [role("db", 1).into(), policy.into()]
            .into_iter()
            .chain(more)
            .collect()
    };
    let mut fake = with(&of(Some(web)));
    let passes = |fake: &Fake| {
        let objects = fake.objects();
        let port = |name: &str| ObjectRef::new("Port", "", &port(name));
        let db = &objects.ports[&port("db")];
        let allowed = Meaning::of(&objects).allowed(db, Direction::Ingress, ip("10.0.0.2"));
        allowed.contains(Protocol::TCP, 80)
    };
    assert!(passes(&fake));
    let (plan, _) = to(&mut fake, &of(None));
    // Nobody is open to all any more.
    assert_eq!(plan.calls(), [("delete_group", 1), ("update_port", 1)].into());
    assert!(!passes(&fake));
}

#[test]
fn b14_a_label_may_have_an_empty_value() {
    let found = rendered(
        snapshot![
            pod("x/db").label("role", "").ip("10.0.0.1"),
            role("web", 2),
            policy("x/p").selects("role=").isolates(Direction::Ingress),
        ],
        &Options::default(),
    );
    assert!(!found.tcp("x/web", "x/db", 80) && found.tcp("x/db", "x/web", 80));
}

#[test]
fn b15_a_port_by_name_may_be_for_all_pods_of_the_namespace() {
    let found = rendered(
        snapshot![
            role("db", 1).port("http", Protocol::TCP, 80),
            role("web", 2),
            pod("y/web").ip("10.0.1.1"),
            policy("x/p")
                .selects("role=db")
                .ingress(accept().peer(pods_in("x", "")).named("http", Protocol::TCP)),
        ],
        &Options::default(),
    );
    assert!(found.tcp("x/web", "x/db", 80) && !found.tcp("y/web", "x/db", 80));
}

#[test]
fn b16_a_service_is_reached_by_its_own_port_where_its_addresses_are_open() {
    let objects = || -> Snapshot {
        snapshot![
            role("web", 1),
            role("db", 2),
            policy("x/p")
                .selects("role=web")
                .egress(accept().peer(pods_in("x", "role=db")).port(Protocol::TCP, 8080)),
        ]
    };
    let open = Options {
        service_subnets: vec![picket_testing::build::prefix("10.96.0.0/16")],
        ..Options::default()
    };
    for (options, passes) in [(Options::default(), false), (open, true)] {
        let found = rendered(objects(), &options);
        assert!(found.tcp("x/web", "x/db", 8080) && !found.tcp("x/web", "x/db", 80));
        assert_eq!(found.tcp("x/web", "10.96.0.10", 80), passes);
        assert_eq!(found.tcp("x/web", "10.96.0.10", 8080), passes);
    }
}

#[test]
fn b17_peers_that_overlap_share_no_rule_and_no_error() {
    let both = || accept().peer(pods_in("x", "role=web")).port(Protocol::TCP, 80);
    let found = rendered(
        snapshot![
            role("db", 1),
            role("web", 2),
            policy("x/p").selects("role=db").ingress(both()).ingress(both()),
            policy("x/q").selects("role=db").ingress(both()),
        ],
        &Options::default(),
    );
    let [p, q] = ["p", "q"].map(|name| found.rules(&format!("picket/policy/x/{name}/ingress")));
    assert_eq!(p, q);
    assert_eq!(p.len(), 2);
}

#[test]
fn b18_what_is_asked_for_again_does_not_grow() {
    let of = |label: &str| -> Snapshot {
        let everywhere = accept().peer(pods_where("", "")).port(Protocol::TCP, 80);
        snapshot![
            namespace("x"),
            role("db", 1),
            pod("x/web").label("role", label).ip("10.0.0.2"),
            policy("x/p").selects("role=db").ingress(everywhere),
        ]
    };
    let mut fake = with(&of("a"));
    let rules = |fake: &Fake| fake.objects().security_groups;
    let before = rules(&fake);
    for label in ["b", "c", "a"] {
        let (plan, _) = to(&mut fake, &of(label));
        assert!(plan.is_empty());
    }
    assert_eq!(rules(&fake), before);
}

#[test]
fn b19_a_label_that_controllers_set_counts_as_any_other() {
    let found = rendered(
        snapshot![
            role("db", 1),
            pod("x/old").label("pod-template-hash", "1").ip("10.0.0.2"),
            pod("x/new").label("pod-template-hash", "2").ip("10.0.0.3"),
            policy("x/p")
                .selects("role=db")
                .ingress(accept().peer(pods_in("x", "pod-template-hash=2"))),
        ],
        &Options::default(),
    );
    assert!(found.tcp("x/new", "x/db", 80) && !found.tcp("x/old", "x/db", 80));
}

#[test]
fn b20_no_peer_takes_the_place_of_another() {
    let found = rendered(
        snapshot![
            namespace("x"),
            namespace("y").label("team", "a"),
            namespace("z"),
            role("db", 1),
            role("other", 2),
            pod("y/web").ip("10.0.1.1"),
            pod("z/web").ip("10.0.2.1"),
            policy("x/p").selects("role=db").ingress(
                accept()
                    .peer(block("192.0.2.0/24", &[]))
                    .peer(pods_where("team=a", ""))
                    .peer(pods_in("x", "role=other"))
            ),
        ],
        &Options::default(),
    );
    assert!(
        ["192.0.2.1", "y/web", "x/other"]
            .iter()
            .all(|from| found.tcp(from, "x/db", 80))
    );
    assert!(!found.tcp("z/web", "x/db", 80));
}
