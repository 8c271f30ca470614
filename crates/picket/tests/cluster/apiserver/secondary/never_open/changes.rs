//! Changes of the cluster, at random.

use std::fs;
use std::sync::Arc;

use picket_cluster::{Addresses, Pod};
use picket_net::Family;
use picket_nftables::custom::CustomRules;
use picket_policy::{Direction, ObjectRef, Source};
use serde_json::{Value, json};

use super::happenings::{CUSTOM, Happenings, NETWORK, PODS, POLICIES};
use crate::apiserver::never_open::numbered;
use crate::apiserver::secondary::labelled;
use crate::pods::Interface;
use crate::prober::object;
use crate::watched::oracle::Change;
use crate::watched::policy;

/// More policies than these are soon fewer.
const POLICIES_AT_ONCE: usize = 4;

impl Happenings {
    /// So many changes, or a few more.
    pub(super) fn changes(&mut self, least: usize) {
        for _ in 0..least + self.random.below(4) {
            self.change();
        }
    }

    fn change(&mut self) {
        let kind = match self.random.below(46) {
            0..12 if self.random.below(2 * POLICIES_AT_ONCE) < self.policies.len() => self.remove_policy(),
            12..18 if !self.policies.is_empty() => self.change_policy(),
            0..18 => self.add_policy(),
            18..26 => self.label_pod(),
            26..31 => self.label_namespace(),
            31..34 if self.others.len() > 6 => self.remove_pod(),
            39 => self.pass_by(),
            40..43 => self.move_addresses(),
            43..46 => self.change_rules(),
            _ => self.add_pod(),
        };
        *self.kinds.entry(kind).or_default() += 1;
    }

    /// Three times a policy comes, says something else or goes, while something is in the way of that.
    pub(super) fn change_policies(&mut self) {
        for _ in 0..3 {
            let kind = match self.random.below(3) {
                0 if !self.policies.is_empty() => self.remove_policy(),
                1 if !self.policies.is_empty() => self.change_policy(),
                _ => self.add_policy(),
            };
            *self.meanwhile.entry(kind).or_default() += 1;
        }
    }

    /// A name that nothing has had.
    fn name(&mut self) -> String {
        self.count += 1;
        format!("random-{}", self.count)
    }

    /// Everything is again as before all changes.
    pub(super) fn clear(&mut self) {
        while !self.policies.is_empty() {
            self.remove_policy();
        }
        while !self.others.is_empty() {
            self.remove_pod();
        }
        for pod in self.pods.keys().cloned().collect::<Vec<_>>() {
            self.set_team(&pod, "none");
        }
        self.set_open("no");
        let moved = ["b", "c"].map(|name| (name, self.spare()));
        for (name, addresses) in moved {
            self.set_addresses(name, addresses);
        }
        for name in ["b", "c"] {
            self.set_addresses(name, self.homes[name]);
        }
        for family in Family::BOTH {
            self.set_rules(family, "");
        }
        self.settle();
    }

