//! Connections that the kernel tracks in real network namespaces. These need root and the program nft.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;

use picket_linux::{
    Carried, Connection, Netlink, NetworkNamespace, Nfnetlink, Which, icmp_socket, internet_checksum,
    run_with_input,
};
use rustix::net::{SendFlags, sendto};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A namespace whose packets over `lo` are tracked, with these chains besides.
fn tracked(chains: &str) -> (NetworkNamespace, Nfnetlink) {
    let namespace = NetworkNamespace::create().unwrap();
    Netlink::open(&namespace).unwrap().set_up("lo").unwrap();
    let rules = format!(
        "table inet t {{ chain track {{ type filter hook input priority 0; ct state new accept; }}\n{chains}\n}}"
    );
    let mut nft = Command::new("nft");
    run_with_input(&namespace, nft.args(["-f", "-"]), rules.as_bytes(), "nftables").unwrap();
    let netlink = Nfnetlink::open(&namespace).unwrap();
    (namespace, netlink)
}

fn list(netlink: &mut Nfnetlink, which: Which) -> BTreeSet<Connection> {
    let mut found = BTreeSet::new();
    netlink
        .connections(which, |connection| {
            found.insert(*connection);
        })
        .unwrap();
    found
}

/// Sends from one UDP port to another, both of which stay open.
fn sent(namespace: &NetworkNamespace, from: &str, to: &str) -> [UdpSocket; 2] {
    namespace
        .run(|| {
            let [source, destination] = [from, to].map(|address| UdpSocket::bind(address).unwrap());
            source.send_to(b"hello", to).unwrap();
            [source, destination]
        })
        .unwrap()
}

fn send(namespace: &NetworkNamespace, from: &str, to: &str) {
    namespace
        .run(|| UdpSocket::bind(from).unwrap().send_to(b"hello", to).unwrap())
        .unwrap();
}

/// Where the first packet came from and where it was to go; port 0 where there are none.
fn ends(connection: &Connection) -> (SocketAddr, SocketAddr) {
    let original = &connection.original;
    let (source, destination) = match original.carried {
        Carried::Ports { source, destination } => (source, destination),
        Carried::Icmp { .. } | Carried::Nothing => (0, 0),
    };
    (
        (original.source, source).into(),
        (original.destination, destination).into(),
    )
}

