//! The document's examples, and what its implementation got wrong (`B…`, by the numbers of the list of its defects): one test each.

use std::collections::BTreeSet;

use picket_cluster::{Object, Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::{PortRange, Protocol};
use picket_neutron::meaning::Meaning;
use picket_neutron::verify::verify;
use picket_neutron::{Objects, Options, Remote, SecurityGroupRule, render, table};
use picket_policy::{Direction, ObjectRef};
use picket_testing::build::{
    PodBuilder, accept, admin_policy, block, deny, ip, namespace, node, pod, pods_in, pods_where, policy,
};
use picket_testing::snapshot;

/// A pod of the namespace `x` whose label `role` is its name, with one address.
fn role(name: &str, last: u8) -> PodBuilder {
    pod(&format!("x/{name}"))
        .label("role", name)
        .ip(&format!("10.0.0.{last}"))
}

struct Rendered {
    snapshot: Snapshot,
    objects: Objects,
}

fn rendered(snapshot: Snapshot, options: &Options) -> Rendered {
    let engine = Engine::compile(&snapshot, Semantics::default());
    let rendered = render(engine.program(), options);
    assert_eq!(rendered.shortfalls, []);
    let objects = rendered.objects;
    let report = verify(&objects, engine.program(), options, 3);
    assert!(
        report.is_proof(),
        "{:?}\n{}",
        report.counterexamples,
        table(&objects)
    );
    Rendered { snapshot, objects }
}

impl Rendered {
    /// Whether a connection passes between two ends: pods as `namespace/name`, or addresses.
    fn passes(&self, from: &str, to: &str, protocol: Protocol, port: u16) -> bool {
        let end = |text: &str| match text.split_once('/') {
            None => (ip(text), None),
            Some((namespace, name)) => {
                let object = ObjectRef::new("Pod", namespace, name);
                let address = self.snapshot.pods[&object]
                    .addresses
                    .iter()
                    .next()
                    .expect("an address");
                (address, Some(object))
            }
        };
        let (from, to) = (end(from), end(to));
        Meaning::of(&self.objects).passes((from.0, from.1.as_ref()), (to.0, to.1.as_ref()), (protocol, port))
    }

    fn tcp(&self, from: &str, to: &str, port: u16) -> bool {
        self.passes(from, to, Protocol::TCP, port)
    }

    fn rules(&self, group: &str) -> &BTreeSet<SecurityGroupRule> {
        let group = self.objects.security_groups.get(group);
        &group
            .unwrap_or_else(|| panic!("no group of this name:\n{}", table(&self.objects)))
            .rules
    }

    fn groups(&self, name: &str) -> &BTreeSet<picket_neutron::Name> {
        &self.objects.ports[&ObjectRef::new("Pod", "x", name)].security_groups
    }
}

/// The policy of the document's last section.
fn document() -> Vec<Object> {
    let ingress = accept()
        .peer(block("172.17.0.0/16", &["172.17.1.0/24"]))
        .peer(pods_where("project=myproject", ""))
        .peer(pods_in("x", "role=frontend"))
        .port(Protocol::TCP, 6379);
    let egress = accept().peer(block("10.0.0.0/24", &[])).port(Protocol::TCP, 5978);
    vec![
        namespace("x").into(),
        namespace("y").label("project", "myproject").into(),
        role("db", 1).into(),
        role("frontend", 2).into(),
        pod("y/z").ip("10.0.1.1").into(),
        policy("x/test")
            .selects("role=db")
            .ingress(ingress)
            .egress(egress)
            .into(),
    ]
}

fn without_address_groups() -> Options {
    Options {
        address_groups: false,
        ..Options::default()
    }
}

#[test]
fn the_example_of_the_document_has_its_eight_prefixes() {
    let found = rendered(document().into_iter().collect(), &without_address_groups());
    let rules = found.rules("picket/policy/x/test/ingress");
    let prefixes: Vec<_> = rules
        .iter()
        .filter_map(|rule| match &rule.remote {
            Remote::Prefix(prefix) => Some(prefix.to_string()),
            _ => None,
        })
        .collect();
    let wanted = [
        "0.0/24", "2.0/23", "4.0/22", "8.0/21", "16.0/20", "32.0/19", "64.0/18", "128.0/17",
    ];
    assert_eq!(prefixes, wanted.map(|end| format!("172.17.{end}")));
    let ports = PortRange::single(6379);
    assert!(
        rules
            .iter()
            .all(|rule| rule.protocol == Some(Protocol::TCP) && rule.ports == ports)
    );
    assert!(found.tcp("172.17.0.9", "x/db", 6379) && !found.tcp("172.17.1.9", "x/db", 6379));
    assert!(found.tcp("y/z", "x/db", 6379) && found.tcp("x/frontend", "x/db", 6379));
    assert!(!found.tcp("x/db", "10.0.1.1", 5978) && found.tcp("x/db", "10.0.0.77", 5978));
}

#[test]
fn several_prefixes_are_one_address_group_where_neutron_has_them() {
    let found = rendered(document().into_iter().collect(), &Options::default());
    let sizes: Vec<_> = found
        .objects
        .address_groups
        .values()
        .map(|group| group.addresses.len())
        .collect();
    assert_eq!(sizes, [8]);
    let of_addresses = found.rules("picket/policy/x/test/ingress").iter();
    let of_addresses = of_addresses.filter(|rule| matches!(rule.remote, Remote::AddressGroup(_)));
    assert_eq!(of_addresses.count(), 1);
}

#[test]
fn one_more_peer_is_one_more_port_and_no_rule() {
    let before = rendered(document().into_iter().collect(), &Options::default());
    let more = Object::from(pod("x/web-2").label("role", "frontend").ip("10.0.0.3").build());
    let after = rendered(
        document().into_iter().chain([more]).collect(),
        &Options::default(),
    );
    assert_eq!(before.objects.security_groups, after.objects.security_groups);
    assert_eq!(after.groups("web-2"), after.groups("frontend"));
    assert!(after.tcp("x/web-2", "x/db", 6379));
}

#[test]
fn b1_exceptions_of_one_block_all_count() {
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
fn b3_two_policies_of_one_direction_each_isolate_both() {
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
fn b4_pods_of_every_namespace_that_matches_are_peers() {
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
fn b5_a_rule_that_allows_everything_counts_in_any_place() {
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
fn b7_egress_to_a_pod_opens_nothing_else() {
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
fn b8_a_protocol_without_a_port_is_all_its_ports() {
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
fn b9_a_port_by_name_is_that_of_each_pod_alone() {
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
fn only_its_own_node_reaches_a_pod_that_allows_nobody() {
    let found = rendered(
        snapshot![
            node("a").ip("192.168.0.1"),
            node("b").ip("192.168.0.2"),
            role("db", 1).on("a"),
            policy("x/p")
                .isolates(Direction::Ingress)
                .isolates(Direction::Egress),
        ],
        &Options::default(),
    );
    assert!(found.tcp("192.168.0.1", "x/db", 80) && found.tcp("x/db", "192.168.0.1", 10250));
    assert!(!found.tcp("192.168.0.2", "x/db", 80) && !found.tcp("x/db", "192.168.0.2", 80));
}

#[test]
fn one_address_of_a_node_may_be_denied_to_some_of_its_pods() {
    let found = rendered(
        snapshot![
            node("a").ip("192.168.0.1").ip("192.168.0.2"),
            role("db", 1).on("a"),
            role("web", 2).on("a"),
            policy("x/p").isolates(Direction::Egress),
            admin_policy("deny", 1)
                .selects("role=db")
                .rule(Direction::Egress, deny().peer(block("192.168.0.1/32", &[]))),
        ],
        &Options::default(),
    );
    assert!(!found.tcp("x/db", "192.168.0.1", 80) && found.tcp("x/db", "192.168.0.2", 80));
    assert!(found.tcp("x/web", "192.168.0.1", 80) && found.tcp("x/web", "192.168.0.2", 80));
}

#[test]
fn ranges_of_ports_and_sctp_are_rules_of_their_own() {
    let found = rendered(
        snapshot![
            role("db", 1),
            policy("x/p").ingress(
                accept()
                    .ports(Protocol::TCP, 8000, 8010)
                    .port(Protocol::SCTP, 7777)
            ),
        ],
        &Options::default(),
    );
    assert!(found.tcp("192.0.2.1", "x/db", 8010) && !found.tcp("192.0.2.1", "x/db", 8011));
    assert!(found.passes("192.0.2.1", "x/db", Protocol::SCTP, 7777));
    assert!(!found.passes("192.0.2.1", "x/db", Protocol::ICMP, 0));
}

#[test]
fn what_an_administrator_denies_is_left_out_of_what_is_allowed() {
    let found = rendered(
        snapshot![
            namespace("x"),
            namespace("bad").label("trust", "none"),
            role("db", 1),
            role("web", 2),
            pod("bad/web").label("role", "web").ip("10.0.1.1"),
            admin_policy("deny", 1)
                .selects_in("kubernetes.io/metadata.name=x")
                .rule(Direction::Ingress, deny().peer(pods_where("trust=none", ""))),
        ],
        &Options::default(),
    );
    assert!(!found.tcp("bad/web", "x/db", 80) && found.tcp("x/web", "x/db", 80));
    assert!(found.tcp("192.0.2.1", "x/db", 80));
}

#[test]
fn networks_that_the_options_open_pass_besides() {
    let options = Options {
        node_subnets: vec![picket_testing::build::prefix("192.168.0.0/24")],
        service_subnets: vec![picket_testing::build::prefix("10.96.0.0/16")],
        ..Options::default()
    };
    let found = rendered(
        snapshot![
            role("db", 1),
            policy("x/p")
                .isolates(Direction::Ingress)
                .isolates(Direction::Egress),
        ],
        &options,
    );
    assert!(found.tcp("192.168.0.7", "x/db", 80) && found.tcp("x/db", "10.96.0.10", 443));
    assert!(!found.tcp("10.96.0.10", "x/db", 80) && !found.tcp("x/db", "10.97.0.10", 443));
}
