//! Packets that rules log, in real network namespaces. These need root and the program nft.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use picket_linux::{
    Carried, Epoll, Error, Heard, Interest, Logged, Netlink, NetworkNamespace, PacketLog, run_with_input,
};

const GROUP: u16 = 9480;

/// A namespace that drops what goes to port 53, and logs it.
fn logging() -> NetworkNamespace {
    let namespace = NetworkNamespace::create().unwrap();
    Netlink::open(&namespace).unwrap().set_up("lo").unwrap();
    let rules = format!(
        "table inet t {{ chain c {{ type filter hook output priority 0;\n\
         udp dport 53 log prefix \"of \\ ours\" group {GROUP} drop\n\
         udp dport 54 log prefix \"of others\" group 7 drop\n}}\n}}"
    );
    let mut nft = Command::new("nft");
    run_with_input(&namespace, nft.args(["-f", "-"]), rules.as_bytes(), "nftables").unwrap();
    namespace
}

/// Sends as many packets from one socket; those that are dropped are an error for who sends.
fn send(namespace: &NetworkNamespace, to: &str, count: usize) -> u16 {
    namespace
        .run(|| {
            let any = if to.starts_with('[') {
                "[::1]:0"
            } else {
                "127.0.0.1:0"
            };
            let socket = UdpSocket::bind(any).unwrap();
            for _ in 0..count {
                assert!(socket.send_to(b"hello", to).is_err());
            }
            socket.local_addr().unwrap().port()
        })
        .unwrap()
}

/// What is logged until there are as many.
fn heard(log: &mut PacketLog, count: usize) -> Vec<Logged> {
    let epoll = Epoll::new().unwrap();
    epoll.add(&*log, 0, Interest::Read).unwrap();
    let mut packets = Vec::new();
    while packets.len() < count {
        let ready = epoll.wait(Some(Duration::from_secs(10))).unwrap();
        assert!(!ready.is_empty(), "{packets:?}");
        packets.extend(log.heard().unwrap().packets);
    }
    packets
}

#[test]
fn what_a_rule_logs_is_heard_with_its_prefix_and_its_headers() {
    let namespace = logging();
    let mut log = PacketLog::open(&namespace, GROUP).unwrap();
    for (to, source, destination) in [
        ("127.0.0.1:53", "127.0.0.1", "127.0.0.1"),
        ("[::1]:53", "::1", "::1"),
    ] {
        send(&namespace, &to.replace(":53", ":54"), 3);
        let port = send(&namespace, to, 2);
        let packets = heard(&mut log, 2);
        assert_eq!(packets.len(), 2, "{packets:?}");
        for logged in packets {
            assert_eq!(logged.prefix, "of \\ ours");
            assert_eq!(logged.packet.source.to_string(), source);
            assert_eq!(logged.packet.destination.to_string(), destination);
            assert_eq!(logged.packet.protocol, 17);
            let carried = Carried::Ports {
                source: port,
                destination: 53,
            };
            assert_eq!(logged.packet.carried, carried);
        }
    }
}

#[test]
fn one_socket_hears_a_group_and_a_later_one_after_it() {
    let namespace = logging();
    let log = PacketLog::open(&namespace, GROUP).unwrap();
    let second = PacketLog::open(&namespace, GROUP);
    let Err(Error::Netlink { source, .. }) = second else {
        panic!("{second:?}");
    };
    assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied);
    drop(log);
    let mut next = PacketLog::open(&namespace, GROUP).unwrap();
    send(&namespace, "127.0.0.1:53", 1);
    assert_eq!(heard(&mut next, 1).len(), 1);
}

#[test]
fn packets_for_which_there_is_no_room_are_counted_as_losses() {
    let namespace = logging();
    let mut log = PacketLog::open(&namespace, GROUP).unwrap();
    send(&namespace, "127.0.0.1:53", 20_000);
    let mut all = Heard::default();
    loop {
        let some = log.heard().unwrap();
        // However much there is, nobody reads it all at once.
        assert!(some.readings <= 64, "{}", some.readings);
        if some.readings == 0 {
            break;
        }
        all.readings += some.readings;
        all.losses += some.losses;
        all.packets.extend(some.packets);
    }
    assert!(all.losses > 0 && !all.packets.is_empty() && all.packets.len() < 20_000);
    // What comes afterwards is heard again.
    let port = send(&namespace, "127.0.0.1:53", 1);
    let is_last =
        |logged: &Logged| matches!(logged.packet.carried, Carried::Ports { source, .. } if source == port);
    while !heard(&mut log, 1).iter().any(is_last) {}
}
