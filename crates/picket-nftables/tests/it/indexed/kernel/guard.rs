//! What a node looks at besides policies, with real packets.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use picket_cluster::{Semantics, Snapshot};
use picket_linux::Netlink;
use picket_net::Protocol;
use picket_nftables::model::InterfaceName;
use picket_nftables::print;
use picket_nftables::render::indexed::{Guard, closed, until_known};
use picket_policy::Direction;
use picket_testing::build::{accept, block, pod, policy};
use picket_testing::snapshot;

use super::super::rendered;
use super::hosts::{Host, Node};
use super::mid_stream::{AT_MOST, BRIEFLY, arrives, connection};

/// A node with the world behind its only uplink.
pub(super) fn node() -> (Node, Host) {
    let node = Node::new();
    let world = node.host(9);
    node.ip(&["route", "add", "default", "via", "10.0.9.2"]);
    node.ip(&["-6", "route", "add", "default", "via", "fd00:0:0:9::2"]);
    (node, world)
}

pub(super) fn guard(node: &Node, anti_spoof: bool) -> Guard {
    let mut netlink = Netlink::open(&node.namespace).expect("netlink");
    let uplinks = netlink.uplinks().expect("routes").into_iter();
    Guard {
        uplinks: uplinks.filter_map(|name| InterfaceName::new(&name)).collect(),
        anti_spoof,
    }
}

fn install(node: &Node, snapshot: &Snapshot, guard: &Guard) {
    let table = rendered(snapshot, &Semantics::default(), None, Some(guard.clone()));
    node.load(&print::text(&table));
}

pub(super) fn pod_at(id: &str, host: &Host) -> picket_testing::build::PodBuilder {
    pod(id).ip(&host.v4.to_string()).ip(&host.v6.to_string())
}

/// Addresses that policies allow: one of nobody, and one of a pod behind the uplink.
const ALLOWED: [&str; 4] = ["192.0.2.7", "2001:db8::7", "10.9.0.5", "fd09::5"];

/// b is reached by those that may, at UDP 9000.
fn cluster(a: &Host, b: &Host) -> Snapshot {
    let from = ["192.0.2.0/24", "2001:db8::/32"].map(|prefix| block(prefix, &[]));
    let rule = from.into_iter().fold(accept(), |rule, from| rule.peer(from));
    snapshot![
        pod_at("x/a", a),
        pod_at("x/b", b).label("app", "b"),
        pod("x/far").ip("10.9.0.5").ip("fd09::5").label("app", "far"),
        policy("x/b")
            .selects("app=b")
            .isolates(Direction::Ingress)
            .ingress(
                rule.peer(picket_testing::build::pods_in("x", "app=far"))
                    .port(Protocol::UDP, 9000)
            ),
    ]
}

/// Where packets of each version arrive.
struct Receivers([UdpSocket; 2]);

impl Receivers {
    fn at(host: &Host) -> Self {
        Self(host.addresses().map(|own| {
            let socket = socket(host, SocketAddr::new(own, 9000));
            socket.set_read_timeout(Some(BRIEFLY)).expect("a timeout");
            socket
        }))
    }

    /// Whether a packet from this address arrives.
    fn hear(&self, from: &Host, source: IpAddr) -> bool {
        let [v4, v6] = &self.0;
        let receiver = if source.is_ipv4() { v4 } else { v6 };
        let to = receiver.local_addr().expect("an address");
        let sender = socket(from, SocketAddr::new(source, 0));
        sender.send_to(b"x", to).expect("a packet");
        receiver.recv(&mut [0]).is_ok()
    }
}

fn socket(host: &Host, at: SocketAddr) -> UdpSocket {
    let socket = host.namespace.run(|| UdpSocket::bind(at));
    socket.expect("the namespace").expect("a free port")
}

#[test]
fn nobody_but_who_has_them_sends_with_addresses_that_policies_allow() {
    let (node, world) = node();
    let (a, b) = (node.host(1), node.host(2));
    let cluster = cluster(&a, &b);
    for host in [&a, &world] {
        let mut netlink = Netlink::open(&host.namespace).expect("netlink");
        for address in ALLOWED.map(|text| text.parse::<IpAddr>().expect("an address")) {
            let length = if address.is_ipv4() { 32 } else { 128 };
            netlink.add_address("eth0", address, length).expect("an address");
        }
    }
    let b_hears = Receivers::at(&b);
    for strict in [false, true] {
        install(&node, &cluster, &guard(&node, strict));
        for address in ALLOWED {
            let source = address.parse().expect("an address");
            assert!(b_hears.hear(&world, source), "{address} from where it is");
            assert_eq!(b_hears.hear(&a, source), !strict, "{address} from elsewhere");
        }
        for own in a.addresses() {
            assert!(!b_hears.hear(&a, own), "{own} may not at all");
        }
    }
    assert_eq!(node.counted("picket", "drop-spoofed"), 4);
    // Also where no policy looks at anything.
    install(&node, &snapshot![], &guard(&node, true));
    for address in ALLOWED {
        let source = address.parse().expect("an address");
        assert!(!b_hears.hear(&a, source), "{address}");
    }
    for own in a.addresses() {
        assert!(b_hears.hear(&a, own), "{own}");
    }
}

