//! Which kinds are read, and what looks like one of them and is none.

use picket_policy::document::Manifest;
use picket_policy::{Cursor, Diagnostic, Reader, Severity, code};

use crate::codes;
use crate::network::NETWORK_KIND;

/// A kind that [`parse`](crate::parse()) reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Namespace,
    Node,
    Pod,
    Service,
    Network,
    /// A workload whose pod template stands below these fields.
    Workload(&'static [&'static str]),
}

impl Kind {
    /// The kind of this API group (`""` for the core) and name, whatever the version.
    pub(super) fn of(group: &str, kind: &str) -> Option<Self> {
        const TEMPLATE: &[&str] = &["spec", "template"];
        match (group, kind) {
            ("", "Namespace") => Some(Self::Namespace),
            ("", "Node") => Some(Self::Node),
            ("", "Pod") => Some(Self::Pod),
            ("", "Service") => Some(Self::Service),
            ("k8s.cni.cncf.io", NETWORK_KIND) => Some(Self::Network),
            ("", "ReplicationController")
            | ("apps" | "extensions", "Deployment" | "ReplicaSet" | "DaemonSet")
            | ("apps", "StatefulSet")
            | ("batch", "Job") => Some(Self::Workload(TEMPLATE)),
            ("batch", "CronJob") => Some(Self::Workload(&["spec", "jobTemplate", "spec", "template"])),
            _ => None,
        }
    }
}

/// Whether [`parse`](crate::parse()) reads objects of this `apiVersion` and `kind`.
pub fn is_cluster_kind(api_version: &str, kind: &str) -> bool {
    Kind::of(group(api_version), kind).is_some()
}

pub(super) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The kinds about connectivity, and the version in which each is written today.
const CURRENT: [(&str, &str); 17] = [
    ("AdminNetworkPolicy", "policy.networking.k8s.io/v1alpha1"),
    ("BaselineAdminNetworkPolicy", "policy.networking.k8s.io/v1alpha1"),
    ("ClusterNetworkPolicy", "policy.networking.k8s.io/v1alpha2"),
    ("CronJob", "batch/v1"),
    ("DaemonSet", "apps/v1"),
    ("Deployment", "apps/v1"),
    ("Job", "batch/v1"),
    ("MultiNetworkPolicy", "k8s.cni.cncf.io/v1beta1"),
    ("Namespace", "v1"),
    (NETWORK_KIND, "k8s.cni.cncf.io/v1"),
    ("NetworkPolicy", "networking.k8s.io/v1"),
    ("Node", "v1"),
    ("Pod", "v1"),
    ("ReplicaSet", "apps/v1"),
    ("ReplicationController", "v1"),
    ("Service", "v1"),
    ("StatefulSet", "apps/v1"),
];

/// Versions of these kinds that clusters had before today's.
const FORMER: [(&str, &[&str]); 5] = [
    ("CronJob", &["batch/v1beta1", "batch/v2alpha1"]),
    ("DaemonSet", &["apps/v1beta2", "extensions/v1beta1"]),
    (
        "Deployment",
        &["apps/v1beta2", "apps/v1beta1", "extensions/v1beta1"],
    ),
    ("ReplicaSet", &["apps/v1beta2", "extensions/v1beta1"]),
    ("StatefulSet", &["apps/v1beta2", "apps/v1beta1"]),
];

/// Reports a version in which a kind that is read never was. The object is read all the same: what it leaves out would
/// be missing where it isolates or is matched.
pub(super) fn check_version(manifest: &Manifest, root: &Cursor<'_>, reader: &mut Reader<'_>) {
    let (kind, version) = (manifest.kind().as_str(), manifest.api_version().as_str());
    let current = CURRENT
        .iter()
        .filter(|(name, _)| *name == kind)
        .map(|(_, version)| *version);
    let former = FORMER.iter().filter(|(name, _)| *name == kind);
    let known: Vec<_> = current
        .chain(former.flat_map(|(_, versions)| versions.iter().copied()))
        .collect();
    let Some(at) = root
        .node()
        .get("apiVersion")
        .filter(|_| !known.contains(&version))
    else {
        return;
    };
    let names: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
    let message = format!(
        "`{kind}` of `{version}` is not supported; it is read as {}",
        names.join(", ")
    );
    let path = root.path().field("apiVersion");
    let found = reader.report_at(
        code::API_VERSION,
        Severity::Error,
        &path,
        at.range.clone(),
        message,
    );
    let note = format!(
        "the object is read as if it were of `{}`",
        known.first().unwrap_or(&version)
    );
    found.notes.push(note);
}

