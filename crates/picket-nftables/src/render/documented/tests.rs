use std::net::IpAddr;
use std::sync::Arc;

use picket_dataplane::{Crossing, Meaning, Packet, State};
use picket_net::{AddressSet, Family, PortRange, Prefix, Protocol, TrafficSet};
use picket_policy::Source;

use super::*;
use crate::meaning::Interpreter;
use crate::model::InterfaceName;
use crate::print;

mod seen;

fn interface(text: &str) -> InterfaceName {
    InterfaceName::new(text).expect("an interface name")
}

fn addresses(texts: &[&str]) -> AddressSet {
    let prefix = |text: &&str| match text.parse::<IpAddr>() {
        Ok(address) => AddressSet::from(Prefix::host(address)),
        Err(_) => AddressSet::from(text.parse::<Prefix>().expect("a prefix")),
    };
    texts
        .iter()
        .map(prefix)
        .fold(AddressSet::empty(), |all, one| all.union(&one))
}

fn tcp(first: u16, last: u16) -> TrafficSet {
    TrafficSet::of(
        Protocol::TCP,
        PortRange::new(first, last).expect("a range").into(),
    )
}

fn rule(index: u32, peers: Peers, traffic: TrafficSet) -> ResolvedRule {
    ResolvedRule {
        index,
        action: Action::Accept,
        peers,
        traffic,
        named: Vec::new(),
    }
}

fn some(hosts: &[(&str, &[&str])], blocks: AddressSet) -> Peers {
    let addressed = hosts
        .iter()
        .map(|(name, texts)| (interface(name), addresses(texts).into()))
        .collect();
    let blocks = Arc::new(blocks);
    let blocks = hosts
        .iter()
        .map(|(name, _)| (interface(name), Arc::clone(&blocks)));
    Peers::Some {
        blocks: blocks.collect(),
        hosts: addressed,
    }
}

fn side(rules: Vec<ResolvedRule>) -> ResolvedSide {
    ResolvedSide {
        isolates: true,
        audits: false,
        rules,
    }
}

fn policy(
    object: ObjectRef,
    interfaces: &[&str],
    ingress: ResolvedSide,
    egress: ResolvedSide,
) -> PolicyOnPod {
    PolicyOnPod {
        object,
        tier: Tier::NetworkPolicy,
        interfaces: interfaces.iter().map(|name| interface(name)).collect(),
        ingress,
        egress,
    }
}

fn pod(interfaces: &[(&str, &[&str], bool)], policies: Vec<PolicyOnPod>) -> PodView {
    let interfaces = interfaces.iter().map(|(name, addresses, cluster)| Interface {
        name: interface(name),
        addresses: addresses
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect(),
        cluster: *cluster,
    });
    PodView {
        pod: ObjectRef::new("Pod", "default", "web"),
        interfaces: interfaces.collect(),
        own_node: AddressSet::empty(),
        policies,
    }
}

fn block() -> AddressSet {
    addresses(&["10.0.0.0/8"]).difference(&addresses(&["10.0.1.0/24"]))
}

/// The document's "Complete Example".
fn complete_example() -> PodView {
    let frontends: &[&str] = &["10.244.1.5", "10.244.1.8"];
    let databases: &[&str] = &["10.244.3.10", "10.244.3.15"];
    let ingress = rule(
        0,
        some(&[("net1", frontends), ("net2", frontends)], block()),
        tcp(8080, 8080),
    );
    let egress = rule(
        0,
        some(&[("net1", databases), ("net2", databases)], AddressSet::empty()),
        tcp(5432, 5432),
    );
    let object = ObjectRef::new("MultiNetworkPolicy", "default", "web-policy");
    let policy = policy(object, &["net1", "net2"], side(vec![ingress]), side(vec![egress]));
    pod(
        &[("net1", &["10.244.1.5"], false), ("net2", &["10.244.1.6"], false)],
        vec![policy],
    )
}

