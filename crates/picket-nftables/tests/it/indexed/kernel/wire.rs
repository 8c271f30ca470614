//! Real packets through a table of the indexed layout.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use picket_cluster::Snapshot;
use picket_net::Protocol;
use picket_nftables::print;
use picket_policy::Direction;
use picket_testing::build::{accept, pod, pods_in, policy};
use picket_testing::snapshot;
use rustix::net::{SendFlags, sendto, sockopt};

use super::super::table;
use super::hosts::{Host, Node};

fn install(node: &Node, snapshot: &Snapshot) {
    node.load(&print::text(&table(snapshot, None)));
}

fn pod_at(id: &str, host: &Host) -> picket_testing::build::PodBuilder {
    pod(id).ip(&host.v4.to_string()).ip(&host.v6.to_string())
}

/// b admits a on TCP 80 to 85 and 8000 to 9000, and nobody else; a may speak to b on UDP too.
fn two_pods(a: &Host, b: &Host) -> Snapshot {
    snapshot![
        pod_at("x/a", a).label("app", "a"),
        pod_at("x/b", b).label("app", "b"),
        policy("x/b")
            .selects("app=b")
            .isolates(Direction::Egress)
            .ingress(
                accept()
                    .peer(pods_in("x", "app=a"))
                    .ports(Protocol::TCP, 80, 85)
                    .ports(Protocol::TCP, 8000, 9000)
            ),
        policy("x/a")
            .selects("app=a")
            .isolates(Direction::Ingress)
            .egress(accept().peer(pods_in("x", "app=b")).protocol(Protocol::TCP)),
    ]
}

#[test]
fn ports_ranges_and_families_are_told_apart() {
    let node = Node::new();
    let (a, b, c) = (node.host(1), node.host(2), node.host(3));
    install(&node, &two_pods(&a, &b));
    let ports = [79, 80, 85, 86, 7999, 8000, 8500, 9000, 9001];
    let _listeners: Vec<_> = ports.iter().map(|&port| b.listen(port)).collect();
    let _at_a = a.listen(80);
    for address in b.addresses() {
        for port in ports {
            let expected = matches!(port, 80..=85 | 8000..=9000);
            assert_eq!(a.connects(address, port), expected, "a to {address} {port}");
        }
        assert!(!c.connects(address, 80), "a stranger to {address}");
    }
    for address in a.addresses() {
        assert!(!b.connects(address, 80), "b to {address}");
    }
}

#[test]
fn a_drop_is_counted_for_the_policy_and_direction() {
    let node = Node::new();
    let (a, b) = (node.host(1), node.host(2));
    let cluster = two_pods(&a, &b);
    install(&node, &cluster);
    let table = table(&cluster, None);
    let counters: Vec<_> = table
        .counters()
        .iter()
        .map(|counter| {
            let title = counter.comment.as_ref().expect("a comment").as_str();
            (title, counter.name.as_str())
        })
        .collect();
    let name = |title: &str, direction: &str| {
        let matches = |(found, name): &&(&str, &str)| *found == title && name.contains(direction);
        counters.iter().find(matches).expect("a counter").1
    };
    a.connects(b.v4.into(), 79);
    assert!(node.counted("picket", name("x/b", "ingress")) > 0);
    assert_eq!(node.counted("picket", name("x/a", "egress")), 0);
    b.connects(a.v6.into(), 80);
    assert!(node.counted("picket", name("x/b", "egress")) > 0);
    assert_eq!(
        node.counted("picket", name("x/a", "ingress")),
        0,
        "dropped before"
    );
}

