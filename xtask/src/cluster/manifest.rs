//! Objects as the manifests that would be read back as the same.

use picket_cluster::{NAMESPACE_NAME_LABEL, Namespace, Node, Object, Pod};
use picket_policy::{
    Direction, Labels, List, NamespaceScope, ObjectRef, Peer, Policy, PortMatch, Requirement, Rule, Selector,
};
use serde_json::{Map, Value, json};

/// The manifest of an object; `None` for what Kubernetes has no kind for.
///
/// Only what NetworkPolicy (networking.k8s.io/v1) can say is written of policies: the generator makes no others.
pub(crate) fn manifest(object: &Object) -> Option<Value> {
    match object {
        Object::Namespace(namespace) => Some(of_namespace(namespace)),
        Object::Node(node) => Some(of_node(node)),
        Object::Pod(pod) => Some(of_pod(pod)),
        Object::Policy(policy) => of_policy(policy),
        Object::Service(_) | Object::Network(_) => None,
    }
}

/// The fields that are there, in the order given.
fn fields<const N: usize>(pairs: [(&str, Option<Value>); N]) -> Value {
    let present = pairs
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(present.collect())
}

fn labels(labels: &Labels) -> Option<Value> {
    let pairs = labels.iter().filter(|(key, _)| *key != NAMESPACE_NAME_LABEL);
    let pairs: Map<_, _> = pairs
        .map(|(key, value)| (key.to_string(), json!(value)))
        .collect();
    (!pairs.is_empty()).then_some(Value::Object(pairs))
}

fn metadata(object: &ObjectRef, own_labels: Option<&Labels>) -> Value {
    let namespace = (!object.namespace.is_empty()).then(|| json!(object.namespace));
    fields([
        ("name", Some(json!(object.name))),
        ("namespace", namespace),
        ("labels", own_labels.and_then(labels)),
    ])
}

fn of_namespace(namespace: &Namespace) -> Value {
    let object = ObjectRef::new("Namespace", "", &namespace.name);
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(&object, Some(&namespace.labels))})
}

fn of_node(node: &Node) -> Value {
    let object = ObjectRef::new("Node", "", &node.name);
    let addresses: Vec<_> = node
        .addresses
        .iter()
        .map(|ip| json!({"type": "InternalIP", "address": ip}))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(&object, Some(&node.labels)),
        "status": {"addresses": addresses},
    })
}

fn of_pod(pod: &Pod) -> Value {
    let mut ports: Vec<_> = pod
        .ports
        .iter()
        .map(|port| json!({"name": port.name, "containerPort": port.port, "protocol": port.protocol.to_string()}))
        .collect();
    let unnamed = pod.declared_ports().iter().filter(|(protocol, number)| {
        !pod.ports
            .iter()
            .any(|port| port.port == *number && port.protocol == *protocol)
    });
    ports.extend(
        unnamed.map(|(protocol, port)| json!({"containerPort": port, "protocol": protocol.to_string()})),
    );
    let container = fields([
        ("name", Some(json!("main"))),
        ("image", Some(json!("main"))),
        ("ports", (!ports.is_empty()).then_some(Value::Array(ports))),
    ]);
    let addresses: Vec<_> = pod.addresses.iter().map(|ip| json!({"ip": ip})).collect();
    let phase = if pod.finished { "Succeeded" } else { "Running" };
    let given = !pod.synthetic && !addresses.is_empty();
    let mut metadata = metadata(&pod.object, Some(&pod.labels));
    if let (Some(owner), Value::Object(metadata)) = (&pod.owner, &mut metadata) {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": owner.kind, "name": owner.name, "controller": true});
        metadata.insert("ownerReferences".to_owned(), json!([owner]));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": fields([
            ("nodeName", pod.node.as_ref().map(|node| json!(node))),
            ("hostNetwork", pod.host_network.then_some(json!(true))),
            ("containers", Some(json!([container]))),
        ]),
        "status": fields([
            ("phase", Some(json!(phase))),
            ("podIPs", given.then_some(Value::Array(addresses))),
        ]),
    })
}

