//! Domain names in policies, and the addresses that are known for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use picket_net::Prefix;
use picket_policy::{
    Block, Diagnostic, Direction, DomainName, Hosts, List, Peer, Policy, Position, Severity, Span,
};

use crate::{Snapshot, codes};

/// Gives every peer that is a domain name the addresses that `hosts` has for it, as blocks beside it. A name that it
/// does not have matches nothing, which a warning says.
///
/// `line` gives the place to show for a line of a file.
pub fn resolve_domains(
    snapshot: &mut Snapshot,
    hosts: &Hosts,
    line: &dyn Fn(&Position) -> Option<Span>,
) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for policy in snapshot.policies.values_mut() {
        if names(policy).next().is_none() {
            continue;
        }
        let policy = Arc::make_mut(policy);
        let object = policy.object.clone();
        for direction in Direction::BOTH {
            let side = match direction {
                Direction::Ingress => &mut policy.ingress,
                Direction::Egress => &mut policy.egress,
            };
            for rule in &mut side.rules {
                let List::Items(peers) = &mut rule.peers else {
                    continue;
                };
                let mut unknown = BTreeSet::new();
                *peers = std::mem::take(peers)
                    .into_iter()
                    .flat_map(|peer| with_addresses(peer, hosts, &mut unknown))
                    .collect();
                for name in unknown {
                    let message = format!("no address is known for `{name}`, which {object} names");
                    let mut found =
                        Diagnostic::new(codes::UNKNOWN_DOMAIN, Severity::Warning, message).on(&object);
                    found.field = format!("spec.{direction}[{}]", rule.index);
                    found
                        .notes
                        .push("the name matches nothing; `--dns` reads addresses from a file".to_owned());
                    diagnostics.push(match line(&rule.position) {
                        Some(span) => found.mark(span, ""),
                        None => found,
                    });
                }
            }
        }
    }
    diagnostics
}

/// The domain names of a policy.
fn names(policy: &Policy) -> impl Iterator<Item = &DomainName> {
    let rules = [&policy.ingress, &policy.egress]
        .into_iter()
        .flat_map(|side| &side.rules);
    let peers = rules.flat_map(|rule| match &rule.peers {
        List::Absent => [].as_slice(),
        List::Items(peers) => peers.as_slice(),
    });
    peers.filter_map(|peer| match peer {
        Peer::Domain(name) => Some(name),
        Peer::Pods(_) | Peer::Block(_) | Peer::Nodes(_) => None,
    })
}

/// A peer, and if it is a domain name a block for each of its addresses.
fn with_addresses(peer: Peer, hosts: &Hosts, unknown: &mut BTreeSet<DomainName>) -> Vec<Peer> {
    let Peer::Domain(name) = &peer else {
        return vec![peer];
    };
    let addresses = hosts.addresses(name);
    if addresses.is_empty() {
        unknown.insert(name.clone());
    }
    let blocks = addresses.into_iter().map(|address| {
        Peer::Block(Block {
            prefix: Prefix::host(address),
            except: Vec::new(),
        })
    });
    std::iter::once(peer.clone()).chain(blocks).collect()
}
