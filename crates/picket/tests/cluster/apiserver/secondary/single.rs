//! Scenarios on one network, in one namespace: those of the program that picket replaces, and with both families each.

use picket_testing::runtime::Kind;
use picket_testing::with_each_runtime;
use serde_json::{Value, json};

use super::{Case, labelled, named, simple};
use crate::pods::{Node, Pods};

with_each_runtime!(peers_by_their_labels);

fn server() -> Value {
    labelled("name", "server")
}

/// Peers: the single addresses that end with these numbers, each as a peer of its own.
fn blocks(numbers: &[u8]) -> Value {
    let cidrs = numbers
        .iter()
        .flat_map(|number| [format!("2.2.5.{number}/32"), format!("2001:db8::{number}/128")]);
    let peers: Vec<_> = cidrs.map(|cidr| json!({"ipBlock": {"cidr": cidr}})).collect();
    json!(peers)
}

fn play(node: &Node, pods: &Pods, name: &str, specs: &[Value], allowed: &[&str], denied: &[&str]) {
    let names: Vec<_> = (0..specs.len())
        .map(|number| format!("{name}-{number}"))
        .collect();
    let policies = specs.iter().zip(&names);
    let policies = policies.map(|(spec, name)| ("default", name.as_str(), "net", spec.clone()));
    let restricted = if specs[0]["podSelector"] == labelled("name", "a") {
        "a"
    } else {
        "server"
    };
    let case = Case {
        name,
        policies: policies.collect(),
        allowed,
        denied,
        restricted: &[restricted],
    };
    case.play(node, pods);
}

fn peers_by_their_labels(kind: Kind) {
    play_labels(Node::with(kind), &[]);
}

/// Interfaces are cables of which the other ends are in a bridge.
#[test]
fn peers_by_their_labels_on_a_bridge() {
    let node = Node::new().with_bridges();
    let config = r#"{"cniVersion": "1.0.0", "name": "net", "type": "bridge", "bridge": "br1"}"#;
    node.define("net", config);
    play_labels(node, &["--network-plugins", "bridge"]);
}

fn play_labels(mut node: Node, arguments: &[&str]) {
    let pods = simple(&mut node);
    node.start(arguments);
    play(
        &node,
        &pods,
        "simple-ingress",
        &[json!({"podSelector": server(), "ingress": [{"from": named(&["a"])}]})],
        &["a->server server->a server->b"],
        &["b->server"],
    );
    play(
        &node,
        &pods,
        "simple-ingress-list",
        &[json!({"podSelector": server(), "policyTypes": ["Ingress"],
            "ingress": [{"from": named(&["a"])}, {"from": named(&["c"])}]})],
        &["a->server c->server server->a server->b server->c"],
        &["b->server"],
    );
    play(
        &node,
        &pods,
        "simple-egress",
        &[json!({"podSelector": server(), "policyTypes": ["Egress"], "egress": [{"to": named(&["a"])}]})],
        &["a->server b->server server->a"],
        &["server->b"],
    );
    play(
        &node,
        &pods,
        "simple-egress-list",
        &[json!({"podSelector": server(), "policyTypes": ["Egress"],
            "egress": [{"to": named(&["a"])}, {"to": named(&["c"])}]})],
        &["a->server b->server c->server server->a server->c"],
        &["server->b"],
    );
    play(
        &node,
        &pods,
        "stacked",
        &[
            json!({"podSelector": server(), "policyTypes": ["Ingress"], "ingress": [{"from": named(&["a"])}]}),
            json!({"podSelector": server(), "policyTypes": ["Ingress"], "ingress": [{"from": named(&["b"])}]}),
        ],
        &["a->server b->server"],
        &["c->server"],
    );
    play(
        &node,
        &pods,
        "edge-cases-validation",
        &[
            json!({"podSelector": server(), "policyTypes": ["Ingress"], "ingress": [{"from": named(&["nobody"])}]}),
            json!({"podSelector": server(), "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"namespaceSelector": labelled("name", "nowhere")}]}]}),
            json!({"podSelector": server(), "policyTypes": ["Egress"], "egress": [{"to": named(&["nobody"])}]}),
        ],
        &["a->b a->b:9999"],
        &["a->server b->server server->a server->b a->server:9999"],
    );
}

#[test]
fn peers_by_their_addresses() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&[]);
    let ingress =
        |rules: Value| json!({"podSelector": server(), "policyTypes": ["Ingress"], "ingress": rules});
    let (allowed, denied) = (["a->server b->server"], ["c->server"]);
    let name = "ipblock";
    play(
        &node,
        &pods,
        name,
        &[ingress(json!([{"from": blocks(&[12, 13])}]))],
        &allowed,
        &denied,
    );
    let rules = json!([{"from": blocks(&[12])}, {"from": blocks(&[13])}]);
    play(&node, &pods, "ipblock-list", &[ingress(rules)], &allowed, &denied);
    let policies = [12, 13].map(|number| ingress(json!([{"from": blocks(&[number])}])));
    play(&node, &pods, "ipblock-stacked", &policies, &allowed, &denied);
    let except = json!([
        {"ipBlock": {"cidr": "2.2.5.0/24", "except": ["2.2.5.14/32", "2.2.5.99/32"]}},
        {"ipBlock": {"cidr": "2001:db8::/64", "except": ["2001:db8::14/128", "2001:db8::99/128"]}},
    ]);
    play(
        &node,
        &pods,
        "advanced-ipblock-scenarios",
        &[
            ingress(json!([{"from": except}])),
            json!({"podSelector": server(), "policyTypes": ["Egress"], "egress": [{"to": except}]}),
        ],
        &["a->server b->server d->server server->a"],
        &["c->server server->c"],
    );
    // What the replaced program refuses, and then lets everything in.
    let overlapping = json!([
        {"ipBlock": {"cidr": "2.0.0.0/8", "except": ["2.2.5.14/32"]}},
        {"ipBlock": {"cidr": "2.2.0.0/16", "except": ["2.2.5.14/32", "2.2.5.14/31"]}},
        {"ipBlock": {"cidr": "2001:db8::/48", "except": ["2001:db8::14/128"]}},
        {"ipBlock": {"cidr": "2001:db8::/64", "except": ["2001:db8::14/128"]}},
    ]);
    let name = "overlapping-blocks";
    play(
        &node,
        &pods,
        name,
        &[ingress(json!([{"from": overlapping}]))],
        &["a->server d->server"],
        &["c->server"],
    );
}

