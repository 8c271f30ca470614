//! NetworkPolicy of both versions, MultiNetworkPolicy, and what they share with the other dialects.

use picket_net::Protocol;
use picket_policy::{
    Direction, List, NamespaceScope, Peer, PodSelector, Policy, PortMatch, Requirement, Rule, Selector, Side,
};
use serde_json::{Map, Value, json};
use smol_str::SmolStr;

use super::style::Style;
use super::{fields, network_name, object, policy_metadata};

pub(super) fn network_policy(policy: &Policy, style: &mut Style) -> Value {
    let spec = spec(policy, false, style);
    object(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        policy_metadata(policy),
        [("spec", spec)],
    )
}

pub(super) fn multi_network_policy(policy: &Policy, style: &mut Style) -> Value {
    let own = &policy.object.namespace;
    let mut names: Vec<_> = policy.networks.attached().iter().collect();
    style.shuffle(&mut names);
    let names: Vec<_> = names
        .into_iter()
        .map(|network| network_name(network, own, style))
        .collect();
    let mut metadata = policy_metadata(policy);
    if !names.is_empty() || style.choose() {
        let separator = if style.choose() { "," } else { " , " };
        metadata["annotations"]["k8s.v1.cni.cncf.io/policy-for"] = json!(names.join(separator));
    }
    let version = if style.choose() {
        "k8s.cni.cncf.io/v1beta1"
    } else {
        "k8s.cni.cncf.io/v1beta2"
    };
    object(
        version,
        "MultiNetworkPolicy",
        metadata,
        [("spec", spec(policy, true, style))],
    )
}

fn spec(policy: &Policy, needs_selector: bool, style: &mut Style) -> Value {
    let mut spec = Map::new();
    if needs_selector || !policy.subject.pods.is_everything() || style.choose() {
        spec.insert("podSelector".into(), selector(&policy.subject.pods, style));
    }
    let (ingress, egress) = (&policy.ingress, &policy.egress);
    let is_default = ingress.isolates && egress.isolates != egress.rules.is_empty();
    if !is_default || style.choose() {
        let mut types: Vec<_> = [("Ingress", ingress), ("Egress", egress)]
            .into_iter()
            .filter_map(|(name, side)| side.isolates.then_some(name))
            .collect();
        style.shuffle(&mut types);
        spec.insert("policyTypes".into(), json!(types));
    }
    for direction in Direction::BOTH {
        let side = policy.side(direction);
        if !side.rules.is_empty() || (side.isolates && style.choose()) {
            spec.insert(direction.to_string(), rules(side, direction, style));
        }
    }
    Value::Object(spec)
}

fn rules(side: &Side, direction: Direction, style: &mut Style) -> Value {
    let field = match direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    };
    let rule = |rule: &Rule| {
        let mut written = Map::new();
        match &rule.peers {
            List::Items(peers) => {
                let peers: Vec<_> = peers.iter().map(|peer| self::peer(peer, style)).collect();
                written.insert(field.into(), json!(peers));
            }
            List::Absent if style.choose() => drop(written.insert(field.into(), json!([]))),
            List::Absent => {}
        }
        match &rule.ports {
            List::Items(ports) => {
                let ports: Vec<_> = ports.iter().map(|port| self::port(port, style)).collect();
                written.insert("ports".into(), json!(ports));
            }
            List::Absent if style.choose() => drop(written.insert("ports".into(), json!([]))),
            List::Absent => {}
        }
        Value::Object(written)
    };
    side.rules.iter().map(rule).collect()
}

/// NetworkPolicy of extensions/v1beta1, in which an empty list is not an absent one.
pub(super) fn proposed(policy: &Policy, style: &mut Style) -> Value {
    let rule = |rule: &Rule| {
        let mut written = Map::new();
        if let List::Items(peers) = &rule.peers {
            let peers: Vec<_> = peers.iter().map(|peer| proposed_peer(peer, style)).collect();
            written.insert("from".into(), json!(peers));
        }
        if let List::Items(ports) = &rule.ports {
            let ports: Vec<_> = ports.iter().map(|port| self::port(port, style)).collect();
            written.insert("ports".into(), json!(ports));
        }
        Value::Object(written)
    };
    let rules: Vec<_> = policy.ingress.rules.iter().map(rule).collect();
    let mut spec = json!({"podSelector": selector(&policy.subject.pods, style)});
    if !rules.is_empty() || style.choose() {
        spec["ingress"] = json!(rules);
    }
    object(
        "extensions/v1beta1",
        "NetworkPolicy",
        policy_metadata(policy),
        [("spec", spec)],
    )
}