    fn add_policy(&mut self) -> &'static str {
        let name = self.name();
        let spec = self.spec();
        let added = policy(&manifest(&name, &spec));
        self.watched
            .begins(format!("{name}: {spec}"), Change::Policy(added));
        self.node.policy("default", &name, NETWORK, &spec);
        self.policies.push(name);
        "policy added"
    }

    /// A policy that is there says something else, perhaps about other pods, in another direction or in both.
    fn change_policy(&mut self) -> &'static str {
        let at = self.random.below(self.policies.len());
        let name = self.policies[at].clone();
        let spec = self.spec();
        let changed = policy(&manifest(&name, &spec));
        self.watched
            .begins(format!("{name} is now: {spec}"), Change::Policy(changed));
        match self.random.below(2) {
            0 => self.node.api.replace_spec(POLICIES, &name, &spec),
            _ => {
                let operations = json!([{"op": "replace", "path": "/spec", "value": spec}]);
                self.node.api.patch_by(POLICIES, &name, &operations);
            }
        }
        "policy changed"
    }

    fn spec(&mut self) -> Value {
        match self.random.below(5) {
            0 => self.egress(),
            1 => self.both(),
            _ => self.ingress(),
        }
    }

    /// Somebody may send to somebody, and others only to somebody; but not the pod that is to lose nothing.
    fn both(&mut self) -> Value {
        let (ingress, egress) = (self.ingress(), self.egress());
        let subjects = ["b", "c", "d", "server"];
        json!({
            "podSelector": {"matchExpressions": [{"key": "name", "operator": "In", "values": subjects}]},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress["ingress"],
            "egress": egress["egress"],
        })
    }

    /// Somebody may send to somebody.
    fn ingress(&mut self) -> Value {
        let peer = match self.random.below(6) {
            0 => json!({"ipBlock": self.block(&["a", "b", "c"])}),
            1 | 2 => {
                let pods = self.pods_called(&["a", "b", "c"]);
                json!({"podSelector": pods, "namespaceSelector": labelled("open", "yes")})
            }
            _ => json!({"podSelector": self.pods_called(&["a", "b", "c"])}),
        };
        json!({
            "podSelector": self.pods_called(&["server", "d"]),
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [peer], "ports": self.ports()}],
        })
    }

    /// Somebody may send only to somebody; but not the pod that is to lose nothing.
    fn egress(&mut self) -> Value {
        let subject = self.random.one_of(&["b", "c"]);
        let peer = match self.random.below(4) {
            0 => json!({"ipBlock": self.block(&["server", "d"])}),
            _ => json!({"podSelector": self.pods_called(&["server", "d"])}),
        };
        json!({
            "podSelector": labelled("name", subject),
            "policyTypes": ["Egress"],
            "egress": [{"to": [peer], "ports": self.ports()}],
        })
    }

    /// The address of a pod, or all others around it.
    fn block(&mut self, pods: &[&str]) -> Value {
        let home = self.homes[self.random.one_of(pods)];
        let family = [Family::Ipv4, Family::Ipv6][self.random.below(2)];
        let (length, around) = match family {
            Family::Ipv4 => (32, ["0.0.0.0/0", "2.2.5.0/24"]),
            Family::Ipv6 => (128, ["::/0", "2001:db8::/64"]),
        };
        let one = format!("{}/{length}", home.of(family).unwrap());
        match self.random.below(3) {
            0 => json!({"cidr": one}),
            wide => json!({"cidr": around[wide - 1], "except": [one]}),
        }
    }

    /// Selects all pods, those of a team, or one of a name.
    fn pods_called(&mut self, names: &[&str]) -> Value {
        match self.random.below(4) {
            0 => json!({}),
            1 => labelled("team", "red"),
            _ => labelled("name", self.random.one_of(names)),
        }
    }

    /// One or two ports of which some are watched, or one by its name.
    fn ports(&mut self) -> Value {
        if self.random.below(4) == 0 {
            return json!([{"port": "probe", "protocol": "UDP"}, {"port": "probe", "protocol": "TCP"}]);
        }
        let first = 1000 + self.random.below(3);
        numbered(first, first + self.random.below(2))
    }

    fn remove_policy(&mut self) -> &'static str {
        let at = self.random.below(self.policies.len());
        let name = self.policies.swap_remove(at);
        let gone = ObjectRef::new("MultiNetworkPolicy", "default", &name);
        self.watched
            .begins(format!("{name} is gone"), Change::NoPolicy(gone));
        self.node.delete_policy("default", &name);
        "policy removed"
    }

    fn label_pod(&mut self) -> &'static str {
        let pod = self.random.one_of(&["a", "b", "c", "d", "server"]);
        let team = self.random.one_of(&["red", "blue"]);
        self.set_team(pod, team);
        "pod labelled"
    }

    fn set_team(&mut self, name: &str, team: &str) {
        let now = self.watched.oracle.now();
        let mut pod = Pod::clone(&now.pods[&object(&format!("default/{name}"))]);
        pod.labels = pod.labels.with("team", team);
        self.watched
            .begins(format!("{name} is of team {team}"), Change::Pod(Arc::new(pod)));
        let labels = json!({"metadata": {"labels": {"team": team}}});
        self.node.api.patch(PODS, name, &labels);
    }

    /// Two pods exchange what is told of their addresses, or one has others for a while; what they send shows those that they have.
    fn move_addresses(&mut self) -> &'static str {
        let [of_b, of_c] = ["b", "c"].map(|name| self.addresses(name));
        let spare = self.spare();
        self.set_addresses("b", spare);
        if self.random.below(3) > 0 {
            self.set_addresses("c", of_b);
            self.set_addresses("b", of_c);
        }
        "addresses moved"
    }

    /// Addresses that nobody has had.
    fn spare(&mut self) -> Addresses {
        self.count += 1;
        let (high, low) = (self.count / 200, self.count % 200 + 1);
        let texts = [
            format!("2.2.{}.{low}", 200 + high),
            format!("2001:db8:2::{:x}", self.count),
        ];
        texts.into_iter().map(|text| text.parse().unwrap()).collect()
    }

    /// What is told of the addresses of a pod.
    fn addresses(&self, name: &str) -> Addresses {
        self.watched.oracle.now().pods[&object(&format!("default/{name}"))].attachments[0].addresses
    }

    fn set_addresses(&mut self, name: &str, addresses: Addresses) {
        let now = self.watched.oracle.now();
        let mut pod = Pod::clone(&now.pods[&object(&format!("default/{name}"))]);
        pod.attachments[0].addresses = addresses;
        let texts: Vec<_> = addresses.iter().map(|address| address.to_string()).collect();
        self.watched
            .begins(format!("{name} has {texts:?}"), Change::Pod(Arc::new(pod)));
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        self.node.tell(
            "default",
            name,
            &[Interface {
                network: NETWORK,
                name: "net1",
                addresses: &texts,
            }],
        );
    }

    /// The custom rules of a family are others.
    fn change_rules(&mut self) -> &'static str {
        let family = [Family::Ipv4, Family::Ipv6][self.random.below(2)];
        let source = match self.random.below(3) {
            0 => String::new(),
            _ => {
                let home = self.homes[self.random.one_of(&["a", "b", "c"])];
                let (kind, address) = (
                    ["ip", "ip6"][usize::from(family == Family::Ipv6)],
                    home.of(family),
                );
                format!("{kind} saddr {} ", address.unwrap())
            }
        };
        let port = 1000 + self.random.below(3);
        let end = self.random.one_of(&["accept", "drop"]);
        let rules = ["udp", "tcp"].map(|protocol| format!("{source}{protocol} dport {port} {end}\n"));
        self.set_rules(family, &rules.concat());
        "custom rules changed"
    }

    /// Puts rules into the file of a family, behind one that says which they are.
    fn set_rules(&mut self, family: Family, rules: &str) {
        self.count += 1;
        let mark = format!("udp dport {}", CUSTOM + self.count);
        let text = format!("{mark} accept\n{rules}");
        self.rules.insert(family, mark);
        let path = self.files[usize::from(family == Family::Ipv6)].clone();
        let source = Source::decode(&path.as_str().into(), text.as_bytes()).unwrap();
        let file = CustomRules::read(&source, Direction::Ingress, family).unwrap();
        let [says] = <[_; 1]>::try_from(file.policies()).unwrap();
        let says = Arc::new(says);
        self.custom.insert(says.object.clone(), Arc::clone(&says));
        self.watched
            .begins(format!("{}: {text}", says.object), Change::Policy(says));
        // At once.
        fs::write(format!("{path}.new"), text).unwrap();
        fs::rename(format!("{path}.new"), &path).unwrap();
    }

    fn label_namespace(&mut self) -> &'static str {
        let open = self.random.one_of(&["yes", "no"]);
        self.set_open(open);
        "namespace labelled"
    }

    fn set_open(&mut self, open: &str) {
        let mut namespace = self.watched.oracle.now().namespace("default").into_owned();
        namespace.labels = namespace.labels.with("open", open);
        self.watched.begins(
            format!("the namespace is open: {open}"),
            Change::Namespace(namespace),
        );
        let labels = json!({"metadata": {"labels": {"open": open}}});
        self.node.api.patch("/api/v1/namespaces", "default", &labels);
    }

    /// A pod of another node.
    fn add_pod(&mut self) -> &'static str {
        let name = self.name();
        let label = self.random.one_of(&["a", "b", "c"]);
        let (high, low) = (self.count / 200, self.count % 200 + 1);
        let ips = [
            format!("2.2.{}.{low}", 100 + high),
            format!("2001:db8:1::{:x}", self.count),
        ];
        let status = json!([{"name": NETWORK, "interface": "net1", "ips": ips}]).to_string();
        self.node.api.create(PODS, &json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "labels": {"name": label, "team": "red"},
                "annotations": {"k8s.v1.cni.cncf.io/networks": NETWORK, "k8s.v1.cni.cncf.io/network-status": status},
            },
            "spec": {"nodeName": "node-2", "containers": [{"name": "main", "image": "main"}]},
        }));
        self.others.push(name);
        "pod added"
    }

    fn remove_pod(&mut self) -> &'static str {
        let at = self.random.below(self.others.len());
        self.node.api.delete(PODS, &self.others.swap_remove(at));
        "pod removed"
    }

    /// A pod comes to the node, which a policy restricts, and goes again.
    fn pass_by(&mut self) -> &'static str {
        let name = self.name();
        let address = format!("2.2.5.{}/24", 20 + self.count % 200);
        let interface = Interface {
            network: NETWORK,
            name: "net1",
            addresses: &[&address],
        };
        let labels = json!({"name": "d", "team": "red"});
        let pod = self.node.pod("default", &name, &labels, &[interface]);
        self.node.stop(&pod);
        self.node.api.delete(PODS, &name);
        "pod came and went"
    }
}

/// A policy for the network.
fn manifest(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1beta1",
        "kind": "MultiNetworkPolicy",
        "metadata": {"name": name, "namespace": "default", "annotations": {"k8s.v1.cni.cncf.io/policy-for": NETWORK}},
        "spec": spec,
    })
}
