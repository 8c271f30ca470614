//! Pods with rules and an agent to which things happen, and what the packets that arrive meanwhile say.

use std::collections::BTreeMap;
use std::sync::Arc;

use picket_cluster::{Addresses, Snapshot};
use picket_net::Family;
use picket_nftables::model::Table;
use picket_nftables::render::documented;
use picket_policy::{NetworkName, ObjectRef, Policy};
use serde_json::json;

use super::{ALLOWED, standing};
use crate::apiserver::never_open::portion;
use crate::apiserver::secondary::custom_rules::arguments;
use crate::apiserver::secondary::simple;
use crate::objects::KINDS;
use crate::pods::{Node, Pods, nft, table};
use crate::random::Random;
use crate::watched::flows::{Way, until};
use crate::watched::oracle::{Judge, Oracle};
use crate::watched::proof::{in_pods, installed};
use crate::watched::{Watched, snapshot};

pub(super) const NETWORK: &str = "default/net";
pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(super) const POLICIES: &str = "/apis/k8s.cni.cncf.io/v1beta1/namespaces/default/multi-networkpolicies";

/// Custom rules are known by a port above this one, which nobody sends to.
pub(super) const CUSTOM: usize = 20_000;

/// The pod whose rules others change.
pub(super) const FLUSHED: &str = "server";

/// The port of two pods that policies name, each another.
const PROBED: [(&str, u16); 2] = [("server", 1000), ("d", 1001)];

/// A table with which a pod tracks connections.
const TRACKING: &str = "table inet tracking { chain input { type filter hook input priority 0; ct state established accept; }; }";

pub(super) struct Happenings {
    pub(super) node: Node,
    pub(super) pods: Pods,
    /// Whether the agent keeps others from changing the tables.
    pub(super) holds: bool,
    pub(super) random: Random,
    /// Says when an agent is killed, which changes nothing of what else happens.
    pub(super) moments: Random,
    pub(super) policies: Vec<String>,
    /// The addresses that pods have.
    pub(super) homes: BTreeMap<String, Addresses>,
    /// The files of custom rules, one of each family.
    pub(super) files: [String; 2],
    /// What they say, and by which rule they are known.
    pub(super) custom: BTreeMap<ObjectRef, Arc<Policy>>,
    pub(super) rules: BTreeMap<Family, String>,
    /// Pods of another node that have come, and go so.
    pub(super) others: Vec<String>,
    pub(super) count: usize,
    pub(super) faults: usize,
    marks: usize,
    /// How often the tables of the pods were proved.
    pub(super) proved: usize,
    /// How often each kind of thing has happened.
    pub(super) kinds: BTreeMap<&'static str, usize>,
    /// The same of what policies did while something was in the way of that.
    pub(super) meanwhile: BTreeMap<&'static str, usize>,
    pub(super) watched: Watched,
}

impl Happenings {
    /// On a node on which everything is in force.
    pub(super) fn new(ways: Vec<Way>) -> Self {
        Self::on(Node::new(), ways)
    }

    /// The same on this node, which has no agent yet.
    pub(super) fn on(mut node: Node, ways: Vec<Way>) -> Self {
        node.probed = PROBED.into();
        let pods = simple(&mut node);
        let homes = pods.iter().map(|(name, pod)| {
            let addresses = pod.addresses.iter().copied();
            (name.clone(), addresses.collect())
        });
        let homes = homes.collect();
        // What a pod has begun before its first policy it may have to say something on, or to begin again: these track connections from
        // the beginning, as the others do by what holds all the time.
        for name in ["a", "b", "c"] {
            nft(&pods[name], TRACKING);
        }
        let files = ["v4", "v6"].map(|name| node.file(name, ""));
        for (name, spec) in standing() {
            node.policy("default", name, NETWORK, &spec);
        }
        let network = NetworkName::parse(NETWORK, "").unwrap();
        let flushed = format!("default/{FLUSHED}");
        let judge = Judge::Pods { network, flushed };
        let oracle = Oracle::new(judge, &cluster(&node), &ways);
        node.start(&arguments(&files));
        node.until_enforced();
        let watched = Watched::new(oracle, &pods, ways, ALLOWED);
        let mut happenings = Self {
            node,
            pods,
            holds: true,
            random: Random(0),
            moments: Random(0),
            policies: Vec::new(),
            homes,
            files,
            custom: BTreeMap::new(),
            rules: BTreeMap::new(),
            others: Vec::new(),
            count: 0,
            faults: 0,
            marks: 0,
            proved: 0,
            kinds: BTreeMap::new(),
            meanwhile: BTreeMap::new(),
            watched,
        };
        happenings.watched.until_allowed_arrives(|| happenings.node.log());
        happenings
    }

