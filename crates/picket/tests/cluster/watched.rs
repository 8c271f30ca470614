//! Packets that are sent all the time while things happen, and what of them may arrive.

pub(crate) mod connections;
pub(crate) mod flows;
pub(crate) mod oracle;
pub(crate) mod proof;
mod records;
mod tally;
pub(crate) mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use picket_cluster::Snapshot;
use picket_linux::{Carried, NetworkNamespace, Nfnetlink, Tuple};
use picket_net::Protocol;
use picket_policy::{Options, Policy};
use picket_source::{Text, load_texts};
use serde_json::Value;

use self::connections::{Connection, Connections, Line};
use self::flows::{Arrival, Flows, Passage, Places, Way, until, until_none};
use self::oracle::{Change, Oracle, Ruling};
use self::tally::Tally;
use self::windows::Windows;

/// How many happenings before a wrong packet are told.
const TOLD: usize = 12;

/// What is sent, what may arrive, and what happens meanwhile.
pub(crate) struct Watched {
    pub(crate) oracle: Oracle,
    pub(crate) flows: Flows,
    pub(crate) windows: Windows,
    connections: Connections,
    ways: Vec<Way>,
    /// The port of the ways that are always allowed.
    always: u16,
    /// With what each epoch began.
    story: Vec<String>,
    /// How many packets came of the ways that are always allowed, by the way and the epoch in which they were sent.
    came: BTreeMap<(usize, usize), usize>,
    /// The newest epoch of which something came, by way and family.
    newest: BTreeMap<Line, usize>,
    /// The connections that were cut when everything was in force.
    dead: BTreeSet<Line>,
    /// When there began to be no rules the last time, and when there were some again, as long as what is denied has not been cut since.
    opened: usize,
    closed: Option<usize>,
    pub(crate) tally: Tally,
}