fn proposed_peer(peer: &Peer, style: &mut Style) -> Value {
    match peer {
        Peer::Pods(PodSelector {
            namespaces: NamespaceScope::Matching(namespaces),
            ..
        }) => json!({"namespaceSelector": selector(namespaces, style)}),
        other => self::peer(other, style),
    }
}

fn peer(peer: &Peer, style: &mut Style) -> Value {
    match peer {
        Peer::Pods(PodSelector { namespaces, pods }) => match namespaces {
            NamespaceScope::Named(_) => json!({"podSelector": selector(pods, style)}),
            NamespaceScope::Matching(namespaces) => {
                let mut peer = json!({"namespaceSelector": selector(namespaces, style)});
                if !pods.is_everything() || style.choose() {
                    peer["podSelector"] = selector(pods, style);
                }
                peer
            }
        },
        Peer::Block(block) => {
            let mut written = json!({"cidr": block.prefix.to_string()});
            if !block.except.is_empty() || style.choose() {
                let mut except: Vec<_> = block.except.iter().map(ToString::to_string).collect();
                style.shuffle(&mut except);
                written["except"] = json!(except);
            }
            json!({"ipBlock": written})
        }
        Peer::Nodes(_) | Peer::Domain(_) => panic!("a NetworkPolicy cannot say {peer:?}"),
    }
}

fn port(port: &PortMatch, style: &mut Style) -> Value {
    let (protocol, number, end) = match port {
        PortMatch::Protocol(protocol) => (*protocol, None, None),
        PortMatch::Range(protocol, range) => {
            let end = (range.first() != range.last()).then(|| json!(range.last()));
            (*protocol, Some(json!(range.first())), end)
        }
        PortMatch::Named { protocol, name } => (protocol.unwrap(), Some(json!(name.as_str())), None),
    };
    let written = [
        protocol_field(protocol, style),
        number.map(|number| ("port", number)),
        end.map(|end| ("endPort", end)),
    ];
    fields(written.into_iter().flatten())
}

/// The protocol, which may be left out when it is TCP.
pub(super) fn protocol_field(protocol: Protocol, style: &mut Style) -> Option<(&'static str, Value)> {
    let needed = protocol != Protocol::TCP || style.choose();
    needed.then(|| ("protocol", json!(protocol.to_string())))
}

/// A LabelSelector. A value that must be one is a label or an expression.
pub(super) fn selector(selector: &Selector, style: &mut Style) -> Value {
    let (mut labels, mut expressions) = (Map::new(), Vec::new());
    for requirement in selector.requirements() {
        match requirement {
            Requirement::In(key, values)
                if values.len() == 1 && !labels.contains_key(key.as_str()) && style.choose() =>
            {
                labels.insert(key.to_string(), json!(values[0].as_str()));
            }
            other => expressions.push(expression(other)),
        }
    }
    style.shuffle(&mut expressions);
    let mut written = Map::new();
    if !labels.is_empty() || style.below(4) == 0 {
        written.insert("matchLabels".into(), Value::Object(labels));
    }
    if !expressions.is_empty() || style.below(4) == 0 {
        written.insert("matchExpressions".into(), json!(expressions));
    }
    Value::Object(written)
}

fn expression(requirement: &Requirement) -> Value {
    let key = requirement.key().as_str();
    let with_values = |operator, values: &[SmolStr]| {
        let values: Vec<_> = values.iter().map(SmolStr::as_str).collect();
        json!({"key": key, "operator": operator, "values": values})
    };
    match requirement {
        Requirement::In(_, values) => with_values("In", values),
        Requirement::NotIn(_, values) => with_values("NotIn", values),
        Requirement::Exists(_) => json!({"key": key, "operator": "Exists"}),
        Requirement::DoesNotExist(_) => json!({"key": key, "operator": "DoesNotExist"}),
    }
}
