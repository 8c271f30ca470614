//! Conditions, peers, ports and changes in words.

use picket_net::Family;
use picket_policy::{
    Action, Block, Direction, List, NamespaceScope, ObjectRef, Peer, PodSelector, Policy, PortMatch,
    Position, Requirement, Rule, Selector,
};
use smol_str::SmolStr;

use super::change::{Change, RulePlace};
use super::miss::{Miss, OtherEnd};

/// A peer, as in `pods app=web in namespace shop`.
pub(super) fn peer(peer: &Peer) -> String {
    match peer {
        Peer::Pods(selector) => pods(selector),
        Peer::Block(block) => block_text(block),
        Peer::Nodes(selector) if selector.is_everything() => "every node".to_owned(),
        Peer::Nodes(selector) => format!("nodes {selector}"),
        Peer::Domain(name) => format!("domain {name}"),
    }
}

fn pods(selector: &PodSelector) -> String {
    let every = |what: &str, selector: &Selector| {
        if selector.is_everything() {
            format!("every {what}")
        } else {
            format!("{what}s {selector}")
        }
    };
    let pods = every("pod", &selector.pods);
    match &selector.namespaces {
        NamespaceScope::Named(name) => format!("{pods} in namespace {name}"),
        NamespaceScope::Matching(selector) => format!("{pods} in {}", every("namespace", selector)),
    }
}

fn block_text(block: &Block) -> String {
    if block.except.is_empty() {
        return block.prefix.to_string();
    }
    let except: Vec<_> = block.except.iter().map(ToString::to_string).collect();
    format!("{} except {}", block.prefix, except.join(", "))
}

/// A port, as in `TCP 80` or `TCP port named http`.
pub(super) fn port(port: &PortMatch) -> String {
    match port {
        PortMatch::Protocol(protocol) => format!("every {protocol} port"),
        PortMatch::Range(protocol, range) => format!("{protocol} {range}"),
        PortMatch::Named {
            protocol: Some(protocol),
            name,
        } => format!("{protocol} {name}"),
        PortMatch::Named { protocol: None, name } => format!("port {name}"),
    }
}

/// `IPv4` or `IPv6`.
pub(super) fn family(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "IPv4",
        Family::Ipv6 => "IPv6",
    }
}

/// The word for a kind of miss that programs know.
pub(super) fn why(miss: &Miss<'_>) -> &'static str {
    match miss {
        Miss::Network { .. } => "other-network",
        Miss::Namespace { .. } => "namespace",
        Miss::NamespaceLabel { .. } => "namespace-label",
        Miss::PodLabel { .. } => "pod-label",
        Miss::NodeLabel { .. } => "node-label",
        Miss::NotAPod(_) => "not-a-pod",
        Miss::NotANode => "not-a-node",
        Miss::Family { .. } => "other-family",
        Miss::NoAddress => "no-address",
        Miss::Outside { .. } => "outside-block",
        Miss::Except { .. } => "excepted",
        Miss::BlocksNoPods => "blocks-match-no-pods",
        Miss::MadeUp { .. } => "made-up-address",
        Miss::Domain => "domain",
        Miss::Protocol { .. } => "protocol",
        Miss::Port { .. } => "port",
        Miss::NoSuchPort { .. } => "no-such-port",
        Miss::PortNumber { .. } => "port-number",
        Miss::NoNamedPorts => "no-named-ports",
    }
}

/// Why a condition is not met, as a clause about the other end.
pub(super) fn miss(miss: &Miss<'_>) -> String {
    match miss {
        Miss::Network { has } => format!("it is on network {has}, which the policy does not name"),
        Miss::Namespace { has, .. } => format!("it is in namespace {has}"),
        Miss::NamespaceLabel {
            namespace,
            requirement,
            has,
        } => format!("namespace {namespace} {}", label(requirement, has.as_ref())),
        Miss::PodLabel { requirement, has } => format!("the pod {}", label(requirement, has.as_ref())),
        Miss::NodeLabel { requirement, has } => format!("the node {}", label(requirement, has.as_ref())),
        Miss::NotAPod(OtherEnd::Address) => "an address is no pod: only an ipBlock can mean it".to_owned(),
        Miss::NotAPod(OtherEnd::Node) => "a node is no pod".to_owned(),
        Miss::NotAPod(OtherEnd::HostNetwork) => {
            "a hostNetwork pod is its node for policies: no selector means it".to_owned()
        }
        Miss::NotANode => "it is no node".to_owned(),
        Miss::Family { family: own } => format!("it holds no {} address", family(*own)),
        Miss::NoAddress => "it has no address of the family".to_owned(),
        Miss::Outside { address } => format!("{address} is outside"),
        Miss::Except { address, except } => format!("{address} is excluded by except {except}"),
        Miss::BlocksNoPods => "ipBlocks match no pods here (--ipblock-matches-pods=false)".to_owned(),
        Miss::MadeUp { address } => {
            format!("the address {address} is made up, since the input gives none: only a /0 holds it")
        }
        Miss::Domain => {
            "the name matches nothing by itself, only the addresses that are known for it".to_owned()
        }
        Miss::Protocol { has } => format!("the protocol is {has}"),
        Miss::Port { has } => format!("the port is {has}"),
        Miss::NoSuchPort { others } if others.is_empty() => "the destination names no ports".to_owned(),
        Miss::NoSuchPort { others } => {
            let others: Vec<_> = others
                .iter()
                .map(|port| format!("{} ({} {})", port.name, port.protocol, port.port))
                .collect();
            format!("the destination has no such port, but {}", others.join(", "))
        }
        Miss::PortNumber { numbers, has } => {
            let numbers: Vec<_> = numbers.iter().map(u16::to_string).collect();
            format!("that is {} there, and the port is {has}", numbers.join(" and "))
        }
        Miss::NoNamedPorts => "the destination is no pod with named ports".to_owned(),
    }
}

/// What labels say about a requirement that they do not meet.
fn label(requirement: &Requirement, has: Option<&SmolStr>) -> String {
    let key = requirement.key();
    match has {
        Some(value) => format!("has {key}={value}"),
        None => format!("has no label {key}"),
    }
}

/// The word for a kind of change that programs know.
pub(super) fn change_kind(change: &Change) -> &'static str {
    match change {
        Change::SetPodLabel { .. } => "set-pod-label",
        Change::RemovePodLabel { .. } => "remove-pod-label",
        Change::SetNamespaceLabel { .. } => "set-namespace-label",
        Change::RemoveNamespaceLabel { .. } => "remove-namespace-label",
        Change::AddPort(..) => "add-port",
        Change::AnyPort(_) => "any-port",
        Change::AddPeer(..) => "add-peer",
        Change::RemoveExcept(..) => "remove-except",
        Change::AddRule { .. } => "add-rule",
        Change::RemoveRule(_) => "remove-rule",
        Change::AddPolicy(_) => "add-policy",
    }
}

