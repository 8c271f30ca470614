//! picket's own layouts in the real kernel: the wire obeys the policies in both.

use std::collections::BTreeSet;
use std::time::Duration;

use picket_cluster::{Semantics, Snapshot};
use picket_lab::{Lab, Layout, Progress, Shape, compile};
use picket_net::Protocol;
use picket_testing::build::{accept, block, namespace, node, pod, pods_in, pods_where, policy};
use picket_testing::snapshot;

/// Deny-all, selectors, named ports, ranges, ipBlocks with exceptions, both families, hostNetwork, SCTP.
fn cluster() -> Snapshot {
    snapshot![
        namespace("shop").label("team", "shop"),
        namespace("watch").label("team", "ops"),
        node("n1").ip("172.16.0.1").ip("fd00::1"),
        pod("shop/web")
            .label("app", "web")
            .ip("10.0.0.1")
            .ip("fd00:1::1")
            .port("http", Protocol::TCP, 8080),
        pod("shop/api")
            .label("app", "api")
            .ip("10.0.0.2")
            .ip("fd00:1::2")
            .port("http", Protocol::TCP, 9090)
            .on("n1"),
        pod("shop/db")
            .label("app", "db")
            .ip("10.0.0.3")
            .ip("fd00:1::3")
            .declares(Protocol::TCP, 5432)
            .on("n1"),
        pod("shop/v4only").label("app", "v4").ip("10.0.0.4"),
        pod("watch/probe")
            .label("app", "probe")
            .ip("10.1.0.1")
            .ip("fd00:2::1"),
        pod("watch/host")
            .ip("172.16.0.1")
            .ip("fd00::1")
            .host_network()
            .on("n1"),
        policy("shop/default").isolates(picket_policy::Direction::Ingress),
        policy("shop/web").selects("app=web").ingress(
            accept()
                .peer(block("0.0.0.0/0", &["203.0.113.0/24"]))
                .peer(block("2001:db8::/32", &[]))
                .named("http", Protocol::TCP)
        ),
        policy("shop/api").selects("app=api").ingress(
            accept()
                .peer(pods_in("shop", "app=web"))
                .named("http", Protocol::TCP)
        ),
        policy("shop/db")
            .selects("app=db")
            .ingress(
                accept()
                    .peer(pods_in("shop", "app=api"))
                    .ports(Protocol::TCP, 5000, 5500)
                    .port(Protocol::SCTP, 7)
            )
            .egress(accept().peer(pods_where("team=ops", "")).port(Protocol::UDP, 53)),
        policy("shop/monitoring").ingress(accept().peer(pods_where("team=ops", "app=probe"))),
    ]
}

#[test]
fn the_wire_obeys_in_both_layouts() {
    for layout in [Layout::Indexed, Layout::Documented] {
        let shape = Shape {
            nodes: 2,
            outside: BTreeSet::new(),
            timeout: Duration::from_millis(600),
        };
        let compile = compile(layout, &Semantics::default(), &[]);
        let mut lab = Lab::up(&cluster(), shape, &[], compile, &Progress::hidden()).unwrap();
        let grid = lab.probe(None, lab.timeout(), &Progress::hidden()).unwrap();
        assert_eq!(
            grid.differences().count(),
            0,
            "{layout:?}\n{}",
            grid.to_text(false)
        );
        assert!(grid.cells().iter().any(|cell| !cell.expected.is_allow()));
    }
}
