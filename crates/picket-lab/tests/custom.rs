//! Files of custom rules with real packets, over the cluster network and a secondary one.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot set itself up fails"
)]

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use picket_cluster::{Attachment, Semantics, Snapshot};
use picket_lab::{
    Cell, Grid, Lab, Layout, Observation, Progress, Shape, add_custom_rules, compile, parse_expectations,
};
use picket_net::{Family, Protocol};
use picket_nftables::custom::CustomRules;
use picket_policy::{Direction, NetworkName, Networks, Policy, Source};
use picket_testing::build::{accept, pod, policy};
use picket_testing::snapshot;

/// `a` is isolated in both directions on both networks, and lets nobody in but on port 80.
fn cluster() -> Snapshot {
    let network = NetworkName::parse("x/red", "x").unwrap();
    let mut cluster = snapshot![
        pod("x/a").label("app", "a").ip("10.0.0.1").ip("fd00::1"),
        pod("x/b").label("app", "b").ip("10.0.0.2").ip("fd00::2"),
        pod("x/c").label("app", "c").ip("10.0.1.3").ip("fd00::1:3"),
    ];
    for (name, addresses) in [
        ("a", ["10.7.0.1", "fd07::1"]),
        ("b", ["10.7.0.2", "fd07::2"]),
        ("c", ["10.7.1.3", "fd07::1:3"]),
    ] {
        let object = cluster.pod("Pod", "x", name).unwrap().object.clone();
        Arc::make_mut(cluster.pods.get_mut(&object).unwrap())
            .attachments
            .push(Attachment {
                network: network.clone(),
                interface: "net1".into(),
                addresses: addresses
                    .iter()
                    .map(|address| address.parse::<IpAddr>().unwrap())
                    .collect(),
                synthetic: false,
            });
    }
    for networks in [Networks::Cluster, Networks::Attached(vec![network])] {
        let name = if networks == Networks::Cluster {
            "x/p"
        } else {
            "x/q"
        };
        let all = snapshot![
            policy(name)
                .selects("app=a")
                .isolates(Direction::Egress)
                .ingress(accept().port(Protocol::TCP, 80))
        ];
        for (object, policy) in all.policies {
            let networks = networks.clone();
            let policy = Policy {
                networks,
                ..Policy::clone(&policy)
            };
            cluster.policies.insert(object, Arc::new(policy));
        }
    }
    cluster
}

fn rules(files: [(Direction, Family, &str); 4]) -> Vec<CustomRules> {
    let read = |(direction, family, text): (Direction, Family, &str)| {
        let source = Source::decode(&format!("{direction}-{family}").into(), text.as_bytes()).expect("text");
        CustomRules::read(&source, direction, family).expect("rules")
    };
    files.map(read).into()
}

fn custom() -> Vec<CustomRules> {
    rules([
        (
            Direction::Ingress,
            Family::Ipv4,
            "ip saddr { 10.0.1.0/24, 10.7.1.0/24 } tcp dport 80 reject\n\
             tcp dport 81 counter accept\n\
             iifname net1 meta l4proto { udp, sctp } th dport 80-82 accept\n\
             ip daddr 10.7.0.0/16 tcp dport 82 ct state new accept\n\
             meta l4proto icmp drop\n",
        ),
        (
            Direction::Egress,
            Family::Ipv4,
            "ip daddr 10.0.1.3 reject\noifname \"net1\" tcp dport 82 accept\nmeta l4proto icmp accept\n",
        ),
        (
            Direction::Ingress,
            Family::Ipv6,
            "ip6 saddr fd00::/112 accept\nmeta l4proto icmpv6 accept\n",
        ),
        (
            Direction::Egress,
            Family::Ipv6,
            "ip6 saddr fd07::/112 ip6 daddr != fd07::2 udp dport 81 accept\n",
        ),
    ])
}

fn up(in_force: &[CustomRules], expected: &[CustomRules]) -> Lab {
    let mut cluster = cluster();
    add_custom_rules(expected, &mut cluster);
    let shape = Shape {
        nodes: 2,
        outside: BTreeSet::new(),
        timeout: Duration::from_millis(600),
    };
    let semantics = Semantics {
        accept_icmp: true,
        ..Semantics::default()
    };
    let compile = compile(Layout::Documented, &semantics, in_force);
    let ports = parse_expectations("allow * -> * 81\nallow * -> * 82\n").unwrap();
    Lab::up(&cluster, shape, &ports, compile, &Progress::hidden()).unwrap()
}

fn probe(lab: &mut Lab) -> Grid {
    lab.probe(None, lab.timeout(), &Progress::hidden()).unwrap()
}

