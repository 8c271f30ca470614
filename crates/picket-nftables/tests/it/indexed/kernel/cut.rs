//! Connections that a change denies are cut, and no others.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;

use picket_cluster::{Object, Semantics, Snapshot};
use picket_linux::{Carried, Connection, Nfnetlink, Which};
use picket_net::Protocol;
use picket_nftables::client::{Client, Cutter};
use picket_nftables::model::Table;
use picket_policy::{ClusterDefault, Direction};
use picket_testing::build::{accept, admin_policy, deny, node, nodes_where, pod, pods_in, policy};
use picket_testing::snapshot;

use super::super::{rendered, table};
use super::hosts::{Host, Node};
use super::mid_stream::{AT_MOST, BRIEFLY, arrives, connection, connection_at, forget};

/// A node with a server and two clients, of which both may speak to the server at first, and later one.
struct Scene {
    node: Node,
    client: Client,
    cutter: Cutter,
    denied: Host,
    allowed: Host,
    server: Host,
}

impl Scene {
    fn new() -> Self {
        let node = Node::new();
        let [denied, allowed, server] = [1, 2, 3].map(|number| node.host(number));
        let mut scene = Self {
            client: Client::open(&node.namespace).expect("a client"),
            cutter: Cutter::open(&node.namespace).expect("a cutter"),
            node,
            denied,
            allowed,
            server,
        };
        scene.enforce("both");
        scene
    }

    /// Puts into force that clients with this label are admitted on TCP 80 and UDP 53. What the server may open is open.
    fn enforce(&mut self, label: &str) -> Arc<Table> {
        let at = |id, host: &Host| pod(id).ip(&host.v4.to_string()).ip(&host.v6.to_string());
        let cluster: Snapshot = snapshot![
            at("x/denied", &self.denied).label("both", "yes"),
            at("x/allowed", &self.allowed)
                .label("both", "yes")
                .label("one", "yes"),
            at("x/server", &self.server).label("app", "server"),
            policy("x/p")
                .selects("app=server")
                .isolates(Direction::Ingress)
                .ingress(
                    accept()
                        .peer(pods_in("x", &format!("{label}=yes")))
                        .ports(Protocol::TCP, 80, 80)
                        .ports(Protocol::UDP, 53, 53)
                ),
        ];
        let table = Arc::new(table(&cluster, None));
        self.client.sync(&table).expect("the table is made");
        table
    }

    /// Nothing restricts anybody. Somebody else has connections be tracked, as kube-proxy does.
    fn open(&mut self) {
        let table = Arc::new(table(&Snapshot::default(), None));
        self.client.sync(&table).expect("the table is made");
        self.node.load(
            "table inet proxy {
               chain c { type filter hook forward priority 0
                 ct state invalid counter
               }
             }",
        );
    }

    /// Who has opened what connection tracking has not seen begin, as far as it can tell.
    fn taken_up(&self) -> Vec<IpAddr> {
        let mut found = Vec::new();
        let note = |connection: &Connection| match connection.original.carried {
            Carried::Ports { .. } if connection.is_taken_up => found.push(connection.original.source),
            _ => {}
        };
        let mut netlink = Nfnetlink::open(&self.node.namespace).expect("netlink");
        netlink.connections(Which::All, note).expect("a list");
        found
    }

    /// Denies what is to be denied, without cutting anything.
    fn deny(&mut self) -> Arc<Table> {
        self.enforce("one")
    }

    fn cut(&mut self, table: &Table) -> Vec<Connection> {
        let denied = self.cutter.denied(table).expect("connections are listed");
        let cut = self.cutter.cut(denied);
        assert!(cut.failed.is_empty(), "{:?}", cut.failed);
        cut.cut
    }

    /// Translates TCP to port 443 of a service to port 80 of the server, UDP to port 5353 to port 53, and every source to the node.
    fn serve(&self) {
        let Host { v4, v6, .. } = &self.server;
        self.node.load(&format!(
            "table inet services {{
               chain in {{ type nat hook prerouting priority dstnat
                 ip daddr {SERVICE4} tcp dport 443 dnat ip to {v4}:80
                 ip6 daddr {SERVICE6} tcp dport 443 dnat ip6 to [{v6}]:80
                 ip daddr {SERVICE4} udp dport 5353 dnat ip to {v4}:53
                 ip6 daddr {SERVICE6} udp dport 5353 dnat ip6 to [{v6}]:53
               }}
               chain out {{ type nat hook postrouting priority srcnat
                 ct status dnat masquerade
               }}
             }}"
        ));
    }
}

