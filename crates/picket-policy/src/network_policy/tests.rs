mod broken;
mod lowering;
mod validation;

use std::sync::Arc;

use crate::{Diagnostic, Lowered, Options, Policy, Severity, lower, read};

/// The policy of the only document of `text`, and all diagnostics.
fn lowered(text: &str, options: Options) -> (Option<Policy>, Vec<Diagnostic>) {
    let (manifests, mut diagnostics) = read(&Arc::from("np.yaml"), text.as_bytes());
    assert_eq!(manifests.len(), 1, "{text}: {diagnostics:?}");
    let Lowered {
        policy,
        diagnostics: more,
    } = lower(&manifests[0], options).unwrap();
    diagnostics.extend(more);
    (policy, diagnostics)
}

/// The policy `shop/web` with the given spec, in flow style.
fn with_spec(spec: &str) -> (Option<Policy>, Vec<Diagnostic>) {
    let head =
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web, namespace: shop}\n";
    lowered(&format!("{head}spec: {spec}\n"), Options::default())
}

/// `path: message` of every error.
fn errors(diagnostics: &[Diagnostic]) -> Vec<String> {
    diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error)
        .map(|diagnostic| format!("{}: {}", diagnostic.field, diagnostic.message))
        .collect()
}

/// A policy in one line: `subject | ingress rules | egress rules`, `-` for a direction that is not isolated.
fn show(policy: &Policy) -> String {
    use crate::{Direction, List, NamespaceScope, Peer, PodSelector, PortMatch};
    let pods = |selector: &PodSelector| match &selector.namespaces {
        NamespaceScope::Named(name) => format!("{name}/{}", selector.pods),
        NamespaceScope::Matching(namespaces) => format!("[{namespaces}]/{}", selector.pods),
    };
    let peer = |peer: &Peer| match peer {
        Peer::Pods(selector) => pods(selector),
        Peer::Block(block) if block.except.is_empty() => block.prefix.to_string(),
        Peer::Block(block) => {
            let except: Vec<_> = block.except.iter().map(ToString::to_string).collect();
            format!("{}-{}", block.prefix, except.join("-"))
        }
        Peer::Nodes(selector) => format!("nodes {selector}"),
        Peer::Domain(name) => name.to_string(),
    };
    let port = |port: &PortMatch| match port {
        PortMatch::Protocol(protocol) => protocol.to_string(),
        PortMatch::Range(protocol, range) => format!("{protocol}:{range}"),
        PortMatch::Named { protocol, name } => format!("{}:{name}", protocol.unwrap()),
    };
    let side = |direction: Direction| {
        let side = policy.side(direction);
        let rules = side.rules.iter().map(|rule| {
            let peers = match &rule.peers {
                List::Absent => "any".to_owned(),
                List::Items(peers) if peers.is_empty() => "none".to_owned(),
                List::Items(peers) => peers.iter().map(peer).collect::<Vec<_>>().join(" or "),
            };
            let ports = match &rule.ports {
                List::Absent => String::new(),
                List::Items(ports) => format!(" on {}", ports.iter().map(port).collect::<Vec<_>>().join(",")),
            };
            format!("{}: {peers}{ports}", rule.index)
        });
        let rules: Vec<_> = rules.collect();
        match (side.isolates, rules.is_empty()) {
            (false, true) => "-".to_owned(),
            (false, false) => format!("not isolated, but {}", rules.join("; ")),
            (true, true) => "deny".to_owned(),
            (true, false) => rules.join("; "),
        }
    };
    let (ingress, egress) = (side(Direction::Ingress), side(Direction::Egress));
    format!("{} | {ingress} | {egress}", pods(&policy.subject))
}
