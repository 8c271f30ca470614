//! Pods on several networks, with real packets: networks that use the same addresses, spoofed addresses, and
//! attachments that come and go.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use picket_cluster::{Attachment, Semantics, Snapshot};
use picket_lab::{Lab, Layout, Progress, Shape, compile};
use picket_linux::{run_with_input, udp};
use picket_net::Protocol;
use picket_policy::{NetworkName, Networks, Policy};
use picket_testing::build::{accept, block, pod, pods_in, policy};
use picket_testing::snapshot;

fn network(name: &str) -> NetworkName {
    NetworkName::parse(name, "x").unwrap()
}

/// Gives the pod `name` of namespace x an interface on a network.
fn attach(cluster: &mut Snapshot, name: &str, on: &str, interface: &str, addresses: [&str; 2]) {
    let object = cluster.pod("Pod", "x", name).unwrap().object.clone();
    let pod = cluster.pods.get_mut(&object).unwrap();
    Arc::make_mut(pod).attachments.push(Attachment {
        network: network(on),
        interface: interface.into(),
        addresses: addresses
            .iter()
            .map(|address| address.parse::<IpAddr>().unwrap())
            .collect(),
        synthetic: false,
    });
}

/// Makes the policy x/`name` one of the networks `red` and `blue`.
fn move_policy(cluster: &mut Snapshot, name: &str) {
    let of_name = cluster.policies.iter().find(|(object, _)| object.name == name);
    let (object, policy) = of_name.unwrap();
    let moved = Policy {
        networks: Networks::Attached(vec![network("blue"), network("red")]),
        ..Policy::clone(policy)
    };
    let object = object.clone();
    cluster.policies.insert(object, Arc::new(moved));
}

/// Every address of `b` is one of `a` on another network, in both families.
fn overlapping() -> Snapshot {
    let mut cluster = snapshot![
        pod("x/a")
            .label("app", "a")
            .ip("10.0.0.1")
            .ip("fd00::1")
            .declares(Protocol::TCP, 80),
        pod("x/b").label("app", "b").ip("10.0.0.2").ip("fd00::2"),
        pod("x/c").label("app", "c").ip("10.0.0.3").ip("fd00::3"),
        policy("x/p").selects("app=a").ingress(
            accept()
                .peer(pods_in("x", "app=b"))
                .peer(block("10.9.0.0/24", &[]))
                .port(Protocol::TCP, 80)
        ),
        policy("x/q")
            .selects("app=b")
            .ingress(accept().peer(pods_in("x", "app=c"))),
    ];
    let [one, two, three] = [
        ["10.0.0.1", "fd00::1"],
        ["10.0.0.2", "fd00::2"],
        ["10.0.0.3", "fd00::3"],
    ];
    attach(&mut cluster, "a", "red", "net1", two);
    attach(&mut cluster, "a", "blue", "net2", three);
    attach(&mut cluster, "b", "red", "net1", three);
    attach(&mut cluster, "b", "blue", "net2", one);
    attach(&mut cluster, "c", "red", "net1", one);
    attach(&mut cluster, "c", "blue", "net2", two);
    move_policy(&mut cluster, "p");
    cluster
}

fn up(cluster: &Snapshot, layout: Layout) -> Lab {
    let shape = Shape {
        nodes: 2,
        outside: BTreeSet::new(),
        timeout: Duration::from_millis(600),
    };
    let compile = compile(layout, &Semantics::default(), &[]);
    Lab::up(cluster, shape, &[], compile, &Progress::hidden()).unwrap()
}

fn obeys(lab: &mut Lab) {
    let grid = lab.probe(None, lab.timeout(), &Progress::hidden()).unwrap();
    assert_eq!(grid.differences().count(), 0, "{}", grid.to_text(false));
    for network in lab.topology().networks() {
        let hosts = &lab.topology().hosts;
        let verdicts: BTreeSet<_> = grid
            .cells()
            .iter()
            .filter(|cell| cell.probe.network(hosts) == network.as_ref())
            .map(|cell| (cell.probe.family, cell.expected))
            .collect();
        assert_eq!(verdicts.len(), 4, "{network:?}: {verdicts:?}");
    }
}

#[test]
fn every_network_may_use_the_addresses_of_every_other() {
    for layout in [Layout::Indexed, Layout::Documented] {
        obeys(&mut up(&overlapping(), layout));
    }
}

#[test]
fn attachments_change_under_a_standing_lab() {
    let mut lab = up(&overlapping(), Layout::Indexed);
    let mut next = overlapping();
    let object = next.pod("Pod", "x", "c").unwrap().object.clone();
    Arc::make_mut(next.pods.get_mut(&object).unwrap())
        .attachments
        .clear();
    attach(&mut next, "b", "red", "net3", ["10.0.0.9", "fd00::9"]);
    lab.apply(&next, &Progress::hidden()).unwrap();
    obeys(&mut lab);
    lab.apply(&overlapping(), &Progress::hidden()).unwrap();
    obeys(&mut lab);
}

/// Whether a datagram from `from`, sent by `b` over its interface `net1` on red, reaches `a` there.
fn arrives(lab: &Lab, from: &str, to: &str) -> bool {
    let place = |name: &str| lab.topology().place(name).unwrap();
    let [sender, receiver] = ["x/b", "x/a"].map(|name| lab.network().namespace(&place(name)).unwrap());
    // Any port will do; whoever forks at this moment has that of the last one open a moment longer.
    let any = SocketAddr::new(to.parse().unwrap(), 0);
    let socket: UdpSocket = receiver.run(|| udp(any, Some("net1"))).unwrap().unwrap();
    let to = socket.local_addr().unwrap();
    let from = SocketAddr::new(from.parse().unwrap(), 0);
    let sending = sender.run(|| udp(from, Some("net1"))).unwrap().unwrap();
    sending.send_to(b"x", to).unwrap();
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    socket.recv_from(&mut [0; 8]).is_ok()
}

#[test]
fn a_pods_own_address_on_a_network_as_a_source_is_spoofed_and_dropped() {
    let mut cluster = overlapping();
    // Everybody is allowed, so that nothing else drops it.
    cluster.policies.retain(|object, _| object.name == "q");
    let all = snapshot![policy("x/p").selects("app=a").ingress(accept())];
    cluster.policies.extend(all.policies);
    move_policy(&mut cluster, "p");
    for layout in [Layout::Indexed, Layout::Documented] {
        let lab = up(&cluster, layout);
        let receiver = lab.topology().place("x/a").unwrap();
        let nft = |arguments: &[&str], input: &[u8]| {
            let namespace = lab.network().namespace(&receiver).unwrap();
            run_with_input(namespace, Command::new("nft").args(arguments), input, "nftables").unwrap()
        };
        // The address that `a` has on red is one that `b` has elsewhere, so that it can send from it.
        for (own, spoofed) in [("10.0.0.3", "10.0.0.2"), ("fd00::3", "fd00::2")] {
            assert!(arrives(&lab, own, spoofed), "{layout:?} {own}");
            assert!(!arrives(&lab, spoofed, spoofed), "{layout:?} {spoofed}");
            let rules = nft(&["list", "ruleset"], b"");
            nft(&["flush", "ruleset"], b"");
            // Only the table had dropped it.
            assert!(arrives(&lab, spoofed, spoofed), "{layout:?} {spoofed}");
            nft(&["-f", "-"], &rules);
        }
    }
}