impl Watched {
    /// Begins these ways, in a cluster in which everything is in force.
    pub(crate) fn new(oracle: Oracle, places: &impl Places, ways: Vec<Way>, always: u16) -> Self {
        let flows = Flows::start(places, &ways);
        Self {
            oracle,
            connections: Connections::start(places, &ways, &flows),
            flows,
            windows: Windows::default(),
            ways,
            always,
            story: vec![format!("{} everything is in force", Timestamp::now())],
            came: BTreeMap::new(),
            newest: BTreeMap::new(),
            dead: BTreeSet::new(),
            opened: 0,
            closed: None,
            tally: Tally::default(),
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
        self.opened = self.story.len() - 1;
        self.windows.open(by_nobody, self.opened);
    }

    /// From now on what is allowed may be lost, until everything is in force.
    pub(crate) fn lose(&mut self, what: &str) {
        self.oracle.lose();
        self.next(what.to_owned());
    }

    /// There are rules again: those of this table. Connection tracking may have taken connections that had been cut for others, which
    /// their servers have opened, and those that began meanwhile: others follow them. Those stay that everything has allowed until
    /// there were no rules.
    pub(crate) fn close(&mut self, table: &str) {
        self.windows.close();
        self.oracle.close();
        self.next(format!("there are rules again: {table}"));
        let closed = self.story.len() - 1;
        until_none("the end of connections that began without rules", || {
            let all = self.connections.all().into_iter();
            let left = all.filter(|(line, one)| one.asked < closed && !self.was_kept(*line, one));
            let left: Vec<_> = left.map(|(line, _)| line).collect();
            left.iter().for_each(|line| self.connections.give_up(*line));
            left.into_iter().next()
        });
        self.oracle.leave();
        self.next("connections that began without them are gone".to_owned());
        self.closed = Some(closed);
    }

    /// Whether a connection stood when there began to be no rules, and everything had allowed it until then.
    fn was_kept(&self, (way, family): Line, connection: &Connection) -> bool {
        let until_then = connection.asked..self.opened;
        connection.stands && !until_then.is_empty() && self.oracle.has_allowed(way, family, until_then)
    }

    /// Holds what came against what may; the log of the agent is told where it may not.
    pub(crate) fn check(&mut self, log: impl Fn() -> String) {
        for (passage, arrival) in self.flows.arrived() {
            let way = &self.ways[passage.way];
            if way.port == self.always {
                *self.came.entry((passage.way, passage.sent)).or_default() += arrival.packets;
            }
            let newest = self.newest.entry((passage.way, passage.family)).or_default();
            *newest = passage.sent.max(*newest);
            if let Some(of) = passage.of {
                self.tally.came(of.by, arrival.packets);
            }
            match self.oracle.rule(passage) {
                Ruling::Allowed => {}
                Ruling::Left => self.tally.left += arrival.packets,
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

    /// Everything is in force: waits until connections are cut that this denies, and holds that these carry nothing any more, and that
    /// those go on which have been allowed all the time. What has once been cut is followed by another connection.
    pub(crate) fn cut(&mut self, places: &impl Places, log: impl Fn() -> String) {
        until_none("the end of connections that are denied", || {
            self.check(&log);
            let mut all = self.connections.all().into_iter();
            let left = all.find(|(line, one)| one.is_given_up || self.is_uncut(places, *line, one));
            left.map(|(line, one)| (line, one, self.last_told()))
        });
        self.oracle.cut();
        self.next("what is denied is cut".to_owned());
        let now = self.story.len() - 1;
        until_none("something on every connection", || {
            self.check(&log);
            let mut all = self.connections.all().into_iter().filter(|(_, one)| one.stands);
            let left = all.find(|(line, one)| {
                let is_kept = self.is_kept(*line, one);
                one.voices().any(|voice| match is_kept {
                    true => voice.came < Some(now),
                    // A server says nothing before it knows that the connection stands.
                    false => !voice.is_broken && voice.sent.is_some_and(|sent| sent < now),
                })
            });
            left.map(|(line, one)| (line, one, self.last_told()))
        });
        let all = self.connections.all().into_iter().filter(|(_, one)| one.stands);
        for (line, one) in all {
            if self.is_kept(line, &one) {
                self.tally.kept(one.talk, one.asked + 1 < now);
            } else if self.is_denied(line) && self.dead.insert(line) {
                self.tally
                    .cut(one.talk, one.voices().any(|voice| voice.came.is_some()));
            } else {
                self.dead.remove(&line);
                self.connections.give_up(line);
            }
        }
        if let Some(closed) = self.closed.take() {
            let asked = self.connections.asked_since(closed).into_iter();
            let denied = asked.filter(|(line, _)| self.is_denied(*line));
            self.tally.refused += denied.map(|(_, times)| times).sum::<usize>();
        }
    }

    /// Whether what is in force denies a way over a family.
    fn is_denied(&self, (way, family): Line) -> bool {
        self.oracle.allows(way, family) != [true; 2]
    }

    /// Whether connection tracking knows a connection where it is denied.
    fn is_uncut(&self, places: &impl Places, (way, family): Line, connection: &Connection) -> bool {
        let way_there = &self.ways[way];
        let ends = [&way_there.from, &way_there.to].into_iter();
        let ends = ends.zip(self.oracle.allows(way, family));
        let mut denying = ends.filter(|(_, is_allowed)| !is_allowed);
        denying.any(|(id, _)| is_tracked(places.judging(id), connection))
    }

    /// What happened last.
    fn last_told(&self) -> String {
        self.story[self.story.len().saturating_sub(TOLD)..].join("\n")
    }

    /// Whether all that may have been in force since a connection was asked for has allowed it.
    fn is_kept(&self, (way, family): Line, connection: &Connection) -> bool {
        self.oracle.has_allowed(way, family, connection.asked..)
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

    /// The ways that were open all the time over one family or both, or shut.
    pub(crate) fn steady(&self) -> BTreeSet<&Way> {
        self.oracle.steady().map(|(way, _)| &self.ways[way]).collect()
    }

    /// Nothing is sent any more.
    pub(crate) fn end(&mut self, log: impl Fn() -> String) {
        self.flows.end();
        self.connections.end();
        self.check(log);
    }

    /// How many packets were sent that are always allowed, and how many of them came, where none may be lost.
    pub(crate) fn always_allowed(&self) -> (usize, usize) {
        let ways = self.ways.iter().enumerate();
        let ways = ways.filter(|(_, way)| way.port == self.always && way.protocol == Protocol::UDP);
        let counts = ways.map(|(index, _)| {
            let is_kept = |epoch: usize| !self.oracle.may_lose(epoch);
            let sent = self.flows.sent(index);
            let sent = sent.iter().filter(|(epoch, _)| is_kept(**epoch));
            let came = self
                .came
                .iter()
                .filter(|((way, epoch), _)| *way == index && is_kept(*epoch));
            let count = |(_, packets): (_, &usize)| *packets;
            (
                sent.map(|one| one.1).sum::<usize>(),
                came.map(count).sum::<usize>(),
            )
        });
        counts.fold((0, 0), |(sent, came), (more, of_these)| {
            (sent + more, came + of_these)
        })
    }
}

/// Whether a network namespace tracks a connection.
fn is_tracked(namespace: &NetworkNamespace, connection: &Connection) -> bool {
    let Connection { client, server, .. } = connection;
    let original = Tuple {
        source: client.ip(),
        destination: server.ip(),
        protocol: Protocol::TCP.number(),
        carried: Carried::Ports {
            source: client.port(),
            destination: server.port(),
        },
        zone: 0,
    };
    let mut tracked = Nfnetlink::open(namespace).unwrap();
    tracked.connection(&original, 0).unwrap().is_some()
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
