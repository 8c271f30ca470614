//! A cluster as a reflector keeps it in etcd: objects with all that policies see of real ones, the same each time.

use serde_json::{Value, json};

/// How many pods there are.
pub const PODS: usize = 5_000;
/// How many policies.
pub const POLICIES: usize = 2_000;
/// How many namespaces.
pub const NAMESPACES: usize = 200;
/// How many nodes.
pub const NODES: usize = 50;

/// What is kept of each object: its key after `objects/`, and the object.
pub fn objects() -> impl Iterator<Item = (String, Value)> {
    let of_namespaces = (0..NAMESPACES).map(|number| {
        let name = namespace(number);
        let labels = json!({"kubernetes.io/metadata.name": name, "stage": "production"});
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        (format!("namespaces/{name}"), object)
    });
    let of_nodes = (0..NODES).map(|number| {
        let name = node(number);
        let addresses = json!([{"type": "InternalIP", "address": format!("192.168.0.{number}")}]);
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"addresses": addresses}});
        (format!("nodes/{name}"), object)
    });
    let of_pods = (0..PODS).map(|number| {
        let namespace = namespace(number / 5 % NAMESPACES);
        (format!("pods/{namespace}/pod-{number}"), pod(number))
    });
    let of_policies = (0..POLICIES).map(|number| {
        let namespace = namespace(number % NAMESPACES);
        let place = format!("networkpolicies.networking.k8s.io/{namespace}/policy-{number}");
        (place, policy(number))
    });
    of_namespaces.chain(of_nodes).chain(of_pods).chain(of_policies)
}

/// The record of an object.
#[must_use]
pub fn record(object: &Value) -> String {
    json!({"version": 1, "created": "2026-01-01T00:00:00Z", "object": object}).to_string()
}

/// What a reflector says that has written all of it.
#[must_use]
pub fn progress() -> String {
    let time = "2026-01-01T00:00:00Z";
    json!({"version": 1, "epoch": 1, "reflector": "bench", "time": time, "pass": time, "kinds": {}})
        .to_string()
}

fn namespace(number: usize) -> String {
    format!("team-{number:03}-production")
}

/// What a node is called.
#[must_use]
pub fn node(number: usize) -> String {
    format!("worker-{number}")
}

fn tier(number: usize) -> &'static str {
    match number % 3 {
        0 => "web",
        1 => "api",
        _ => "store",
    }
}

fn pod(number: usize) -> Value {
    let application = format!("service-{}", number / 4 % 500);
    let (middle, low) = (number >> 8, number & 255);
    let address = format!("10.0.{middle}.{low}");
    let host = format!("192.168.0.{}", number % NODES);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("pod-{number}"),
            "namespace": namespace(number / 5 % NAMESPACES),
            "uid": format!("00000000-0000-4000-8000-{number:012x}"),
            "labels": {
                "app.kubernetes.io/name": application,
                "app.kubernetes.io/instance": format!("{application}-production"),
                "pod-template-hash": "7d4b9c6f5d",
                "tier": tier(number),
            },
        },
        "spec": {
            "nodeName": node(number % NODES),
            "containers": [{"ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}],
        },
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}, {"ip": format!("fd00::{number:x}")}],
            "hostIP": host,
            "hostIPs": [{"ip": host}],
        },
    })
}

fn policy(number: usize) -> Value {
    let selector = json!({"matchLabels": {"tier": tier(number)}});
    let peers =
        json!([{"podSelector": selector}, {"namespaceSelector": {"matchLabels": {"stage": "production"}}}]);
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": format!("policy-{number}"),
            "namespace": namespace(number % NAMESPACES),
            "uid": format!("00000000-0000-4000-9000-{number:012x}"),
        },
        "spec": {
            "podSelector": selector,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": peers, "ports": [{"protocol": "TCP", "port": "http"}]}],
            "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.9.0.0/16"]}}]}, {"ports": [{"protocol": "UDP", "port": 53}]}],
        },
    })
}
