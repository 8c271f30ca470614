//! After each of many changes, what is known is what a list gives.

use std::collections::{BTreeMap, BTreeSet};

use picket_cluster::Snapshot;
use serde_json::{Value, json};

use crate::apiserver::follow::{multi_network_policies, multi_network_policy};
use crate::client::{Api, serve};
use crate::following::{Following, listed};
use crate::objects::{define_all, namespace, network_policy};
use crate::random::Random;

const NAMESPACES: [&str; 3] = ["bank", "mill", "shop"];

const NODES: [&str; 2] = ["node-1", "node-2"];

/// Changes that look random and are the same each time.
pub(crate) struct Changes<'a> {
    api: &'a Api,
    random: Random,
    /// What is there, by the path of its list.
    objects: BTreeMap<String, BTreeSet<String>>,
    /// The last part of the last address that a pod was given.
    address: u32,
}

impl<'a> Changes<'a> {
    /// In a cluster with every kind, whose namespaces this makes.
    pub(crate) fn new(api: &'a Api) -> Self {
        define_all(api);
        for name in NAMESPACES {
            namespace(api, name);
        }
        Self {
            api,
            random: Random(2026),
            objects: BTreeMap::new(),
            address: 0,
        }
    }

    /// Something changes. Returns what.
    pub(crate) fn next(&mut self) -> String {
        let namespace = self.random.one_of(&NAMESPACES);
        let name = self.random.one_of(&["a", "b", "c", "d"]);
        match self.random.below(14) {
            0..5 => self.pod(namespace, name),
            5 | 6 => {
                let path = format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies");
                let spec = self.spec();
                self.put(&path, name, &network_policy(namespace, name, &spec))
            }
            7 => {
                let spec = self.spec();
                let policy = multi_network_policy(name, &spec);
                self.put(&multi_network_policies(namespace), name, &policy)
            }
            8 => {
                let object = json!({
                    "apiVersion": "k8s.cni.cncf.io/v1",
                    "kind": "NetworkAttachmentDefinition",
                    "metadata": {"name": name},
                    "spec": {"config": "{}"},
                });
                let path =
                    format!("/apis/k8s.cni.cncf.io/v1/namespaces/{namespace}/network-attachment-definitions");
                self.put(&path, name, &object)
            }
            9 => {
                let object = json!({
                    "apiVersion": "policy.networking.k8s.io/v1alpha2",
                    "kind": "ClusterNetworkPolicy",
                    "metadata": {"name": name},
                    "spec": {"tier": "Admin", "priority": self.random.below(100), "subject": {"namespaces": {}}},
                });
                self.put(
                    "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies",
                    name,
                    &object,
                )
            }
            10 => self.baseline(),
            11 => {
                let labels =
                    json!({"metadata": {"labels": {"stage": self.random.one_of(&["test", "live"])}}});
                self.api.patch("/api/v1/namespaces", namespace, &labels);
                format!("{labels} of {namespace}")
            }
            12 => {
                let address = format!("203.0.113.{}", self.random.below(200) + 1);
                let service = json!({
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": name},
                    "spec": {"ports": [{"port": 80}], "externalIPs": [address]},
                });
                self.put(
                    &format!("/api/v1/namespaces/{namespace}/services"),
                    name,
                    &service,
                )
            }
            _ => self.node(),
        }
    }

    /// The one that a cluster may have.
    fn baseline(&mut self) -> String {
        let subject =
            json!({"namespaces": {"matchLabels": {"stage": self.random.one_of(&["test", "live"])}}});
        let action = self.random.one_of(&["Allow", "Deny"]);
        let object = json!({
            "apiVersion": "policy.networking.k8s.io/v1alpha1",
            "kind": "BaselineAdminNetworkPolicy",
            "metadata": {"name": "default"},
            "spec": {"subject": subject, "ingress": [{"action": action, "from": [{"namespaces": {}}]}]},
        });
        let path = "/apis/policy.networking.k8s.io/v1alpha1/baselineadminnetworkpolicies";
        self.put(path, "default", &object)
    }

    fn spec(&mut self) -> Value {
        let peer = json!({"podSelector": {"matchLabels": {"app": self.random.one_of(&["x", "y"])}}});
        json!({
            "podSelector": {"matchLabels": {"app": self.random.one_of(&["x", "y"])}},
            "ingress": [{"from": [peer], "ports": [{"port": self.random.below(100) + 1}]}],
        })
    }