#[test]
fn ports() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&[]);
    let a = || labelled("name", "a");
    let role = || json!([{"podSelector": labelled("role", "allowed")}]);
    play(
        &node,
        &pods,
        "port-range",
        &[json!({"podSelector": a(), "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [{"protocol": "TCP", "port": 6000, "endPort": 6900}]}],
            "egress": [{"ports": [{"protocol": "TCP", "port": 5000, "endPort": 5900}]}]})],
        &["a->b:5555 b->a:6666"],
        &["a->b:6666 b->a:5555"],
    );
    play(
        &node,
        &pods,
        "protocol-only-ports",
        &[json!({"podSelector": a(), "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [{"protocol": "UDP"}]}], "egress": [{"ports": [{"protocol": "TCP"}]}]})],
        &["a->b b->a:udp/5555"],
        &["a->b:udp/5555 b->a"],
    );
    let tcp = |ports: &[u16]| {
        ports
            .iter()
            .map(|port| json!({"protocol": "TCP", "port": port}))
            .collect::<Vec<_>>()
    };
    let mut ports = tcp(&[80, 443, 22]);
    ports.push(json!({"protocol": "UDP", "port": 53}));
    play(
        &node,
        &pods,
        "complex-port-specifications",
        &[
            json!({"podSelector": server(), "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": role(), "ports": ports}], "egress": [{"to": role(), "ports": tcp(&[80])}]}),
        ],
        &["a->server:80 a->server:443 a->server:22 a->server:udp/53 c->server:80 server->a:80"],
        &["a->server:8080 b->server:80 server->b:80"],
    );
    play(
        &node,
        &pods,
        "deny-all-with-specific-allow",
        &[
            json!({"podSelector": server(), "policyTypes": ["Ingress"], "ingress": []}),
            json!({"podSelector": server(), "policyTypes": ["Ingress"],
                "ingress": [{"from": named(&["a"]), "ports": tcp(&[80])}]}),
        ],
        &["a->server:80"],
        &["a->server:8080 b->server:80 b->server:8080 c->server:80 c->server:8080"],
    );
    play(
        &node,
        &pods,
        "accept-all-with-specific-allow",
        &[
            json!({"podSelector": server(), "policyTypes": ["Ingress"], "ingress": [{"from": []}]}),
            json!({"podSelector": server(), "policyTypes": ["Ingress"],
                "ingress": [{"from": named(&["a"]), "ports": tcp(&[80])}]}),
        ],
        &["a->server:80 a->server:8080 b->server:80 b->server:8080 c->server:80 c->server:8080"],
        &[],
    );
    // The replaced program asks /etc/services.
    play(
        &node,
        &pods,
        "named-port",
        &[json!({"podSelector": server(), "ingress": [{"ports": [{"port": "http"}]}]})],
        &["a->server:8080"],
        &["a->server:80"],
    );
}

#[test]
fn ports_of_sctp() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&[]);
    let a = || labelled("name", "a");
    let ports = json!([
        {"protocol": "SCTP", "port": 80},
        {"protocol": "SCTP", "port": 6000, "endPort": 6900},
    ]);
    let ranges = "a->b:sctp/80 a->b:sctp/6000 a->b:sctp/6900";
    play(
        &node,
        &pods,
        "sctp-egress",
        &[
            json!({"podSelector": a(), "policyTypes": ["Egress"], "egress": [{"to": named(&["b"]), "ports": ports}]}),
        ],
        &[ranges, "b->a:sctp/80 b->a:80"],
        &["a->b:sctp/81 a->b:sctp/5999 a->b:sctp/6901 a->b:80 a->b:udp/80 a->b:6000 a->c:sctp/80"],
    );
    let ranges = "b->a:sctp/80 b->a:sctp/6000 b->a:sctp/6900";
    play(
        &node,
        &pods,
        "sctp-ingress",
        &[
            json!({"podSelector": a(), "policyTypes": ["Ingress"], "ingress": [{"from": named(&["b"]), "ports": ports}]}),
        ],
        &[ranges, "a->b:sctp/80 a->b:80"],
        &["b->a:sctp/81 b->a:sctp/5999 b->a:sctp/6901 b->a:80 b->a:udp/80 b->a:6000 c->a:sctp/80"],
    );
    // Nor do ports of others open any of it.
    play(
        &node,
        &pods,
        "sctp-beside-tcp",
        &[
            json!({"podSelector": a(), "policyTypes": ["Ingress"], "ingress": [
                {"from": named(&["b"]), "ports": [{"port": 80}, {"protocol": "UDP", "port": 80}]},
                {"from": named(&["c"]), "ports": [{"protocol": "SCTP"}]},
            ]}),
        ],
        &["b->a:80 b->a:udp/80 c->a:sctp/80 c->a:sctp/6901"],
        &["b->a:sctp/80 c->a:80 c->a:udp/80"],
    );
}
