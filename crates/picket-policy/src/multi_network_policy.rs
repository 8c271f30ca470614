//! MultiNetworkPolicy of k8s.cni.cncf.io v1beta1 and v1beta2: NetworkPolicy for secondary networks.
//!
//! The spec is that of a NetworkPolicy, but `podSelector` is required. Nothing validates or defaults it in a cluster;
//! picket does both as for a NetworkPolicy. Which networks it is about stands in an annotation.

use crate::dialect::{Lowered, Options};
use crate::document::Manifest;
use crate::header::annotation;
use crate::network_policy::{self, ABOUT_NOTHING, SelectorField};
use crate::reader::{Cursor, Reader};
use crate::{Header, NetworkName, Networks, Severity, code, name};

/// The annotation that lists the networks.
const POLICY_FOR: &str = "k8s.v1.cni.cncf.io/policy-for";

/// Reads a MultiNetworkPolicy. See [`crate::lower`].
pub(crate) fn lower(manifest: &Manifest, options: Options) -> Lowered {
    let (mut reader, root) = manifest.reader();
    let read = network_policy::policy(manifest, &root, SelectorField::Required, options, &mut reader);
    let policy = read.ok().map(|(mut policy, header)| {
        policy.networks = Networks::Attached(networks(&root, &header, &mut reader));
        policy
    });
    if policy.is_none() {
        reader.consequence(0, &root, ABOUT_NOTHING);
    }
    Lowered {
        policy,
        diagnostics: reader.finish(),
    }
}

/// The networks that the annotation lists, sorted and unique.
fn networks(root: &Cursor<'_>, header: &Header, reader: &mut Reader<'_>) -> Vec<NetworkName> {
    let annotation = annotation(root, POLICY_FOR, reader);
    let text = header.annotations.get(POLICY_FOR).map(|text| text.trim());
    let (Some(at), Some(text)) = (annotation, text.filter(|text| !text.is_empty())) else {
        let message = format!("there is no annotation `{POLICY_FOR}`");
        let diagnostic = reader.report(code::POLICY_FOR, Severity::Warning, root, message);
        diagnostic.field = format!("metadata.annotations.{POLICY_FOR}");
        diagnostic
            .notes
            .push("the policy is about no network, so it isolates nothing".to_owned());
        return Vec::new();
    };
    let mut networks = Vec::new();
    for entry in text.split(',').map(str::trim) {
        networks.extend(network(entry, &at, header, reader));
    }
    networks.sort();
    networks.dedup();
    networks
}

/// One entry of the list.
fn network(entry: &str, at: &Cursor<'_>, header: &Header, reader: &mut Reader<'_>) -> Option<NetworkName> {
    // An interface, as the annotation of a pod has it, says nothing here: the whole network is meant.
    let (network, interface) = entry
        .split_once('@')
        .map_or((entry, None), |(network, interface)| (network, Some(interface)));
    let found = NetworkName::parse(network, &header.object.namespace);
    let Some(found) = found else {
        let message = format!("Invalid value: {entry:?}: a network is `name` or `namespace/name`");
        let diagnostic = reader.report(code::POLICY_FOR, Severity::Error, at, message);
        diagnostic.notes.push("the entry is ignored".to_owned());
        return None;
    };
    if !can_be(&found, &header.object.namespace) {
        let message = format!("Invalid value: {entry:?}: no NetworkAttachmentDefinition can have that name");
        reader.report(code::POLICY_FOR, Severity::Error, at, message);
    }
    if let Some(interface) = interface {
        let message =
            format!("Invalid value: {entry:?}: the list has networks, not interfaces such as `{interface}`");
        let diagnostic = reader.report(code::POLICY_FOR, Severity::Error, at, message);
        diagnostic.notes.push(format!(
            "the policy is about every interface on network `{found}`"
        ));
    }
    Some(found)
}

/// Whether there can be a network of that name; of the namespace `own` somebody else has said what is wrong with it.
fn can_be(network: &NetworkName, own: &str) -> bool {
    let is_namespace = network.namespace == own || name::dns_label(&network.namespace).is_empty();
    is_namespace && name::dns_subdomain(&network.name).is_empty()
}

#[cfg(test)]
mod tests;