/// Sends an echo request.
fn ping(to: IpAddr) {
    let kind = if to.is_ipv4() { 8 } else { 128 };
    let mut request = [kind, 0, 0, 0, 0x12, 0x34, 0, 0];
    // The kernel fills in that of ICMPv6 itself.
    let checksum = internet_checksum(&request).to_be_bytes();
    request[2..4].copy_from_slice(&checksum);
    let socket = icmp_socket(to, None).unwrap();
    sendto(&socket, &request, SendFlags::empty(), &SocketAddr::new(to, 0)).unwrap();
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn connections_of_both_families_are_told_with_their_ends_and_whether_they_were_answered() {
    let (namespace, mut netlink) = tracked("");
    assert_eq!(netlink.connection_count().unwrap(), 0);
    let _tcp = namespace
        .run(|| {
            let listener = TcpListener::bind("127.0.0.1:80").unwrap();
            (
                TcpStream::connect("127.0.0.1:80").unwrap(),
                listener.accept().unwrap(),
                listener,
            )
        })
        .unwrap();
    let _udp = sent(&namespace, "[::1]:1000", "[::1]:53");
    let found = list(&mut netlink, Which::All);
    let [tcp, udp] = [TCP, UDP].map(|protocol| {
        let mut of_protocol = found
            .iter()
            .filter(|connection| connection.original.protocol == protocol);
        *of_protocol.next().unwrap()
    });
    assert_eq!((found.len(), netlink.connection_count().unwrap()), (2, 2));
    assert!(tcp.is_answered() && !udp.is_answered());
    assert_eq!(ends(&tcp).1, "127.0.0.1:80".parse().unwrap());
    assert_eq!(
        ends(&udp),
        ("[::1]:1000".parse().unwrap(), "[::1]:53".parse().unwrap())
    );
    assert_eq!(
        udp.reply.carried,
        Carried::Ports {
            source: 53,
            destination: 1000
        }
    );
    assert_eq!((tcp.zone, tcp.master), (0, None));
    // Another namespace has others.
    let (_, mut elsewhere) = tracked("");
    assert!(list(&mut elsewhere, Which::All).is_empty());
}

#[test]
fn pings_are_told_with_their_type_and_identifier() {
    let (namespace, mut netlink) = tracked("");
    namespace
        .run(|| {
            for to in ["127.0.0.1", "::1"] {
                ping(address(to));
            }
        })
        .unwrap();
    let found = list(&mut netlink, Which::All);
    let carried: Vec<_> = found
        .iter()
        .map(|connection| (connection.original.carried, connection.reply.carried))
        .collect();
    let echo = |kind| Carried::Icmp {
        kind,
        code: 0,
        id: 0x1234,
    };
    assert_eq!(carried, [(echo(8), echo(0)), (echo(128), echo(129))]);
}

#[test]
fn what_an_address_opened_and_what_leads_to_it_can_be_asked_for() {
    // What goes to port 99 is sent on to another address, as a service does.
    let (namespace, mut netlink) =
        tracked("chain nat { type nat hook output priority -100; udp dport 99 dnat ip to 127.0.0.3:53; }");
    let pairs = [
        ("127.0.0.1:1001", "127.0.0.2:53"),
        ("127.0.0.2:1002", "127.0.0.1:53"),
        ("127.0.0.1:1003", "127.0.0.9:99"),
    ];
    for (from, to) in pairs {
        send(&namespace, from, to);
    }
    let mut ports = |which| -> Vec<u16> {
        let found = list(&mut netlink, which);
        found.iter().map(|connection| ends(connection).0.port()).collect()
    };
    assert_eq!(ports(Which::All), [1001, 1003, 1002]);
    assert_eq!(ports(Which::From(address("127.0.0.1"))), [1001, 1003]);
    assert_eq!(ports(Which::To(address("127.0.0.1"))), [1002]);
    // Where it leads, not where it was sent.
    assert_eq!(ports(Which::To(address("127.0.0.3"))), [1003]);
    assert_eq!(ports(Which::To(address("127.0.0.9"))), [0_u16; 0]);
    assert_eq!(ports(Which::From(address("::1"))), [0_u16; 0]);
}

/// The kernel gives those that are not asked for.
#[test]
fn what_an_address_of_ipv6_opened_and_what_leads_to_it_can_be_asked_for() {
    let (namespace, mut netlink) = tracked("");
    send(&namespace, "[::1]:1001", "[::1]:53");
    send(&namespace, "127.0.0.1:1002", "127.0.0.2:53");
    let mut ports = |which| -> Vec<u16> {
        let found = list(&mut netlink, which);
        found.iter().map(|connection| ends(connection).0.port()).collect()
    };
    assert_eq!(ports(Which::Ipv6), [1001]);
    let [own, other] = ["::1", "::9"].map(address);
    for which in [Which::From(own), Which::To(own)] {
        assert_eq!(ports(which), [1001], "{which:?}");
    }
    for which in [Which::From(other), Which::To(other)] {
        assert_eq!(ports(which), [0_u16; 0], "{which:?}");
    }
}

#[test]
fn exactly_one_connection_is_forgotten() {
    let (namespace, mut netlink) = tracked("");
    for (from, to) in [
        ("127.0.0.1:1001", "127.0.0.1:53"),
        ("127.0.0.1:1002", "127.0.0.1:53"),
    ] {
        send(&namespace, from, to);
    }
    let before = list(&mut netlink, Which::All);
    let [first, second] = [0, 1].map(|at| *before.iter().nth(at).unwrap());
    // One that began since, with the same ends.
    let later = Connection {
        id: first.id.wrapping_add(1),
        ..first
    };
    assert!(!netlink.forget(&later).unwrap());
    assert_eq!(list(&mut netlink, Which::All), before);
    assert_eq!(netlink.connection(&first.original, 0).unwrap(), Some(first));
    assert!(netlink.forget(&first).unwrap());
    assert_eq!(list(&mut netlink, Which::All), [second].into());
    assert!(!netlink.forget(&first).unwrap());
    assert_eq!(netlink.connection(&first.original, 0).unwrap(), None);
}

#[test]
fn connections_of_every_protocol_and_zone_are_forgotten() {
    let (namespace, mut netlink) = tracked(
        "chain zones { type filter hook output priority -300
            udp dport 54 ct zone set 5
            udp dport 55 ct original zone set 6; }",
    );
    for to in ["127.0.0.1:53", "127.0.0.1:54", "127.0.0.1:55", "[::1]:54"] {
        let from = if to.starts_with('[') {
            "[::1]:1000"
        } else {
            "127.0.0.1:1000"
        };
        send(&namespace, from, to);
    }
    namespace
        .run(|| {
            for to in ["127.0.0.1", "::1"] {
                ping(address(to));
            }
        })
        .unwrap();
    let found = list(&mut netlink, Which::All);
    let zones: BTreeSet<_> = found
        .iter()
        .map(|connection| (connection.zone, connection.original.zone))
        .collect();
    assert_eq!(zones, [(0, 0), (5, 0), (0, 6)].into());
    assert_eq!(found.len(), 6);
    for connection in &found {
        assert_eq!(
            netlink.connection(&connection.original, connection.zone).unwrap(),
            Some(*connection)
        );
        assert!(netlink.forget(connection).unwrap(), "{connection}");
    }
    assert!(list(&mut netlink, Which::All).is_empty());
}

#[test]
fn a_list_may_be_longer_than_one_message() {
    let (namespace, mut netlink) = tracked("");
    namespace
        .run(|| {
            let socket = UdpSocket::bind("127.0.0.1:1000").unwrap();
            for port in 10_000..15_000 {
                // Nobody listens, and hearing so is an error of the next.
                while socket.send_to(b"hello", ("127.0.0.1", port)).is_err() {}
            }
        })
        .unwrap();
    let found = list(&mut netlink, Which::All);
    assert_eq!(found.len(), 5000);
}