#[test]
fn a_known_connection_is_no_excuse() {
    let (node, world) = node();
    let (a, b) = (node.host(1), node.host(2));
    install(&node, &cluster(&a, &b), &guard(&node, true));
    let mut netlink = Netlink::open(&a.namespace).expect("netlink");
    for theirs in world.addresses() {
        let length = if theirs.is_ipv4() { 32 } else { 128 };
        netlink.add_address("eth0", theirs, length).expect("an address");
        let own = if theirs.is_ipv4() {
            b.addresses()[0]
        } else {
            b.addresses()[1]
        };
        let asks = socket(&b, SocketAddr::new(own, 7000));
        let answers = socket(&world, SocketAddr::new(theirs, 53));
        let forges = socket(&a, SocketAddr::new(theirs, 53));
        asks.set_read_timeout(Some(BRIEFLY)).expect("a timeout");
        answers.set_read_timeout(Some(AT_MOST)).expect("a timeout");
        asks.send_to(b"?", (theirs, 53)).expect("a packet");
        answers.recv(&mut [0]).expect("what was asked");
        forges.send_to(b"!", (own, 7000)).expect("a packet");
        assert!(asks.recv(&mut [0]).is_err(), "{theirs} forged");
        answers.send_to(b".", (own, 7000)).expect("a packet");
        asks.recv(&mut [0]).expect("the answer");
    }
}

#[test]
fn what_a_bridge_passes_on_that_leads_nowhere_is_no_spoofing() {
    let node = Node::new();
    node.ip(&["link", "add", "br0", "up", "type", "bridge"]);
    let calls = [
        "bridge/bridge-nf-call-iptables",
        "bridge/bridge-nf-call-ip6tables",
    ];
    node.namespace
        .set(&calls.map(|name| (name, "1")))
        .expect("br_netfilter");
    let (a, b) = (node.bridged_host(1), node.bridged_host(2));
    let b_hears = Receivers::at(&b);
    let guarded = guard(&node, true);
    let bridge = InterfaceName::new("br0").expect("a name");
    assert!(guarded.uplinks.contains(&bridge), "{guarded:?}");
    install(&node, &snapshot![], &guarded);
    for own in a.addresses() {
        assert!(b_hears.hear(&a, own), "{own}");
    }
    // With a route through the bridge it leads to pods.
    node.ip(&["address", "add", "10.0.0.254/24", "dev", "br0"]);
    node.ip(&["-6", "address", "add", "fd00::254/64", "dev", "br0", "nodad"]);
    let guarded = guard(&node, true);
    assert!(!guarded.uplinks.contains(&bridge), "{guarded:?}");
    install(&node, &snapshot![], &guarded);
    let mut netlink = Netlink::open(&a.namespace).expect("netlink");
    for (spoofed, length) in [("192.0.2.7", 32), ("2001:db8::7", 128)] {
        let spoofed = spoofed.parse().expect("an address");
        netlink.add_address("eth0", spoofed, length).expect("an address");
        assert!(!b_hears.hear(&a, spoofed), "{spoofed}");
    }
    for own in a.addresses() {
        assert!(b_hears.hear(&a, own), "{own}");
    }
}

/// Whether TCP is opened at every address.
fn connects(from: &Host, to: &Host) -> bool {
    let connects = to.addresses().map(|address| from.connects(address, 80));
    assert_eq!(connects[0], connects[1], "both versions alike");
    connects[0]
}

/// A pod that came while nobody looked, beside one that was known, with policies about that or without any.
fn stranger(is_restricted: bool) {
    let (node, world) = node();
    let (known, stranger) = (node.host(1), node.host(2));
    let mut cluster = snapshot![
        pod_at("x/known", &known),
        policy("x/known")
            .isolates(Direction::Ingress)
            .ingress(accept().port(Protocol::TCP, 80)),
    ];
    if !is_restricted {
        cluster.policies.clear();
    }
    let guard = guard(&node, true);
    let before = rendered(&cluster, &Semantics::default(), None, Some(guard.clone()));
    node.load(&print::text(&before));
    let mut talks = connection(&stranger, &world, world.addresses()[1]);
    let _servers = [&world, &known, &stranger].map(|host| host.listen(80));
    assert!(connects(&stranger, &world) && connects(&known, &stranger));
    let meanwhile = until_known(&before, &guard)
        .expect("a table")
        .expect("one with pods");
    node.load(&print::text(&meanwhile));
    for (from, to) in [
        (&stranger, &known),
        (&known, &stranger),
        (&stranger, &world),
        (&world, &stranger),
    ] {
        assert!(!connects(from, to));
    }
    assert!(connects(&known, &world) && connects(&world, &known));
    let from_node = |address| {
        let target = SocketAddr::new(address, 80);
        let connect = || std::net::TcpStream::connect_timeout(&target, Duration::from_secs(5)).is_ok();
        node.namespace.run(connect).expect("the namespace")
    };
    assert!(stranger.addresses().into_iter().all(from_node));
    // Without policies nothing has tracked it.
    let [client, server] = &mut talks;
    let within = if is_restricted { AT_MOST } else { BRIEFLY };
    assert_eq!(arrives(client, server, within), is_restricted);
    assert_eq!(arrives(server, client, within), is_restricted);
    assert!(node.counted("picket", "drop-unknown") > 0);
    // It stays so however often it is done, and without pods nothing is known of any.
    let again = until_known(&meanwhile, &guard).expect("a table");
    assert_eq!(again.as_ref(), Some(&meanwhile));
    let nothing = closed(&guard).expect("a table");
    assert_eq!(until_known(&nothing, &guard), Ok(None));
}

#[test]
fn who_came_while_nobody_looked_begins_nothing_beside_policies() {
    stranger(true);
}

#[test]
fn who_came_while_nobody_looked_begins_nothing_without_policies() {
    stranger(false);
}
