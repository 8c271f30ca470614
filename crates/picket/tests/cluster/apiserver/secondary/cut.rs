//! What a change denies ends in pods, also where it had begun before; what no change denies goes on.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use super::{labelled, named, simple};
use crate::datagrams::{Flow, Kind};
use crate::objects::KINDS;
use crate::pods::{Node, Pod, Pods, nft, once_free, table};

/// How long a packet that is denied may not arrive.
const DENIED: Duration = Duration::from_millis(500);

/// How long one that is not may take: longer than until TCP has sent it again.
const PATIENCE: Duration = Duration::from_secs(10);

const PORT: u16 = 9000;

/// A connection that a client in one pod has opened to a server in another.
struct Connection {
    client: TcpStream,
    server: TcpStream,
}

impl Connection {
    fn open(client: &Pod, server: &Pod, address: IpAddr) -> Self {
        Self::open_by(PORT, client, server, address)
    }

    /// By another port than that of the server, which the server's namespace translates.
    fn open_by(port: u16, client: &Pod, server: &Pod, address: IpAddr) -> Self {
        let at = SocketAddr::new(address, PORT);
        let listener = once_free(|| server.inside.run(|| TcpListener::bind(at)).unwrap());
        let connect = || TcpStream::connect(SocketAddr::new(address, port));
        let client = client.inside.run(connect).unwrap();
        Self {
            client: client.unwrap(),
            server: listener.accept().unwrap().0,
        }
    }

    fn down(&mut self, patience: Duration) -> bool {
        arrives(&mut self.server, &mut self.client, patience)
    }

    fn up(&mut self, patience: Duration) -> bool {
        arrives(&mut self.client, &mut self.server, patience)
    }
}

fn arrives(from: &mut TcpStream, to: &mut TcpStream, patience: Duration) -> bool {
    from.write_all(b"x").unwrap();
    to.set_read_timeout(Some(patience)).unwrap();
    match to.read(&mut [0; 1]) {
        Ok(length) => length == 1,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
            false
        }
    }
}

/// A connection for each address of the server.
fn connections(pods: &Pods, client: &str, server: &str) -> Vec<Connection> {
    let (client, server) = (&pods[client], &pods[server]);
    let addresses = server.addresses.iter();
    addresses
        .map(|address| Connection::open(client, server, *address))
        .collect()
}

const TRANSLATED: u16 = 9100;

/// The same by a port that leads to that of the server.
fn translated(pods: &Pods, client: &str, server: &str) -> Vec<Connection> {
    let (client, server) = (&pods[client], &pods[server]);
    let addresses = server.addresses.iter();
    addresses
        .map(|address| Connection::open_by(TRANSLATED, client, server, *address))
        .collect()
}

fn from(names: &[&str]) -> Value {
    json!({"podSelector": labelled("name", "server"), "policyTypes": ["Ingress"], "ingress": [{"from": named(names)}]})
}

/// Where policies of the namespace are.
fn policies() -> String {
    KINDS[13].2.replace("/v1beta1/", "/v1beta1/namespaces/default/")
}

fn change(node: &Node, spec: &Value) {
    node.api.patch(&policies(), "few", &json!({"spec": spec}));
    node.until_enforced();
}

/// The server speaks first, the clients are silent, and nothing restricts what the server may begin.
#[test]
fn connections_that_a_change_denies_are_cut_and_others_are_not() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&[]);
    node.policy("default", "few", "default/net", &from(&["a", "b"]));
    node.until_enforced();
    let mut denied = connections(&pods, "b", "server");
    let mut allowed = connections(&pods, "a", "server");
    let mut own = connections(&pods, "server", "b");
    change(&node, &from(&["a"]));
    node.until("two cuts", |_| {
        node.metric("picket_connections_cut_total") == denied.len() as u64
    });
    for connection in &mut denied {
        assert!(!connection.down(DENIED), "{}", table(&pods["server"]));
        assert!(!connection.up(DENIED), "{}", table(&pods["server"]));
        assert!(!connection.down(DENIED), "{}", table(&pods["server"]));
    }
    for connection in allowed.iter_mut().chain(&mut own) {
        assert!(connection.down(PATIENCE) && connection.up(PATIENCE));
    }
    assert_eq!(
        node.metric("picket_connections_cut_total"),
        denied.len() as u64,
        "nothing else was cut"
    );
}

/// While nothing restricts what the server receives, it takes up what was cut, as if it had opened that, which it may.
#[test]
fn what_was_cut_and_is_taken_up_while_it_is_allowed_is_cut_again() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&[]);
    let outgoing =
        json!({"podSelector": labelled("name", "server"), "policyTypes": ["Egress"], "egress": [{}]});
    node.policy("default", "outgoing", "default/net", &outgoing);
    node.policy("default", "few", "default/net", &from(&["a", "b"]));
    node.until_enforced();
    let mut denied = connections(&pods, "b", "server");
    let mut allowed = connections(&pods, "a", "server");
    let cut = denied.len() as u64;
    change(&node, &from(&["a"]));
    // Neither end sends anything now, which would arrive later.
    node.until("two cuts", |_| node.metric("picket_connections_cut_total") == cut);
    node.api.delete(&policies(), "few");
    node.until_enforced();
    for connection in &mut denied {
        assert!(connection.down(PATIENCE) && connection.up(PATIENCE));
    }
    node.policy("default", "few", "default/net", &from(&["a"]));
    node.until_enforced();
    node.until("two more", |_| {
        node.metric("picket_connections_cut_total") == 2 * cut
    });
    for connection in &mut denied {
        assert!(!connection.down(DENIED) && !connection.up(DENIED) && !connection.down(DENIED));
    }
    for connection in &mut allowed {
        assert!(connection.down(PATIENCE) && connection.up(PATIENCE));
    }
    assert_eq!(node.metric("picket_connections_cut_total"), 2 * cut);
}

