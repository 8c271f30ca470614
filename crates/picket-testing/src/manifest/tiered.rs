//! ClusterNetworkPolicy, AdminNetworkPolicy and BaselineAdminNetworkPolicy.

use picket_net::{PortRange, Protocol};
use picket_policy::{
    Action, Direction, List, NamespaceScope, Peer, PodSelector, Policy, PortMatch, Rule, Tier,
};
use serde_json::{Value, json};

use super::policy::{protocol_field, selector};
use super::style::Style;
use super::{fields, object, policy_metadata};

/// What the versions call differently.
struct Words {
    accept: &'static str,
    ports: &'static str,
    port: fn(&PortMatch, &mut Style) -> Value,
    /// Whether a selector of namespaces may be left out beside one of pods.
    may_omit_namespaces: bool,
}

const V1ALPHA2: Words = Words {
    accept: "Accept",
    ports: "protocols",
    port: protocol,
    may_omit_namespaces: true,
};

const V1ALPHA1: Words = Words {
    accept: "Allow",
    ports: "ports",
    port,
    may_omit_namespaces: false,
};

pub(super) fn cluster_network_policy(policy: &Policy, style: &mut Style) -> Value {
    let tier = if policy.tier == Tier::Admin {
        "Admin"
    } else {
        "Baseline"
    };
    let head = [("tier", json!(tier)), ("priority", json!(policy.priority))];
    manifest(
        "policy.networking.k8s.io/v1alpha2",
        policy,
        head,
        &V1ALPHA2,
        style,
    )
}

pub(super) fn admin_network_policy(policy: &Policy, style: &mut Style) -> Value {
    let head = [("priority", json!(policy.priority))];
    manifest(
        "policy.networking.k8s.io/v1alpha1",
        policy,
        head,
        &V1ALPHA1,
        style,
    )
}

pub(super) fn baseline_admin_network_policy(policy: &Policy, style: &mut Style) -> Value {
    manifest("policy.networking.k8s.io/v1alpha1", policy, [], &V1ALPHA1, style)
}

fn manifest(
    version: &str,
    policy: &Policy,
    head: impl IntoIterator<Item = (&'static str, Value)>,
    words: &Words,
    style: &mut Style,
) -> Value {
    let subject = pods(&policy.subject, words, style);
    let mut spec: Vec<_> = head.into_iter().chain([("subject", subject)]).collect();
    for (direction, field) in [(Direction::Ingress, "ingress"), (Direction::Egress, "egress")] {
        let rules = &policy.side(direction).rules;
        if !rules.is_empty() || style.choose() {
            let rules: Vec<_> = rules
                .iter()
                .map(|rule| self::rule(rule, direction, words, style))
                .collect();
            spec.push((field, json!(rules)));
        }
    }
    style.shuffle(&mut spec);
    object(
        version,
        &policy.object.kind,
        policy_metadata(policy),
        [("spec", fields(spec))],
    )
}

fn rule(rule: &Rule, direction: Direction, words: &Words, style: &mut Style) -> Value {
    let action = match rule.action {
        Action::Accept => words.accept,
        Action::Deny => "Deny",
        Action::Pass => "Pass",
    };
    let mut written = vec![("action", json!(action))];
    if style.choose() {
        written.push(("name", json!(format!("rule {}", rule.index))));
    }
    let List::Items(peers) = &rule.peers else {
        panic!("every rule of these dialects has peers");
    };
    let field = match direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    };
    written.push((field, self::peers(peers, words, style)));
    if let List::Items(ports) = &rule.ports {
        let ports: Vec<_> = ports.iter().map(|port| (words.port)(port, style)).collect();
        written.push((words.ports, json!(ports)));
    }
    fields(written)
}

/// Networks and domain names that follow one another may be one peer, in which each stands once.
fn peers(peers: &[Peer], words: &Words, style: &mut Style) -> Value {
    let mut written: Vec<Value> = Vec::new();
    for peer in peers {
        let (field, item) = match peer {
            Peer::Pods(pods) => {
                written.push(self::pods(pods, words, style));
                continue;
            }
            Peer::Nodes(nodes) => {
                written.push(json!({"nodes": selector(nodes, style)}));
                continue;
            }
            Peer::Block(block) => ("networks", json!(block.prefix.to_string())),
            Peer::Domain(name) => ("domainNames", json!(name.to_string())),
        };
        let open = written
            .last_mut()
            .and_then(|last| last.get_mut(field))
            .and_then(Value::as_array_mut);
        match open {
            Some(items) if !items.contains(&item) && style.choose() => items.push(item),
            _ => written.push(fields([(field, json!([item]))])),
        }
    }
    json!(written)
}

/// A subject, or a peer that is pods.
fn pods(pods: &PodSelector, words: &Words, style: &mut Style) -> Value {
    let NamespaceScope::Matching(namespaces) = &pods.namespaces else {
        panic!("these dialects select namespaces by their labels");
    };
    if pods.pods.is_everything() && style.choose() {
        return json!({"namespaces": selector(namespaces, style)});
    }
    let mut written = Vec::new();
    if !(words.may_omit_namespaces && namespaces.is_everything() && style.choose()) {
        written.push(("namespaceSelector", selector(namespaces, style)));
    }
    written.push(("podSelector", selector(&pods.pods, style)));
    fields([("pods", fields(written))])
}

/// An item of `protocols`.
fn protocol(port: &PortMatch, _: &mut Style) -> Value {
    let (protocol, range) = match port {
        PortMatch::Range(protocol, range) => (*protocol, *range),
        PortMatch::Named { name, .. } => return json!({"destinationNamedPort": name.as_str()}),
        PortMatch::Protocol(_) => panic!("a range says every port of {port:?}"),
    };
    let field = match protocol {
        Protocol::TCP => "tcp",
        Protocol::UDP => "udp",
        Protocol::SCTP => "sctp",
        other => panic!("no dialect names {other}"),
    };
    let destination = match single(range) {
        Some(port) => json!({"number": port}),
        None => json!({"range": {"start": range.first(), "end": range.last()}}),
    };
    fields([(field, json!({"destinationPort": destination}))])
}

/// An item of `ports`.
fn port(port: &PortMatch, style: &mut Style) -> Value {
    let (protocol, range) = match port {
        PortMatch::Range(protocol, range) => (*protocol, *range),
        PortMatch::Named { name, .. } => return json!({"namedPort": name.as_str()}),
        PortMatch::Protocol(_) => panic!("a range says every port of {port:?}"),
    };
    let protocol = protocol_field(protocol, style);
    match single(range) {
        Some(port) => fields([(
            "portNumber",
            fields(protocol.into_iter().chain([("port", json!(port))])),
        )]),
        None => {
            let ends = [("start", json!(range.first())), ("end", json!(range.last()))];
            fields([("portRange", fields(protocol.into_iter().chain(ends)))])
        }
    }
}

fn single(range: PortRange) -> Option<u16> {
    (range.first() == range.last()).then_some(range.first())
}