/// The same as a NetworkPolicy on the pod's own interface, in both families.
fn network_policy() -> PodView {
    let frontends: &[&str] = &["10.244.1.8", "2001:db8::8"];
    let ingress = rule(0, some(&[("eth0", frontends)], block()), tcp(8080, 8080));
    let ports = tcp(80, 80)
        .union(&tcp(8080, 8090))
        .union(&TrafficSet::from(Protocol::UDP));
    let mut egress = rule(1, some(&[("eth0", &["10.244.3.10"])], AddressSet::empty()), ports);
    let target = |text: &str| Targets::from([(interface("eth0"), addresses(&[text]).into())]);
    egress.named = vec![
        (tcp(53, 53), target("10.244.3.10")),
        (tcp(5353, 5353), target("10.244.3.11")),
    ];
    let object = ObjectRef::new("NetworkPolicy", "default", "web-policy");
    let policy = policy(object, &["eth0"], side(vec![ingress]), side(vec![egress]));
    let mut view = pod(&[("eth0", &["10.244.1.5", "2001:db8::5"], true)], vec![policy]);
    view.own_node = addresses(&["192.0.2.1", "192.0.2.7", "2001:db8:ffff::1"]);
    view
}

/// The custom rules of the document's example: one file for both directions.
fn documents_rules() -> Vec<CustomRules> {
    let text = "tcp dport 9999 accept\nip saddr 192.168.100.0/24 accept\n";
    let source = |text: &str| Source::decode(&"custom-v4-rules.txt".into(), text.as_bytes()).expect("UTF-8");
    let read =
        |text: &str, direction| CustomRules::read(&source(text), direction, Family::Ipv4).expect("rules");
    vec![read(text, Direction::Ingress), read(text, Direction::Egress)]
}

fn rendered(view: &PodView, options: Options) -> Table {
    let (table, shortfalls) = render(view, &options).expect("a table");
    assert_eq!(shortfalls, []);
    table
}

#[test]
fn the_complete_example_is_the_documents_with_its_corrections() {
    let table = rendered(
        &complete_example(),
        Options {
            accept_icmp: true,
            accept_icmpv6: true,
            custom: documents_rules(),
            ..Options::default()
        },
    );
    assert_eq!(print::block(&table), include_str!("tests/complete_example.nft"));
}

#[test]
fn a_network_policy_acts_on_the_pods_own_interface() {
    let table = rendered(&network_policy(), Options::default());
    assert_eq!(print::block(&table), include_str!("tests/network_policy.nft"));
}

#[test]
fn an_unselected_pod_has_empty_base_chains() {
    let table = rendered(&pod(&[("eth0", &["10.0.0.1"], true)], vec![]), Options::default());
    let chains: Vec<_> = table
        .chains()
        .iter()
        .map(|chain| (chain.name.as_str(), chain.rules.len()))
        .collect();
    assert_eq!(chains, [("input", 0), ("output", 0)]);
}

#[test]
fn hashes_are_those_of_the_contract() {
    for (kind, expected) in [
        ("MultiNetworkPolicy", NameHash::of("default/web-policy")),
        ("NetworkPolicy", NameHash::of("NetworkPolicy/default/web-policy")),
    ] {
        assert_eq!(
            policy_hash(&ObjectRef::new(kind, "default", "web-policy")),
            expected,
            "{kind}"
        );
    }
}

#[test]
fn two_policies_with_one_hash_are_an_error() {
    let object = ObjectRef::new("NetworkPolicy", "default", "a");
    let twice = [
        object.clone(),
        ObjectRef {
            uid: "1".into(),
            ..object
        },
    ];
    let policies = twice
        .clone()
        .map(|one| policy(one, &["eth0"], side(vec![]), side(vec![])));
    let error = render(
        &pod(&[("eth0", &[], true)], policies.to_vec()),
        &Options::default(),
    );
    let [first, second] = twice;
    assert_eq!(
        error.expect_err("a collision"),
        DocumentedError::Collision(Box::new(first), Box::new(second))
    );
}

#[test]
fn an_interface_named_like_a_part_of_a_name_is_an_error_and_an_odd_one_is_hashed() {
    let view = |name: &str| {
        let peers = some(&[(name, &["10.0.0.2"])], block());
        let object = ObjectRef::new("NetworkPolicy", "default", "a");
        let policy = policy(
            object,
            &[name],
            side(vec![rule(0, peers, TrafficSet::all())]),
            side(vec![]),
        );
        pod(&[(name, &[], true)], vec![policy])
    };
    let error = render(&view("cidr"), &Options::default()).expect_err("a collision");
    assert!(
        matches!(
            error,
            DocumentedError::Model {
                error: ModelError::Duplicate { .. },
                ..
            }
        ),
        "{error}"
    );
    let table = rendered(&view("a@b"), Options::default());
    let name = format!(
        "snp-{}_ingress_ipv4_if-{}_0",
        NameHash::of("NetworkPolicy/default/a"),
        NameHash::of("a@b")
    );
    assert!(table.sets().iter().any(|set| set.name().as_str() == name));
}

