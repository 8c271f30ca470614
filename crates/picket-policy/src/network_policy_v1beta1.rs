//! NetworkPolicy of extensions/v1beta1: as first proposed, or as later clusters read it, which is as v1.
//!
//! In the proposal a namespace isolates its pods by an annotation, policies only allow, and a list that is present and
//! empty matches nothing.

mod cluster_default;
mod namespace;

use serde::{Deserialize, Serialize};

use crate::dialect::{Lowered, Options};
use crate::document::Manifest;
use crate::header::{Scope, header};
use crate::label_selector;
use crate::network_policy::{self, ABOUT_NOTHING, port, rule};
use crate::reader::{Cursor, Reader, Unreadable};
use crate::{
    Diagnostic, Mode, NamespaceScope, Networks, Peer, PodSelector, Policy, PortMatch, Rule, Selector, Side,
    Tier, code,
};

pub use cluster_default::ClusterDefault;
pub use namespace::namespace_isolation;

/// How NetworkPolicy of extensions/v1beta1 is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum V1beta1 {
    /// As proposed when a namespace of the input uses the proposal's isolation, and else as v1. What reads one object
    /// alone reads it as v1.
    #[default]
    Automatic,
    /// As proposed.
    Proposal,
    /// As v1.
    V1,
}

/// Reads a NetworkPolicy. See [`crate::lower`].
pub(crate) fn lower(manifest: &Manifest, options: Options) -> Lowered {
    if options.v1beta1 != V1beta1::Proposal {
        return network_policy::lower(manifest, options);
    }
    let (mut reader, root) = manifest.reader();
    let policy = policy(manifest, &root, &mut reader).ok();
    if policy.is_none() {
        reader.consequence(0, &root, ABOUT_NOTHING);
    }
    let mut diagnostics = reader.finish();
    diagnostics
        .iter_mut()
        .filter(|found| is_of_v1(found))
        .for_each(|found| {
            found.notes.push(OF_V1.to_owned());
        });
    Lowered { policy, diagnostics }
}

const OF_V1: &str = "networking.k8s.io/v1 has it, and the proposal of extensions/v1beta1 does not: `--v1beta1=v1` reads \
                     the policies of this version as v1";

/// Whether something is wrong that would not be in v1.
fn is_of_v1(found: &Diagnostic) -> bool {
    let fields = ["egress", "policyTypes", "ipBlock", "endPort"];
    match found.code {
        code::UNKNOWN_FIELD => found
            .field
            .rsplit('.')
            .next()
            .is_some_and(|name| fields.contains(&name)),
        code::PEER => found.message == BOTH_SELECTORS,
        code::UNSUPPORTED_VALUE => found.message.starts_with("Unsupported value: \"SCTP\""),
        _ => false,
    }
}

const BOTH_SELECTORS: &str = "Forbidden: may not specify both podSelector and namespaceSelector";

const ALLOWS_NOTHING: &str = "the policy allows nothing";

fn policy(manifest: &Manifest, root: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<Policy, Unreadable> {
    let mut fields = root.fields(reader)?;
    let header = header(manifest, Scope::Namespaced, &mut fields, reader)?;
    let Some(spec) = fields.get("spec") else {
        let message = "Required value: a policy needs a `spec`";
        return Err(reader.missing(code::NO_SPEC, root, "spec", message));
    };
    let before = reader.diagnostics().len();
    let known = fields
        .unknown(&["apiVersion", "kind", "status"], reader)
        .is_empty();
    let mut fields = spec.fields(reader)?;
    let subject = fields.get("podSelector");
    let ingress = fields.get("ingress");
    let known = fields.unknown(&[], reader).is_empty() && known;
    let subject = match subject {
        Some(at) => label_selector::read(&at, reader).whole(),
        None => Err(reader.missing(code::SELECTOR, &spec, "podSelector", "Required value")),
    };
    let sound = known && subject.is_ok() && !manifest.is_broken();
    if !sound {
        reader.consequence(before, &spec, ALLOWS_NOTHING);
    }
    let mut rules = ingress.map_or_else(Vec::new, |at| rules(&at, reader));
    if !sound {
        rules.iter_mut().for_each(rule::silence);
    }
    Ok(Policy {
        subject: PodSelector {
            namespaces: NamespaceScope::Named(header.object.namespace.clone()),
            pods: subject.unwrap_or_else(|Unreadable| Selector::everything()),
        },
        object: header.object,
        position: header.position,
        mode: Mode::Enforce,
        tier: Tier::NetworkPolicy,
        priority: 0,
        networks: Networks::Cluster,
        ingress: Side {
            isolates: false,
            rules,
        },
        egress: Side::default(),
    })
}

/// Reads `ingress`, where a list means anything when it is missing and nothing when it is empty.
fn rules(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Vec<Rule> {
    let namespace = reader.object().namespace.clone();
    let peer = |item: &Cursor<'_>, reader: &mut Reader<'_>| peer(item, &namespace, reader);
    let before = reader.diagnostics().len();
    let rules = rule::read_each(at, reader, |item, reader| {
        rule::matches(item, "from", peer, port, reader)
    });
    rules.unwrap_or_else(|Unreadable| {
        reader.consequence(before, at, ALLOWS_NOTHING);
        Vec::new()
    })
}

/// Reads an item of `ports`: TCP and UDP, and no ranges.
fn port(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<PortMatch, Unreadable> {
    let mut fields = at.fields(reader)?;
    let protocol = fields.get("protocol");
    fields.get("port");
    if !fields.unknown(&[], reader).is_empty() {
        return Err(Unreadable);
    }
    if let Some(at) = protocol
        && at
            .node()
            .as_str()
            .is_some_and(|text| !["TCP", "UDP"].contains(&text.as_str()))
    {
        let text = at.string(reader)?;
        return Err(reader.unsupported(code::UNSUPPORTED_VALUE, &at, text, &["TCP", "UDP"]));
    }
    port::read(at, reader)
}

/// Reads an item of `from`: exactly one selector.
fn peer(at: &Cursor<'_>, namespace: &str, reader: &mut Reader<'_>) -> Result<Peer, Unreadable> {
    let mut fields = at.fields(reader)?;
    let pods = fields.get("podSelector");
    let namespaces = fields.get("namespaceSelector");
    if !fields.unknown(&[], reader).is_empty() {
        return Err(Unreadable);
    }
    let selector = match (pods, namespaces) {
        (Some(at), None) => PodSelector {
            namespaces: NamespaceScope::Named(namespace.into()),
            pods: label_selector::read(&at, reader).whole()?,
        },
        (None, Some(at)) => PodSelector {
            namespaces: NamespaceScope::Matching(label_selector::read(&at, reader).whole()?),
            pods: Selector::everything(),
        },
        (None, None) => {
            return Err(reader.error(code::PEER, at, "Required value: must specify a peer"));
        }
        (Some(_), Some(_)) => {
            return Err(reader.error(code::PEER, at, BOTH_SELECTORS));
        }
    };
    Ok(Peer::Pods(selector))
}

#[cfg(test)]
mod tests;
