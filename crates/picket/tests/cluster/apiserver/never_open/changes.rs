//! Changes of the cluster, at random.

use std::sync::Arc;

use picket_cluster::{Addresses, Node, Pod};
use picket_net::Family;
use picket_policy::ObjectRef;
use serde_json::{Value, json};

use super::happenings::{Happenings, NAMED, NAMESPACES, NODES, PODS, STAND_IN, TIERS, status, tier};
use super::{OTHER, POLICIES, numbered};
use crate::apiserver::agent::NODE;
use crate::objects::network_policy;
use crate::prober::object;
use crate::watched::oracle::Change;
use crate::watched::policy;

/// More policies than these are soon fewer.
const POLICIES_AT_ONCE: usize = 4;

/// The pods whose packets are watched, or will be.
const WATCHED: [&str; 7] = ["x/a", "x/c", STAND_IN, "y/a", "y/b", "z/a", "z/b"];

/// Those that exchange addresses.
const EXCHANGING: [[&str; 2]; 4] = [["y/a", "y/b"], ["y/b", "z/a"], ["z/a", "y/a"], ["x/c", STAND_IN]];

impl Happenings<'_> {
    pub(super) fn change(&mut self) {
        self.count += 1;
        let kind = match self.random.below(25) {
            0..9 if self.random.below(2 * POLICIES_AT_ONCE) < self.policies.len() => self.remove_policy(),
            0..9 => self.add_policy(),
            9..13 => self.label_pod(),
            13..16 => self.label_namespace(),
            16..18 if self.pods.len() > 8 => self.remove_pod(),
            16..20 => self.add_pod(),
            20..22 if !self.policies.is_empty() => self.change_policy(),
            20..22 => self.add_policy(),
            24 => self.label_node(),
            _ => self.exchange_addresses(),
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
        let now = self.watched.oracle.now();
        let has_moved = |pod: &&str| now.pods[&object(pod)].addresses != self.homes[*pod];
        let moved: Vec<_> = WATCHED.into_iter().filter(has_moved).collect();
        for pod in &moved {
            let spare = self.spare();
            self.set_addresses(pod, spare);
        }
        for pod in moved {
            self.set_addresses(pod, self.homes[pod]);
        }
        for namespace in ["y", "z"] {
            self.set_open(namespace, "no");
        }
        for node in [NODE, OTHER] {
            self.set_role(node, "none");
        }
        self.settle();
    }

    pub(super) fn add_policy(&mut self) -> &'static str {
        let (namespace, added) = match self.random.below(6) {
            0 => (self.random.one_of(&["y", "z"]), "policy added"),
            1 | 2 => ("", "policy of a tier added"),
            _ => ("x", "policy added"),
        };
        let manifest = self.manifest(namespace, &format!("random-{}", self.count));
        self.put(&manifest);
        added
    }

    /// There is a policy more.
    pub(super) fn put(&mut self, manifest: &Value) -> ObjectRef {
        let policy = policy(manifest);
        let object = policy.object.clone();
        self.watched
            .begins(format!("{object}: {}", manifest["spec"]), Change::Policy(policy));
        self.live.api.create(&path(&object), manifest);
        self.touched.insert(list(&object));
        self.policies.push(object.clone());
        object
    }

    /// A policy that is there says something else.
    fn change_policy(&mut self) -> &'static str {
        let at = self.random.below(self.policies.len());
        let object = self.policies[at].clone();
        let manifest = self.manifest(&object.namespace, &object.name);
        self.watched.begins(
            format!("{object} is now: {}", manifest["spec"]),
            Change::Policy(policy(&manifest)),
        );
        let operations = json!([{"op": "replace", "path": "/spec", "value": manifest["spec"]}]);
        self.live.api.patch_by(&path(&object), &object.name, &operations);
        self.touched.insert(list(&object));
        "policy changed"
    }

    /// A policy of a namespace, or of a tier.
    fn manifest(&mut self, namespace: &str, name: &str) -> Value {
        match namespace {
            "" => tier(name, &self.tier()),
            "x" => network_policy(namespace, name, &self.ingress()),
            // But not the pod that is to lose nothing.
            "z" => network_policy(namespace, name, &self.egress("a")),
            _ => {
                let subject = self.random.one_of(&["a", "b"]);
                network_policy(namespace, name, &self.egress(subject))
            }
        }
    }

    /// Somebody may send to somebody in namespace x.
    fn ingress(&mut self) -> Value {
        let spaces = [
            json!({"kubernetes.io/metadata.name": "y"}),
            json!({"kubernetes.io/metadata.name": "z"}),
            json!({"open": "yes"}),
        ];
        let space = &spaces[self.random.below(3)];
        let peer = match self.random.below(3) {
            0 => json!({"ipBlock": self.block(&["y/a", "y/b", "z/a", "z/b", OTHER, OTHER])}),
            _ => {
                json!({"namespaceSelector": {"matchLabels": space}, "podSelector": self.pods_called(&["a", "b"])})
            }
        };
        json!({
            "podSelector": self.pods_called(&["a", "c"]),
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [peer], "ports": self.ports()}],
        })
    }

    /// Somebody may send only to somebody in namespace x, or to a node.
    fn egress(&mut self, subject: &str) -> Value {
        let space = json!({"matchLabels": {"kubernetes.io/metadata.name": "x"}});
        let peer = match self.random.below(3) {
            0 => json!({"ipBlock": self.block(&["x/a", "x/c", NODE, OTHER])}),
            _ => json!({"namespaceSelector": space, "podSelector": self.pods_called(&["a", "c"])}),
        };
        json!({
            "podSelector": {"matchLabels": {"pod": subject}},
            "policyTypes": ["Egress"],
            "egress": [{"to": [peer], "ports": self.ports()}],
        })
    }

    /// Something is decided about what pod c of namespace x gets, or what pods of another namespace send, to nodes too; nothing about
    /// what is always allowed.
    fn tier(&mut self) -> Value {
        let space = |name: &str| json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
        let (tier, actions) = match self.random.below(2) {
            0 => ("Admin", &["Accept", "Deny", "Deny", "Pass"][..]),
            _ => ("Baseline", &["Accept", "Deny"][..]),
        };
        let action = self.random.one_of(actions);
        let first = 1000 + self.random.below(2);
        let ports = json!({"destinationPort": {"range": {"start": first, "end": first + 1}}});
        let protocols = json!([{"udp": ports}, {"tcp": ports}]);
        let pods =
            |space: Value, pods: Value| json!({"pods": {"namespaceSelector": space, "podSelector": pods}});
        let mut spec = json!({"tier": tier, "priority": self.count % 1000});
        if self.random.below(2) == 0 {
            spec["subject"] = pods(space("x"), json!({"matchLabels": {"pod": "c"}}));
            let from = self.random.one_of(&["y", "z"]);
            let peer = pods(space(from), self.pods_called(&["a", "b"]));
            spec["ingress"] = json!([{"action": action, "from": [peer], "protocols": protocols}]);
        } else {
            spec["subject"] = json!({"namespaces": space(self.random.one_of(&["y", "z"]))});
            let peer = match self.random.below(4) {
                0 => pods(space("x"), self.pods_called(&["a", "c"])),
                1 => json!({"networks": [self.block(&["x/a", "x/c", NODE, OTHER])["cidr"]]}),
                2 => json!({"nodes": {}}),
                _ => json!({"nodes": {"matchLabels": {"role": "red"}}}),
            };
            spec["egress"] = json!([{"action": action, "to": [peer], "protocols": protocols}]);
        }
        spec
    }

    /// The address of a pod or a node, or all others of that family.
    fn block(&mut self, places: &[&str]) -> Value {
        let home = self.homes[self.random.one_of(places)];
        let family = [Family::Ipv4, Family::Ipv6][self.random.below(2)];
        let (length, all) = match family {
            Family::Ipv4 => (32, "0.0.0.0/0"),
            Family::Ipv6 => (128, "::/0"),
        };
        let one = format!("{}/{length}", home.of(family).unwrap());
        match self.random.below(2) {
            0 => json!({"cidr": one}),
            _ => json!({"cidr": all, "except": [one]}),
        }
    }

    /// Selects all pods, those of a team, or those of a name.
    fn pods_called(&mut self, names: &[&str]) -> Value {
        match self.random.below(4) {
            0 => json!({}),
            1 => json!({"matchLabels": {"team": "red"}}),
            _ => json!({"matchLabels": {"pod": self.random.one_of(names)}}),
        }
    }

    /// One or two ports of which some are watched, or one by its name.
    pub(super) fn ports(&mut self) -> Value {
        if self.random.below(4) == 0 {
            return json!([{"port": NAMED, "protocol": "UDP"}, {"port": NAMED, "protocol": "TCP"}]);
        }
        let first = 1000 + self.random.below(3);
        numbered(first, first + self.random.below(2))
    }

    fn remove_policy(&mut self) -> &'static str {
        let at = self.random.below(self.policies.len());
        let gone = self.policies[at].clone();
        self.remove(&gone);
        "policy removed"
    }

    /// There is a policy less.
    pub(super) fn remove(&mut self, gone: &ObjectRef) {
        let at = self.policies.iter().position(|policy| policy == gone).unwrap();
        self.policies.swap_remove(at);
        self.watched
            .begins(format!("{gone} is gone"), Change::NoPolicy(gone.clone()));
        self.live.api.delete(&path(gone), &gone.name);
        self.touched.insert(list(gone));
    }

    fn label_pod(&mut self) -> &'static str {
        let pod = self.random.one_of(&WATCHED);
        let team = self.random.one_of(&["red", "blue"]);
        self.set_team(pod, team);
        "pod labelled"
    }

    pub(super) fn set_team(&mut self, id: &str, team: &str) {
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

    /// Two pods exchange their addresses; nobody has that of the first in between.
    fn exchange_addresses(&mut self) -> &'static str {
        let [one, other] = EXCHANGING[self.random.below(EXCHANGING.len())];
        let now = self.watched.oracle.now();
        let [of_one, of_other] = [one, other].map(|id| now.pods[&object(id)].addresses);
        let spare = self.spare();
        for (id, addresses) in [(one, spare), (other, of_one), (one, of_other)] {
            self.set_addresses(id, addresses);
        }
        "addresses exchanged"
    }

    /// Addresses that nobody has had.
    fn spare(&mut self) -> Addresses {
        self.spares += 1;
        let (high, low) = (self.spares / 200, self.spares % 200 + 1);
        let texts = [
            format!("10.78.{high}.{low}"),
            format!("fd78:1::{:x}", self.spares),
        ];
        texts.into_iter().map(|text| text.parse().unwrap()).collect()
    }

    fn set_addresses(&mut self, id: &str, addresses: Addresses) {
        let now = self.watched.oracle.now();
        let pod = Pod {
            addresses,
            ..Pod::clone(&now.pods[&object(id)])
        };
        let ObjectRef { namespace, name, .. } = pod.object.clone();
        let told = status(addresses);
        self.watched
            .begins(format!("{id} has {}", told["podIPs"]), Change::Pod(Arc::new(pod)));
        let pods = format!("{NAMESPACES}/{namespace}/pods");
        self.live.api.set_status(&pods, &name, &told);
        self.touched.insert(PODS);
    }

    fn label_node(&mut self) -> &'static str {
        let node = self.random.one_of(&[NODE, OTHER]);
        let role = self.random.one_of(&["red", "blue"]);
        self.set_role(node, role);
        "node labelled"
    }

    fn set_role(&mut self, name: &str, role: &str) {
        let mut node = Node::clone(&self.watched.oracle.now().nodes[name]);
        node.labels = node.labels.with("role", role);
        self.watched
            .begins(format!("{name} has the role {role}"), Change::Node(node));
        let labels = json!({"metadata": {"labels": {"role": role}}});
        self.live.api.patch(NODES, name, &labels);
        self.touched.insert(NODES);
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
        let node = self.random.one_of(&[NODE, OTHER]);
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

/// The list that a policy is in.
fn path(policy: &ObjectRef) -> String {
    match policy.namespace.as_str() {
        "" => TIERS.to_owned(),
        namespace => format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"),
    }
}

/// A list of policies of its kind.
fn list(policy: &ObjectRef) -> &'static str {
    match policy.namespace.as_str() {
        "" => TIERS,
        _ => POLICIES,
    }
}