    /// An object comes, changes its fields or goes.
    fn put(&mut self, path: &str, name: &str, object: &Value) -> String {
        let there = self.objects.entry(path.to_owned()).or_default();
        if there.insert(name.to_owned()) {
            self.api.create(path, object);
            return format!("{path}/{name} comes");
        }
        if self.random.below(2) == 0 {
            self.api.patch(path, name, object);
            return format!("{path}/{name} becomes {object}");
        }
        self.api.delete(path, name);
        self.objects.get_mut(path).unwrap().remove(name);
        format!("{path}/{name} goes")
    }

    fn node(&mut self) -> String {
        let name = self.random.one_of(&NODES);
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        let what = self.put("/api/v1/nodes", name, &node);
        if what.ends_with("comes") {
            let address =
                json!({"type": "InternalIP", "address": format!("192.0.2.{}", self.random.below(200) + 1)});
            self.api
                .set_status("/api/v1/nodes", name, &json!({"addresses": [address]}));
        }
        what
    }

    fn pod(&mut self, namespace: &str, name: &str) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let host_network = self.random.below(6) == 0;
        let port = json!([{"name": self.random.one_of(&["http", "web"]), "containerPort": 8080}]);
        let there = self.objects.get(&path).is_some_and(|pods| pods.contains(name));
        if there && self.random.below(3) > 0 {
            let labels = json!({"metadata": {"labels": {"app": self.random.one_of(&["x", "y", "z"])}}});
            if self.random.below(2) == 0 {
                self.api.patch(&path, name, &labels);
                return format!("{labels} of {path}/{name}");
            }
            return self.status(&path, name);
        }
        if there {
            self.api.delete(&path, name);
            self.objects.get_mut(&path).unwrap().remove(name);
            return format!("{path}/{name} goes");
        }
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": self.random.one_of(&["x", "y"])}},
            "spec": {
                "nodeName": self.random.one_of(&NODES),
                "hostNetwork": host_network,
                "containers": [{"name": "main", "image": "main", "ports": if host_network { json!([]) } else { port }}],
            },
        });
        self.put(&path, name, &pod);
        format!("{path}/{name} comes as {pod}")
    }

    /// A pod runs with a new address, or to its end.
    fn status(&mut self, path: &str, name: &str) -> String {
        self.address += 1;
        let address = format!("10.0.{}.{}", self.address / 250, self.address % 250 + 1);
        let phase = self
            .random
            .one_of(&["Running", "Running", "Running", "Succeeded"]);
        let host = format!("192.0.2.{}", self.random.below(250) + 1);
        let status = json!({
            "phase": phase,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "hostIP": host,
            "hostIPs": [{"ip": host}],
        });
        self.api.set_status(path, name, &status);
        format!("{status} of {path}/{name}")
    }
}

/// What of a cluster an agent on `node` knows.
fn of_node(snapshot: &Snapshot, node: &str) -> Snapshot {
    let is_own = |of: &Option<_>| of.as_deref() == Some(node);
    let pods = snapshot.pods.values();
    let own: BTreeSet<_> = pods
        .filter(|pod| is_own(&pod.node))
        .map(|pod| pod.object.namespace.clone())
        .collect();
    let mut known = snapshot.clone();
    known
        .policies
        .retain(|object, _| object.namespace.is_empty() || own.contains(&object.namespace));
    known.pods.retain(|_, pod| {
        let interfaces = pod.attachments.iter().map(|attachment| attachment.addresses);
        let nowhere = pod.addresses.is_empty() && interfaces.into_iter().all(|own| own.is_empty());
        is_own(&pod.node) || !nowhere
    });
    known
}

#[test]
fn after_each_change_what_is_known_is_what_is_there() {
    let (_server, kubeconfig, api) = serve();
    let mut changes = Changes::new(&api);
    let mut all = Following::start(&kubeconfig, None);
    let mut own = Following::start(&kubeconfig, Some("node-1"));
    all.until_complete();
    own.until_complete();
    for _ in 0..300 {
        let what = changes.next();
        let expected = listed(&kubeconfig);
        all.until(&what, |following| following.snapshot() == expected);
        let expected = of_node(&expected, "node-1");
        own.until(&what, |following| following.snapshot() == expected);
    }
    let lists = |following: &Following| following.health.kinds().values().map(|kind| kind.lists).max();
    assert_eq!(
        (lists(&all), lists(&own)),
        (Some(1), Some(1)),
        "all of it came as events"
    );
}
