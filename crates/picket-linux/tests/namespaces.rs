//! Real network namespaces, cables, sockets. These need root.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use picket_linux::{
    Epoll, Error, Interest, Netlink, NetworkNamespace, Route, RouteTable, listening_tcp, pending_connect,
    raw_sctp, run_with_input, starting_tcp, udp,
};

const SECOND: Option<Duration> = Some(Duration::from_secs(5));

/// Two namespaces with a cable, both families, ready to use.
#[expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]
fn pair() -> (NetworkNamespace, NetworkNamespace) {
    let (left, right) = (
        NetworkNamespace::create().unwrap(),
        NetworkNamespace::create().unwrap(),
    );
    let mut netlink = Netlink::open(&left).unwrap();
    netlink.create_cable("eth0", 101, "eth0", &right).unwrap();
    for (namespace, own, other) in [(&left, "1", "2"), (&right, "2", "1")] {
        let mut netlink = Netlink::open(namespace).unwrap();
        netlink.set_up("lo").unwrap();
        netlink
            .add_address("eth0", format!("192.0.2.{own}").parse().unwrap(), 32)
            .unwrap();
        netlink
            .add_address("eth0", format!("2001:db8::{own}").parse().unwrap(), 128)
            .unwrap();
        netlink.set_up("eth0").unwrap();
        for (to, length) in [
            (format!("192.0.2.{other}"), 32),
            (format!("2001:db8::{other}"), 128),
        ] {
            let route = Route {
                table: RouteTable::MAIN,
                destination: (to.parse().unwrap(), length),
                gateway: None,
                interface: "eth0".to_owned(),
                source: None,
            };
            netlink.set_route(&route).unwrap();
        }
    }
    (left, right)
}

#[test]
fn work_runs_inside_and_the_caller_stays_outside() {
    let before = NetworkNamespace::current().unwrap().identity().unwrap();
    let namespace = NetworkNamespace::create().unwrap();
    let inside = namespace
        .run(|| NetworkNamespace::current().unwrap().identity().unwrap())
        .unwrap();
    assert_eq!(inside, namespace.identity().unwrap());
    assert_ne!(inside, before);
    assert_eq!(NetworkNamespace::current().unwrap().identity().unwrap(), before);
}

#[test]
fn what_is_no_network_namespace_is_never_entered() {
    let file = std::fs::File::open("/proc/self/ns/user").unwrap();
    let wrong = NetworkNamespace::from(std::os::fd::OwnedFd::from(file));
    let mut ran = false;
    let result = wrong.run(|| ran = true);
    assert!(
        matches!(result, Err(Error::Enter { kind: "network", .. })),
        "{result:?}"
    );
    assert!(!ran);
}

#[test]
fn a_panic_inside_reaches_the_caller() {
    let namespace = NetworkNamespace::create().unwrap();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = namespace.run(|| panic!("inside"));
    }));
    assert!(result.is_err());
}

#[test]
fn settings_belong_to_the_namespace_they_were_written_in() {
    let (one, other) = (
        NetworkNamespace::create().unwrap(),
        NetworkNamespace::create().unwrap(),
    );
    one.set(&[("ipv4/ip_forward", "1")]).unwrap();
    let read = || std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap();
    assert_eq!(one.run(read).unwrap(), "1\n");
    assert_eq!(other.run(read).unwrap(), "0\n");
    assert!(matches!(
        one.set(&[("ipv4/no_such", "1")]),
        Err(Error::Setting { .. })
    ));
}

#[test]
fn tcp_connects_over_a_cable_in_both_families() {
    let (left, right) = pair();
    for (from, to) in [("192.0.2.1", "192.0.2.2:80"), ("2001:db8::1", "[2001:db8::2]:80")] {
        let (from, to): (IpAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
        let listener = right.run(|| listening_tcp(to, None)).unwrap().unwrap();
        let mut stream = left.run(|| starting_tcp(from, None, to)).unwrap().unwrap();
        let epoll = Epoll::new().unwrap();
        epoll.add(&stream, 7, Interest::Write).unwrap();
        assert_eq!(epoll.wait(SECOND).unwrap()[0].token, 7);
        pending_connect(&stream).unwrap();
        epoll.add(&listener, 8, Interest::Read).unwrap();
        let (mut accepted, peer) = listener.accept().unwrap();
        assert_eq!(peer.ip(), from);
        accepted.write_all(b"x").unwrap();
        stream.set_nonblocking(false).unwrap();
        let mut greeting = [0; 1];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"x");
    }
}

#[test]
fn a_port_without_listener_refuses() {
    let (left, _right) = pair();
    let stream = left
        .run(|| {
            starting_tcp(
                "192.0.2.1".parse().unwrap(),
                None,
                "192.0.2.2:81".parse().unwrap(),
            )
        })
        .unwrap()
        .unwrap();
    let epoll = Epoll::new().unwrap();
    epoll.add(&stream, 0, Interest::Write).unwrap();
    assert!(epoll.wait(SECOND).unwrap()[0].failed);
    assert_eq!(
        pending_connect(&stream).unwrap_err().kind(),
        std::io::ErrorKind::ConnectionRefused
    );
}