const SERVICE4: &str = "10.96.0.1";
const SERVICE6: &str = "fd00:96::1";

/// Ends of a TCP connection of which nothing arrives, in neither direction, whoever sends first.
fn is_dead([client, server]: &mut [TcpStream; 2]) -> bool {
    !arrives(server, client, BRIEFLY) && !arrives(client, server, BRIEFLY)
}

fn is_alive([client, server]: &mut [TcpStream; 2]) -> bool {
    arrives(server, client, AT_MOST) && arrives(client, server, AT_MOST)
}

#[test]
fn a_server_that_sends_to_a_silent_client_is_cut_off_and_neighbours_are_not() {
    for family in [0, 1] {
        let mut scene = Scene::new();
        let to = scene.server.addresses()[family];
        let mut denied = connection(&scene.denied, &scene.server, to);
        let mut allowed = connection(&scene.allowed, &scene.server, to);
        let mut outgoing = connection(&scene.server, &scene.denied, scene.denied.addresses()[family]);
        let table = scene.deny();
        let [client, server] = &mut denied;
        assert!(arrives(server, client, AT_MOST), "rules alone cut nothing");
        let cut = scene.cut(&table);
        let sources: Vec<IpAddr> = cut.iter().map(|one| one.original.source).collect();
        assert_eq!(sources, [scene.denied.addresses()[family]]);
        assert!(is_dead(&mut denied), "{to}");
        assert!(is_alive(&mut allowed), "{to}");
        assert!(is_alive(&mut outgoing), "egress of the server is open");
        assert!(scene.cut(&table).is_empty(), "there is nothing left");
        assert!(is_dead(&mut denied) && is_alive(&mut allowed), "{to}");
    }
}

#[test]
fn what_was_cut_and_is_taken_up_while_it_is_allowed_is_cut_again_whoever_sent_first() {
    for family in [0, 1] {
        for first in [0, 1] {
            let mut scene = Scene::new();
            let to = scene.server.addresses()[family];
            let mut denied = connection(&scene.denied, &scene.server, to);
            let mut allowed = connection(&scene.allowed, &scene.server, to);
            let table = scene.deny();
            assert_eq!(scene.cut(&table).len(), 1);
            // Until then neither end has sent anything, which it would repeat.
            scene.open();
            denied.rotate_left(first);
            assert!(is_alive(&mut denied), "it is allowed");
            assert!(is_alive(&mut allowed));
            let taken_up = scene.taken_up();
            let first = denied[1].local_addr().expect("an address");
            assert_eq!(taken_up, [first.ip().to_canonical()]);
            let table = scene.deny();
            assert_eq!(scene.cut(&table).len(), 1, "{to}");
            assert!(is_dead(&mut denied), "{to}");
            assert!(is_alive(&mut allowed), "{to}");
            assert!(scene.cut(&table).is_empty());
        }
    }
}

#[test]
fn a_client_that_goes_on_sending_is_cut_off() {
    for family in [0, 1] {
        let mut scene = Scene::new();
        let to = scene.server.addresses()[family];
        let [mut client, mut server] = connection(&scene.denied, &scene.server, to);
        let table = scene.deny();
        assert!(
            arrives(&mut client, &mut server, AT_MOST),
            "rules alone cut nothing"
        );
        assert_eq!(scene.cut(&table).len(), 1);
        assert!(!arrives(&mut client, &mut server, BRIEFLY), "{to}");
    }
}

#[test]
fn connections_through_a_service_are_cut_by_where_they_lead_and_where_they_came_from() {
    for (family, service) in [(0, SERVICE4), (1, SERVICE6)] {
        let mut scene = Scene::new();
        scene.serve();
        let listener = scene.server.listen(80);
        let service = SocketAddr::new(service.parse().expect("an address"), 443);
        let [mut denied, mut allowed] = [&scene.denied, &scene.allowed].map(|host| {
            let connect = || TcpStream::connect_timeout(&service, AT_MOST).expect("a connection");
            let client = host.namespace.run(connect).expect("the namespace");
            let server = listener.accept().expect("a connection").0;
            [client, server]
        });
        let node: Vec<IpAddr> = vec![
            [10, 0, 3, 1].into(),
            "fd00::3:0:0:0:1".parse().expect("an address"),
        ];
        let peer = denied[1].peer_addr().expect("a peer").ip().to_canonical();
        assert!(node.contains(&peer), "the server sees the node, not {peer}");
        let table = scene.deny();
        assert!(is_alive(&mut denied), "rules alone cut nothing");
        let cut = scene.cut(&table);
        assert_eq!(cut.len(), 1);
        assert_eq!(cut[0].original.source, scene.denied.addresses()[family]);
        assert_eq!(cut[0].original.destination, service.ip());
        assert!(is_dead(&mut denied), "{service}");
        assert!(is_alive(&mut allowed), "{service}");
    }
}

