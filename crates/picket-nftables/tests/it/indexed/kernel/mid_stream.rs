//! Connections that the kernel has forgotten do not come back by what either end sends next.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use picket_cluster::Snapshot;
use picket_linux::{Nfnetlink, Which};
use picket_nftables::model::{End, Table};
use picket_nftables::print;
use picket_policy::Direction;
use picket_testing::build::{accept, pod, policy};
use picket_testing::snapshot;

use super::super::table;
use super::hosts::{Host, Node};

/// How long something may take that is not dropped.
const PATIENCE: Duration = Duration::from_millis(400);

/// The ends of a connection to port 80 of `server`: that of who opened it, and that of the server.
fn connection(client: &Host, server: &Host, to: IpAddr) -> [TcpStream; 2] {
    let listener = server.listen(80);
    let connect = || TcpStream::connect_timeout(&SocketAddr::new(to, 80), PATIENCE);
    let opened = client.namespace.run(connect).expect("the namespace");
    let ends = [
        opened.expect("a connection"),
        listener.accept().expect("a connection").0,
    ];
    for end in &ends {
        end.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    }
    ends
}

/// Whether what one end sends arrives at the other.
fn arrives(from: &mut TcpStream, to: &mut TcpStream) -> bool {
    from.write_all(b"x").expect("room in the buffer");
    to.read(&mut [0]).is_ok_and(|length| length == 1)
}

fn forget_everything(node: &Node) {
    let mut netlink = Nfnetlink::open(&node.namespace).expect("netlink");
    let mut all = Vec::new();
    let listed = netlink.connections(Which::All, |connection| all.push(*connection));
    listed.expect("a list");
    for connection in &all {
        netlink.forget(connection).expect("an entry");
    }
}

/// b admits UDP alone, and may open whatever it likes.
fn silent(b: &Host) -> Snapshot {
    snapshot![
        pod("x/b")
            .ip(&b.v4.to_string())
            .ip(&b.v6.to_string())
            .label("app", "b"),
        policy("x/b")
            .selects("app=b")
            .isolates(Direction::Ingress)
            .ingress(accept().protocol(picket_net::Protocol::UDP)),
    ]
}

/// The table without the rule that leads to what refuses such packets.
fn permissive(table: &Table) -> Table {
    let mut draft = table.clone().into_draft();
    for chain in &mut draft.chains {
        chain.rules.retain(|rule| match &rule.end {
            End::Verdict(verdict) => verdict
                .target()
                .is_none_or(|chain| chain.as_str() != "mid-stream"),
            _ => true,
        });
    }
    draft.check().expect("a table")
}

#[test]
fn a_server_that_goes_on_sending_does_not_bring_a_forgotten_connection_back() {
    for (refuses, family) in [(true, 0), (true, 1), (false, 0), (false, 1)] {
        let node = Node::new();
        let (a, b) = (node.host(1), node.host(2));
        let to = b.addresses()[family];
        // Tracked from its beginning, by whatever somebody else has there.
        node.load("table inet others { chain forward { type filter hook forward priority 0; ct state new accept; }\n}");
        let [mut client, mut server] = connection(&a, &b, to);
        let table = table(&silent(&b), None);
        let table = if refuses { table } else { permissive(&table) };
        node.load(&print::text(&table));
        assert!(arrives(&mut server, &mut client), "nothing is cut yet");
        forget_everything(&node);
        assert_eq!(arrives(&mut server, &mut client), !refuses, "{to}");
        assert_eq!(arrives(&mut client, &mut server), !refuses, "{to}");
        let dropped = node.counted("picket", "drop-mid-stream");
        assert_eq!(dropped > 0, refuses);
        // What begins as it should is judged by the policies alone.
        assert!(!a.connects(to, 80));
        let _listener = a.listen(81);
        assert!(b.connects(a.addresses()[family], 81));
    }
}