#[test]
fn connections_that_a_pod_translates_are_cut_by_where_they_lead() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    let rules = format!(
        "table inet translated {{
           chain c {{ type nat hook prerouting priority dstnat
             tcp dport {TRANSLATED} redirect to :{PORT}
           }}
         }}"
    );
    nft(&pods["server"], &rules);
    node.start(&[]);
    node.policy("default", "few", "default/net", &from(&["a", "b"]));
    node.until_enforced();
    let mut denied = translated(&pods, "b", "server");
    let mut allowed = translated(&pods, "a", "server");
    change(&node, &from(&["a"]));
    node.until("two cuts", |_| {
        node.metric("picket_connections_cut_total") == denied.len() as u64
    });
    for connection in &mut denied {
        assert!(!connection.down(DENIED) && !connection.up(DENIED) && !connection.down(DENIED));
    }
    for connection in &mut allowed {
        assert!(connection.down(PATIENCE) && connection.up(PATIENCE));
    }
    assert_eq!(
        node.metric("picket_connections_cut_total"),
        denied.len() as u64,
        "nothing else was cut"
    );
}

/// What a pod has opened is cut when it may not any more, and its peers cannot bring it back.
#[test]
fn connections_of_the_pod_itself_are_cut() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&[]);
    let to = |names: &[&str]| json!({"podSelector": labelled("name", "server"), "policyTypes": ["Egress"], "egress": [{"to": named(names)}]});
    node.policy("default", "few", "default/net", &to(&["a", "b"]));
    node.until_enforced();
    let mut denied = connections(&pods, "server", "b");
    let mut allowed = connections(&pods, "server", "a");
    change(&node, &to(&["a"]));
    node.until("two cuts", |_| {
        node.metric("picket_connections_cut_total") == denied.len() as u64
    });
    for connection in &mut denied {
        assert!(!connection.down(DENIED) && !connection.up(DENIED) && !connection.down(DENIED));
    }
    for connection in &mut allowed {
        assert!(connection.up(PATIENCE) && connection.down(PATIENCE));
    }
}

/// Connection tracking begins with the first policy: of those that are older, nobody denied goes on, and those that are
/// allowed do when their clients speak.
#[test]
fn connections_older_than_the_first_policy() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    let mut denied = connections(&pods, "b", "server");
    let mut allowed = connections(&pods, "a", "server");
    node.start(&[]);
    node.policy("default", "few", "default/net", &from(&["a"]));
    node.until_enforced();
    for connection in &mut denied {
        assert!(!connection.down(DENIED) && !connection.up(DENIED) && !connection.down(DENIED));
    }
    assert!(node.metric("picket_dropped_mid_stream_packets_total") > 0);
    for connection in &mut allowed {
        assert!(connection.up(PATIENCE) && connection.down(PATIENCE));
    }
}

#[test]
fn they_go_on_where_that_is_wanted() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&["--established", "keep"]);
    node.policy("default", "few", "default/net", &from(&["a", "b"]));
    node.until_enforced();
    let mut kept = connections(&pods, "b", "server");
    change(&node, &from(&["a"]));
    for connection in &mut kept {
        assert!(connection.down(PATIENCE) && connection.up(PATIENCE));
    }
    assert_eq!(node.metric("picket_connections_cut_total"), 0);
}

/// A flow from the client for each address of the server.
fn flows(pods: &Pods, kind: Kind, client: &str, server: &str) -> Vec<Flow> {
    let (client, server) = (&pods[client], &pods[server]);
    let pairs = client.addresses.iter().zip(&server.addresses);
    let flows = pairs.map(|(from, to)| {
        let to = SocketAddr::new(*to, PORT);
        Flow::open(kind, (&client.inside, *from), (&server.inside, to))
    });
    flows.collect()
}

/// The server may begin nothing, so that what it sends is part of what clients have begun, or is denied.
#[test]
fn udp_and_sctp_that_a_change_denies_are_cut_and_others_are_not() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&[]);
    let nothing = json!({"podSelector": labelled("name", "server"), "policyTypes": ["Egress"]});
    node.policy("default", "nothing", "default/net", &nothing);
    node.policy("default", "few", "default/net", &from(&["a", "b"]));
    node.until_enforced();
    let mut cut = 0;
    for kind in Kind::BOTH {
        change(&node, &from(&["a", "b"]));
        let denied = flows(&pods, kind, "b", "server");
        let a = &pods["a"];
        let others = denied.iter().zip(&a.addresses);
        let allowed: Vec<_> = others.map(|(flow, own)| flow.beside((&a.inside, *own))).collect();
        change(&node, &from(&["a"]));
        cut += denied.len() as u64;
        node.until("two cuts", |_| node.metric("picket_connections_cut_total") == cut);
        let at = &pods["server"].inside;
        for flow in &denied {
            assert!(!flow.is_tracked(at));
            flow.expect(false, false);
            flow.expect(false, false);
            assert!(!flow.is_tracked(at));
        }
        for flow in &allowed {
            assert!(flow.is_tracked(at));
            flow.expect(true, true);
        }
        let counted = node.metric("picket_connections_cut_total");
        assert_eq!(counted, cut, "nothing else was cut");
    }
}
