//! Which pod has which address.

use std::collections::BTreeMap;
use std::net::IpAddr;

use picket_net::Family;
use picket_policy::{Diagnostic, Severity, Span};
use smol_str::SmolStr;

use super::{Candidate, synthetic};
use crate::written::Located;
use crate::{Addresses, Node, codes};

/// Whose an address is.
#[derive(Clone)]
enum Holder<'a> {
    Node(&'a SmolStr),
    Pod(&'a Candidate, &'a Span),
}

/// The addresses of each of `pods`, and whether they are made up.
pub(super) fn assign(
    pods: &[Candidate],
    nodes: &BTreeMap<SmolStr, Node>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(Addresses, bool)> {
    let mut holders: BTreeMap<IpAddr, Holder<'_>> = BTreeMap::new();
    for node in nodes.values() {
        holders.extend(
            node.addresses
                .iter()
                .map(|&address| (address, Holder::Node(&node.name))),
        );
    }
    let mut assigned = Vec::with_capacity(pods.len());
    for pod in pods {
        let written = &pod.written;
        let first = first_of_each_family(pod, diagnostics);
        let own: Addresses = first.iter().map(|address| address.value).collect();
        assigned.push(if written.finished {
            Some(own)
        } else if written.host_network {
            let node = written.node.as_ref().and_then(|name| nodes.get(name));
            // Its own addresses are among the node's, which may have several of a family.
            let node = node.into_iter().flat_map(|node| node.addresses.iter().copied());
            let all: Addresses = own.iter().chain(node).collect();
            Some(all).filter(|all| !all.is_empty())
        } else {
            let clash = first
                .iter()
                .find_map(|address| Some((*address, holders.get(&address.value)?)));
            if let Some((address, holder)) = clash {
                diagnostics.push(taken(pod, address, holder));
                None
            } else {
                let held = first
                    .iter()
                    .map(|address| (address.value, Holder::Pod(pod, &address.span)));
                holders.extend(held);
                Some(own).filter(|own| !own.is_empty())
            }
        });
    }
    let homeless = pods
        .iter()
        .zip(&assigned)
        .filter(|(_, assigned)| assigned.is_none());
    let homeless: Vec<_> = homeless.map(|(pod, _)| &pod.object).collect();
    let made_up = synthetic::place(&homeless, &holders.keys().copied().collect());
    let mut made_up = homeless.iter().zip(made_up).inspect(|(object, addresses)| {
        if addresses.v4.is_none() {
            let message = format!("no made-up IPv4 address is left for {object}");
            let diagnostic = Diagnostic::new(codes::NO_ADDRESS_LEFT, Severity::Warning, message);
            diagnostics.push(diagnostic.on(object).note("it has an IPv6 address only"));
        }
    });
    let assigned = assigned.into_iter().map(|assigned| match assigned {
        Some(addresses) => (addresses, false),
        // INVARIANT: there is one for each pod that has none.
        None => (
            made_up.next().map(|(_, addresses)| addresses).unwrap_or_default(),
            true,
        ),
    });
    assigned.collect()
}

/// The first address of each family, with a diagnostic about every other.
fn first_of_each_family<'a>(
    pod: &'a Candidate,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<&'a Located<IpAddr>> {
    let mut first: Vec<&Located<IpAddr>> = Vec::new();
    for address in &pod.written.addresses {
        let family = Family::of(address.value);
        match first.iter().find(|kept| Family::of(kept.value) == family) {
            None => first.push(address),
            Some(kept) if kept.value == address.value => {}
            Some(kept) => {
                let name = match family {
                    Family::Ipv4 => "IPv4",
                    Family::Ipv6 => "IPv6",
                };
                let message = format!("{} has a second {name} address, `{}`", pod.object, address.value);
                let mut diagnostic = Diagnostic::new(codes::ADDRESS_FAMILY, Severity::Error, message)
                    .on(&pod.object)
                    .mark(
                        address.span.clone(),
                        "a pod has at most one address of each family",
                    )
                    .mark(kept.span.clone(), "the first one")
                    .note(format!("`{}` is used", kept.value));
                diagnostic.field = "status.podIPs".to_owned();
                diagnostics.push(diagnostic);
            }
        }
    }
    first
}

fn taken(pod: &Candidate, address: &Located<IpAddr>, holder: &Holder<'_>) -> Diagnostic {
    let value = address.value;
    let whose = match holder {
        Holder::Node(name) => format!("node `{name}`"),
        Holder::Pod(other, _) => other.object.to_string(),
    };
    let message = format!("{} has the address `{value}`, which {whose} has", pod.object);
    let mut diagnostic = Diagnostic::new(codes::ADDRESS_TAKEN, Severity::Error, message)
        .on(&pod.object)
        .mark(address.span.clone(), format!("{whose} has it too"));
    diagnostic.field = "status.podIPs".to_owned();
    match holder {
        Holder::Pod(_, span) => {
            diagnostic = diagnostic
                .mark((*span).clone(), "here")
                .note("if one of the two has run to its end, write its `status.phase`: Succeeded or Failed");
        }
        Holder::Node(_) => {
            diagnostic =
                diagnostic.note("if the pod uses the node's network, write `spec.hostNetwork: true`");
        }
    }
    diagnostic.note(format!(
        "{} is judged with made-up addresses instead of its own",
        pod.object
    ))
}