#[test]
fn long_comments_are_cut_and_keep_the_hash() {
    let object = ObjectRef::new("NetworkPolicy", &"n".repeat(63), &"p".repeat(253));
    let hash = policy_hash(&object);
    let table = rendered(
        &pod(
            &[("eth0", &[], true)],
            vec![policy(object, &["eth0"], side(vec![]), side(vec![]))],
        ),
        Options::default(),
    );
    let comment = table
        .sets()
        .first()
        .and_then(|set| set.comment())
        .expect("a comment")
        .as_str();
    assert_eq!(comment.len(), 128);
    assert!(comment.ends_with(&format!("p~{hash}")), "{comment}");
}

#[test]
fn above_500_anonymous_sets_every_range_has_a_rule_of_its_own() {
    let two = tcp(1, 1).union(&tcp(3, 3));
    let rules = (0..502)
        .map(|index| rule(index, Peers::Anyone, two.clone()))
        .collect();
    let object = ObjectRef::new("NetworkPolicy", "default", "a");
    let policy = policy(object, &["eth0"], side(rules), side(vec![]));
    let table = rendered(&pod(&[("eth0", &[], true)], vec![policy]), Options::default());
    let chain = table.chains().last().expect("the chain of the policy");
    assert_eq!(chain.rules.len(), 500 + 2 * 2);
}

fn packet(crossing: Crossing, source: &str, destination: &str, protocol: Protocol, port: u16) -> Packet {
    let address = |text: &str| text.parse().expect("an address");
    Packet::opening(crossing, address(source), address(destination), protocol, port)
}

fn arrives(source: &str, protocol: Protocol, port: u16) -> Packet {
    let own = if source.contains(':') {
        "2001:db8::5"
    } else {
        "10.244.1.5"
    };
    packet(
        Crossing::Receive { input: "eth0".into() },
        source,
        own,
        protocol,
        port,
    )
}

fn leaves(destination: &str, protocol: Protocol, port: u16) -> Packet {
    let own = if destination.contains(':') {
        "2001:db8::5"
    } else {
        "10.244.1.5"
    };
    packet(
        Crossing::Send {
            output: "eth0".into(),
        },
        own,
        destination,
        protocol,
        port,
    )
}

#[test]
fn the_layout_means_what_the_policy_says() {
    let table = rendered(&network_policy(), Options::default());
    let interpreter = Interpreter::new(&table);
    for (sentence, packet, expected) in [
        (
            "a peer may come to the port",
            arrives("10.244.1.8", Protocol::TCP, 8080),
            true,
        ),
        (
            "but to no other",
            arrives("10.244.1.8", Protocol::TCP, 8081),
            false,
        ),
        (
            "in both families",
            arrives("2001:db8::8", Protocol::TCP, 8080),
            true,
        ),
        (
            "a stranger may not",
            arrives("2001:db8::9", Protocol::TCP, 8080),
            false,
        ),
        ("a block may", arrives("10.0.0.255", Protocol::TCP, 8080), true),
        (
            "its exception may not",
            arrives("10.0.1.0", Protocol::TCP, 8080),
            false,
        ),
        (
            "the pod's own address is spoofed",
            arrives("10.244.1.5", Protocol::TCP, 8080),
            false,
        ),
        (
            "the own node always may",
            arrives("192.0.2.7", Protocol::TCP, 1),
            true,
        ),
        ("in IPv6 too", arrives("2001:db8:ffff::1", Protocol::TCP, 1), true),
        (
            "another node may not",
            arrives("192.0.2.8", Protocol::TCP, 1),
            false,
        ),
        (
            "the pod reaches its node",
            leaves("192.0.2.1", Protocol::TCP, 1),
            true,
        ),
        (
            "what is protocol-only wins over a port",
            leaves("10.244.3.10", Protocol::UDP, 7),
            true,
        ),
        (
            "ports and ranges count",
            leaves("10.244.3.10", Protocol::TCP, 8085),
            true,
        ),
        (
            "a name means another number on each peer",
            leaves("10.244.3.10", Protocol::TCP, 53),
            true,
        ),
        (
            "so not this one here",
            leaves("10.244.3.10", Protocol::TCP, 5353),
            false,
        ),
        ("but there", leaves("10.244.3.11", Protocol::TCP, 5353), true),
        (
            "ICMP is isolated",
            arrives("10.244.1.8", Protocol::ICMP, 8080),
            false,
        ),
    ] {
        assert_eq!(
            interpreter.outcome(&packet).is_accept(),
            expected,
            "{sentence}: {packet:?}"
        );
    }
}

