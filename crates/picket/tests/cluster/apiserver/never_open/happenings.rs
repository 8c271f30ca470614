//! A cluster and an agent to which things happen, and what the packets that arrive meanwhile say.

use std::collections::{BTreeMap, BTreeSet};

use picket_cluster::{Addresses, Snapshot};
use picket_nftables::print::text;
use picket_nftables::render::indexed;
use picket_policy::ObjectRef;
use serde_json::{Map, Value, json};

use super::{ALLOWED, OTHER, POLICIES, portion, ways};
use crate::agents::Agent;
use crate::apiserver::agent::{Live, NODE};
use crate::objects::{KINDS, network_policy};
use crate::prober::object;
use crate::published::Versions;
use crate::random::Random;
use crate::watched::oracle::{Judge, Oracle};
use crate::watched::proof::{installed, on_node};
use crate::watched::{Watched, policy, snapshot as read};

pub(super) const PODS: &str = "/api/v1/namespaces/y/pods";
pub(super) const NAMESPACES: &str = "/api/v1/namespaces";
pub(super) const NODES: &str = "/api/v1/nodes";
pub(super) const TIERS: &str = KINDS[14].2;

/// An object of each kind that is changed so that it is known how far an agent is, and what the kind is called.
const MARKS: [(&str, &str, &str); 5] = [
    (NAMESPACES, "y", "namespaces"),
    (NODES, OTHER, "nodes"),
    (PODS, "mark", "pods"),
    (POLICIES, "mark", "networkpolicies.networking.k8s.io"),
    (TIERS, "mark", "clusternetworkpolicies.policy.networking.k8s.io"),
];

/// Pods that have a port of this name, each another number.
pub(super) const NAMED: &str = "probe";

/// A pod of namespace x that nobody sends to, until it gets the address of one that others send to.
pub(super) const STAND_IN: &str = "x/stand-in";

pub(super) struct Happenings<'a> {
    pub(super) live: &'a Live,
    pub(super) agent: Agent,
    /// Whether it keeps others from changing the table.
    pub(super) holds: bool,
    pub(super) random: Random,
    /// Says when an agent is killed, which changes nothing of what else happens.
    pub(super) moments: Random,
    /// What has come at random, and goes so.
    pub(super) pods: Vec<String>,
    pub(super) policies: Vec<ObjectRef>,
    /// The addresses that pods and nodes have where nothing has happened.
    pub(super) homes: BTreeMap<String, Addresses>,
    /// How many addresses were had only for a moment.
    pub(super) spares: usize,
    pub(super) count: usize,
    /// How often each kind of thing has happened.
    pub(super) kinds: BTreeMap<&'static str, usize>,
    pub(super) watched: Watched,
    /// Whether every change is in force before the next.
    pub(super) one_by_one: bool,
    /// The kinds of objects that have changed since everything was in force.
    pub(super) touched: BTreeSet<&'static str>,
    marks: usize,
    /// How often the table of the kernel was proved.
    pub(super) proved: usize,
}

