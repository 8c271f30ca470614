//! Packets that are sent all the time while things happen, and what of them may arrive.

pub(crate) mod flows;
pub(crate) mod oracle;
pub(crate) mod proof;
pub(crate) mod windows;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use picket_cluster::Snapshot;
use picket_net::Family;
use picket_policy::{Options, Policy};
use picket_source::{Text, load_texts};
use serde_json::Value;

use self::flows::{Arrival, Flows, Passage, Way, until};
use self::oracle::{Change, Oracle, Ruling};
use self::windows::Windows;

/// How many happenings before a wrong packet are told.
const TOLD: usize = 12;

/// What is sent, what may arrive, and what happens meanwhile.
pub(crate) struct Watched {
    pub(crate) oracle: Oracle,
    pub(crate) flows: Flows,
    pub(crate) windows: Windows,
    ways: Vec<Way>,
    /// The port of the way that is always allowed.
    always: u16,
    /// With what each epoch began.
    story: Vec<String>,
    /// How many packets came of the way that is always allowed, by the epoch in which they were sent.
    came: BTreeMap<usize, usize>,
    /// The newest epoch of which something came, by way and family.
    newest: BTreeMap<(usize, Family), usize>,
}

impl Watched {
    /// Of ways on which packets are sent already, in a cluster in which everything is in force.
    pub(crate) fn new(oracle: Oracle, flows: Flows, ways: Vec<Way>, always: u16) -> Self {
        Self {
            oracle,
            flows,
            windows: Windows::default(),
            ways,
            always,
            story: vec![format!("{} everything is in force", Timestamp::now())],
            came: BTreeMap::new(),
            newest: BTreeMap::new(),
        }
    }

    /// A change is about to be asked for.
    pub(crate) fn begins(&mut self, what: String, change: Change) {
        self.oracle.change(change);
        self.next(what);
    }

    /// The next epoch begins, of which the oracle has been told.
    fn next(&mut self, what: String) {
        // Of the same clock as the log of the agent.
        self.story.push(format!("{} {what}", Timestamp::now()));
        self.flows.next();
    }

    /// Everything is in force: looks at what came meanwhile.
    pub(crate) fn settle(&mut self, log: impl Fn() -> String) {
        self.oracle.settle();
        self.next("everything is in force".to_owned());
        self.check(log);
    }

    /// There may be no rules from now on; whether no agent runs.
    pub(crate) fn open(&mut self, what: &str, by_nobody: bool) {
        self.oracle.open(by_nobody);
        self.next(what.to_owned());
        self.windows.open(by_nobody, self.story.len() - 1);
    }

    /// From now on what is allowed may be lost, until everything is in force.
    pub(crate) fn lose(&mut self, what: &str) {
        self.oracle.lose();
        self.next(what.to_owned());
    }

    /// There are rules again: those of this table.
    pub(crate) fn close(&mut self, table: &str) {
        self.windows.close();
        self.oracle.close();
        self.next(format!("there are rules again: {table}"));
    }

    /// Holds what came against what may; the log of the agent is told where it may not.
    pub(crate) fn check(&mut self, log: impl Fn() -> String) {
        for (passage, arrival) in self.flows.arrived() {
            let way = &self.ways[passage.way];
            if way.port == self.always {
                *self.came.entry(passage.sent).or_default() += arrival.packets;
            }
            let newest = self.newest.entry((passage.way, passage.family)).or_default();
            *newest = passage.sent.max(*newest);
            match self.oracle.rule(passage) {
                Ruling::Allowed => {}
                Ruling::Window => self.windows.passed(passage, arrival),
                Ruling::Denied => panic!("{}\n{}", self.told(passage, arrival), log()),
            }
        }
    }

    /// What happened before packets came that nothing allows.
    fn told(&self, passage: Passage, arrival: Arrival) -> String {
        let story = &self.story[passage.sent.saturating_sub(TOLD)..];
        let way = &self.ways[passage.way];
        format!(
            "{arrival:?} of {passage:?} {way:?} that nothing allows, the last {:?} ago, now {}:\n{}",
            flows::Moment::now().after(arrival.last),
            Timestamp::now(),
            story.join("\n")
        )
    }

    /// Waits until whatever is allowed arrives that is sent from now on.
    pub(crate) fn until_allowed_arrives(&mut self, log: impl Fn() -> String) {
        let since = self.story.len() - 1;
        let awaited: Vec<_> = self.oracle.allowed().collect();
        until("a packet of everything that is allowed", || {
            self.check(&log);
            awaited.iter().all(|way| self.newest.get(way) >= Some(&since))
        });
    }

    /// Nothing is sent any more.
    pub(crate) fn end(&mut self, log: impl Fn() -> String) {
        self.flows.end();
        self.check(log);
    }

    /// How many packets were sent that are always allowed, and how many of them came, where none may be lost.
    pub(crate) fn always_allowed(&self) -> (usize, usize) {
        let mut ways = self.ways.iter();
        let way = ways.position(|way| way.port == self.always).unwrap();
        let count = |packets: &BTreeMap<usize, usize>| -> usize {
            let kept = packets.iter().filter(|(epoch, _)| !self.oracle.may_lose(**epoch));
            kept.map(|(_, packets)| packets).sum()
        };
        (count(&self.flows.sent(way)), count(&self.came))
    }
}

/// Objects as the specification reads them.
pub(crate) fn snapshot(objects: &[Value]) -> Snapshot {
    let text = |object: &Value| Text {
        name: "object".into(),
        bytes: serde_json::to_vec(object).unwrap(),
    };
    let texts: Vec<_> = objects.iter().map(text).collect();
    let loaded = load_texts(&texts, Options::default());
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    loaded.snapshot
}

/// The same of one policy.
pub(crate) fn policy(object: &Value) -> Arc<Policy> {
    let mut policies = snapshot(std::slice::from_ref(object)).policies.into_values();
    policies.next().unwrap()
}
