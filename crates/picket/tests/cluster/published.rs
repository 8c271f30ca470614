//! Objects of a case, put into a cluster through its API.

use std::collections::{BTreeMap, BTreeSet};

use picket_cluster::{Node, Pod, Snapshot};
use picket_policy::{Labels, ObjectRef};
use picket_testing::cases::Manifest;
use serde_json::{Map, Value, json};

use crate::client::Api;
use crate::objects::{KINDS, define};

/// The version of the last change of each resource.
pub(crate) type Versions = BTreeMap<String, u64>;

/// What of a cluster has been put there, and can be changed and taken away.
pub(crate) struct Published<'a> {
    api: &'a Api,
    snapshot: Snapshot,
    policies: BTreeMap<ObjectRef, String>,
    namespaces: BTreeSet<String>,
    versions: Versions,
    marks: u64,
}

/// Defines a kind.
pub(crate) type Define = fn(&Api, (&str, &str, &str));

/// The kinds of policies of the cluster network that are defined.
const DEFINED: [usize; 3] = [14, 15, 16];

impl<'a> Published<'a> {
    /// Nothing yet, but the kinds.
    pub(crate) fn new(api: &'a Api) -> Self {
        Self::defined_by(api, define)
    }

    /// The same with kinds that are defined otherwise.
    pub(crate) fn defined_by(api: &'a Api, define: Define) -> Self {
        DEFINED.iter().for_each(|index| define(api, KINDS[*index]));
        Self {
            api,
            snapshot: Snapshot::default(),
            policies: BTreeMap::new(),
            namespaces: BTreeSet::new(),
            versions: Versions::new(),
            marks: 0,
        }
    }

    /// Makes the cluster what a step of a case says. Returns what agents have to know then.
    pub(crate) fn put(&mut self, snapshot: &Snapshot, manifests: &[Manifest]) -> Versions {
        self.namespaces(snapshot);
        for (name, node) in &snapshot.nodes {
            if self.snapshot.nodes.get(name) != Some(node) {
                self.node(node);
            }
        }
        let before = std::mem::replace(&mut self.snapshot, snapshot.clone());
        self.pods(&before);
        for name in before
            .nodes
            .keys()
            .filter(|name| !snapshot.nodes.contains_key(*name))
        {
            self.delete("/api/v1/nodes", name);
        }
        self.policies(manifests);
        self.versions.clone()
    }

    fn namespaces(&mut self, snapshot: &Snapshot) {
        let implied = snapshot.pods.values().map(|pod| pod.object.namespace.clone());
        let named = snapshot.namespaces.keys().cloned();
        for name in named.chain(implied).collect::<BTreeSet<_>>() {
            let path = "/api/v1/namespaces";
            let namespace = snapshot.namespace(&name).into_owned();
            let metadata = json!({"name": name.as_str(), "labels": labels(&namespace.labels)});
            if self.namespaces.insert(name.to_string()) && name != "default" {
                let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
                self.create(path, &object);
            } else {
                let before = self.snapshot.namespace(&name).labels.clone();
                let labels = changed(&before, &namespace.labels);
                let patched = self
                    .api
                    .patch(path, &name, &json!({"metadata": {"labels": labels}}));
                self.note(path, &patched);
            }
        }
    }

