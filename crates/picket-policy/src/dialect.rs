//! Which dialect an object is written in.

use crate::document::Manifest;
use crate::{
    ClusterDefault, Diagnostic, Policy, Severity, V1beta1, admin_network_policy, cluster_network_policy,
    code, multi_network_policy, network_policy, network_policy_v1beta1,
};

/// How policies are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether address blocks in a non-standard spelling are errors, as for API servers from 1.36 on, instead of
    /// warnings.
    pub strict_cidr: bool,
    /// How NetworkPolicy of extensions/v1beta1 is read.
    pub v1beta1: V1beta1,
    /// What holds for namespaces without isolation where that is read as proposed.
    pub v1beta1_default: ClusterDefault,
    /// Whether policies that say that they are only audited are read as if they did not.
    pub enforce_audited: bool,
}

/// What an object says as a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lowered {
    /// The policy; absent when nobody can tell what it would select.
    pub policy: Option<Policy>,
    /// What is wrong with it.
    pub diagnostics: Vec<Diagnostic>,
}

/// A kind of policy: its name, the versions of the API that it is read in, and what reads it.
type Dialect = (
    &'static str,
    &'static [&'static str],
    fn(&Manifest, Options) -> Lowered,
);

/// Every kind of policy that picket reads.
const DIALECTS: [Dialect; 6] = [
    ("NetworkPolicy", &["networking.k8s.io/v1"], network_policy::lower),
    (
        "NetworkPolicy",
        &["extensions/v1beta1"],
        network_policy_v1beta1::lower,
    ),
    (
        "MultiNetworkPolicy",
        &["k8s.cni.cncf.io/v1beta1", "k8s.cni.cncf.io/v1beta2"],
        multi_network_policy::lower,
    ),
    (
        "ClusterNetworkPolicy",
        &["policy.networking.k8s.io/v1alpha2"],
        cluster_network_policy::lower,
    ),
    (
        "AdminNetworkPolicy",
        &["policy.networking.k8s.io/v1alpha1"],
        admin_network_policy::lower,
    ),
    (
        "BaselineAdminNetworkPolicy",
        &["policy.networking.k8s.io/v1alpha1"],
        admin_network_policy::lower_baseline,
    ),
];

/// Reads an object as a policy, or returns `None` when it is of another kind.
///
/// What cannot be read never widens the policy: the part that it stands in matches nothing, or isolates all that may
/// be meant, and a diagnostic says so.
pub fn lower(manifest: &Manifest, options: Options) -> Option<Lowered> {
    let (kind, version) = (manifest.kind().as_str(), manifest.api_version().as_str());
    let dialect = DIALECTS
        .iter()
        .find(|(name, versions, _)| *name == kind && versions.contains(&version));
    match dialect {
        Some((_, _, read)) => Some(read(manifest, options)),
        None if kind.ends_with("NetworkPolicy") => Some(unsupported(manifest)),
        None => None,
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
    let quoted = |names: &mut dyn Iterator<Item = &'static str>| {
        let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    let versions = DIALECTS.iter().filter(|(name, _, _)| name == kind);
    let versions = quoted(&mut versions.flat_map(|(_, versions, _)| versions.iter().copied()));
    let expected = if versions.is_empty() {
        let mut names: Vec<_> = DIALECTS.iter().map(|(name, _, _)| *name).collect();
        names.dedup();
        format!("picket reads {}", quoted(&mut names.into_iter()))
    } else {
        format!("it is read as {versions}")
    };
    let message = format!("`{kind}` of `{version}` is not supported; {expected}");
    let diagnostic = reader.report_at(code::API_VERSION, Severity::Error, &path, at, message);
    diagnostic
        .notes
        .push("the policy is not read: it isolates nothing and allows nothing".to_owned());
    Lowered {
        policy: None,
        diagnostics: reader.finish(),
    }
}
