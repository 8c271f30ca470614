//! Changes of the cluster, at random.

use std::sync::Arc;

use picket_cluster::Pod;
use picket_policy::ObjectRef;
use serde_json::{Value, json};

use super::POLICIES;
use super::happenings::{Happenings, NAMESPACES, PODS};
use crate::objects::network_policy;
use crate::prober::object;
use crate::watched::oracle::Change;
use crate::watched::policy;

/// More policies than these are soon fewer.
const POLICIES_AT_ONCE: usize = 4;

/// The pods whose packets are watched.
const WATCHED: [&str; 6] = ["x/a", "x/c", "y/a", "y/b", "z/a", "z/b"];

impl Happenings<'_> {
    pub(super) fn change(&mut self) {
        self.count += 1;
        let kind = match self.random.below(20) {
            0..9 if self.random.below(2 * POLICIES_AT_ONCE) < self.policies.len() => self.remove_policy(),
            0..9 => self.add_policy(),
            9..13 => self.label_pod(),
            13..16 => self.label_namespace(),
            16..18 if self.pods.len() > 8 => self.remove_pod(),
            _ => self.add_pod(),
        };
        *self.kinds.entry(kind).or_default() += 1;
        if self.one_by_one {
            self.settle();
        }
    }

    /// Everything is again as before all changes.
    pub(super) fn clear(&mut self) {
        while !self.policies.is_empty() {
            self.remove_policy();
        }
        while !self.pods.is_empty() {
            self.remove_pod();
        }
        for pod in WATCHED {
            self.set_team(pod, "none");
        }
        for namespace in ["y", "z"] {
            self.set_open(namespace, "no");
        }
        self.settle();
    }

    pub(super) fn add_policy(&mut self) -> &'static str {
        let name = format!("random-{}", self.count);
        let (namespace, spec) = match self.random.below(4) {
            0 => self.egress(),
            _ => ("x", self.ingress()),
        };
        let manifest = network_policy(namespace, &name, &spec);
        let policy = policy(&manifest);
        self.policies.push(policy.object.clone());
        self.watched
            .begins(format!("{spec} in {namespace}"), Change::Policy(policy));
        self.live.api.create(&path(namespace), &manifest);
        self.touched.insert(POLICIES);
        "policy added"
    }

    /// Somebody may send to somebody in namespace x.
    fn ingress(&mut self) -> Value {
        let spaces = [
            json!({"kubernetes.io/metadata.name": "y"}),
            json!({"kubernetes.io/metadata.name": "z"}),
            json!({"open": "yes"}),
        ];
        let space = &spaces[self.random.below(3)];
        let peer = self.pods_called(&["a", "b"]);
        json!({
            "podSelector": self.pods_called(&["a", "c"]),
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"namespaceSelector": {"matchLabels": space}, "podSelector": peer}], "ports": self.ports()}],
        })
    }

    /// Somebody may send only to somebody in namespace x; but not the pod that is to lose nothing.
    fn egress(&mut self) -> (&'static str, Value) {
        let subject = self.random.one_of(&["y/a", "y/b", "z/a"]);
        let (namespace, subject) = subject.split_once('/').unwrap();
        let space = json!({"matchLabels": {"kubernetes.io/metadata.name": "x"}});
        let peer = self.pods_called(&["a", "c"]);
        let spec = json!({
            "podSelector": {"matchLabels": {"pod": subject}},
            "policyTypes": ["Egress"],
            "egress": [{"to": [{"namespaceSelector": space, "podSelector": peer}], "ports": self.ports()}],
        });
        (namespace, spec)
    }

    /// Selects all pods, those of a team, or those of a name.
    fn pods_called(&mut self, names: &[&str]) -> Value {
        match self.random.below(4) {
            0 => json!({}),
            1 => json!({"matchLabels": {"team": "red"}}),
            _ => json!({"matchLabels": {"pod": self.random.one_of(names)}}),
        }
    }

    /// One or two ports of which some are watched.
    fn ports(&mut self) -> Value {
        let first = 1000 + self.random.below(3);
        json!([{"port": first, "endPort": first + self.random.below(2), "protocol": "UDP"}])
    }

    fn remove_policy(&mut self) -> &'static str {
        let at = self.random.below(self.policies.len());
        let gone = self.policies.swap_remove(at);
        self.watched
            .begins(format!("{gone} is gone"), Change::NoPolicy(gone.clone()));
        self.live.api.delete(&path(&gone.namespace), &gone.name);
        self.touched.insert(POLICIES);
        "policy removed"
    }

    fn label_pod(&mut self) -> &'static str {
        let pod = self.random.one_of(&WATCHED);
        let team = self.random.one_of(&["red", "blue"]);
        self.set_team(pod, team);
        "pod labelled"
    }

    fn set_team(&mut self, id: &str, team: &str) {
        let mut pod = Pod::clone(&self.watched.oracle.now().pods[&object(id)]);
        pod.labels = pod.labels.with("team", team);
        let ObjectRef { namespace, name, .. } = pod.object.clone();
        self.watched
            .begins(format!("{id} is of team {team}"), Change::Pod(Arc::new(pod)));
        let labels = json!({"metadata": {"labels": {"team": team}}});
        let pods = format!("{NAMESPACES}/{namespace}/pods");
        self.live.api.patch(&pods, &name, &labels);
        self.touched.insert(PODS);
    }

    fn label_namespace(&mut self) -> &'static str {
        let namespace = self.random.one_of(&["y", "z"]);
        let open = self.random.one_of(&["yes", "no"]);
        self.set_open(namespace, open);
        "namespace labelled"
    }

    fn set_open(&mut self, name: &str, open: &str) {
        let mut namespace = self.watched.oracle.now().namespace(name).into_owned();
        namespace.labels = namespace.labels.with("open", open);
        self.watched
            .begins(format!("{name} is open: {open}"), Change::Namespace(namespace));
        let labels = json!({"metadata": {"labels": {"open": open}}});
        self.live.api.patch(NAMESPACES, name, &labels);
        self.touched.insert(NAMESPACES);
    }

    /// A pod that is no end of what is watched, on the node of the agent or on another.
    fn add_pod(&mut self) -> &'static str {
        let name = format!("random-{}", self.count);
        let node = self.random.one_of(&["lab-1", "lab-2"]);
        let label = self.random.one_of(&["a", "b", "c"]);
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"pod": label, "team": "red"}},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "main"}]},
        });
        self.live.api.create(PODS, &pod);
        let v4 = format!("10.77.{}.{}", self.count / 200, self.count % 200 + 1);
        let v6 = format!("fd77::{:x}", self.count);
        let status = json!({"phase": "Running", "podIP": v4, "podIPs": [{"ip": v4}, {"ip": v6}]});
        self.live.api.set_status(PODS, &name, &status);
        self.pods.push(name);
        self.touched.insert(PODS);
        "pod added"
    }

    fn remove_pod(&mut self) -> &'static str {
        let at = self.random.below(self.pods.len());
        self.live.api.delete(PODS, &self.pods.swap_remove(at));
        self.touched.insert(PODS);
        "pod removed"
    }
}

/// The policies of a namespace.
fn path(namespace: &str) -> String {
    format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies")
}
