//! Real packets through a table of the documented layout, inside the pod.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use picket_cluster::Semantics;
use picket_engine::Engine;
use picket_linux::NetworkNamespace;
use picket_net::Protocol;
use picket_nftables::model::InterfaceName;
use picket_nftables::print;
use picket_nftables::render::documented::{Options, OtherEnds, PodView, render};
use picket_testing::build::{accept, node, pod, pods_in, policy};
use picket_testing::snapshot;

use crate::indexed::kernel::hosts::{Host, Node, run};

/// Asserts that a TCP connection comes about, or does not. One that should may take long on a busy machine.
fn assert_connects(expected: bool, from: &NetworkNamespace, address: IpAddr, port: u16, sentence: &str) {
    let patience = Duration::from_millis(if expected { 20_000 } else { 300 });
    let connects = || TcpStream::connect_timeout(&SocketAddr::new(address, port), patience).is_ok();
    let connected = from.run(connects).expect("the namespace");
    assert_eq!(connected, expected, "{sentence}: {address} {port}");
}

#[test]
fn a_pod_filters_in_its_own_namespace() {
    let router = Node::new();
    let (web, friend, stranger) = (router.host(1), router.host(2), router.host(3));
    let at = |id: &str, host: &Host| pod(id).ip(&host.v4.to_string()).ip(&host.v6.to_string());
    let cluster = snapshot![
        node("n1").ip("10.0.1.1").ip("fd00:0:0:1::1"),
        at("x/web", &web).label("app", "web").on("n1"),
        at("x/friend", &friend).label("app", "friend"),
        policy("x/web")
            .selects("app=web")
            .ingress(
                accept()
                    .peer(pods_in("x", "app=friend"))
                    .port(Protocol::TCP, 8080)
                    .port(Protocol::TCP, 8082)
            )
            .egress(
                accept()
                    .peer(pods_in("x", "app=friend"))
                    .ports(Protocol::TCP, 9000, 9001)
            ),
    ];
    let engine = Engine::compile(&cluster, Semantics::default());
    let (eth0, web_pod) = (
        InterfaceName::new("eth0").expect("a name"),
        at("x/web", &web).build().object,
    );
    let view = PodView::of(engine.program(), &OtherEnds::default(), &web_pod, &eth0).expect("the pod");
    let (table, _) = render(&view, &Options::default()).expect("a table");
    run(&web.namespace, "nft", &["-f", "-"], &print::text(&table));

    let _served: Vec<_> = [8080, 8081, 8082].map(|port| web.listen(port)).into();
    let _listening: Vec<_> = [9000, 9001, 9002].map(|port| friend.listen(port)).into();
    for address in web.addresses() {
        for (port, expected) in [(8080, true), (8081, false), (8082, true)] {
            assert_connects(expected, &friend.namespace, address, port, "a peer");
        }
        assert_connects(false, &stranger.namespace, address, 8080, "a stranger");
        assert_connects(true, &router.namespace, address, 8081, "the own node");
        assert_connects(true, &web.namespace, address, 8081, "the pod itself");
    }
    for address in friend.addresses() {
        for (port, expected) in [(9000, true), (9001, true), (9002, false)] {
            assert_connects(expected, &web.namespace, address, port, "from the pod");
        }
    }
}
