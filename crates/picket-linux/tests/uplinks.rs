//! Which interfaces lead away from a machine, by its real routes. These need root.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use picket_linux::{Epoll, Interest, Netlink, NetworkNamespace, RouteMonitor};

/// How long a change may take to be heard before the test fails.
const BOUND: Option<Duration> = Some(Duration::from_secs(20));

#[expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]
fn ip(namespace: &NetworkNamespace, arguments: &str) {
    let mut command = Command::new("ip");
    command.args(arguments.split(' '));
    let output = namespace.run(|| command.output().unwrap()).unwrap();
    assert!(
        output.status.success(),
        "ip {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn uplinks_are_those_with_a_gateway_or_a_default_route() {
    let namespace = NetworkNamespace::create().unwrap();
    for (name, number) in [("e1", 1), ("e2", 2), ("e3", 3)] {
        ip(
            &namespace,
            &format!("link add {name} type veth peer name {name}-peer"),
        );
        for end in [name.to_owned(), format!("{name}-peer")] {
            ip(&namespace, &format!("link set {end} up"));
        }
        ip(&namespace, &format!("address add 192.0.{number}.1/24 dev {name}"));
        ip(
            &namespace,
            &format!("address add 2001:db8:{number}::1/64 dev {name} nodad"),
        );
    }
    let mut netlink = Netlink::open(&namespace).unwrap();
    assert_eq!(netlink.uplinks().unwrap(), BTreeSet::new());
    let monitor = RouteMonitor::open(&namespace).unwrap();
    let epoll = Epoll::new().unwrap();
    epoll.add(&monitor, 0, Interest::Read).unwrap();
    for (command, expected) in [
        ("route add default via 192.0.1.2", "e1"),
        ("route add 198.51.100.0/24 via 192.0.2.2 table 1000", "e1 e2"),
        ("route del default", "e2"),
        ("-6 route add 2001:db8:ffff::/48 via 2001:db8:3::2", "e2 e3"),
        ("route flush table 1000", "e3"),
        ("-6 route del 2001:db8:ffff::/48", ""),
        ("route add 203.0.113.0/24 dev e1", ""),
        ("route add blackhole default", ""),
        ("route replace default dev e2", "e2"),
        (
            "route replace default nexthop via 192.0.1.2 nexthop via 192.0.3.2",
            "e1 e3",
        ),
        ("route del default", ""),
        ("route add 198.51.100.0/24 via inet6 2001:db8:2::2 dev e2", "e2"),
        ("route del 198.51.100.0/24", ""),
        (
            "-6 route add default nexthop via 2001:db8:1::2 nexthop via 2001:db8:2::2",
            "e1 e2",
        ),
        ("-6 route del default", ""),
        ("route add default via 192.0.2.2", "e2"),
        // Its routes go without a word.
        ("link set e2 down", ""),
        ("link set e2 up", ""),
        ("route add default via 192.0.2.2", "e2"),
        ("link set e2 name uplink", "uplink"),
        ("address del 192.0.2.1/24 dev uplink", ""),
        // What is exchanged over a bridge to which the machine has no route is no concern of its routes.
        ("link add br0 type bridge", "br0"),
        ("link set br0 up", "br0"),
        ("address add 192.0.9.1/24 dev br0", ""),
    ] {
        ip(&namespace, command);
        let expected: BTreeSet<String> = expected.split_whitespace().map(str::to_owned).collect();
        loop {
            let ready = epoll.wait(BOUND).unwrap();
            let found = netlink.uplinks().unwrap();
            assert!(
                !ready.is_empty(),
                "after {command}: {found:?} and not {expected:?}"
            );
            assert!(monitor.has_changed().unwrap());
            if netlink.uplinks().unwrap() == expected {
                break;
            }
        }
    }
}
