//! Connections that the kernel has forgotten do not come back by what either end sends next.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use picket_cluster::Snapshot;
use picket_linux::{Connection, Nfnetlink, Which};
use picket_nftables::model::{End, Table};
use picket_nftables::print;
use picket_policy::Direction;
use picket_testing::build::{accept, pod, policy};
use picket_testing::snapshot;

use super::super::table;
use super::hosts::{Host, Node};

/// How long to wait for what is dropped.
pub(super) const BRIEFLY: Duration = Duration::from_millis(400);
/// How long what is not dropped may take, on a machine that has much to do.
pub(super) const AT_MOST: Duration = Duration::from_secs(20);

/// The ends of a connection to port 80 of `server`: that of who opened it, and that of the server.
pub(super) fn connection(client: &Host, server: &Host, to: IpAddr) -> [TcpStream; 2] {
    connection_at(client, server, SocketAddr::new(to, 80))
}

/// The same for another port.
pub(super) fn connection_at(client: &Host, server: &Host, to: SocketAddr) -> [TcpStream; 2] {
    let listener = server.listen(to.port());
    let connect = || TcpStream::connect_timeout(&to, AT_MOST);
    let opened = client.namespace.run(connect).expect("the namespace");
    [
        opened.expect("a connection"),
        listener.accept().expect("a connection").0,
    ]
}

/// Whether what one end sends arrives at the other within this time.
pub(super) fn arrives(from: &mut TcpStream, to: &mut TcpStream, within: Duration) -> bool {
    from.write_all(b"x").expect("room in the buffer");
    to.set_read_timeout(Some(within)).expect("a timeout");
    to.read(&mut [0]).is_ok_and(|length| length == 1)
}

/// Makes connection tracking forget some connections.
pub(super) fn forget(node: &Node, which: impl Fn(&Connection) -> bool) {
    let mut netlink = Nfnetlink::open(&node.namespace).expect("netlink");
    let mut all = Vec::new();
    let listed = netlink.connections(Which::All, |connection| all.push(*connection));
    listed.expect("a list");
    for connection in all.iter().filter(|connection| which(connection)) {
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
        assert!(arrives(&mut server, &mut client, AT_MOST), "nothing is cut yet");
        let within = if refuses { BRIEFLY } else { AT_MOST };
        forget(&node, |_| true);
        assert_eq!(arrives(&mut server, &mut client, within), !refuses, "{to}");
        assert_eq!(arrives(&mut client, &mut server, within), !refuses, "{to}");
        let dropped = node.counted("picket", "drop-mid-stream");
        assert_eq!(dropped > 0, refuses);
        // What begins as it should is judged by the policies alone.
        assert!(!a.connects(to, 80));
        connection_at(&b, &a, SocketAddr::new(a.addresses()[family], 81));
    }
}
