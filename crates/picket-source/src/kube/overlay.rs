//! What a cluster would hold if manifests were applied to it.

use std::collections::BTreeSet;

use picket_policy::document::{self, Manifest};

use super::kind::{BUILT_IN, CUSTOM, Kind};
use crate::files::Text;

impl Kind {
    /// What the text of an object is called.
    pub(crate) fn text_name(&self, namespace: Option<&str>, name: &str) -> String {
        text_name(self.plural, namespace, name)
    }
}

/// What the text of an object is called whose kind addresses of the API name so.
pub(crate) fn text_name(plural: &str, namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("kube:{plural}/{namespace}/{name}"),
        None => format!("kube:{plural}/{name}"),
    }
}

/// The texts of a [`Kube`](crate::Kube) with manifests applied: those are added, and the objects of the same kind,
/// namespace and name replaced. An object without a namespace is in `default`, as everywhere.
pub fn overlay(cluster: &[Text], manifests: &[Text]) -> Vec<Text> {
    let replaced: BTreeSet<_> = manifests.iter().flat_map(names).collect();
    let kept = cluster.iter().filter(|text| !replaced.contains(&*text.name));
    kept.chain(manifests).cloned().collect()
}

/// What the objects of a file would be called in a cluster.
fn names(text: &Text) -> Vec<String> {
    let (manifests, _) = document::read(&text.name, &text.bytes);
    manifests.iter().flat_map(text_names).collect()
}

/// What an object may be called in a cluster: with a namespace, and without one in case that its kind has none.
fn text_names(manifest: &Manifest) -> Vec<String> {
    let group = manifest
        .api_version()
        .split_once('/')
        .map_or("", |(group, _)| group);
    let kind = BUILT_IN.iter().chain(&CUSTOM).find(|kind| {
        // Before they had groups of their own, workloads and policies were `extensions`.
        kind.name == manifest.kind() && (kind.group == group || group == "extensions")
    });
    let metadata = |field| manifest.root().get("metadata")?.get(field)?.as_str();
    let (Some(kind), Some(name)) = (kind, metadata("name")) else {
        return Vec::new();
    };
    let namespace = metadata("namespace").map_or("default", |namespace| namespace);
    vec![kind.text_name(Some(namespace), name), kind.text_name(None, name)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, text: &str) -> Text {
        Text {
            name: name.into(),
            bytes: text.as_bytes().to_vec(),
        }
    }

    /// The names of what is left of a cluster, and the manifests, when these are applied.
    fn left(manifests: &str) -> Vec<String> {
        let cluster = [
            "kube:namespaces/shop",
            "kube:pods/shop/web",
            "kube:networkpolicies/default/web",
            "kube:networkpolicies/shop/web",
            "kube:clusternetworkpolicies/web",
        ]
        .map(|name| text(name, ""));
        let all = overlay(&cluster, &[text("new.yaml", manifests)]);
        all.iter().map(|text| text.name.to_string()).collect()
    }

    #[test]
    fn objects_are_replaced_by_kind_namespace_and_name() {
        let policy = |metadata| {
            format!("{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{{metadata}}}}}")
        };
        let [namespace, pod, default, shop, admin] = [
            "kube:namespaces/shop",
            "kube:pods/shop/web",
            "kube:networkpolicies/default/web",
            "kube:networkpolicies/shop/web",
            "kube:clusternetworkpolicies/web",
        ];
        for (manifests, expected) in [
            (
                policy("name: web, namespace: shop"),
                vec![namespace, pod, default, admin, "new.yaml"],
            ),
            (policy("name: web"), vec![namespace, pod, shop, admin, "new.yaml"]),
            (
                policy("name: other, namespace: shop"),
                vec![namespace, pod, default, shop, admin, "new.yaml"],
            ),
            (
                "{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: web}}"
                    .to_owned(),
                vec![namespace, pod, default, shop, "new.yaml"],
            ),
            (
                "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Namespace, metadata: {name: shop}}]}"
                    .to_owned(),
                vec![pod, default, shop, admin, "new.yaml"],
            ),
            (
                "{apiVersion: serving.knative.dev/v1, kind: Pod, metadata: {name: web, namespace: shop}}".to_owned(),
                vec![namespace, pod, default, shop, admin, "new.yaml"],
            ),
        ] {
            assert_eq!(left(&manifests), expected, "{manifests}");
        }
    }
}
