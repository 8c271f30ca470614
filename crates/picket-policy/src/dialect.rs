//! Which dialect an object is written in.

use crate::document::Manifest;
use crate::{Diagnostic, Policy, Severity, code, network_policy};

/// How policies are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether address blocks in a non-standard spelling are errors, as for API servers from 1.36 on, instead of
    /// warnings.
    pub strict_cidr: bool,
}

/// What an object says as a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lowered {
    /// The policy; absent when nobody can tell what it would select.
    pub policy: Option<Policy>,
    /// What is wrong with it.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads an object as a policy, or returns `None` when it is of another kind.
///
/// What cannot be read never widens the policy: the part that it stands in matches nothing, or isolates all that may
/// be meant, and a diagnostic says so.
pub fn lower(manifest: &Manifest, options: Options) -> Option<Lowered> {
    match (manifest.api_version().as_str(), manifest.kind().as_str()) {
        ("networking.k8s.io/v1", "NetworkPolicy") => Some(network_policy::lower(manifest, options)),
        (_, kind) if kind.ends_with("NetworkPolicy") => Some(unsupported(manifest)),
        _ => None,
    }
}

/// Policies of kinds and versions that picket does not read are no policies of another kind: they are reported.
fn unsupported(manifest: &Manifest) -> Lowered {
    let (mut reader, root) = manifest.reader();
    let at = root
        .node()
        .get("apiVersion")
        .map_or(root.node(), |value| value)
        .range
        .clone();
    let (kind, version) = (manifest.kind(), manifest.api_version());
    let path = root.path().field("apiVersion");
    let message = format!(
        "`{kind}` of `{version}` is not supported; picket reads `NetworkPolicy` of `networking.k8s.io/v1`"
    );
    let diagnostic = reader.report_at(code::API_VERSION, Severity::Error, &path, at, message);
    diagnostic
        .notes
        .push("the policy is not read: it isolates nothing and allows nothing".to_owned());
    Lowered {
        policy: None,
        diagnostics: reader.finish(),
    }
}