/// What somebody else on the node does: marks for packets and connections before, counters after.
const OTHERS: &str = "
table inet others {
  counter kept { }
  counter lost { }
  counter priority-lost { }
  counter priority-kept { }
  chain before {
    type filter hook prerouting priority mangle; policy accept;
    ct state new meta mark set 0x00004abc
    ct state new ct mark set 0x00001234
    ct state new ip6 dscp 5 meta priority set 0:5
  }
  chain forward {
    type filter hook forward priority mangle; policy accept;
    ct state new ip dscp 1 meta priority set 1:10
  }
  chain after {
    type filter hook postrouting priority 200; policy accept;
    ct state new meta mark 0x00004abc ct mark 0x00001234 counter name kept
    ct state new meta mark != 0x00004abc counter name lost
    ct state new ct mark != 0x00001234 counter name lost
    ct state new ip dscp 0 meta priority none counter name priority-kept
    ct state new ip dscp 0 meta priority != none counter name priority-lost
    ct state new ip dscp 1 meta priority 1:10 counter name priority-kept
    ct state new ip dscp 1 meta priority != 1:10 counter name priority-lost
    ct state new ip dscp 2 meta priority 0:2 counter name priority-kept
    ct state new ip dscp 2 meta priority != 0:2 counter name priority-lost
    ct state new ip dscp 4 meta priority 0:6 counter name priority-kept
    ct state new ip dscp 4 meta priority != 0:6 counter name priority-lost
    ct state new ip6 dscp 0 meta priority none counter name priority-kept
    ct state new ip6 dscp 0 meta priority != none counter name priority-lost
    ct state new ip6 dscp 5 meta priority 0:5 counter name priority-kept
    ct state new ip6 dscp 5 meta priority != 0:5 counter name priority-lost
  }
}
";

#[test]
fn marks_and_priorities_that_others_set_survive() {
    let node = Node::new();
    let (a, b) = (node.host(1), node.host(2));
    let cluster = snapshot![
        pod_at("x/a", &a),
        pod_at("x/b", &b),
        policy("x/p")
            .isolates(Direction::Ingress)
            .isolates(Direction::Egress)
            .ingress(accept().peer(pods_in("x", "")).protocol(Protocol::UDP))
            .egress(accept().peer(pods_in("x", "")).protocol(Protocol::UDP)),
    ];
    install(&node, &cluster);
    node.load(OTHERS);
    let mut sent = 0;
    for destination in b.addresses() {
        let classes: &[u8] = if destination.is_ipv4() {
            &[0, 1, 2, 4]
        } else {
            &[0, 5]
        };
        let _sink = b
            .namespace
            .run(|| UdpSocket::bind(SocketAddr::new(destination, 9000)))
            .expect("the namespace")
            .expect("a socket");
        for class in classes {
            // One socket, and so one connection, for each class. Nobody answers UDP, so every packet stays new.
            let open = || UdpSocket::bind(SocketAddr::new(own(&a, destination), 0));
            let socket = a.namespace.run(open).expect("the namespace").expect("a socket");
            if destination.is_ipv4() {
                sockopt::set_ip_tos(&socket, class << 2).expect("a type of service");
            } else {
                sockopt::set_ipv6_tclass(&socket, u32::from(class << 2)).expect("a traffic class");
            }
            for _ in 0..3 {
                socket.send_to(b"x", (destination, 9000)).expect("a packet");
                sent += 1;
            }
        }
    }
    let count = |counter| node.counted("others", counter);
    assert_eq!(
        (count("kept"), count("lost")),
        (sent, 0),
        "{}",
        node.nft(&["list", "ruleset"])
    );
    assert_eq!((count("priority-kept"), count("priority-lost")), (sent, 0));
}

fn own(host: &Host, of_family: std::net::IpAddr) -> std::net::IpAddr {
    if of_family.is_ipv4() {
        host.v4.into()
    } else {
        host.v6.into()
    }
}

fn deny_all() -> picket_testing::build::PolicyBuilder {
    policy("x/deny")
        .isolates(Direction::Ingress)
        .isolates(Direction::Egress)
}

#[test]
fn neighbours_find_each_other_on_a_bridge_under_deny_all() {
    let node = Node::new();
    node.ip(&["link", "add", "br0", "up", "type", "bridge"]);
    // Lets bridged packets, neighbour discovery among them, pass the forward hook.
    node.namespace
        .set(&[("bridge/bridge-nf-call-ip6tables", "1")])
        .expect("br_netfilter");
    let (a, b) = (node.bridged_host(1), node.bridged_host(2));
    install(
        &node,
        &snapshot![
            pod_at("x/a", &a),
            pod_at("x/b", &b),
            deny_all(),
            policy("x/one")
                .ingress(accept().port(Protocol::TCP, 80))
                .egress(accept().port(Protocol::TCP, 80)),
        ],
    );
    let _listeners = [b.listen(80), b.listen(81)];
    assert!(a.connects(b.v6.into(), 80));
    assert!(!a.connects(b.v6.into(), 81), "the bridge passes the forward hook");
}