/// What to do, as an order.
pub(super) fn change(change: &Change) -> String {
    match change {
        Change::SetPodLabel { pod: of, key, value } => format!("add the label {key}={value} to {}", pod(of)),
        Change::RemovePodLabel { pod: of, key } => format!("remove the label {key} from {}", pod(of)),
        Change::SetNamespaceLabel {
            namespace,
            key,
            value,
        } => {
            format!("add the label {key}={value} to namespace {namespace}")
        }
        Change::RemoveNamespaceLabel { namespace, key } => {
            format!("remove the label {key} from namespace {namespace}")
        }
        Change::AddPort(place, added) => format!("add the port {} to {}", port(added), rule_at(place)),
        Change::AnyPort(place) => format!(
            "remove the ports of {}, so that it is about every port and protocol",
            rule_at(place)
        ),
        Change::AddPeer(place, added) => format!("add the peer {} to {}", peer(added), rule_at(place)),
        Change::RemoveExcept(place, except) => {
            format!("remove {except} from the exceptions of {}", rule_at(place))
        }
        Change::AddRule {
            policy,
            position,
            direction,
            at,
            rule: added,
        } => {
            let before = match added.action {
                Action::Accept if policy.kind.ends_with("NetworkPolicy") && !is_ordered(policy) => {
                    String::new()
                }
                _ => format!(" before rule {at}"),
            };
            format!(
                "add to {policy}{} the {direction} rule{before}: {}",
                place_text(position),
                rule(*direction, added)
            )
        }
        Change::RemoveRule(place) => format!("remove {}", rule_at(place)),
        Change::AddPolicy(policy) => new_policy(policy),
    }
}

/// Whether the rules of such a policy are judged in their order.
fn is_ordered(policy: &ObjectRef) -> bool {
    policy.namespace.is_empty()
}

fn new_policy(policy: &Policy) -> String {
    let directions: Vec<_> = Direction::BOTH
        .into_iter()
        .filter(|&direction| policy.side(direction).isolates || !policy.side(direction).rules.is_empty())
        .collect();
    let what: Vec<_> = directions
        .iter()
        .map(|&direction| {
            let rules: Vec<_> = policy
                .side(direction)
                .rules
                .iter()
                .map(|added| rule(direction, added))
                .collect();
            match rules.as_slice() {
                [] => format!("isolates {} for {direction}", pods(&policy.subject)),
                rules => format!(
                    "selects {} and has the {direction} rule: {}",
                    pods(&policy.subject),
                    rules.join("; ")
                ),
            }
        })
        .collect();
    let kind = &policy.object.kind;
    let article = if kind.starts_with('A') { "an" } else { "a" };
    let place = if policy.tier.is_ordered() {
        format!(" in tier {:?} with priority {}", policy.tier, policy.priority)
    } else {
        String::new()
    };
    format!("add {article} {kind}{place} that {}", what.join(" and "))
}

/// A rule, as in `accept from pods app=web in namespace shop on TCP 80`.
pub(super) fn rule(direction: Direction, rule: &Rule) -> String {
    let action = match rule.action {
        Action::Accept => "accept",
        Action::Deny => "deny",
        Action::Pass => "pass",
    };
    let peers = match &rule.peers {
        List::Absent => "anybody".to_owned(),
        List::Items(peers) => peers.iter().map(peer).collect::<Vec<_>>().join(", "),
    };
    let ports = match &rule.ports {
        List::Absent => "every port and protocol".to_owned(),
        List::Items(ports) => ports.iter().map(port).collect::<Vec<_>>().join(", "),
    };
    format!("{action} {} {peers} on {ports}", preposition(direction))
}

/// `from` or `to`.
pub(super) fn preposition(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    }
}

/// A pod, or the pods of a workload.
fn pod(object: &ObjectRef) -> String {
    if object.kind == "Pod" {
        object.to_string()
    } else {
        format!("the pods of {object}")
    }
}

fn rule_at(place: &RulePlace) -> String {
    format!(
        "{} rule {} of {}{}",
        place.direction,
        place.rule,
        place.policy,
        place_text(&place.position)
    )
}

fn place_text(position: &Position) -> String {
    if position.file.is_empty() {
        String::new()
    } else {
        format!(" ({position})")
    }
}
