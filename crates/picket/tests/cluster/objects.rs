//! The objects of the tests, and how to dump a cluster as `kubectl get -A` does.

use std::fs;
use std::path::Path;

use picket_testing::program::CRDS;
use serde_json::{Value, json};

use crate::client::Api;

/// Each kind that is read: its `apiVersion`, its name, and the path of its list.
pub(crate) const KINDS: [(&str, &str, &str); 17] = [
    ("v1", "Namespace", "/api/v1/namespaces"),
    ("v1", "Node", "/api/v1/nodes"),
    ("v1", "Pod", "/api/v1/pods"),
    ("v1", "ReplicationController", "/api/v1/replicationcontrollers"),
    ("v1", "Service", "/api/v1/services"),
    ("apps/v1", "DaemonSet", "/apis/apps/v1/daemonsets"),
    ("apps/v1", "Deployment", "/apis/apps/v1/deployments"),
    ("apps/v1", "ReplicaSet", "/apis/apps/v1/replicasets"),
    ("apps/v1", "StatefulSet", "/apis/apps/v1/statefulsets"),
    ("batch/v1", "CronJob", "/apis/batch/v1/cronjobs"),
    ("batch/v1", "Job", "/apis/batch/v1/jobs"),
    (
        "networking.k8s.io/v1",
        "NetworkPolicy",
        "/apis/networking.k8s.io/v1/networkpolicies",
    ),
    (
        "k8s.cni.cncf.io/v1",
        "NetworkAttachmentDefinition",
        "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions",
    ),
    (
        "k8s.cni.cncf.io/v1beta1",
        "MultiNetworkPolicy",
        "/apis/k8s.cni.cncf.io/v1beta1/multi-networkpolicies",
    ),
    (
        "policy.networking.k8s.io/v1alpha2",
        "ClusterNetworkPolicy",
        "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies",
    ),
    (
        "policy.networking.k8s.io/v1alpha1",
        "AdminNetworkPolicy",
        "/apis/policy.networking.k8s.io/v1alpha1/adminnetworkpolicies",
    ),
    (
        "policy.networking.k8s.io/v1alpha1",
        "BaselineAdminNetworkPolicy",
        "/apis/policy.networking.k8s.io/v1alpha1/baselineadminnetworkpolicies",
    ),
];

/// Where definitions of kinds are.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// What a kind is defined by, from the path of its list.
pub(crate) fn definition_of(path: &str) -> String {
    let parts: Vec<_> = path.split('/').collect();
    let [_, "apis", group, _, plural] = parts[..] else {
        panic!("{path}");
    };
    format!("{plural}.{group}")
}

/// Defines a kind that clusters do not have by themselves as its project does: with a schema, by which the server adds, takes away and
/// refuses fields.
pub(crate) fn define(api: &Api, (_, _, path): (&str, &str, &str)) {
    let all = fs::read_to_string(CRDS.path()).unwrap();
    let name = format!("\n  name: {}\n", definition_of(path));
    let mut documents = all.split("\n---\n");
    let definition = documents
        .find(|text| text.contains(&name) && text.contains("apiVersion: apiextensions.k8s.io/v1\n"))
        .unwrap_or_else(|| panic!("{path}"));
    api.create_yaml(DEFINITIONS, definition);
    api.await_list(path);
}

/// Takes a kind away with all its objects. Until the server has done so it answers about one defined anew as it did about the old one.
pub(crate) fn undefine(api: &Api, (_, _, path): (&str, &str, &str)) {
    api.delete(DEFINITIONS, &definition_of(path));
    api.await_no_list(path);
}

/// Defines a kind whose objects may have any fields, which no project does: for tests of what a schema would not let be.
pub(crate) fn define_without_schema(api: &Api, (api_version, kind, path): (&str, &str, &str)) {
    let (group, version) = api_version.split_once('/').unwrap();
    let plural = path.rsplit('/').next().unwrap();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let is_of_cluster = group == "policy.networking.k8s.io";
    api.create(
        DEFINITIONS,
        &json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": definition_of(path),
                "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
            },
            "spec": {
                "group": group,
                "names": {
                    "plural": plural,
                    "singular": kind.to_lowercase(),
                    "kind": kind,
                    "listKind": format!("{kind}List"),
                },
                "scope": if is_of_cluster { "Cluster" } else { "Namespaced" },
                "versions": [
                    {"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
                ],
            },
        }),
    );
    api.await_list(path);
}

/// Defines every kind that clusters do not have by themselves.
pub(crate) fn define_all(api: &Api) {
    KINDS[12..].iter().for_each(|kind| define(api, *kind));
}

/// The same, but one kind without its schema.
pub(crate) fn define_all_but(api: &Api, loose: &str) {
    for kind in &KINDS[12..] {
        if kind.1 == loose {
            define_without_schema(api, *kind);
        } else {
            define(api, *kind);
        }
    }
}

/// A policy of administrators that a schema lets be, though nobody can tell what it is about.
pub(crate) fn unreadable() -> Value {
    let (api_version, kind, _) = KINDS[14];
    let nobody = json!({"namespaces": {"matchExpressions": [{"key": "a", "operator": "Near"}]}});
    let spec = json!({"tier": "Admin", "priority": 1, "subject": nobody});
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "wrong"}, "spec": spec})
}

/// The latest version of an object in the list at `path`; 0 where there is none.
pub(crate) fn newest(api: &Api, path: &str) -> u64 {
    let version = |item: &Value| {
        let version = item["metadata"]["resourceVersion"].as_str().unwrap();
        version.parse().unwrap()
    };
    api.list(path).iter().map(version).max().unwrap_or_default()
}

/// Creates a namespace.
pub(crate) fn namespace(api: &Api, name: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}});
    api.create("/api/v1/namespaces", &object);
}

/// Creates a running pod.
pub(crate) fn pod(api: &Api, namespace: &str, name: &str, address: &str, annotations: &Value) {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    api.create(
        &path,
        &json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}, "annotations": annotations},
            "spec": {
                "nodeName": "node-1",
                "containers": [
                    {"name": "main", "image": "main", "ports": [{"name": "http", "containerPort": 8080}]},
                ],
            },
        }),
    );
    let status = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]});
    api.set_status(&path, name, &status);
}

/// Creates a policy.
pub(crate) fn policy(api: &Api, namespace: &str, name: &str, spec: &Value) {
    let path = format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies");
    api.create(&path, &network_policy(namespace, name, spec));
}

pub(crate) fn network_policy(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    })
}

/// Writes all objects of the kinds that are there into one file, as `kubectl get -A -o json` does.
pub(crate) fn dump(api: &Api, kinds: &[(&str, &str, &str)], file: &Path) {
    let mut items = Vec::new();
    for (api_version, kind, path) in kinds {
        for mut item in api.list(path) {
            item["apiVersion"] = (*api_version).into();
            item["kind"] = (*kind).into();
            items.push(item);
        }
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    fs::write(file, format!("{list:#}")).unwrap();
}