    fn node(&mut self, node: &Node) {
        let path = "/api/v1/nodes";
        if self.snapshot.nodes.contains_key(&node.name) {
            self.delete(path, &node.name);
        }
        let metadata = json!({"name": node.name.as_str(), "labels": labels(&node.labels)});
        self.create(
            path,
            &json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata}),
        );
        let address =
            |address: &std::net::IpAddr| json!({"type": "InternalIP", "address": address.to_string()});
        let addresses: Vec<_> = node.addresses.iter().map(address).collect();
        let patched = self
            .api
            .set_status(path, &node.name, &json!({"addresses": addresses}));
        self.note(path, &patched);
    }

    fn pods(&mut self, before: &Snapshot) {
        let now = self.snapshot.clone();
        for (object, pod) in &before.pods {
            let same = now.pods.get(object).filter(|other| {
                let relabelled = Pod {
                    labels: other.labels.clone(),
                    ..Pod::clone(pod)
                };
                relabelled == ***other
            });
            if same.is_none() {
                self.delete(&pods_of(&object.namespace), &object.name);
            } else if let Some(other) = same.filter(|other| other.labels != pod.labels) {
                let path = pods_of(&object.namespace);
                let labels = changed(&pod.labels, &other.labels);
                let fields = json!({"metadata": {"labels": labels}});
                let patched = self.api.patch(&path, &object.name, &fields);
                self.note(&path, &patched);
            }
        }
        let known: BTreeSet<_> = self.api.list("/api/v1/pods").iter().map(id).collect();
        for pod in now.pods.values() {
            let id = (pod.object.namespace.to_string(), pod.object.name.to_string());
            if !known.contains(&id) {
                self.pod(pod);
            }
        }
    }

    fn pod(&mut self, pod: &Pod) {
        assert!(!pod.is_workload(), "{}: nothing here makes pods of it", pod.id());
        let path = pods_of(&pod.object.namespace);
        let port = |port: &picket_cluster::NamedPort| json!({"name": port.name.as_str(), "containerPort": port.port, "protocol": port.protocol.to_string()});
        let ports: Vec<_> = pod.ports.iter().map(port).collect();
        let object = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": pod.object.name.as_str(), "labels": labels(&pod.labels)},
            "spec": {
                "nodeName": pod.node.as_deref(),
                "hostNetwork": pod.host_network,
                "containers": [{"name": "main", "image": "main", "ports": ports}],
            },
        });
        self.create(&path, &object);
        let ip = |address: std::net::IpAddr| json!({"ip": address.to_string()});
        let addresses: Vec<_> = pod.addresses.iter().map(ip).collect();
        let first = pod.addresses.iter().next().map(|address| address.to_string());
        let status = json!({"phase": "Running", "podIP": first, "podIPs": addresses});
        let patched = self.api.set_status(&path, &pod.object.name, &status);
        self.note(&path, &patched);
    }

    fn policies(&mut self, manifests: &[Manifest]) {
        let policies = manifests
            .iter()
            .filter(|manifest| path_of(&manifest.object).is_some());
        let now: BTreeMap<_, _> = policies
            .map(|manifest| (manifest.object.clone(), manifest.text.clone()))
            .collect();
        let before = std::mem::replace(&mut self.policies, now.clone());
        for object in before.keys().filter(|object| !now.contains_key(*object)) {
            self.delete(&path_of(object).unwrap(), &object.name);
        }
        for (object, text) in now
            .iter()
            .filter(|(object, text)| before.get(*object) != Some(*text))
        {
            let path = path_of(object).unwrap();
            let applied = self.api.apply_yaml(&path, &object.name, text);
            self.note(&path, &applied);
        }
    }

    fn create(&mut self, path: &str, object: &Value) {
        let created = self.api.create(path, object);
        self.note(path, &created);
    }

    /// Deletes an object. The API does not say which version that made, so that something of the kind changes afterwards.
    fn delete(&mut self, path: &str, name: &str) {
        self.api.delete(path, name);
        self.marks += 1;
        let plural = path.rsplit('/').next().unwrap();
        let (api_version, kind, _) = KINDS
            .iter()
            .find(|(_, _, path)| path.ends_with(&format!("/{plural}")))
            .unwrap();
        let nobody = json!({"namespaces": {"matchLabels": {"mark": "none"}}});
        let spec = match plural {
            "pods" => json!({"containers": [{"name": "main", "image": "main"}]}),
            "networkpolicies" => json!({"podSelector": {"matchLabels": {"mark": "none"}}}),
            "nodes" => json!({}),
            "baselineadminnetworkpolicies" => json!({ "subject": nobody }),
            "adminnetworkpolicies" => json!({"priority": 900, "subject": nobody}),
            _ => json!({"priority": 900, "tier": "Admin", "subject": nobody}),
        };
        // A cluster has one of these, which is called so.
        let name = match plural {
            "baselineadminnetworkpolicies" => "default".to_owned(),
            _ => format!("mark-{}", self.marks),
        };
        let metadata = json!({ "name": name });
        let mark = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
        let applied = self.api.apply_yaml(path, &name, &mark.to_string());
        self.note(path, &applied);
    }

    /// Notes the version of an object that has been written.
    fn note(&mut self, path: &str, object: &Value) {
        let version = object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        let plural = path.rsplit('/').next().unwrap();
        let group = path
            .strip_prefix("/apis/")
            .and_then(|rest| rest.split('/').next());
        let resource = group.map_or_else(|| plural.to_owned(), |group| format!("{plural}.{group}"));
        self.versions.insert(resource, version);
    }
}

fn pods_of(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

/// The path of the list that a policy belongs to; `None` for what is no policy of the cluster network.
fn path_of(object: &ObjectRef) -> Option<String> {
    if object.kind == "NetworkPolicy" {
        let namespace = if object.namespace.is_empty() {
            "default"
        } else {
            &object.namespace
        };
        return Some(format!(
            "/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
        ));
    }
    let kinds = DEFINED.map(|index| KINDS[index]);
    let found = kinds.iter().find(|(_, kind, _)| *kind == object.kind);
    found.map(|(_, _, path)| (*path).to_owned())
}

fn id(object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
    (text("namespace"), text("name"))
}

fn labels(labels: &Labels) -> Value {
    labels
        .iter()
        .map(|(key, value)| (key.to_string(), value.as_str().into()))
        .collect::<Map<_, _>>()
        .into()
}

/// Labels as a patch makes the one into the other.
fn changed(before: &Labels, after: &Labels) -> Value {
    let gone = before.iter().map(|(key, _)| (key.to_string(), Value::Null));
    let now = after
        .iter()
        .map(|(key, value)| (key.to_string(), value.as_str().into()));
    gone.chain(now).collect::<Map<_, _>>().into()
}
