//! Two nodes on one link that send to each other's pods by routes through each other (host-gateway), with kube-proxy and an agent
//! on each: policies of both sides hold for what goes between them, directly and through services.

use std::net::UdpSocket;

use picket_net::Family;
use serde_json::Value;

use super::{
    Allowed, Cluster, Seen, admitting, app, blocks, node_object, open, pod, reaching, server, service,
};
use crate::agents::Agent;
use crate::apiserver::agent::metric;
use crate::client::Api;
use crate::node::{Mode, Node, PLUGINS, PORT, Plugin};
use crate::objects::{namespace, policy};
use crate::pods::ip;

const NODES: [&str; 2] = ["node-1", "node-2"];

/// The pods of each.
const PODS: [&[&str]; 2] = [
    &["web-1", "client-1", "other-1", "locked-1"],
    &["web-2", "client-2", "other-2", "locked-2"],
];

/// What counts packets that came from elsewhere than they say.
const SPOOFED: &str = "picket_dropped_spoofed_packets_total";

const ALLOWED: [Allowed; 13] = [
    ("client-1", "pod/web-2", Seen::Itself),
    ("client-2", "pod/web-1", Seen::Itself),
    ("client-1", "service/web-2", Seen::Itself),
    ("client-2", "service/web-1", Seen::Itself),
    ("locked-1", "pod/web-2", Seen::Itself),
    ("locked-1", "service/web-2", Seen::Itself),
    ("locked-2", "service/web-1", Seen::Itself),
    // A node of which the policy has the addresses.
    ("node-2", "pod/web-1", Seen::Itself),
    // The source is judged on the node of the pod before that takes its place.
    ("client-1", "node-2/30082", Seen::Node),
    ("outside", "node-1/30081", Seen::Node),
    ("outside", "node-2/30082", Seen::Node),
    ("outside", "node-2/30083", Seen::Itself),
    // Through the other node it is that node which sends, and the policy has its addresses.
    ("outside", "node-2/30081", Seen::Node),
];

const DENIED: [(&str, &str); 11] = [
    ("other-1", "pod/web-2"),
    ("other-2", "pod/web-1"),
    ("other-1", "service/web-2"),
    ("other-2", "service/web-1"),
    ("other-1", "node-2/30082"),
    ("locked-1", "pod/client-2"),
    ("locked-2", "pod/client-1"),
    ("locked-1", "service/client-2"),
    // What leads to the pod is the other node's to know: it is the node that this one would reach.
    ("locked-1", "node-2/30082"),
    ("node-1", "pod/web-2"),
    // Here the policy has not the addresses of the node that sends.
    ("outside", "node-1/30082"),
];

fn populate(api: &Api, nodes: &Node) {
    namespace(api, "x");
    for (name, pods) in NODES.into_iter().zip(PODS) {
        let addresses = Family::BOTH.map(|family| nodes.address(name, family));
        node_object(api, name, &addresses);
        for name_of_pod in pods {
            pod(api, nodes, name, name_of_pod);
        }
    }
    let second = ("web-2", "node-2");
    service(api, nodes, "web-1", ("web-1", "node-1"), &open(30081, "Cluster"));
    service(api, nodes, "web-2", second, &open(30082, "Cluster"));
    service(api, nodes, "local", second, &open(30083, "Local"));
    service(api, nodes, "client-2", ("client-2", "node-2"), &Value::Null);
}

fn policies(api: &Api, nodes: &Node) {
    let [outside, other_node] = ["outside", "node-2"].map(|host| blocks(nodes, host));
    let hosts = [[&outside[..], &other_node].concat(), outside.to_vec()];
    for ((here, there), hosts) in [(1, 2), (2, 1)].into_iter().zip(hosts) {
        let pods = ["client", "locked"].map(|name| app(&format!("{name}-{there}")));
        let from: Vec<_> = pods.into_iter().chain(hosts).collect();
        policy(
            api,
            "x",
            &format!("few-{here}"),
            &admitting(&format!("web-{here}"), &from),
        );
        let web = app(&format!("web-{there}"));
        let locked = format!("locked-{here}");
        policy(api, "x", &locked, &reaching(&locked, &[web]));
    }
}

/// Has a pod of one node send with the addresses of one of the other, and waits until its own node has dropped that.
fn spoof(nodes: &Node, agent: &Agent) {
    let before = metric(agent, SPOOFED);
    // Else the kernel lets nobody use an address of IPv6 before it has looked whether others have it, later.
    for (family, length, flags) in [(Family::Ipv4, 32, ""), (Family::Ipv6, 128, "nodad")] {
        let [from, to] = ["client-2", "web-2"].map(|pod| nodes.address(pod, family));
        let pod = nodes.at("client-1");
        ip(pod, &format!("address add {from}/{length} dev eth0 {flags}"));
        let sender = pod.run(|| UdpSocket::bind((from, 0)).unwrap()).unwrap();
        sender.send_to(b"x", (to, PORT)).unwrap();
        ip(pod, &format!("address del {from}/{length} dev eth0"));
    }
    agent.until("spoofed packets", |_| metric(agent, SPOOFED) == before + 2);
}

fn live_through(mode: Mode, plugin: &Plugin) {
    let (server, api) = server();
    let nodes = Node::gateways(plugin, PODS, &server.kubeconfig());
    populate(&api, &nodes);
    let cluster = Cluster {
        api: &api,
        node: nodes,
        agent: server.kubeconfig_of("agent-token"),
        kube_proxy: server.kubeconfig_of("proxy-token"),
        mode,
        allowed: &ALLOWED,
        denied: &DENIED,
    };
    let proxies = NODES.map(|node| cluster.kube_proxy(node));
    for ((client, service), proxy) in [("client-1", "service/web-2"), ("client-2", "service/web-1")]
        .iter()
        .zip(&proxies)
    {
        cluster.until_served(client, service, proxy);
    }
    cluster.allowed("without policies");
    cluster.denied(false, "without policies");
    let rules = NODES.map(|node| cluster.node.foreign_rules(node));
    policies(&api, &cluster.node);
    let mut agents = NODES.map(|node| cluster.agent(node));
    cluster.enforced("with agents");
    for agent in &agents {
        assert_eq!(metric(agent, SPOOFED), 0);
        assert_eq!(metric(agent, "picket_drift_repaired_total"), 0);
    }
    spoof(&cluster.node, &agents[0]);
    assert_eq!(NODES.map(|node| cluster.node.foreign_rules(node)), rules);
    for agent in &mut agents {
        agent.kill();
    }
    cluster.enforced("after the agents");
}

#[test]
fn policies_hold_between_nodes_that_are_gateways_to_the_pods_of_each_other_on_bridges() {
    live_through(Mode::Iptables, &PLUGINS[0]);
}

#[test]
fn policies_hold_between_nodes_that_are_gateways_to_the_pods_of_each_other() {
    live_through(Mode::Nftables, &PLUGINS[1]);
}