/// Groups that nobody but Kubernetes or a standard defines kinds in, and `core`, as people call the one without a name.
const BUILT_IN: [&str; 8] = [
    "",
    "apps",
    "batch",
    "core",
    "extensions",
    "k8s.cni.cncf.io",
    "networking.k8s.io",
    "policy.networking.k8s.io",
];

/// Reports an object that is of no kind, but looks like one that is read: `networkpolicy`, or a Deployment of `v1`.
///
/// The API server refuses it. Ignored like a ConfigMap, it would be lost without a word. `manifest` is one that nothing
/// reads.
pub fn misnamed(manifest: &Manifest) -> Option<Diagnostic> {
    let (kind, version) = (manifest.kind().as_str(), manifest.api_version().as_str());
    if !BUILT_IN.contains(&group(version)) {
        return None;
    }
    let (mut reader, root) = manifest.reader();
    let mut fields = root.fields(&mut reader).ok()?;
    let elsewhere = CURRENT.iter().find(|(current, _)| *current == kind);
    let at = fields.get(elsewhere.map_or("kind", |_| "apiVersion"))?;
    let message = format!("no kind `{kind}` in version `{version}`");
    let found = reader.report(codes::KIND, Severity::Error, &at, message);
    found.notes.push("nothing of it is read".to_owned());
    match elsewhere {
        Some((_, current)) => reader.suggest(&at, current, &[current]),
        None => reader.suggest(&at, kind, &CURRENT.map(|(current, _)| current)),
    }
    // What resembles nothing is a kind that says nothing about connectivity.
    reader.finish().pop().filter(|found| !found.fixes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::misnamed;

    #[test]
    fn what_is_nearly_a_kind_is_no_kind_to_ignore() {
        for (version, kind, meant) in [
            ("networking.k8s.io/v1", "networkpolicy", Some("NetworkPolicy")),
            ("networking.k8s.io/v1", "NetworkPolicys", Some("NetworkPolicy")),
            ("networking.k8s.io/v1", "NetworkPolcy", Some("NetworkPolicy")),
            ("v1", "pod", Some("Pod")),
            ("apps/v1", "Deploymnet", Some("Deployment")),
            (
                "k8s.cni.cncf.io/v1beta1",
                "MultiNetworkpolicy",
                Some("MultiNetworkPolicy"),
            ),
            (
                "networking.k8s.io/v1",
                "NetworkAttachmentDefinition",
                Some("k8s.cni.cncf.io/v1"),
            ),
            (
                "policy.networking.k8s.io/v1alpha2",
                "ClusterNetworkPolicies",
                Some("ClusterNetworkPolicy"),
            ),
            (
                "policy.networking.k8s.io/v1alpha1",
                "Adminnetworkpolicy",
                Some("AdminNetworkPolicy"),
            ),
            ("apps/v1", "Pod", Some("v1")),
            ("core/v1", "Namespace", Some("v1")),
            ("v1", "Deployment", Some("apps/v1")),
            ("extensions/v1beta1", "StatefulSet", Some("apps/v1")),
            ("serving.knative.dev/v1", "Service", None),
            ("example.com/v1", "pod", None),
            ("v1", "ConfigMap", None),
            ("v1", "Endpoints", None),
            ("v1", "Event", None),
            ("v1", "PodTemplate", None),
            ("v1", "Secret", None),
            ("v1", "ServiceAccount", None),
            ("v1", "LimitRange", None),
            ("v1", "ResourceQuota", None),
            ("v1", "PersistentVolume", None),
            ("apps/v1", "ControllerRevision", None),
            ("networking.k8s.io/v1", "Ingress", None),
            ("networking.k8s.io/v1", "IngressClass", None),
            ("networking.k8s.io/v1", "ServiceCIDR", None),
            ("networking.k8s.io/v1", "IPAddress", None),
            ("extensions/v1beta1", "PodSecurityPolicy", None),
        ] {
            let text = format!("apiVersion: {version}\nkind: {kind}\n");
            let (manifests, _) = picket_policy::read(&"a".into(), text.as_bytes());
            let found = misnamed(&manifests[0]);
            let suggested = found
                .as_ref()
                .map(|found| found.fixes[0].edits[0].replacement.as_str());
            assert_eq!(suggested, meant, "{version} {kind}");
            let message = found.map(|found| found.message);
            let expected = meant.map(|_| format!("no kind `{kind}` in version `{version}`"));
            assert_eq!(message, expected);
        }
    }
}
