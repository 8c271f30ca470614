//! The document's examples, and what else one cluster shows: one test each.

use std::collections::BTreeSet;

use picket_cluster::{Object, Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::{PortRange, Protocol};
use picket_neutron::meaning::Meaning;
use picket_neutron::verify::verify;
use picket_neutron::{Objects, Options, Remote, SecurityGroupRule, render, table};
use picket_policy::{Direction, ObjectRef};
use picket_testing::build::{
    PodBuilder, accept, admin_policy, block, deny, ip, namespace, node, nodes_where, pod, pods_in,
    pods_where, policy,
};
use picket_testing::snapshot;

/// A pod of the namespace `x` whose label `role` is its name, with one address.
pub(crate) fn role(name: &str, last: u8) -> PodBuilder {
    pod(&format!("x/{name}"))
        .label("role", name)
        .ip(&format!("10.0.0.{last}"))
}

pub(crate) struct Rendered {
    snapshot: Snapshot,
    pub(crate) objects: Objects,
}

pub(crate) fn rendered(snapshot: Snapshot, options: &Options) -> Rendered {
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
    pub(crate) fn passes(&self, from: &str, to: &str, protocol: Protocol, port: u16) -> bool {
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

    pub(crate) fn tcp(&self, from: &str, to: &str, port: u16) -> bool {
        self.passes(from, to, Protocol::TCP, port)
    }

    pub(crate) fn rules(&self, group: &str) -> &BTreeSet<SecurityGroupRule> {
        let group = self.objects.security_groups.get(group);
        &group
            .unwrap_or_else(|| panic!("no group of this name:\n{}", table(&self.objects)))
            .rules
    }

    pub(crate) fn groups(&self, name: &str) -> &BTreeSet<picket_neutron::Name> {
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
fn what_no_rule_can_be_about_is_told_of_a_pod_and_its_node_too() {
    let kubelet = deny().peer(nodes_where("role=worker")).port(Protocol::TCP, 10250);
    let snapshot = snapshot![
        node("a").ip("192.168.0.1").label("role", "worker"),
        role("db", 1).on("a"),
        policy("x/p").isolates(Direction::Egress),
        admin_policy("deny", 1).rule(Direction::Egress, kubelet),
    ];
    let engine = Engine::compile(&snapshot, Semantics::default());
    let rendered = render(engine.program(), &Options::default());
    let told: Vec<_> = rendered
        .shortfalls
        .iter()
        .map(|one| one.policy.to_string())
        .collect();
    // Both deny something there.
    assert_eq!(told, ["ClusterNetworkPolicy deny", "NetworkPolicy x/p"]);
    let found = Rendered {
        snapshot,
        objects: rendered.objects,
    };
    assert!(found.tcp("x/db", "192.168.0.1", 80) && !found.tcp("x/db", "192.168.0.1", 10250));
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
