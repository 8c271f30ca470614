use std::collections::BTreeSet;

use picket_cluster::{Semantics, Snapshot};
use picket_dataplane::demand::{Demands, Required};
use picket_engine::Engine;
use picket_linux::Tuple;
use picket_policy::Direction;
use picket_testing::build::{accept, pod, pods_in, policy};
use picket_testing::generate::{Shape, semantics, snapshot};
use picket_testing::snapshot;
use proptest::prelude::*;

use super::*;

fn tuple(source: IpAddr, destination: IpAddr, protocol: u8, carried: Carried) -> Tuple {
    Tuple {
        source,
        destination,
        protocol,
        carried,
        zone: 0,
    }
}

fn tracked(original: Tuple, reply: Tuple) -> Connection {
    Connection {
        original,
        reply,
        zone: 0,
        id: 1,
        status: 0,
        master: None,
        is_taken_up: false,
    }
}

/// A connection that nobody translates, to `port` where the protocol has ports.
fn plain(source: IpAddr, destination: IpAddr, protocol: u8, port: u16) -> Connection {
    let ports = |source, destination| match protocol {
        6 | 17 | 132 | 47 => Carried::Ports { source, destination },
        1 | 58 => Carried::Icmp {
            kind: if protocol == 1 { 8 } else { 128 },
            code: 0,
            id: 1,
        },
        _ => Carried::Nothing,
    };
    tracked(
        tuple(source, destination, protocol, ports(40_000, port)),
        tuple(destination, source, protocol, ports(port, 40_000)),
    )
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// web admits app=a on TCP 80, and may itself reach anybody; other is nobody's business.
fn cluster() -> Snapshot {
    snapshot![
        pod("x/a").ip("10.0.0.1").ip("fd00::1").label("app", "a"),
        pod("x/web").ip("10.0.0.2").ip("fd00::2").label("app", "web"),
        pod("x/other").ip("10.0.0.3"),
        policy("x/web")
            .selects("app=web")
            .isolates(Direction::Ingress)
            .ingress(accept().peer(pods_in("x", "app=a")).ports(Protocol::TCP, 80, 80)),
    ]
}

fn denied(cluster: &Snapshot, own: &[&str], connection: &Connection) -> Option<bool> {
    let engine = Engine::compile(cluster, Semantics::default());
    let table = indexed::render(engine.program(), None).unwrap();
    let own = own.iter().map(|text| address(text)).collect();
    let mut judge = Judge::on_node(&table, own);
    judge
        .touches(connection)
        .then(|| judge.denies(connection, &Severed::default()))
}

#[test]
fn connections_are_judged_as_the_rules_saw_them_begin() {
    let [a, web, other, node, world, service] = [
        "10.0.0.1",
        "10.0.0.2",
        "10.0.0.3",
        "10.0.0.254",
        "1.1.1.1",
        "10.96.0.1",
    ]
    .map(address);
    let ports = |source, destination| Carried::Ports { source, destination };
    // From a, or from the world, to port 443 of a service, which is port `port` of web; both ends are translated.
    let through_service = |source, port| {
        tracked(
            tuple(source, service, 6, ports(40_000, 443)),
            tuple(web, node, 6, ports(port, 50_000)),
        )
    };
    for (name, connection, expected) in [
        ("allowed", plain(a, web, 6, 80), Some(false)),
        (
            "in IPv6",
            plain(address("fd00::1"), address("fd00::2"), 6, 80),
            Some(false),
        ),
        ("another port", plain(a, web, 6, 81), Some(true)),
        ("another protocol", plain(a, web, 17, 80), Some(true)),
        ("a ping", plain(a, web, 1, 0), Some(true)),
        ("a tunnel", plain(a, web, 4, 0), Some(true)),
        ("a stranger", plain(other, web, 6, 80), Some(true)),
        ("of web's own", plain(web, a, 6, 81), Some(false)),
        ("to itself", plain(web, web, 6, 81), Some(false)),
        ("between others", plain(a, other, 6, 81), None),
        ("through a service", through_service(a, 80), Some(false)),
        ("through it to another port", through_service(a, 81), Some(true)),
        ("from outside through it", through_service(world, 80), Some(true)),
        ("to itself through it", through_service(web, 81), Some(false)),
        (
            "from the node, by an address that no object names",
            plain(node, web, 6, 81),
            Some(false),
        ),
        (
            "from the node through `lo`",
            plain(address("127.0.0.1"), web, 6, 81),
            Some(false),
        ),
    ] {
        assert_eq!(
            denied(&cluster(), &["10.0.0.254"], &connection),
            expected,
            "{name}"
        );
    }
    // Without the address of the node it is somebody from outside.
    assert_eq!(denied(&cluster(), &[], &plain(node, web, 6, 81)), Some(true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_denied_is_what_the_policies_demand(
        cluster in prop_oneof![snapshot(Shape::V1, 5), snapshot(Shape::Tiered, 4), snapshot(Shape::Dialects, 5)],
        semantics in semantics(),
    ) {
        let engine = Engine::compile(&cluster, semantics);
        let node = cluster.nodes.keys().next().map(ToString::to_string);
        let table = indexed::render(engine.program(), node.as_deref()).unwrap();
        let demands = Demands::on_node(engine.program(), node.as_deref());
        let own: BTreeSet<IpAddr> = cluster
            .nodes
            .values()
            .filter(|one| Some(one.name.as_str()) == node.as_deref())
            .flat_map(|one| one.addresses.iter().copied())
            .collect();
        let mut judge = Judge::on_node(&table, own.clone());
        let ends: Vec<IpAddr> = demands.ends().map(|(address, _)| address).collect();
        for &source in &ends {
            for &destination in ends.iter().filter(|end| end.is_ipv4() == source.is_ipv4()) {
                for (protocol, port) in [(6, 80), (17, 53), (132, 80), (1, 0), (58, 0), (47, 7)] {
                    let connection = plain(source, destination, protocol, port);
                    let denied = judge.touches(&connection) && judge.denies(&connection, &Severed::default());
                    let packet = Beginning::of(&connection);
                    let packet = packet.packet(packet.crossing(|address| own.contains(&address)));
                    let required = demands.required(&packet);
                    let agree = match required {
                        Required::Drop => denied,
                        Required::Accept => !denied,
                        Required::Either => true,
                    };
                    prop_assert!(agree, "{connection} must be {required:?}");
                }
            }
        }
    }
}