/// Whether a datagram from one socket arrives at the other, of as many as are sent.
fn is_received(from: &UdpSocket, to: &UdpSocket, sent: u32) -> bool {
    to.set_read_timeout(Some(BRIEFLY)).expect("a timeout");
    (0..sent).any(|_| from.send(b"x").is_ok() && to.recv(&mut [0; 8]).is_ok())
}

/// Enough datagrams that one that may pass arrives, on a machine that has much to do.
const MANY: u32 = 50;

/// Whether both arrive at each other.
fn converse(one: &UdpSocket, other: &UdpSocket) -> bool {
    is_received(one, other, MANY) && is_received(other, one, MANY)
}

/// Two UDP sockets, the first of `client` at port 1000 and the second of `server` at port 53, for each other.
fn datagrams(client: &Host, server: &Host, family: usize) -> [UdpSocket; 2] {
    let ends = [(client, 1000), (server, 53)];
    let addresses = ends.map(|(host, port)| SocketAddr::new(host.addresses()[family], port));
    let [one, other] = [0, 1].map(|at| {
        let bind = || UdpSocket::bind(addresses[at]).expect("a free port");
        ends[at].0.namespace.run(bind).expect("the namespace")
    });
    one.connect(addresses[1]).expect("an address");
    other.connect(addresses[0]).expect("an address");
    [one, other]
}

/// Whether a datagram arrives of as many as are sent, and the answer to it.
fn is_answered(client: &UdpSocket, server: &UdpSocket, sent: u32) -> bool {
    for socket in [client, server] {
        socket.set_read_timeout(Some(BRIEFLY)).expect("a timeout");
    }
    let answer = || {
        let (_, from) = server.recv_from(&mut [0; 8]).ok()?;
        server.send_to(b"x", from).ok()?;
        client.recv(&mut [0; 8]).ok()
    };
    (0..sent).any(|_| client.send(b"x").is_ok() && answer().is_some())
}

#[test]
fn datagrams_through_a_service_are_cut_by_where_they_lead_and_where_they_came_from() {
    for (family, service) in [(0, SERVICE4), (1, SERVICE6)] {
        let mut scene = Scene::new();
        scene.serve();
        let address = scene.server.addresses()[family];
        let bind = || UdpSocket::bind((address, 53)).expect("a free port");
        let server = scene.server.namespace.run(bind).expect("the namespace");
        let [denied, allowed] = [&scene.denied, &scene.allowed].map(|host| {
            let bind = || UdpSocket::bind((host.addresses()[family], 1000)).expect("a free port");
            let client = host.namespace.run(bind).expect("the namespace");
            client.connect((service, 5353)).expect("an address");
            client
        });
        assert!(is_answered(&denied, &server, MANY) && is_answered(&allowed, &server, MANY));
        let table = scene.deny();
        assert!(is_answered(&denied, &server, MANY), "rules alone cut nothing");
        let cut = scene.cut(&table);
        assert_eq!(cut.len(), 1);
        assert_eq!(cut[0].original.source, scene.denied.addresses()[family]);
        assert_eq!(cut[0].original.destination.to_string(), service);
        assert!(!is_answered(&denied, &server, 3), "{service}");
        assert!(is_answered(&allowed, &server, MANY), "{service}");
    }
}

#[test]
fn datagrams_of_a_conversation_that_is_denied_are_judged_anew() {
    for family in [0, 1] {
        let mut scene = Scene::new();
        let [denied, from_server] = datagrams(&scene.denied, &scene.server, family);
        assert!(converse(&denied, &from_server));
        let table = scene.deny();
        assert!(
            is_received(&denied, &from_server, MANY),
            "rules alone cut nothing"
        );
        assert_eq!(scene.cut(&table).len(), 1);
        while from_server.recv(&mut [0; 8]).is_ok() {}
        assert!(!is_received(&denied, &from_server, 1));
        // Speaking to it is something else, and allowed; then it may answer.
        assert!(is_received(&from_server, &denied, MANY) && is_received(&denied, &from_server, MANY));
        drop(from_server);
        let [allowed, from_server] = datagrams(&scene.allowed, &scene.server, family);
        assert!(converse(&allowed, &from_server));
        assert!(scene.cut(&table).is_empty());
    }
}