    /// Some sequences of changes, as a seed says, from the beginning. After each the tables of the pods are proved.
    pub(super) fn play(&mut self, seed: u64, sequences: usize) {
        self.random = Random(seed);
        self.clear();
        let begin = self.cluster();
        for _ in 0..sequences {
            self.sequence();
            self.settle();
            self.prove();
            self.watched.cut(&self.pods, || self.node.log());
        }
        let network = NetworkName::parse(NETWORK, "").unwrap();
        let tables = self.tables();
        assert!(
            !in_pods(&tables, &begin, &network).is_empty(),
            "what is in force is as good as what was before all changes: {tables:#?}"
        );
    }

    /// Some changes of the cluster, one after the other, and now and then something else while they are taken in; perhaps more of
    /// them before all that is in force.
    fn sequence(&mut self) {
        loop {
            self.changes(1);
            if let Some(fault) = self.fault() {
                *self.kinds.entry(fault).or_default() += 1;
            }
            if self.watched.oracle.pending() > 5 || self.random.below(4) > 0 {
                return;
            }
        }
    }

    /// Everything is in force: proves that the kernel has in every pod what the API server says.
    fn prove(&mut self) {
        let network = NetworkName::parse(NETWORK, "").unwrap();
        let tables = self.tables();
        let refuted = in_pods(&tables, &self.cluster(), &network);
        assert!(
            refuted.is_empty(),
            "{refuted:#?}\n{tables:#?}\n{}",
            self.node.log()
        );
        self.proved += 1;
    }

    /// What the API server and the files have, as the specification reads it.
    fn cluster(&self) -> Snapshot {
        let mut snapshot = cluster(&self.node);
        snapshot.policies.extend(self.custom.clone());
        snapshot
    }

    /// The tables of all pods that are watched.
    fn tables(&self) -> Vec<(ObjectRef, Table)> {
        let pods = self.pods.iter();
        let tables = pods.map(|(name, pod)| {
            let table = installed(&pod.inside, documented::table_name());
            (ObjectRef::new("Pod", "default", name), table)
        });
        tables.collect()
    }

    /// Waits until everything is in force, and looks at what came meanwhile.
    pub(super) fn settle(&mut self) {
        self.mark();
        self.node.until_enforced();
        self.node.until("no trouble", picket_node::PodsStatus::is_well);
        for name in ["server", "d"] {
            until("the custom rules", || {
                let table = table(&self.pods[name]);
                self.rules.values().all(|mark| table.contains(mark))
            });
        }
        self.watched.settle(|| self.node.log());
    }

    /// Changes an object of each kind of which others may have gone: what is gone has no version that could be waited for.
    pub(super) fn mark(&mut self) {
        self.marks += 1;
        let fields = json!({"metadata": {"labels": {"count": self.marks.to_string()}}});
        self.node.api.patch(POLICIES, "closed", &fields);
        self.node.api.patch(PODS, "server", &fields);
    }

    /// Ends the agent without order.
    pub(super) fn kill(&mut self) {
        self.node.kill();
    }

    /// Starts another agent, that has everything to learn.
    pub(super) fn start(&mut self, holds: bool) {
        let owner = ["everybody", "agent"][usize::from(holds)];
        let portion = portion(&mut self.moments);
        let others = [
            "--verify-interval",
            "3",
            "--table-owner",
            owner,
            "--portion",
            portion,
        ];
        self.node.start(&[&arguments(&self.files)[..], &others].concat());
        self.holds = holds;
    }

    /// Runs nft in that pod.
    pub(super) fn load(&self, script: &str) {
        nft(&self.pods[FLUSHED], script);
    }

    /// Has another program make its rules there. Packets that rules with sets judge while nft replaces them may be lost.
    pub(super) fn load_others(&mut self, script: &str) {
        self.watched.lose("the rules of another program");
        self.load(script);
        self.watched.settle(|| self.node.log());
    }

    /// Waits until everything is in force, until whatever is allowed arrives, and until it is proved that the kernel has what the
    /// policies say.
    pub(super) fn until_all_is_in_force(&mut self) {
        self.settle();
        self.watched.cut(&self.pods, || self.node.log());
        self.watched.until_allowed_arrives(|| self.node.log());
        let proved = self.node.proofs("proved");
        self.node
            .until("two more proofs", |_| self.node.proofs("proved") > proved + 1);
        assert_eq!(self.node.proofs("refuted"), 0);
    }

    /// Nothing happens any more, and nothing is sent: how many packets were sent that are always allowed, and how many came.
    pub(super) fn end(&mut self) -> (usize, usize) {
        self.watched.end(|| self.node.log());
        self.watched.always_allowed()
    }
}

/// What the API server has, as the specification reads it.
fn cluster(node: &Node) -> Snapshot {
    let mut objects = Vec::new();
    for index in [0, 2, 12, 13] {
        let (version, kind, path) = KINDS[index];
        for mut object in node.api.list(path) {
            object["apiVersion"] = version.into();
            object["kind"] = kind.into();
            // The ends of ways are called by their names alone.
            object["metadata"].as_object_mut().unwrap().remove("uid");
            // All have one address on the cluster network, which plays no part.
            if kind == "Pod" {
                object["status"] = json!({"phase": "Running"});
            }
            objects.push(object);
        }
    }
    snapshot(&objects)
}