fn of_policy(policy: &Policy) -> Option<Value> {
    if policy.object.kind != "NetworkPolicy" {
        return None;
    }
    let directions = [(Direction::Ingress, "Ingress"), (Direction::Egress, "Egress")];
    let isolated = directions
        .into_iter()
        .filter(|(direction, _)| policy.side(*direction).isolates);
    let rules = |direction, peers| {
        let rules = &policy.side(direction).rules;
        let rules: Vec<_> = rules
            .iter()
            .map(|rule| of_rule(rule, peers, &policy.object.namespace))
            .collect();
        (!rules.is_empty()).then_some(Value::Array(rules))
    };
    Some(json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(&policy.object, None),
        "spec": fields([
            ("podSelector", Some(selector(&policy.subject.pods))),
            ("policyTypes", Some(isolated.map(|(_, name)| json!(name)).collect())),
            ("ingress", rules(Direction::Ingress, "from")),
            ("egress", rules(Direction::Egress, "to")),
        ]),
    }))
}

fn of_rule(rule: &Rule, peers: &str, namespace: &str) -> Value {
    let items = |list: Vec<Value>| Some(Value::Array(list));
    fields([
        (
            peers,
            match &rule.peers {
                List::Absent => None,
                List::Items(list) => items(list.iter().filter_map(|item| peer(item, namespace)).collect()),
            },
        ),
        (
            "ports",
            match &rule.ports {
                List::Absent => None,
                List::Items(list) => items(list.iter().map(port).collect()),
            },
        ),
    ])
}

fn peer(peer: &Peer, namespace: &str) -> Option<Value> {
    match peer {
        Peer::Block(block) => {
            let except = block
                .except
                .iter()
                .map(|prefix| json!(prefix.to_string()))
                .collect();
            let block = fields([
                ("cidr", Some(json!(block.prefix.to_string()))),
                (
                    "except",
                    (!block.except.is_empty()).then_some(Value::Array(except)),
                ),
            ]);
            Some(json!({"ipBlock": block}))
        }
        Peer::Pods(pods) => {
            let namespaces = match &pods.namespaces {
                NamespaceScope::Named(name) if name == namespace => None,
                NamespaceScope::Named(name) => Some(json!({"matchLabels": {NAMESPACE_NAME_LABEL: name}})),
                NamespaceScope::Matching(labels) => Some(selector(labels)),
            };
            let everything = namespaces.is_some() && pods.pods.is_everything();
            Some(fields([
                ("namespaceSelector", namespaces),
                ("podSelector", (!everything).then(|| selector(&pods.pods))),
            ]))
        }
        // NetworkPolicy cannot name nodes.
        Peer::Nodes(_) | Peer::Domain(_) => None,
    }
}

fn port(port: &PortMatch) -> Value {
    match port {
        PortMatch::Protocol(protocol) => json!({"protocol": protocol.to_string()}),
        PortMatch::Range(protocol, range) => fields([
            ("protocol", Some(json!(protocol.to_string()))),
            ("port", Some(json!(range.first()))),
            (
                "endPort",
                (range.first() != range.last()).then(|| json!(range.last())),
            ),
        ]),
        PortMatch::Named { protocol, name } => fields([
            ("protocol", protocol.map(|protocol| json!(protocol.to_string()))),
            ("port", Some(json!(name))),
        ]),
    }
}

fn selector(selector: &Selector) -> Value {
    let (mut equal, mut expressions) = (Map::new(), Vec::new());
    for requirement in selector.requirements() {
        let expression = |operator: &str, values: Option<&Vec<_>>| {
            fields([
                ("key", Some(json!(requirement.key()))),
                ("operator", Some(json!(operator))),
                ("values", values.map(|values| json!(values))),
            ])
        };
        match requirement {
            Requirement::In(key, values) => match values.as_slice() {
                // A second value for the same key cannot stand in `matchLabels`.
                [value] if !equal.contains_key(key.as_str()) => {
                    equal.insert(key.to_string(), json!(value));
                }
                _ => expressions.push(expression("In", Some(values))),
            },
            Requirement::NotIn(_, values) => expressions.push(expression("NotIn", Some(values))),
            Requirement::Exists(_) => expressions.push(expression("Exists", None)),
            Requirement::DoesNotExist(_) => expressions.push(expression("DoesNotExist", None)),
        }
    }
    fields([
        ("matchLabels", (!equal.is_empty()).then_some(Value::Object(equal))),
        (
            "matchExpressions",
            (!expressions.is_empty()).then_some(Value::Array(expressions)),
        ),
    ])
}