/// The verdicts of `cells` between `x/b` and `x/a`, over IPv4, as in `eth0 TCP 81 b→a`.
fn allowed(lab: &Lab, grid: &Grid) -> BTreeSet<String> {
    let hosts = &lab.topology().hosts;
    let host = |index: usize| hosts.get(index).expect("a host");
    let ends = |cell: &Cell| [cell.probe.source, cell.probe.destination].map(|end| host(end).id.clone());
    let describe = |cell: &Cell| {
        let [from, to] = ends(cell);
        let over = if cell.probe.network(hosts).is_some() {
            "net1"
        } else {
            "eth0"
        };
        let (protocol, port, family) = (cell.probe.protocol, cell.probe.port, cell.probe.family);
        format!("{over} {family} {protocol} {port} {from} {to}")
    };
    let between = |cell: &&Cell| ends(cell).iter().all(|id| id.starts_with("x/"));
    let allowed = grid
        .cells()
        .iter()
        .filter(|cell| cell.seen == Observation::Answered);
    allowed.filter(between).map(describe).collect()
}

#[test]
fn custom_rules_are_obeyed_over_every_interface_that_is_isolated() {
    let mut lab = up(&custom(), &custom());
    let grid = probe(&mut lab);
    assert_eq!(grid.differences().count(), 0, "{}", grid.to_text(false));
    let allowed = allowed(&lab, &grid);
    for (probe, verdict) in [
        ("eth0 ipv4 TCP 80 x/b x/a", true),
        ("eth0 ipv4 TCP 80 x/c x/a", false),
        ("net1 ipv4 TCP 80 x/c x/a", false),
        ("eth0 ipv4 TCP 81 x/c x/a", true),
        ("eth0 ipv6 TCP 81 x/c x/a", false),
        ("eth0 ipv6 TCP 81 x/b x/a", true),
        ("net1 ipv6 TCP 81 x/b x/a", false),
        ("eth0 ipv4 UDP 82 x/b x/a", false),
        ("net1 ipv4 UDP 82 x/b x/a", true),
        ("eth0 ipv4 TCP 82 x/b x/a", false),
        ("net1 ipv4 TCP 82 x/b x/a", true),
        ("eth0 ipv4 ICMP 0 x/b x/a", false),
        ("eth0 ipv4 ICMP 0 x/a x/b", true),
        ("eth0 ipv4 ICMP 0 x/a x/c", false),
        ("eth0 ipv4 TCP 82 x/a x/b", false),
        ("net1 ipv4 TCP 82 x/a x/b", true),
        ("net1 ipv6 UDP 81 x/a x/b", false),
        ("net1 ipv6 UDP 81 x/a x/c", true),
        ("eth0 ipv6 UDP 81 x/a x/c", false),
        ("eth0 ipv6 ICMPv6 0 x/c x/a", true),
        // Nobody isolates `b`, so that they are not about it.
        ("eth0 ipv4 ICMP 0 x/c x/b", true),
    ] {
        assert_eq!(
            allowed.contains(probe),
            verdict,
            "{probe}\n{}",
            grid.to_text(false)
        );
    }
    let refused = grid
        .cells()
        .iter()
        .filter(|cell| cell.seen == Observation::Refused);
    assert!(refused.count() > 3, "{}", grid.to_text(false));
}

#[test]
fn rulesets_without_them_or_with_others_are_seen_to_differ() {
    for in_force in [Vec::new(), custom().split_off(1)] {
        let mut lab = up(&in_force, &custom());
        assert!(probe(&mut lab).differences().count() > 0);
    }
}

#[test]
fn they_change_under_a_standing_lab() {
    let mut lab = up(&custom(), &custom());
    let other = rules([
        (Direction::Ingress, Family::Ipv4, "tcp dport 82 accept\n"),
        (Direction::Egress, Family::Ipv4, ""),
        (Direction::Ingress, Family::Ipv6, ""),
        (Direction::Egress, Family::Ipv6, "accept\n"),
    ]);
    let mut next = cluster();
    add_custom_rules(&other, &mut next);
    let compile = compile(Layout::Documented, &Semantics::default(), &other);
    let changes = lab.apply_with(&next, compile, &Progress::hidden()).unwrap();
    assert_eq!(changes.grid.differences().count(), 0, "{:?}", changes.lines());
    assert!(changes.grid.cells().len() > 10, "{:?}", changes.lines());
    let grid = probe(&mut lab);
    assert_eq!(grid.differences().count(), 0, "{}", grid.to_text(false));
}
