//! AdminNetworkPolicy and BaselineAdminNetworkPolicy of policy.networking.k8s.io/v1alpha1, which ClusterNetworkPolicy
//! replaced.

use picket_net::{PortRange, Protocol};

use crate::cluster_network_policy::{less, required};
use crate::dialect::{Lowered, Options};
use crate::document::Manifest;
use crate::reader::{Cursor, Reader, Unreadable};
use crate::tiered::{self, Schema, bounds};
use crate::{Action, PortMatch, Severity, Tier, code};

const ADMIN: Schema = Schema {
    tier: Some(Tier::Admin),
    has_priority: true,
    actions: &[
        ("Allow", Action::Accept),
        ("Deny", Action::Deny),
        ("Pass", Action::Pass),
    ],
    most: 100,
    ports: "ports",
    port,
    has_domain_names: true,
    needs_namespaces: true,
};

const BASELINE: Schema = Schema {
    tier: Some(Tier::Baseline),
    has_priority: false,
    actions: &[("Allow", Action::Accept), ("Deny", Action::Deny)],
    has_domain_names: false,
    ..ADMIN
};

/// Reads an AdminNetworkPolicy. See [`crate::lower`].
pub(crate) fn lower(manifest: &Manifest, options: Options) -> Lowered {
    tiered::lower(manifest, options, &ADMIN)
}

/// Reads a BaselineAdminNetworkPolicy. See [`crate::lower`].
///
/// A cluster has one, called `default`. One of another name is an error, and only denies: nobody can tell which of
/// several counts.
pub(crate) fn lower_baseline(manifest: &Manifest, options: Options) -> Lowered {
    let mut lowered = tiered::lower(manifest, options, &BASELINE);
    let misnamed = lowered
        .policy
        .as_mut()
        .filter(|policy| policy.object.name != "default");
    if let Some(policy) = misnamed {
        tiered::only_deny(policy);
        let (mut reader, root) = manifest.reader();
        reader.rename(policy.object.clone());
        let name = root
            .node()
            .get("metadata")
            .and_then(|metadata| metadata.get("name"));
        let at = name.unwrap_or(root.node()).range.clone();
        let message = "Invalid value: Only one baseline admin network policy with metadata.name=\"default\" can be \
                       created in the cluster";
        let path = root.path().field("metadata").field("name");
        let diagnostic = reader.report_at(code::METADATA, Severity::Error, &path, at, message);
        diagnostic
            .notes
            .push("its rules only deny: an allow matches nothing".to_owned());
        lowered.diagnostics.extend(reader.finish());
    }
    lowered
}

/// Reads an item of `ports`.
fn port(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<PortMatch, Unreadable> {
    let mut fields = at.fields(reader)?;
    let names = ["portNumber", "namedPort", "portRange"];
    let (field, at) = bounds::one_of(&mut fields, names, code::PORT, reader)?;
    if field == "namedPort" {
        let name = at.string(reader)?.clone();
        if name.is_empty() {
            let message = "Invalid value: \"\": an empty name is no name";
            return Err(reader.error(code::PORT, &at, message));
        }
        return Ok(PortMatch::Named { protocol: None, name });
    }
    let mut fields = at.fields(reader)?;
    let protocol = match fields.get("protocol") {
        Some(at) => protocol(&at, reader),
        None => Ok(Protocol::TCP),
    };
    let range = if field == "portNumber" {
        required(&mut fields, "port", reader).map(|port| (port, port))
    } else {
        let start = required(&mut fields, "start", reader);
        let end = required(&mut fields, "end", reader);
        start
            .and_then(|start| Ok((start, end?)))
            .and_then(|(start, end)| less(&at, start, end, reader).map(|()| (start, end)))
    };
    let known = fields.unknown(&[], reader).is_empty();
    let (protocol, (first, last)) = (protocol?, range?);
    let range = PortRange::new(first, last).filter(|_| known);
    range
        .map(|range| PortMatch::Range(protocol, range))
        .ok_or(Unreadable)
}

fn protocol(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<Protocol, Unreadable> {
    let text = at.string(reader)?;
    Protocol::from_api_name(text)
        .ok_or_else(|| reader.unsupported(code::UNSUPPORTED_VALUE, at, text, &["TCP", "UDP", "SCTP"]))
}

#[cfg(test)]
mod tests;
