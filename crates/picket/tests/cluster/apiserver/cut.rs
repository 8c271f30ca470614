//! What a change denies ends, also where it had begun before.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use picket_net::Family;

use crate::agents::Agent;
use crate::apiserver::agent::{Live, metric};
use crate::apiserver::never_open::{POLICIES, allow};
use crate::prober::{address, namespace};

/// How long what must arrive may take: longer than until TCP repeats what was lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long to wait for what must not. Something went the same way before, in a millisecond.
const DENIED: Duration = Duration::from_millis(500);

/// A TCP connection from `z/a` to `x/a`.
pub(super) struct Connection {
    client: TcpStream,
    server: TcpStream,
}

impl Connection {
    pub(super) fn open(live: &Live, family: Family) -> Self {
        let target = (address(&live.lab, "x/a", family), 9000);
        let listener = namespace(&live.lab, "x/a").run(|| TcpListener::bind(target).unwrap());
        let client = namespace(&live.lab, "z/a").run(|| TcpStream::connect(target).unwrap());
        let (server, _) = listener.unwrap().accept().unwrap();
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

#[test]
fn connections_that_a_change_denies_are_cut() {
    let live = Live::new(None);
    let (agent, mut connections) = connected(&live, &[]);
    deny(&live, &agent);
    agent.until("two cuts", |_| metric(&agent, "picket_connections_cut_total") > 1);
    for _ in 0..2 {
        connections
            .iter_mut()
            .for_each(|connection| connection.expect(false));
    }
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
