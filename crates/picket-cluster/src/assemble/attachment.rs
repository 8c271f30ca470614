//! Which interface on a secondary network has which addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_net::Family;
use picket_policy::{Diagnostic, NetworkName, Severity};
use smol_str::SmolStr;

use super::{Candidate, synthetic};
use crate::written::{Located, WrittenAttachment};
use crate::{Addresses, Attachment, Node, codes};

/// The interfaces of each of `pods`, whose addresses on the cluster network are `cluster`.
///
/// Made-up addresses are those of no pod and no node on any network, so that the lab can give one machine all of them.
pub(super) fn assign(
    pods: &[Candidate],
    cluster: &[(Addresses, bool)],
    nodes: &BTreeMap<SmolStr, Node>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Vec<Attachment>> {
    let mut holders: BTreeMap<(&NetworkName, IpAddr), &Candidate> = BTreeMap::new();
    let mut assigned: Vec<Vec<Option<Addresses>>> = Vec::with_capacity(pods.len());
    for pod in pods {
        let of_pod = pod.written.attachments.iter().map(|attachment| {
            let own = first_of_each_family(pod, attachment, diagnostics);
            let mut addresses = own.iter().map(|address| (&attachment.network, address.value));
            let clash = addresses.find_map(|place| Some((place.1, *holders.get(&place)?)));
            if let Some((address, holder)) = clash.filter(|_| !pod.written.finished) {
                diagnostics.push(taken(pod, attachment, address, holder));
                return None;
            }
            if !pod.written.finished {
                holders.extend(own.iter().map(|own| ((&attachment.network, own.value), pod)));
            }
            let own: Addresses = own.iter().map(|address| address.value).collect();
            Some(own).filter(|own| !own.is_empty())
        });
        assigned.push(of_pod.collect());
    }
    let written: Vec<_> = pods.iter().flat_map(|pod| &pod.written.attachments).collect();
    let mut made_up = made_up(pods, &assigned, {
        let pods = cluster.iter().flat_map(|(addresses, _)| addresses.iter());
        let nodes = nodes.values().flat_map(|node| node.addresses.iter().copied());
        let others = written.iter().flat_map(|attachment| &attachment.addresses);
        pods.chain(nodes)
            .chain(others.map(|address| address.value))
            .collect()
    });
    let attachments = pods.iter().zip(assigned).map(|(pod, assigned)| {
        let attachments = pod.written.attachments.iter().zip(assigned);
        let attachments = attachments.map(|(written, own)| Attachment {
            network: written.network.clone(),
            interface: written.interface.clone(),
            synthetic: own.is_none(),
            // INVARIANT: there is a made-up one for each interface without its own.
            addresses: own.or_else(|| made_up.next()).unwrap_or_default(),
        });
        attachments.collect()
    });
    attachments.collect()
}

/// Addresses for the interfaces that have none, none of them among `taken`.
fn made_up(
    pods: &[Candidate],
    assigned: &[Vec<Option<Addresses>>],
    taken: BTreeSet<IpAddr>,
) -> std::vec::IntoIter<Addresses> {
    let homeless = pods.iter().zip(assigned).flat_map(|(pod, assigned)| {
        let attachments = pod.written.attachments.iter().zip(assigned);
        let homeless = attachments.filter(|(_, own)| own.is_none());
        homeless.map(|(attachment, _)| {
            let object = &pod.object;
            let (network, interface) = (&attachment.network, &attachment.interface);
            format!(
                "{}/{}/{}/{network}/{interface}",
                object.namespace, object.kind, object.name
            )
        })
    });
    synthetic::place_names(homeless, &taken).into_iter()
}

/// The first address of each family, with a diagnostic about every other.
fn first_of_each_family<'a>(
    pod: &Candidate,
    attachment: &'a WrittenAttachment,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<&'a Located<IpAddr>> {
    let mut first: Vec<&Located<IpAddr>> = Vec::new();
    for address in &attachment.addresses {
        let family = Family::of(address.value);
        match first.iter().find(|kept| Family::of(kept.value) == family) {
            None => first.push(address),
            Some(kept) if kept.value == address.value => {}
            Some(kept) => {
                let message = format!(
                    "the interface `{}` of {} has a second {family} address, `{}`",
                    attachment.interface, pod.object, address.value
                );
                let diagnostic = Diagnostic::new(codes::ADDRESS_FAMILY, Severity::Warning, message)
                    .on(&pod.object)
                    .mark(address.span.clone(), "");
                diagnostics.push(diagnostic.note(format!(
                    "policies are judged for `{}`; as a peer the pod is not matched by the other",
                    kept.value
                )));
            }
        }
    }
    first
}

fn taken(pod: &Candidate, attachment: &WrittenAttachment, address: IpAddr, holder: &Candidate) -> Diagnostic {
    let whose = if holder.object == pod.object {
        "another of its interfaces".to_owned()
    } else {
        holder.object.to_string()
    };
    let message = format!(
        "{} has the address `{address}` on network `{}`, which {whose} has",
        pod.object, attachment.network
    );
    let mut diagnostic = Diagnostic::new(codes::ADDRESS_TAKEN, Severity::Error, message).on(&pod.object);
    for place in attachment.addresses.iter().filter(|place| place.value == address) {
        diagnostic = diagnostic.mark(place.span.clone(), "");
    }
    diagnostic.note(format!(
        "the interface `{}` is judged with made-up addresses instead of its own",
        attachment.interface
    ))
}
