//! Connections through services that have come about end when a change denies them, and no others.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use picket_net::Family;
use serde_json::{Value, json};

use super::{Cluster, PODS, POLICIES, admitting, app, blocks, both, populate, reaching, server};
use crate::apiserver::agent::metric;
use crate::node::{Mode, Node, PATIENCE, PLUGINS, Plugin};
use crate::objects::policy;

/// How long to wait for what must not come. Something went the same way before, in a millisecond.
const DENIED: Duration = Duration::from_millis(500);

/// From the pods that lose their way: through a service of the cluster, ports of the node with the node as the sender and
/// without, and directly.
const ENDED: [(&str, &str); 5] = [
    ("client", "service/web"),
    ("client", "node-1/30080"),
    ("client", "pod/web"),
    ("outside", "node-1/30080"),
    ("outside", "node-1/30081"),
];

/// The same ways from others, and to another pod.
const GOING_ON: [(&str, &str); 6] = [
    ("other", "service/web"),
    ("other", "node-1/30080"),
    ("stranger", "node-1/30080"),
    ("stranger", "node-1/30081"),
    ("client", "service/remote"),
    ("web", "service/web"),
];

/// The one whose own policy changes.
const SENDER: [(&str, &str); 1] = [("locked", "service/web")];

/// A connection of which the server sends back what it gets.
struct Connection {
    name: String,
    stream: TcpStream,
}

impl Connection {
    fn open(cluster: &Cluster<'_>, from: &str, to: &str, family: Family) -> Self {
        Self {
            name: format!("{from} -> {to} {family:?} {:?}", cluster.mode),
            stream: cluster.node.open(from, cluster.target(to, family)),
        }
    }

    /// Holds that what goes there and back comes, or does not.
    fn expect(&mut self, comes: bool) {
        let patience = if comes { PATIENCE } else { DENIED };
        self.stream.set_read_timeout(Some(patience)).unwrap();
        self.stream.write_all(b"x").unwrap();
        match self.stream.read(&mut [0; 1]) {
            Ok(length) => assert!(comes && length == 1, "{}: {length} bytes", self.name),
            Err(error) => assert!(
                !comes && error.kind() == ErrorKind::WouldBlock,
                "{}: {error}",
                self.name
            ),
        }
    }
}

fn open(cluster: &Cluster<'_>, paths: &[(&str, &str)]) -> Vec<Connection> {
    let connections = both(paths);
    let connections = connections.map(|((from, to), family)| Connection::open(cluster, from, to, family));
    connections.collect()
}

fn expect(connections: &mut [Connection], come: bool) {
    for connection in connections {
        connection.expect(come);
    }
}

/// Which pods and hosts may reach one.
fn from(cluster: &Cluster<'_>, pods: &[&str], hosts: &[&str]) -> Value {
    let pods = pods.iter().map(|name| app(name));
    let hosts = hosts.iter().flat_map(|host| blocks(&cluster.node, host));
    admitting("web", &pods.chain(hosts).collect::<Vec<_>>())
}

/// Whom the one whose policy changes may reach.
fn to(pod: &str) -> Value {
    reaching("locked", &[app(pod)])
}

pub(in crate::apiserver) fn live_through(mode: Mode, plugin: &Plugin) {
    let (server, api) = server();
    let node = Node::new(plugin, &PODS, &server.kubeconfig());
    populate(&api, &node);
    let [agent, kube_proxy] = ["agent-token", "proxy-token"].map(|token| server.kubeconfig_of(token));
    let cluster = Cluster {
        api: &api,
        node,
        agent,
        kube_proxy,
        mode,
        allowed: &[],
        denied: &[],
    };
    let kube_proxy = cluster.kube_proxy("node-1");
    for service in ["service/web", "service/remote"] {
        cluster.until_served("client", service, &kube_proxy);
    }
    policy(
        &api,
        "x",
        "few",
        &from(&cluster, &["client", "locked", "other"], &["outside", "stranger"]),
    );
    policy(&api, "x", "locked", &to("web"));
    let agent = cluster.agent("node-1");
    let [mut ended, mut going_on] = [&ENDED[..], &GOING_ON].map(|paths| open(&cluster, paths));
    let mut sender = open(&cluster, &SENDER);
    let cut = || metric(&agent, "picket_connections_cut_total");
    let change = |name: &str, spec: &Value, ends: &mut [Connection]| {
        expect(ends, true);
        let before = cut();
        api.patch(POLICIES, name, &json!({ "spec": spec }));
        // The kernel may remember others that have ended by themselves.
        let count = ends.len() as u64;
        agent.until(&format!("{count} cuts"), |_| cut() >= before + count);
        expect(ends, false);
    };
    change(
        "few",
        &from(&cluster, &["locked", "other"], &["stranger"]),
        &mut ended,
    );
    expect(&mut going_on, true);
    change("locked", &to("client"), &mut sender);
    expect(&mut ended, false);
    expect(&mut going_on, true);
}

#[test]
fn what_a_change_denies_is_cut_through_services_of_kube_proxy_with_iptables() {
    live_through(Mode::Iptables, &PLUGINS[0]);
}

#[test]
fn what_a_change_denies_is_cut_through_services_of_kube_proxy_with_nftables() {
    live_through(Mode::Nftables, &PLUGINS[1]);
}