#[test]
fn what_the_node_itself_opens_to_its_pods_goes_on() {
    for family in [0, 1] {
        let mut scene = Scene::new();
        let listener = scene.server.listen(8080);
        let to = SocketAddr::new(scene.server.addresses()[family], 8080);
        let connect = || TcpStream::connect_timeout(&to, AT_MOST).expect("a connection");
        let client = scene.node.namespace.run(connect).expect("the namespace");
        let server = listener.accept().expect("a connection").0;
        let mut ends = [client, server];
        let table = scene.deny();
        assert!(scene.cut(&table).is_empty());
        assert!(is_alive(&mut ends), "{to}");
    }
}

/// A node with a pod, which has opened a connection to it, or it one to the pod.
struct Own {
    node: Node,
    pod: Host,
    /// The address of the node, of the family of the connection.
    at: IpAddr,
    client: Client,
    cutter: Cutter,
}

impl Own {
    fn new(family: usize) -> Self {
        let node = Node::new();
        // Everything is tracked from its beginning.
        node.load(
            "table inet others {
               chain input { type filter hook input priority 0; ct state new accept; }
               chain output { type filter hook output priority 0; ct state new accept; }
             }",
        );
        Self {
            pod: node.host(1),
            at: NODE[family].parse().expect("an address"),
            client: Client::open(&node.namespace).expect("a client"),
            cutter: Cutter::open(&node.namespace).expect("a cutter"),
            node,
        }
    }

    /// The ends of a connection of the pod to the node, that of the pod first.
    fn opened_by_pod(&self, port: u16) -> [TcpStream; 2] {
        let bind = || TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).expect("a free port");
        let listener = self.node.namespace.run(bind).expect("the namespace");
        let connect = || TcpStream::connect_timeout(&(self.at, port).into(), AT_MOST).expect("a connection");
        let client = self.pod.namespace.run(connect).expect("the namespace");
        [client, listener.accept().expect("a connection").0]
    }

    /// The ends of a connection of the node to the pod, that of the node first.
    fn opened_by_node(&self, port: u16) -> [TcpStream; 2] {
        let listener = self.pod.listen(port);
        let own = self.pod.addresses().into_iter();
        let mut own = own.filter(|own| own.is_ipv4() == self.at.is_ipv4());
        let to = SocketAddr::new(own.next().expect("an address"), port);
        let connect = || TcpStream::connect_timeout(&to, AT_MOST).expect("a connection");
        let client = self.node.namespace.run(connect).expect("the namespace");
        [client, listener.accept().expect("a connection").0]
    }

    /// Puts a policy into force, cuts what it denies, and says how many that were.
    fn enforce(&mut self, policy: Object) -> usize {
        let [v4, v6] = self.pod.addresses().map(|address| address.to_string());
        let cluster = snapshot![
            node("n").ip(NODE[0]).ip(NODE[1]),
            pod("x/a").ip(&v4).ip(&v6).on("n"),
            policy,
        ];
        let table = Arc::new(rendered(&cluster, &Semantics::default(), Some("n"), None));
        self.client.sync(&table).expect("the table is made");
        let denied = self.cutter.denied(&table).expect("connections are listed");
        let cut = self.cutter.cut(denied);
        assert!(cut.failed.is_empty(), "{:?}", cut.failed);
        cut.cut.len()
    }
}

/// The addresses of the node on the link of the first host.
const NODE: [&str; 2] = ["10.0.1.1", "fd00:0:0:1::1"];

