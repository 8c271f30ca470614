//! What a node sends for others, as the kernel's load balancer (IPVS) sends on what came for a service, with real packets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use picket_cluster::Semantics;
use picket_linux::NetworkNamespace;
use picket_net::Protocol;
use picket_nftables::print;
use picket_nftables::render::indexed::{closed, until_known};
use picket_policy::Direction;
use picket_testing::build::{accept, ip, policy};
use picket_testing::snapshot;
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto};

use super::super::rendered;
use super::guard::{guard, node, pod_at};
use super::hosts::{Host, Node};
use super::mid_stream::BRIEFLY;
use crate::let_go::once_unbound;

/// Whether a packet arrives at a port of `to` that the node sends with an address which may be somebody else's.
fn arrives(node: &Node, source: IpAddr, to: &Host, port: u16) -> bool {
    let own = to.addresses();
    let own = own.into_iter().find(|own| own.is_ipv4() == source.is_ipv4());
    let target = SocketAddr::new(own.expect("an address of the version"), port);
    let receiver = bound(&to.namespace, target);
    receiver.set_read_timeout(Some(BRIEFLY)).expect("a timeout");
    match (source, target) {
        (IpAddr::V4(source), SocketAddr::V4(target)) => node
            .namespace
            .run(|| send_as(source, target))
            .expect("the namespace"),
        _ => {
            let sender = bound(&node.namespace, SocketAddr::new(source, 0));
            refusable(sender.send_to(b"x", target));
        }
    }
    receiver.recv(&mut [0]).is_ok()
}

/// A socket of the node with this address.
fn bound(namespace: &NetworkNamespace, at: SocketAddr) -> UdpSocket {
    once_unbound(|| namespace.run(|| UdpSocket::bind(at)).expect("the namespace"))
}

/// Sends a packet of one byte over UDP with an address of somebody else.
fn send_as(source: Ipv4Addr, target: SocketAddrV4) {
    let ports = [9999, target.port()].map(u16::to_be_bytes).concat();
    // The kernel fills in the identification and the checksum; a UDP checksum of 0 stands for none.
    let packet = [
        &[0x45, 0, 0, 29, 0, 0, 0, 0, 64, 17, 0, 0][..],
        &source.octets(),
        &target.ip().octets(),
        &ports,
        &[0, 9, 0, 0, b'x'],
    ]
    .concat();
    let socket =
        rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW)).expect("a socket");
    let address = SocketAddrV4::new(*target.ip(), 0);
    refusable(sendto(socket, &packet, SendFlags::empty(), &address).map_err(Into::into));
}

/// A node hears at once of what its rules do not let out.
fn refusable(sent: io::Result<usize>) {
    if let Err(error) = sent {
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}

/// Lets the node bind addresses of others.
fn relays(node: &Node) {
    let setting = ("ipv6/ip_nonlocal_bind", "1");
    node.namespace.set(&[setting]).expect("a setting");
}

#[test]
fn what_a_node_sends_for_others_is_judged_as_theirs() {
    let (node, world) = node();
    relays(&node);
    let (web, db) = (node.host(1), node.host(2));
    let cluster = snapshot![
        pod_at("x/web", &web).label("app", "web"),
        pod_at("x/db", &db).label("app", "db"),
        policy("x/web")
            .selects("app=web")
            .isolates(Direction::Egress)
            .egress(accept().port(Protocol::UDP, 53)),
        policy("x/db")
            .selects("app=db")
            .isolates(Direction::Ingress)
            .ingress(accept().port(Protocol::UDP, 80)),
    ];
    let table = rendered(&cluster, &Semantics::default(), None, Some(guard(&node, true)));
    for (is_loaded, sentence) in [(false, "without rules"), (true, "with rules")] {
        for (web_at, world_at, node_at) in [
            (web.v4.into(), world.v4.into(), ip("10.0.2.1")),
            (web.v6.into(), world.v6.into(), ip("fd00:0:0:2::1")),
        ] {
            for (source, target, port, allowed) in [
                (web_at, &world, 53, true),
                (web_at, &world, 54, false),
                (web_at, &db, 53, false),
                (world_at, &db, 80, true),
                (world_at, &db, 81, false),
                (world_at, &web, 81, true),
                (node_at, &db, 81, true),
            ] {
                assert_eq!(
                    arrives(&node, source, target, port),
                    allowed || !is_loaded,
                    "{source} to port {port}, {sentence}"
                );
            }
        }
        node.load(&print::text(&table));
    }
}

#[test]
fn what_a_node_sends_for_others_reaches_nobody_who_is_not_known() {
    let (node, world) = node();
    relays(&node);
    let (known, stranger) = (node.host(1), node.host(2));
    let guard = guard(&node, true);
    for is_restricted in [false, true] {
        let restricting = policy("x/known").isolates(Direction::Egress).egress(accept());
        let mut cluster = snapshot![pod_at("x/known", &known), restricting];
        if !is_restricted {
            cluster.policies.clear();
        }
        let before = rendered(&cluster, &Semantics::default(), None, Some(guard.clone()));
        let meanwhile = until_known(&before, &guard).expect("a table");
        node.load(&print::text(&meanwhile.expect("one with pods")));
        let from_node: [IpAddr; 2] = ["10.0.2.1", "fd00:0:0:2::1"].map(ip);
        for (of_world, of_node) in world.addresses().into_iter().zip(from_node) {
            assert!(arrives(&node, of_world, &known, 80));
            assert!(!arrives(&node, of_world, &stranger, 80));
            assert!(arrives(&node, of_node, &stranger, 80));
        }
    }
    node.load(&print::text(&closed(&guard).expect("a table")));
    for (of_world, of_known) in world.addresses().into_iter().zip(known.addresses()) {
        assert!(!arrives(&node, of_world, &known, 80));
        // What a load balancer sends to others is not kept from them: nothing tells for whom.
        assert!(arrives(&node, of_known, &world, 80));
    }
}
