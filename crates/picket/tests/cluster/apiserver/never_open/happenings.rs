//! A cluster and an agent to which things happen, and what the packets that arrive meanwhile say.

use std::collections::{BTreeMap, BTreeSet};

use picket_policy::ObjectRef;
use serde_json::json;

use super::{ALLOWED, POLICIES, ways};
use crate::agents::Agent;
use crate::apiserver::agent::{Live, NODE};
use crate::objects::network_policy;
use crate::published::Versions;
use crate::random::Random;
use crate::watched::flows::Flows;
use crate::watched::oracle::{Judge, Oracle};
use crate::watched::{Watched, policy};

pub(super) const PODS: &str = "/api/v1/namespaces/y/pods";
pub(super) const NAMESPACES: &str = "/api/v1/namespaces";

/// An object of each kind that is changed so that it is known how far an agent is, and what the kind is called.
const MARKS: [(&str, &str, &str); 3] = [
    (NAMESPACES, "y", "namespaces"),
    (PODS, "mark", "pods"),
    (POLICIES, "mark", "networkpolicies.networking.k8s.io"),
];

pub(super) struct Happenings<'a> {
    pub(super) live: &'a Live,
    pub(super) agent: Agent,
    /// Whether it keeps others from changing the table.
    pub(super) holds: bool,
    pub(super) random: Random,
    /// What has come at random, and goes so.
    pub(super) pods: Vec<String>,
    pub(super) policies: Vec<ObjectRef>,
    pub(super) count: usize,
    /// How often each kind of thing has happened.
    pub(super) kinds: BTreeMap<&'static str, usize>,
    pub(super) watched: Watched,
    /// Whether every change is in force before the next.
    pub(super) one_by_one: bool,
    /// The kinds of objects that have changed since everything was in force.
    pub(super) touched: BTreeSet<&'static str>,
    marks: usize,
}

impl<'a> Happenings<'a> {
    /// In a cluster in which everything is in force.
    pub(super) fn new(live: &'a Live, agent: Agent) -> Self {
        let mark = json!({"podSelector": {"matchLabels": {"mark": "none"}}});
        live.api.create(POLICIES, &network_policy("x", "mark", &mark));
        let containers = json!([{"name": "main", "image": "main"}]);
        let metadata = json!({"name": "mark", "labels": {"pod": "mark"}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}});
        live.api.create(PODS, &pod);
        let ways = ways();
        let mut snapshot = live.lab.topology().snapshot.clone();
        let allow = policy(&network_policy("x", "allow", &super::allowing("UDP")));
        snapshot.policies.insert(allow.object.clone(), allow);
        let oracle = Oracle::new(Judge::Node(NODE.to_owned()), &snapshot, &ways);
        let flows = Flows::start(&live.lab, &ways);
        Self {
            live,
            agent,
            holds: true,
            random: Random(0),
            pods: Vec::new(),
            policies: Vec::new(),
            count: 0,
            kinds: BTreeMap::new(),
            watched: Watched::new(oracle, flows, ways, ALLOWED),
            one_by_one: false,
            touched: BTreeSet::new(),
            marks: 0,
        }
    }

    /// Some sequences of changes, as a seed says, from the beginning.
    pub(super) fn play(&mut self, seed: u64, sequences: usize) {
        self.random = Random(seed);
        self.clear();
        for _ in 0..sequences {
            self.sequence();
        }
    }

    /// Some changes of the cluster, one after the other, and now and then something else while they are taken in.
    fn sequence(&mut self) {
        self.one_by_one = self.random.below(4) == 0;
        for _ in 0..=self.random.below(6) {
            self.change();
        }
        self.one_by_one = false;
        if let Some(fault) = self.fault() {
            *self.kinds.entry(fault).or_default() += 1;
        }
        if self.watched.oracle.pending() > 5 || self.random.below(4) > 0 {
            self.settle();
        }
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
        self.agent = self
            .live
            .agent(&["--verify-interval", "3", "--table-owner", owner]);
        self.holds = holds;
        self.touched = MARKS.into_iter().map(|(path, _, _)| path).collect();
    }

    /// Waits until everything is in force, until whatever is allowed arrives, and until it is proved that the kernel has what the
    /// policies say.
    pub(super) fn until_all_is_in_force(&mut self) {
        self.settle();
        self.watched.until_allowed_arrives(|| self.agent.log());
        let current = self.agent.status().and_then(|status| status.host.current);
        self.agent.until("a proof", |status| {
            let proof = status.host.proof.as_ref();
            proof.is_some_and(|proof| proof.proved && Some(proof.when) > current)
        });
    }
}
