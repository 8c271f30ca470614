//! Echo requests, which no policy can allow, and what IPv6 needs to work at all.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use serde_json::json;

use super::{labelled, named, simple};
use crate::pods::{Node, Pod, expect, forget_neighbours, nft, send_fragmentation_needed, send_icmpv6};

/// Requests into the pod that a policy isolates and out of it.
const V4: &str = "a->server:icmp b->server:icmp server->a:icmp server->b:icmp";
const V6: &str = "a->server:icmpv6 b->server:icmpv6 server->a:icmpv6 server->b:icmpv6";

#[test]
fn echo_requests_pass_by_the_flag_of_their_family_alone() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    expect(&pods, &[V4, V6], true, "before there is a policy");
    let port = json!([{"port": 80}]);
    let spec = json!({
        "podSelector": labelled("name", "server"),
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": named(&["a"]), "ports": port}],
        "egress": [{"to": named(&["a"]), "ports": port}],
    });
    node.policy("default", "port", "default/net", &spec);
    for (flags, allowed, denied) in [
        (&[][..], &[][..], &[V4, V6][..]),
        (&["--accept-icmp"], &[V4], &[V6]),
        (&["--accept-icmpv6"], &[V6], &[V4]),
        (&["--accept-icmp", "--accept-icmpv6"], &[V4, V6], &[]),
    ] {
        node.start(flags);
        node.until_enforced();
        // Nobody knows anybody on the network any more, and so has to ask, with ICMPv6 too.
        forget_neighbours(&pods);
        let when = format!("with {flags:?}");
        expect(&pods, &["a->server:80 server->a:80"], true, &when);
        expect(&pods, &["b->server:80 server->b:80 a->server:81"], false, &when);
        expect(&pods, allowed, true, &when);
        expect(&pods, denied, false, &when);
        node.kill();
    }
}

/// The type of the ICMPv6 message that says that a packet was too big for the way ahead.
const PACKET_TOO_BIG: u8 = 2;

/// Counts messages of ICMPv6 behind the rules of policies, but for those by which neighbours find each other.
const COUNTED: &str = "table inet others { counter passed { }; \
    chain in { type filter hook input priority 10; iifname net1 icmpv6 type { 1-4, 128 } counter name passed; }; }";

/// How many were counted in a pod.
fn passed(pod: &Pod) -> u64 {
    counted(pod, "passed")
}

fn counted(pod: &Pod, counter: &str) -> u64 {
    let listed = nft(pod, &format!("list counter inet others {counter}"));
    let (_, rest) = listed.split_once("packets ").unwrap();
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn packet_too_big_passes_where_nothing_is_allowed() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    expect(&pods, &[V6], true, "before there is a policy");
    let closed = json!({"podSelector": labelled("name", "server"), "policyTypes": ["Ingress", "Egress"]});
    node.policy("default", "closed", "default/net", &closed);
    node.start(&[]);
    node.until_enforced();
    let (a, server) = (&pods["a"], &pods["server"]);
    for (from, to) in [(a, server), (server, a)] {
        nft(to, COUNTED);
        for kind in [1, 3, 4, 128, PACKET_TOO_BIG] {
            send_icmpv6(from, to, kind);
        }
        node.until("a message that arrived", |_| passed(to) > 0);
        assert_eq!(passed(to), 1, "{} to {}", from.name, to.name);
    }
}

/// Counts errors of ICMP behind the rules of policies, those of one pod apart.
fn count_errors(at: &Pod, apart: Ipv4Addr) {
    let icmp = "iifname net1 icmp type destination-unreachable";
    let rules = format!(
        "{icmp} ip saddr {apart} counter name apart; {icmp} ip saddr != {apart} counter name passed;"
    );
    let chain = format!("chain in {{ type filter hook input priority 10; {rules} }}");
    nft(
        at,
        &format!("table inet others {{ counter apart {{ }}; counter passed {{ }}; {chain}; }}"),
    );
}

#[test]
fn that_fragmentation_is_needed_passes_to_who_sent_what_is_too_big() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    let spec = json!({
        "podSelector": labelled("name", "server"),
        "policyTypes": ["Ingress", "Egress"],
        "egress": [{"to": named(&["a"]), "ports": [{"protocol": "UDP", "port": 80}]}],
    });
    node.policy("default", "only-out", "default/net", &spec);
    node.start(&[]);
    node.until_enforced();
    let [a, router, server] = ["a", "b", "server"].map(|name| &pods[name]);
    let ipv4 = |pod: &Pod| {
        let mut addresses = pod.addresses.iter();
        let found = addresses.find_map(|address| match address {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        });
        found.unwrap()
    };
    let (to, other) = (SocketAddrV4::new(ipv4(a), 80), SocketAddrV4::new(ipv4(a), 81));
    let socket = server
        .inside
        .run(|| UdpSocket::bind((ipv4(server), 0)).unwrap())
        .unwrap();
    socket.send_to(b"x", to).unwrap();
    let SocketAddr::V4(from) = socket.local_addr().unwrap() else {
        panic!("{socket:?}");
    };
    count_errors(server, ipv4(a));
    // Nothing was sent there, and so no router says anything of it.
    send_fragmentation_needed(a, from, other);
    send_fragmentation_needed(router, from, to);
    node.until("a message that arrived", |_| passed(server) > 0);
    assert_eq!((counted(server, "apart"), passed(server)), (0, 1));
}
