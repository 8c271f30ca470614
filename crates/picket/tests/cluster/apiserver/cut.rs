//! What a change denies ends, also where it had begun before.

mod datagrams;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use picket_net::Family;
use serde_json::{Value, json};

use crate::agents::Agent;
use crate::apiserver::agent::{Live, metric};
use crate::apiserver::never_open::{POLICIES, allow};
use crate::objects::network_policy;
use crate::pods::once_free;
use crate::prober::{address, namespace};

/// How long what must arrive may take: longer than until TCP repeats what was lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long to wait for what must not. Something went the same way before, in a millisecond.
const DENIED: Duration = Duration::from_millis(500);

/// A TCP connection from one pod to another.
pub(super) struct Connection {
    client: TcpStream,
    server: TcpStream,
}

impl Connection {
    /// From `z/a` to `x/a`, where that may be allowed.
    pub(super) fn open(live: &Live, family: Family) -> Self {
        Self::between(live, "z/a", "x/a", 9000, family)
    }

    /// From one pod to another.
    pub(super) fn between(live: &Live, from: &str, to: &str, port: u16, family: Family) -> Self {
        let target = (address(&live.lab, to, family), port);
        let inside = namespace(&live.lab, to);
        let listener = once_free(|| inside.run(|| TcpListener::bind(target)).unwrap());
        let client = namespace(&live.lab, from).run(|| TcpStream::connect(target).unwrap());
        let (server, _) = listener.accept().unwrap();
        Self {
            client: client.unwrap(),
            server,
        }
    }

    /// Holds that what the client sends arrives, or does not.
    pub(super) fn expect(&mut self, arrives: bool) {
        let patience = if arrives { PATIENCE } else { DENIED };
        self.server.set_read_timeout(Some(patience)).unwrap();
        self.client.write_all(b"x").unwrap();
        match self.server.read(&mut [0; 1]) {
            Ok(length) => assert!(arrives && length == 1, "{length} bytes, {arrives}"),
            Err(error) => assert!(!arrives && error.kind() == ErrorKind::WouldBlock, "{error}"),
        }
    }
}

/// A cluster that allows connections, the agent that enforces that, and a connection of each family.
fn connected(live: &Live, more: &[&str]) -> (Agent, [Connection; 2]) {
    allow(live, "TCP");
    let agent = live.agent(more);
    agent.until("the policy that allows", |status| {
        status.host.policies.contains(&"NetworkPolicy x/allow".to_owned())
    });
    let mut connections = Family::BOTH.map(|family| Connection::open(live, family));
    connections
        .iter_mut()
        .for_each(|connection| connection.expect(true));
    (agent, connections)
}

fn deny(live: &Live, agent: &Agent) {
    live.api.delete(POLICIES, "allow");
    agent.until("the end of the policy", |status| {
        !status.host.policies.contains(&"NetworkPolicy x/allow".to_owned())
    });
}

fn expect(connections: &mut [Connection], arrives: bool) {
    for connection in connections {
        connection.expect(arrives);
    }
}

fn create(live: &Live, name: &str, spec: &Value) {
    live.api.create(POLICIES, &network_policy("x", name, spec));
}

#[test]
fn connections_that_a_change_denies_are_cut_and_no_others() {
    let live = Live::new(None);
    let from = json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "z"}}}]);
    create(
        &live,
        "other",
        &json!({"podSelector": {}, "ingress": [{"from": from, "ports": [{"port": 9001}]}]}),
    );
    let mut older = Family::BOTH.map(|family| Connection::between(&live, "z/b", "x/a", 9001, family));
    expect(&mut older, true);
    let (agent, mut connections) = connected(&live, &[]);
    // Connection tracking begins with the rules, and knows nothing of what is older.
    expect(&mut older, false);
    assert!(metric(&agent, "picket_dropped_mid_stream_packets_total") > 1);
    let mut others = Family::BOTH.map(|family| Connection::between(&live, "z/a", "x/a", 9001, family));
    expect(&mut others, true);
    deny(&live, &agent);
    agent.until("two cuts", |_| metric(&agent, "picket_connections_cut_total") > 1);
    for _ in 0..2 {
        expect(&mut connections, false);
        expect(&mut others, true);
    }
    assert_eq!(metric(&agent, "picket_connections_cut_total"), 2);
}

#[test]
fn connections_are_cut_that_policies_deny_which_came_while_there_was_no_agent() {
    let live = Live::new(None);
    let (mut agent, mut others) = connected(&live, &[]);
    let mut connections = Family::BOTH.map(|family| Connection::between(&live, "x/a", "z/a", 9000, family));
    expect(&mut connections, true);
    assert!(agent.stop().success());
    create(
        &live,
        "egress",
        &json!({"podSelector": {}, "policyTypes": ["Egress"]}),
    );
    expect(&mut connections, true);
    let agent = live.agent(&[]);
    agent.until("two cuts", |_| metric(&agent, "picket_connections_cut_total") > 1);
    for _ in 0..2 {
        expect(&mut connections, false);
        expect(&mut others, true);
    }
    assert_eq!(metric(&agent, "picket_connections_cut_total"), 2);
}

#[test]
fn what_began_while_others_had_taken_the_rules_away_is_cut() {
    let live = Live::new(None);
    // Connections are known while picket has no table.
    live.nft(&["add table inet other; add chain inet other known { type filter hook forward priority 0; }; add rule inet other known ct state new counter"]);
    let (agent, mut others) = connected(&live, &["--table-owner", "everybody"]);
    agent.signal("STOP");
    live.nft(&["delete", "table", "inet", "picket"]);
    let mut denied = Family::BOTH.map(|family| Connection::between(&live, "y/a", "x/a", 9000, family));
    expect(&mut denied, true);
    create(
        &live,
        "none",
        &json!({"podSelector": {"matchLabels": {"pod": "nobody"}}}),
    );
    agent.signal("CONT");
    agent.until("a repair and two cuts", |status| {
        status.host.repaired == 1 && metric(&agent, "picket_connections_cut_total") == 2
    });
    expect(&mut denied, false);
    expect(&mut others, true);
}

#[test]
fn they_go_on_where_that_is_wanted() {
    let live = Live::new(None);
    let (agent, mut connections) = connected(&live, &["--established", "keep"]);
    deny(&live, &agent);
    connections
        .iter_mut()
        .for_each(|connection| connection.expect(true));
    assert_eq!(metric(&agent, "picket_connections_cut_total"), 0);
}
