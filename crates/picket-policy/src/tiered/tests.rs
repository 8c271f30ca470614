//! Policies of the tiers Admin and Baseline in one line.

use std::sync::Arc;

use crate::{
    Action, Direction, List, Lowered, NamespaceScope, Options, Peer, PodSelector, Policy, PortMatch,
    Severity, code, lower, read,
};

/// Lowers the only document of `text`: what is left of it, `nothing` for no policy, and the errors about it.
pub(crate) fn check(text: &str, expected: &str, errors: &[&str]) {
    let (manifests, _) = read(&Arc::from("cnp.yaml"), text.as_bytes());
    assert_eq!(manifests.len(), 1, "{text}");
    let Lowered { policy, diagnostics } = lower(&manifests[0], Options::default()).unwrap();
    let shown = policy.as_ref().map_or_else(|| "nothing".to_owned(), show);
    assert_eq!(shown, expected, "{text}");
    let found: Vec<_> = diagnostics
        .iter()
        .filter(|found| found.severity == Severity::Error)
        .map(|found| format!("{}: {}", found.field, found.message))
        .collect();
    assert_eq!(found, errors, "{text}");
    for found in diagnostics {
        let follows = found.field.starts_with("metadata") || found.code == code::UNREADABLE;
        assert!(
            follows || !found.notes.is_empty(),
            "what follows is said: {found:?}"
        );
    }
}

/// `tier priority subject | ingress rules | egress rules`.
fn show(policy: &Policy) -> String {
    let rules = |direction: Direction| {
        let side = policy.side(direction);
        assert!(!side.isolates);
        let rules: Vec<_> = side.rules.iter().map(rule).collect();
        if rules.is_empty() {
            "-".to_owned()
        } else {
            rules.join("; ")
        }
    };
    format!(
        "{:?} {} {} | {} | {}",
        policy.tier,
        policy.priority,
        pods(&policy.subject),
        rules(Direction::Ingress),
        rules(Direction::Egress)
    )
}

fn pods(selector: &PodSelector) -> String {
    match &selector.namespaces {
        NamespaceScope::Named(name) => format!("{name}/{}", selector.pods),
        NamespaceScope::Matching(namespaces) => format!("[{namespaces}]/{}", selector.pods),
    }
}

fn rule(rule: &crate::Rule) -> String {
    let action = match rule.action {
        Action::Accept => "Accept",
        Action::Deny => "Deny",
        Action::Pass => "Pass",
    };
    let peers = match &rule.peers {
        List::Absent => "any".to_owned(),
        List::Items(peers) if peers.is_empty() => "none".to_owned(),
        List::Items(peers) => peers.iter().map(peer).collect::<Vec<_>>().join(" or "),
    };
    let ports = match &rule.ports {
        List::Absent => String::new(),
        List::Items(ports) => format!(" on {}", ports.iter().map(port).collect::<Vec<_>>().join(",")),
    };
    format!("{} {action} {peers}{ports}", rule.index)
}

fn peer(peer: &Peer) -> String {
    match peer {
        Peer::Pods(selector) => pods(selector),
        Peer::Block(block) => block.prefix.to_string(),
        Peer::Nodes(selector) => format!("nodes {selector}"),
        Peer::Domain(name) => name.to_string(),
    }
}

fn port(port: &PortMatch) -> String {
    match port {
        PortMatch::Protocol(protocol) => protocol.to_string(),
        PortMatch::Range(protocol, range) => format!("{protocol}:{range}"),
        PortMatch::Named { protocol, name } => match protocol {
            Some(protocol) => format!("{protocol}:{name}"),
            None => name.to_string(),
        },
    }
}