#[test]
fn a_connection_to_the_own_node_that_an_admin_policy_denies_stays_cut_although_the_node_sends() {
    for family in [0, 1] {
        let mut own = Own::new(family);
        let mut denied = own.opened_by_pod(80);
        let mut other = own.opened_by_pod(81);
        let mut probe = own.opened_by_node(8080);
        assert!(is_alive(&mut denied), "nothing is denied yet");
        let no_node = deny().peer(nodes_where("")).port(Protocol::TCP, 80);
        assert_eq!(own.enforce(admin_policy("no-node", 1).egress(no_node).into()), 1);
        assert!(is_dead(&mut denied), "{}", own.at);
        assert!(own.node.counted("picket", "drop-mid-stream") > 0);
        // What is known goes on, and so does what begins as it should.
        assert!(is_alive(&mut other) && is_alive(&mut probe));
        assert!(is_alive(&mut own.opened_by_node(8081)) && is_alive(&mut own.opened_by_pod(82)));
        assert!(is_dead(&mut denied), "{}", own.at);
    }
}

#[test]
fn a_connection_of_the_own_node_that_the_cluster_default_denies_stays_cut_although_the_pod_sends() {
    for family in [0, 1] {
        let mut own = Own::new(family);
        let mut denied = own.opened_by_node(8080);
        let mut other = own.opened_by_pod(80);
        assert!(is_alive(&mut denied), "nothing is denied yet");
        let default = ClusterDefault::Deny.policy().expect("a policy");
        assert_eq!(own.enforce(Object::Policy(default)), 1);
        assert!(is_dead(&mut denied), "{}", own.at);
        assert!(own.node.counted("picket", "drop-mid-stream") > 0);
        assert!(is_alive(&mut other) && is_alive(&mut own.opened_by_pod(81)));
        assert!(is_dead(&mut denied), "{}", own.at);
    }
}

#[test]
fn what_a_pod_and_its_node_exchange_is_taken_up_again_where_nothing_is_denied_between_them() {
    for family in [0, 1] {
        let mut own = Own::new(family);
        let mut ends = [own.opened_by_pod(80), own.opened_by_node(8080)];
        let isolating = policy("x/p")
            .isolates(Direction::Ingress)
            .isolates(Direction::Egress);
        assert_eq!(own.enforce(isolating.into()), 0);
        forget(&own.node, |_| true);
        assert!(ends.iter_mut().all(is_alive), "{}", own.at);
        forget(&own.node, |_| true);
        for [client, server] in &mut ends {
            assert!(arrives(client, server, AT_MOST) && arrives(server, client, AT_MOST));
        }
    }
}

/// Has the kernel follow what is said over TCP port 80 as FTP, so that it expects the connections for data.
const FTP: &str = "
table ip files {
  ct helper ftp { type \"ftp\" protocol tcp; }
  chain in { type filter hook prerouting priority 0; tcp dport 80 ct helper set \"ftp\"; }
}
";

/// What the server says to the client, with the end of its line.
fn says([client, server]: &mut [TcpStream; 2], line: &str) {
    server
        .write_all(format!("{line}\r\n").as_bytes())
        .expect("room in the buffer");
    assert!(
        client.read(&mut [0; 128]).is_ok_and(|length| length > 0),
        "{line}"
    );
}

#[test]
fn what_a_helper_expected_goes_with_the_connection_that_it_belongs_to() {
    let mut scene = Scene::new();
    scene.node.load(FTP);
    let to: IpAddr = scene.server.v4.into();
    let [(mut denied, mut denied_data), (mut allowed, mut allowed_data)] =
        [(&scene.denied, 5000), (&scene.allowed, 5001)].map(|(host, port): (_, u16)| {
            let mut control = connection(host, &scene.server, to);
            let [high, low] = port.to_be_bytes();
            says(&mut control, "220 hello");
            says(
                &mut control,
                &format!("227 Entering Passive Mode (10,0,3,2,{high},{low})"),
            );
            // No policy admits anybody there.
            (control, connection_at(host, &scene.server, (to, port).into()))
        });
    assert!(!scene.allowed.connects(to, 5002), "only what was expected");
    let table = scene.deny();
    assert!(is_alive(&mut denied_data), "rules alone cut nothing");
    let sources: Vec<IpAddr> = scene.cut(&table).iter().map(|one| one.original.source).collect();
    assert_eq!(sources, [IpAddr::from(scene.denied.v4); 2]);
    assert!(is_dead(&mut denied) && is_dead(&mut denied_data));
    assert!(is_alive(&mut allowed) && is_alive(&mut allowed_data));
    // Without the one that it belongs to it is judged by itself.
    drop(allowed);
    forget(&scene.node, |one| {
        one.original.source == scene.allowed.v4 && one.master.is_none()
    });
    assert_eq!(scene.cut(&table).len(), 1);
    assert!(is_dead(&mut allowed_data));
}