#[test]
fn neighbour_discovery_errors_and_replies_always_pass() {
    let object = ObjectRef::new("NetworkPolicy", "default", "deny-all");
    let denied = policy(object, &["eth0"], side(vec![]), side(vec![]));
    let table = rendered(
        &pod(&[("eth0", &["2001:db8::5"], true)], vec![denied]),
        Options::default(),
    );
    let interpreter = Interpreter::new(&table);
    for (kind, state, expected) in [
        (135, State::Untracked, true),
        (136, State::Untracked, true),
        (133, State::Untracked, true),
        (137, State::Untracked, true),
        (2, State::Invalid, true),
        (128, State::New, false),
        (132, State::New, false),
        (138, State::New, false),
        (1, State::Related, true),
        (129, State::Established, true),
    ] {
        for packet in [
            arrives("fe80::1", Protocol::ICMPV6, 0),
            leaves("fe80::1", Protocol::ICMPV6, 0),
        ] {
            let packet = Packet {
                icmp_type: Some(kind),
                state,
                ..packet
            };
            assert_eq!(
                interpreter.outcome(&packet).is_accept(),
                expected,
                "type {kind}, {:?}",
                packet.crossing
            );
        }
    }
}

#[test]
fn only_isolated_directions_drop_and_loopback_is_never_judged() {
    let object = ObjectRef::new("NetworkPolicy", "default", "a");
    let view = pod(
        &[("eth0", &["10.244.1.5"], true)],
        vec![policy(object, &["eth0"], side(vec![]), ResolvedSide::default())],
    );
    let table = rendered(&view, Options::default());
    let interpreter = Interpreter::new(&table);
    let loopback = packet(
        Crossing::Receive { input: "lo".into() },
        "10.244.1.5",
        "10.244.1.5",
        Protocol::TCP,
        1,
    );
    assert!(
        !interpreter
            .outcome(&arrives("10.0.0.1", Protocol::TCP, 1))
            .is_accept()
    );
    assert!(
        interpreter
            .outcome(&leaves("10.0.0.1", Protocol::TCP, 1))
            .is_accept()
    );
    assert!(interpreter.outcome(&loopback).is_accept());
}

#[test]
fn a_tiered_policy_gives_a_narrower_meaning_and_says_so() {
    let tiered = |tier, action| PolicyOnPod {
        tier,
        ingress: ResolvedSide {
            isolates: false,
            audits: false,
            rules: vec![ResolvedRule {
                action,
                ..rule(0, Peers::Anyone, tcp(80, 80))
            }],
        },
        ..policy(
            ObjectRef::new("AdminNetworkPolicy", "", "a"),
            &["eth0"],
            side(vec![]),
            ResolvedSide::default(),
        )
    };
    let isolating = || {
        let object = ObjectRef::new("NetworkPolicy", "default", "b");
        let all = rule(0, Peers::Anyone, TrafficSet::all());
        policy(object, &["eth0"], side(vec![all]), ResolvedSide::default())
    };
    for (sentence, policies, shortfalls, accepted) in [
        (
            "an Admin deny closes the direction",
            vec![tiered(Tier::Admin, Action::Deny), isolating()],
            1,
            false,
        ),
        (
            "also without isolation",
            vec![tiered(Tier::Admin, Action::Deny)],
            1,
            false,
        ),
        (
            "an Admin accept is left out",
            vec![tiered(Tier::Admin, Action::Accept), isolating()],
            1,
            true,
        ),
        (
            "and matters to nobody without isolation",
            vec![tiered(Tier::Admin, Action::Accept)],
            0,
            true,
        ),
        (
            "a Baseline deny closes what nothing isolates",
            vec![tiered(Tier::Baseline, Action::Deny)],
            1,
            false,
        ),
        (
            "and nothing else",
            vec![tiered(Tier::Baseline, Action::Deny), isolating()],
            0,
            true,
        ),
    ] {
        let view = pod(&[("eth0", &["10.244.1.5"], true)], policies);
        let (table, found) = render(&view, &Options::default()).expect("a table");
        assert_eq!(found.len(), shortfalls, "{sentence}");
        let outcome = Interpreter::new(&table).outcome(&arrives("10.0.0.1", Protocol::TCP, 81));
        assert_eq!(outcome.is_accept(), accepted, "{sentence}");
    }
}