/// An ICMPv6 message of this type from one host to another; the kernel fills in the checksum.
fn send_icmpv6(from: &Host, to: Ipv6Addr, kind: u8) {
    let socket = from
        .namespace
        .run(|| picket_linux::icmp_socket(from.v6.into(), None));
    let socket = socket.expect("the namespace").expect("a raw socket");
    let mut message = [0_u8; 32];
    message[0] = kind;
    sendto(
        &socket,
        &message,
        SendFlags::empty(),
        &SocketAddr::new(to.into(), 0),
    )
    .expect("a packet");
}

#[test]
fn packet_too_big_and_neighbour_discovery_pass_under_deny_all_and_echo_does_not() {
    let node = Node::new();
    let (a, b) = (node.host(1), node.host(2));
    install(&node, &snapshot![pod_at("x/b", &b), deny_all()]);
    node.load(
        "table inet others {\n counter passed { }\n chain after {\n type filter hook postrouting priority 0;\n \
         oifname host2 ip6 saddr fd00:0:0:1::2 meta l4proto icmpv6 counter name passed\n }\n}\n",
    );
    for (kind, passes) in [(2, 1), (135, 2), (136, 3), (137, 4), (128, 4), (1, 4)] {
        send_icmpv6(&a, b.v6, kind);
        assert_eq!(node.counted("others", "passed"), passes, "type {kind}");
    }
}

#[test]
fn a_pod_learns_a_narrower_path_although_nobody_may_speak_to_it() {
    let node = Node::new();
    let far = Node::new();
    let a = node.host(1);
    // node ── far ── narrow link ── server
    {
        use picket_linux::Netlink;
        let mut netlink = Netlink::open(&node.namespace).expect("netlink");
        netlink
            .create_cable("far", 99, "near", &far.namespace)
            .expect("a cable");
        netlink.set_up("far").expect("a link");
        for (address, length) in [("fd00:0:0:9::1", 64), ("10.0.9.1", 24)] {
            netlink
                .add_address("far", address.parse().expect("ip"), length)
                .expect("an address");
        }
    }
    let server = far.host(2);
    for arguments in [
        "address add fd00:0:0:9::2/64 dev near nodad",
        "address add 10.0.9.2/24 dev near",
        "link set near up",
        "link set host2 mtu 1300",
        "-6 route add fd00:0:0:1::/64 via fd00:0:0:9::1",
        "route add 10.0.1.0/24 via 10.0.9.1",
    ] {
        far.ip(&arguments.split(' ').collect::<Vec<_>>());
    }
    node.ip(&["-6", "route", "add", "fd00:0:0:2::/64", "via", "fd00:0:0:9::2"]);
    node.ip(&["route", "add", "10.0.2.0/24", "via", "10.0.9.2"]);
    let cluster = snapshot![
        pod_at("x/a", &a),
        policy("x/p")
            .isolates(Direction::Ingress)
            .egress(accept().protocol(Protocol::UDP)),
    ];
    install(&node, &cluster);
    for (from, to) in [
        (IpAddr::from(a.v6), IpAddr::from(server.v6)),
        (a.v4.into(), server.v4.into()),
    ] {
        let bound = |host: &Host, address: IpAddr, port| {
            let bound = host.namespace.run(|| UdpSocket::bind((address, port)));
            bound.expect("the namespace").expect("a socket")
        };
        let (receiver, sender) = (bound(&server, to, 9000), bound(&a, from, 0));
        receiver
            .set_read_timeout(Some(Duration::from_millis(100)))
            .expect("a timeout");
        let mut buffer = [0; 2000];
        sender.send_to(b"small", (to, 9000)).expect("a packet");
        assert!(
            receiver.recv(&mut buffer).is_ok(),
            "{}",
            node.nft(&["list", "ruleset"])
        );
        let arrived = (0..20).any(|_| {
            // The first is lost on the way; what follows is cut to fit once the error has come back.
            let _ = sender.send_to(&[0; 1400], (to, 9000));
            receiver.recv(&mut buffer).is_ok()
        });
        assert!(arrived, "{to}");
    }
}
