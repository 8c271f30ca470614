//! A cluster and an agent to which things happen, and what the packets that arrive meanwhile say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_net::Family;
use picket_policy::ObjectRef;
use serde_json::{Value, json};

use super::oracle::{Change, Oracle, Ruling};
use super::windows::Windows;
use super::{ALLOWED, POLICIES, ways};
use crate::agents::Agent;
use crate::apiserver::agent::{Live, NODE};
use crate::flows::{Arrival, Flows, Passage, Way, until};
use crate::objects::network_policy;
use crate::published::Versions;
use crate::random::Random;

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
    pub(super) oracle: Oracle,
    pub(super) flows: Flows,
    pub(super) windows: Windows,
    /// With what each epoch began.
    pub(super) story: Vec<String>,
    /// Whether every change is in force before the next.
    pub(super) one_by_one: bool,
    /// The kinds of objects that have changed since everything was in force.
    pub(super) touched: BTreeSet<&'static str>,
    ways: Vec<Way>,
    marks: usize,
    seed: u64,
    /// How many packets came of the way that is always allowed, by the epoch in which they were sent.
    came: BTreeMap<usize, usize>,
    /// The newest epoch of which something came, by way and family.
    newest: BTreeMap<(usize, Family), usize>,
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
        Self {
            live,
            agent,
            holds: true,
            random: Random(0),
            pods: Vec::new(),
            policies: Vec::new(),
            count: 0,
            kinds: BTreeMap::new(),
            oracle: Oracle::new(NODE, &snapshot, &ways),
            flows: Flows::start(&live.lab, &ways),
            windows: Windows::default(),
            story: vec!["everything is in force".to_owned()],
            one_by_one: false,
            touched: BTreeSet::new(),
            ways,
            marks: 0,
            seed: 0,
            came: BTreeMap::new(),
            newest: BTreeMap::new(),
        }
    }

    /// Some sequences of changes, as a seed says, from the beginning.
    pub(super) fn play(&mut self, seed: u64, sequences: usize) {
        self.seed = seed;
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
        if self.oracle.pending() > 5 || self.random.below(4) > 0 {
            self.settle();
        }
    }

    /// A change is about to be asked for.
    pub(super) fn begins(&mut self, what: String, change: Change) {
        self.oracle.change(change);
        self.next(what);
    }

    /// The next epoch begins, of which the oracle has been told.
    pub(super) fn next(&mut self, what: String) {
        self.story.push(what);
        self.flows.next();
    }

    /// Waits until everything is in force, and looks at what came meanwhile.
    pub(super) fn settle(&mut self) {
        let versions = self.mark();
        self.agent.until_enforced(&versions);
        self.touched.clear();
        self.oracle.settle();
        self.next("everything is in force".to_owned());
        self.check();
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

    /// Holds what came against what may.
    pub(super) fn check(&mut self) {
        for (passage, arrival) in self.flows.arrived() {
            let way = &self.ways[passage.way];
            if way.port == ALLOWED {
                *self.came.entry(passage.sent).or_default() += arrival.packets;
            }
            let newest = self.newest.entry((passage.way, passage.family)).or_default();
            *newest = passage.sent.max(*newest);
            match self.oracle.rule(passage) {
                Ruling::Allowed => {}
                Ruling::Window => self.windows.passed(passage, arrival),
                Ruling::Denied => self.fail(passage, arrival),
            }
        }
    }

    /// Packets came that nothing allows.
    fn fail(&self, passage: Passage, arrival: Arrival) -> ! {
        let story = &self.story[passage.sent.saturating_sub(12)..=passage.came];
        panic!(
            "seed {}: {arrival:?} of {passage:?} {:?} that nothing allows:\n{}\n{}",
            self.seed,
            self.ways[passage.way],
            story.join("\n"),
            self.agent.log(),
        );
    }

    /// Waits until everything is in force, until whatever is allowed arrives, and until it is proved that the kernel has what the
    /// policies say.
    pub(super) fn until_all_is_in_force(&mut self) {
        self.settle();
        self.until_allowed_arrives();
        let current = self.agent.status().and_then(|status| status.host.current);
        self.agent.until("a proof", |status| {
            let proof = status.host.proof.as_ref();
            proof.is_some_and(|proof| proof.proved && Some(proof.when) > current)
        });
    }

    /// Waits until whatever is allowed arrives.
    fn until_allowed_arrives(&mut self) {
        let since = self.story.len() - 1;
        let allowed = self.oracle.allowed().to_vec();
        let awaited = (0..allowed.len()).filter(|way| allowed[*way]);
        let awaited: Vec<_> = awaited
            .flat_map(|way| Family::BOTH.map(|family| (way, family)))
            .collect();
        until("a packet of everything that is allowed", || {
            self.check();
            awaited.iter().all(|way| self.newest.get(way) >= Some(&since))
        });
    }

    /// Nothing happens any more, and nothing is sent.
    pub(super) fn end(&mut self) {
        self.flows.end();
        self.check();
    }

    /// How many packets were sent that are always allowed, and how many of them came, where none may be lost.
    pub(super) fn always_allowed(&self) -> (usize, usize) {
        let way = self.ways.iter().position(|way| way.port == ALLOWED).unwrap();
        let sent = self.flows.sent(way);
        let sent = sent.iter().filter(|(epoch, _)| !self.oracle.may_lose(**epoch));
        let came = self
            .came
            .iter()
            .filter(|(epoch, _)| !self.oracle.may_lose(**epoch));
        (
            sent.map(|(_, packets)| packets).sum(),
            came.map(|(_, packets)| packets).sum(),
        )
    }
}

/// A policy as the specification reads it.
pub(super) fn policy(object: &Value) -> Arc<picket_policy::Policy> {
    let text = picket_source::Text {
        name: "policy".into(),
        bytes: serde_json::to_vec(object).unwrap(),
    };
    let loaded = picket_source::load_texts(&[text], picket_policy::Options::default());
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    let mut policies = loaded.snapshot.policies.into_values();
    policies.next().unwrap()
}