#[test]
fn sockets_made_inside_work_outside() {
    let (left, right) = pair();
    let receiver: UdpSocket = right
        .run(|| udp("[2001:db8::2]:53".parse().unwrap(), None))
        .unwrap()
        .unwrap();
    let sender = left
        .run(|| udp("[2001:db8::1]:0".parse().unwrap(), None))
        .unwrap()
        .unwrap();
    sender.send_to(b"question", "[2001:db8::2]:53").unwrap();
    let epoll = Epoll::new().unwrap();
    epoll.add(&receiver, 1, Interest::Read).unwrap();
    epoll.wait(SECOND).unwrap();
    let mut buffer = [0; 32];
    let (length, from) = receiver.recv_from(&mut buffer).unwrap();
    assert_eq!(
        (&buffer[..length], from.ip().to_string().as_str()),
        (&b"question"[..], "2001:db8::1")
    );
}

#[test]
fn raw_sctp_sockets_exist_without_the_kernels_sctp() {
    let (left, _right) = pair();
    for address in ["192.0.2.1", "2001:db8::1"] {
        left.run(|| raw_sctp(address.parse().unwrap(), None))
            .unwrap()
            .unwrap();
    }
}

#[test]
fn refusals_carry_the_kernels_words() {
    let (left, _right) = pair();
    let mut netlink = Netlink::open(&left).unwrap();
    let route = Route {
        table: RouteTable::MAIN,
        destination: ("198.51.100.0".parse().unwrap(), 24),
        gateway: Some("fe80::1".parse().unwrap()),
        interface: "lo".to_owned(),
        source: None,
    };
    for (error, expected) in [
        (
            netlink.add_address("eth0", "192.0.2.1".parse().unwrap(), 32),
            "address already assigned",
        ),
        (
            netlink.set_route(&route),
            "cannot set the route to 198.51.100.0/24 by `lo`: ",
        ),
        (netlink.set_up("eth7"), "cannot find the interface `eth7`"),
        (netlink.set_up("a-name-that-is-too-long"), "is no interface name"),
    ] {
        let text = error.unwrap_err().to_string();
        assert!(text.to_lowercase().contains(&expected.to_lowercase()), "{text}");
    }
}

#[test]
fn programs_run_inside_and_their_errors_come_back() {
    let (left, _right) = pair();
    let run = |program: &str, arguments: &[&str], input: &str| {
        run_with_input(
            &left,
            Command::new(program).args(arguments),
            input.as_bytes(),
            "iproute2",
        )
    };
    let links = String::from_utf8(run("ip", &["-br", "link"], "").unwrap()).unwrap();
    assert!(links.contains("eth0") && links.lines().count() == 2, "{links}");
    run(
        "nft",
        &["-f", "-"],
        "table inet x { chain y { type filter hook input priority 0; drop; }; }",
    )
    .unwrap();
    assert!(
        String::from_utf8(run("nft", &["list", "tables"], "").unwrap())
            .unwrap()
            .contains("inet x")
    );
    let text = run("nft", &["-f", "-"], "nonsense").unwrap_err().to_string();
    assert!(
        text.starts_with("`nft` failed: ") && text.contains("syntax error"),
        "{text}"
    );
    let text = run("no-such-program", &[], "").unwrap_err().to_string();
    assert!(text.contains("install the package `iproute2`"), "{text}");
    let big = "# filler\n".repeat(100_000);
    run("nft", &["-f", "-"], &big).unwrap();
}

#[test]
fn a_dropped_namespace_takes_its_cables_with_it() {
    let (left, right) = pair();
    let holder = right.identity().unwrap();
    drop(right);
    let mut netlink = Netlink::open(&left).unwrap();
    // The kernel cleans up in the background.
    for _ in 0..500 {
        if netlink.set_up("eth0").is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the other end of {holder:?} is still there");
}

#[test]
fn the_addresses_of_a_namespace_are_listed_and_no_others() {
    let (here, there) = (
        NetworkNamespace::create().unwrap(),
        NetworkNamespace::create().unwrap(),
    );
    let mut netlink = Netlink::open(&here).unwrap();
    assert!(netlink.addresses().unwrap().is_empty());
    netlink.create_cable("a", 100, "b", &there).unwrap();
    let mut expected = BTreeSet::new();
    for address in ["10.0.0.1", "10.0.0.2", "fd00::1"] {
        let address: IpAddr = address.parse().unwrap();
        netlink.add_address("a", address, 24).unwrap();
        expected.insert(address);
    }
    let mut elsewhere = Netlink::open(&there).unwrap();
    elsewhere
        .add_address("b", "10.0.0.3".parse().unwrap(), 24)
        .unwrap();
    assert_eq!(netlink.addresses().unwrap(), expected);
}