impl<'a> Happenings<'a> {
    /// In a cluster in which everything is in force.
    pub(super) fn new(live: &'a Live, agent: Agent) -> Self {
        // What nobody answers is soon forgotten, so that there is little to look through for connections.
        live.node()
            .set(&[("netfilter/nf_conntrack_udp_timeout", "1")])
            .unwrap();
        let mark = json!({"podSelector": {"matchLabels": {"mark": "none"}}});
        live.api.create(POLICIES, &network_policy("x", "mark", &mark));
        let containers = json!([{"name": "main", "image": "main"}]);
        let metadata = json!({"name": "mark", "labels": {"pod": "mark"}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}});
        live.api.create(PODS, &pod);
        live.api.create(TIERS, &tier("mark", &json!({
            "tier": "Admin", "priority": 0, "subject": {"namespaces": {"matchLabels": {"mark": "none"}}},
        })));
        let ways = ways();
        let mut snapshot = live.lab.topology().snapshot.clone();
        for (id, port) in [("x/a", 1000), ("x/c", 1001), (STAND_IN, 1002)] {
            name_a_port(live, &mut snapshot, id, port);
        }
        let allow = policy(&network_policy("x", "allow", &super::allowing(&["UDP", "TCP"])));
        snapshot.policies.insert(allow.object.clone(), allow);
        let oracle = Oracle::new(Judge::Node(NODE.to_owned()), &snapshot, &ways);
        let marked = live
            .api
            .patch(PODS, "mark", &json!({"metadata": {"labels": {"count": "0"}}}));
        let version = marked["metadata"]["resourceVersion"].as_str().unwrap();
        agent.until_enforced(&[("pods".to_owned(), version.parse().unwrap())].into());
        let of_pods = snapshot.pods.values().map(|pod| (pod.id(), pod.addresses));
        let of_nodes = snapshot.nodes.values().map(|node| {
            let addresses = node.addresses.iter().copied().collect();
            (node.name.to_string(), addresses)
        });
        let homes = of_pods.chain(of_nodes).collect();
        Self {
            live,
            agent,
            holds: true,
            random: Random(0),
            moments: Random(0),
            pods: Vec::new(),
            policies: Vec::new(),
            homes,
            spares: 0,
            count: 0,
            kinds: BTreeMap::new(),
            watched: Watched::new(oracle, &live.lab, ways, ALLOWED),
            one_by_one: false,
            touched: BTreeSet::new(),
            marks: 0,
            proved: 0,
        }
    }

    /// Some sequences of changes, as a seed says, from the beginning. After each the table of the kernel is proved.
    pub(super) fn play(&mut self, seed: u64, sequences: usize) {
        self.random = Random(seed);
        self.clear();
        let begin = self.cluster();
        for _ in 0..sequences {
            self.sequence();
            self.settle();
            self.prove();
            self.watched.cut(&self.live.lab, || self.agent.log());
        }
        let table = installed(self.live.node(), indexed::table_name());
        assert!(
            !on_node(&table, &begin, NODE).is_proof(),
            "what is in force is as good as what was before all changes: {}",
            text(&table)
        );
    }

    /// Some changes of the cluster, one after the other, and now and then something else while they are taken in; perhaps more of
    /// them before all that is in force.
    fn sequence(&mut self) {
        loop {
            self.one_by_one = self.random.below(4) == 0;
            for _ in 0..=self.random.below(6) {
                self.change();
            }
            self.one_by_one = false;
            if let Some(fault) = self.fault() {
                *self.kinds.entry(fault).or_default() += 1;
            }
            if self.watched.oracle.pending() > 5 || self.random.below(6) > 0 {
                return;
            }
        }
    }

    /// Everything is in force: proves that the kernel has what the API server says.
    pub(super) fn prove(&mut self) {
        let table = installed(self.live.node(), indexed::table_name());
        let report = on_node(&table, &self.cluster(), NODE);
        assert!(
            report.is_proof(),
            "{:#?}\n{}\n{}",
            report.counterexamples,
            text(&table),
            self.agent.log()
        );
        self.proved += 1;
    }

    /// What the API server has, as the specification reads it.
    fn cluster(&self) -> Snapshot {
        let mut objects = Vec::new();
        for index in [0, 1, 2, 11, 14] {
            let (version, kind, path) = KINDS[index];
            for mut object in self.live.api.list(path) {
                // Nobody sends as a pod without an address, which would be given one where it is read from a file.
                if kind == "Pod" && object["status"]["podIPs"].is_null() {
                    continue;
                }
                object["apiVersion"] = version.into();
                object["kind"] = kind.into();
                objects.push(object);
            }
        }
        read(&objects)
    }

    /// Waits until everything is in force, and looks at what came meanwhile.
    pub(super) fn settle(&mut self) {
        let versions = self.mark();
        self.agent.until_enforced(&versions);
        self.touched.clear();
        self.watched.settle(|| self.agent.log());
    }

    /// What an agent has to know that knows everything.
    pub(super) fn mark(&mut self) -> Versions {
        self.marks += 1;
        let labels = json!({"metadata": {"labels": {"count": self.marks.to_string()}}});
        let marks = MARKS
            .into_iter()
            .filter(|(path, _, _)| self.touched.contains(path));
        marks
            .map(|(path, name, resource)| {
                let marked = self.live.api.patch(path, name, &labels);
                let version = marked["metadata"]["resourceVersion"].as_str().unwrap();
                (resource.to_owned(), version.parse().unwrap())
            })
            .collect()
    }

    /// Starts another agent, that has everything to learn.
    pub(super) fn start(&mut self, holds: bool) {
        let owner = ["everybody", "agent"][usize::from(holds)];
        let portion = portion(&mut self.moments);
        self.agent = self.live.agent(&[
            "--verify-interval",
            "3",
            "--table-owner",
            owner,
            "--portion",
            portion,
        ]);
        self.holds = holds;
        self.touched = MARKS.into_iter().map(|(path, _, _)| path).collect();
    }

    /// Waits until everything is in force, until whatever is allowed arrives, and until it is proved that the kernel has what the
    /// policies say.
    pub(super) fn until_all_is_in_force(&mut self) {
        self.settle();
        self.watched.cut(&self.live.lab, || self.agent.log());
        self.watched.until_allowed_arrives(|| self.agent.log());
        let current = self.agent.status().and_then(|status| status.host.current);
        self.agent.until("a proof", |status| {
            let proof = status.host.proof.as_ref();
            proof.is_some_and(|proof| proof.proved && Some(proof.when) > current)
        });
    }
}

/// A policy of a tier.
pub(super) fn tier(name: &str, spec: &Value) -> Value {
    let (api_version, kind, _) = KINDS[14];
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Makes a pod of the node anew that has a port with a name.
fn name_a_port(live: &Live, snapshot: &mut Snapshot, id: &str, port: u16) {
    let (namespace, name) = id.split_once('/').unwrap();
    let pods = format!("{NAMESPACES}/{namespace}/pods");
    let before = snapshot.pods.remove(&object(id));
    let (labels, ips) = match before {
        Some(pod) => {
            live.api.delete(&pods, name);
            let labels = pod.labels.iter();
            let labels = labels.map(|(key, value)| (key.to_string(), Value::from(value.as_str())));
            (labels.collect(), pod.addresses)
        }
        None => {
            let ips = ["10.76.0.1", "fd76::1"].map(|ip| ip.parse().unwrap());
            let labels = Map::from_iter([("pod".to_owned(), "b".into())]);
            (labels, ips.into_iter().collect())
        }
    };
    // No container has two ports of one name.
    let container = |name: &str, protocol: &str| {
        let ports = json!([{"name": NAMED, "containerPort": port, "protocol": protocol}]);
        json!({"name": name, "image": "main", "ports": ports})
    };
    let containers = [container("main", "UDP"), container("second", "TCP")];
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"nodeName": NODE, "containers": containers},
        "status": status(ips),
    });
    live.api.create(&pods, &pod);
    live.api.set_status(&pods, name, &pod["status"]);
    snapshot.pods.append(&mut read(&[pod]).pods);
}

/// That of a pod that runs and has these addresses.
pub(super) fn status(addresses: Addresses) -> Value {
    let ips: Vec<_> = addresses
        .iter()
        .map(|address| json!({"ip": address.to_string()}))
        .collect();
    json!({"phase": "Running", "podIP": ips[0]["ip"], "podIPs": ips})
}
