//! The thread that cuts connections which the rules in force would not let begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use picket_dataplane::Plan;
use picket_linux::NetworkNamespace;
use picket_nftables::client::{Cut, Cutter, Denied};
use picket_nftables::model::Table;

use crate::AgentError;
use crate::host::Change;
use crate::metrics::Metrics;
use crate::retry::longer;

/// When to look again: what had passed the rules from before and was on its way becomes known a moment later.
pub(crate) const AGAIN: Duration = Duration::from_millis(100);

/// How often to look.
const PASSES: u8 = 2;

/// Who cuts connections.
pub(crate) struct Cutting {
    /// How many changes of the table have begun.
    begun: Arc<AtomicU64>,
    news: Sender<News>,
    thread: JoinHandle<()>,
}

/// What became of the changes that had begun.
struct News {
    begun: u64,
    /// What is in force now, if that is something else.
    change: Option<Change>,
}

impl Cutting {
    /// Begins, in a thread of its own, which ends with this.
    pub(crate) fn start(namespace: &NetworkNamespace, metrics: Metrics) -> Result<Self, AgentError> {
        let begun = Arc::new(AtomicU64::new(0));
        let scissors = Scissors {
            cutter: Cutter::open(namespace)?,
            begun: Arc::clone(&begun),
            known: 0,
            table: None,
            passes: 0,
            patience: AGAIN,
            found: None,
            metrics,
        };
        let (sender, news) = channel();
        let thread = thread::Builder::new()
            .name("picket-cut".to_owned())
            .spawn(move || scissors.run(&news))
            .map_err(AgentError::Start)?;
        Ok(Self {
            begun,
            news: sender,
            thread,
        })
    }

    /// From now on another table may be in force than the one that is known: nothing is cut until [`Cutting::ended`].
    pub(crate) fn begins(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// What had begun has ended. Cuts what the table denies that is in force after this change, if there was any. It does not
    /// wait.
    pub(crate) fn ended(&self, change: Option<Change>) {
        let begun = self.begun.load(Ordering::SeqCst);
        // The thread ends with this, and not before.
        let _ = self.news.send(News { begun, change });
    }

    /// The table is again what it was, after others had changed it: cuts what it denies and has begun meanwhile.
    pub(crate) fn again(&self) {
        self.ended(Some(Change::Next(Arc::new(Plan::from_iter([])))));
    }

    /// Waits until what is to be cut is.
    pub(crate) fn finish(self) {
        drop(self.news);
        if self.thread.join().is_err() {
            tracing::error!("connections that policies deny may go on");
        }
    }
}

struct Scissors {
    cutter: Cutter,
    begun: Arc<AtomicU64>,
    /// How many of the changes that have begun are known.
    known: u64,
    /// What is in force as far as that is known.
    table: Option<Table>,
    /// How often to look yet.
    passes: u8,
    /// When to look: later, the more often that was for nothing.
    patience: Duration,
    /// What is to be cut once it is known what was in force after it was found.
    found: Option<Found>,
    metrics: Metrics,
}

/// Connections that a table denies.
pub(crate) struct Found {
    pub(crate) denied: Denied,
    /// How many changes of the table had begun when they were found.
    pub(crate) begun: u64,
    /// Whether there has been another table since.
    pub(crate) is_old: bool,
}

impl Found {
    /// What was found now, after so many changes of the table have begun.
    pub(crate) fn now(denied: Denied, begun: u64) -> Self {
        Self {
            denied,
            begun,
            is_old: false,
        }
    }

    /// The same once there is another table.
    pub(crate) fn outdated(self) -> Self {
        Self { is_old: true, ..self }
    }
}

impl Scissors {
    fn run(mut self, news: &Receiver<News>) {
        while self.hear(news) {
            self.pass();
        }
        // Nobody waits for what fails again and again.
        for _ in 0..self.passes {
            if self.is_current() {
                thread::sleep(AGAIN);
                self.pass();
            }
        }
    }

    /// Learns what is in force, and waits for it where there is nothing to be done before; `false` when nothing comes any more.
    fn hear(&mut self, news: &Receiver<News>) -> bool {
        let first = if self.found.is_some() || self.passes == 0 {
            news.recv().map_err(RecvTimeoutError::from)
        } else {
            news.recv_timeout(self.patience)
        };
        match first {
            Ok(first) => {
                self.follow(first);
                for next in news.try_iter() {
                    self.follow(next);
                }
                true
            }
            Err(error) => error == RecvTimeoutError::Timeout,
        }
    }

    fn follow(&mut self, news: News) {
        self.known = news.begun;
        let Some(change) = news.change else { return };
        self.passes = PASSES;
        self.found = self.found.take().map(Found::outdated);
        self.table = match change {
            Change::Whole(table) => Some(Table::clone(&table)),
            Change::Next(plan) => self.table.take().and_then(|table| {
                let now = table.carried(&plan);
                now.inspect_err(|error| fail(error, &self.metrics)).ok()
            }),
        };
    }

    /// Whether the table that is known is in force, and no change of it has begun.
    fn is_current(&self) -> bool {
        self.known == self.begun.load(Ordering::SeqCst)
    }

    /// Cuts what was found to be denied, and what is now.
    fn pass(&mut self) {
        self.cut();
        self.look();
        self.cut();
    }

    /// Finds what is denied now.
    fn look(&mut self) {
        let Some(table) = self
            .table
            .as_ref()
            .filter(|_| self.passes > 0 && self.found.is_none())
        else {
            return;
        };
        let denied = self.cutter.denied(table);
        self.looked(denied);
    }

    /// Takes in what was found. What cannot be looked at is looked at again.
    fn looked(&mut self, denied: picket_linux::Result<Denied>) {
        match denied {
            Ok(denied) => {
                self.passes -= 1;
                self.found = Some(Found::now(denied, self.begun.load(Ordering::SeqCst)));
            }
            Err(error) => {
                fail(&error, &self.metrics);
                self.look_later();
            }
        }
    }

    /// Has what is denied be looked for again, as what was found goes on.
    fn look_later(&mut self) {
        self.passes = self.passes.max(1);
        self.patience = longer(self.patience);
    }

    /// Cuts what was found once it is known what was in force afterwards. By another table some of it may have begun; then the
    /// last one that is known judges it again. Others may have come since: what one has denied that was in force goes.
    fn cut(&mut self) {
        let known = self.known;
        let Some(found) = self.found.take_if(|found| found.begun <= known) else {
            return;
        };
        let denied = match (&self.table, found.is_old) {
            (_, false) => Ok(found.denied),
            (Some(table), true) => self.cutter.still_denied(found.denied, table),
            // That has been told.
            (None, true) => return,
        };
        let is_done = match denied {
            Ok(denied) => tell(&self.cutter.cut(denied), &self.metrics),
            Err(error) => {
                fail(&error, &self.metrics);
                false
            }
        };
        if is_done {
            self.patience = AGAIN;
        } else {
            self.look_later();
        }
    }
}

/// Tells what was cut; whether that is all.
pub(crate) fn tell(done: &Cut, metrics: &Metrics) -> bool {
    for connection in &done.cut {
        tracing::debug!(?connection, "cut");
    }
    if !done.cut.is_empty() {
        let connections = done.cut.len();
        tracing::info!(connections, "cut connections that policies deny");
        let count = u64::try_from(connections).unwrap_or(u64::MAX);
        metrics.cut.inc_by(count);
    }
    for (connection, error) in &done.failed {
        tracing::error!(?connection, %error, "a connection that policies deny goes on");
        metrics.failed("cut");
    }
    done.failed.is_empty()
}

/// Tells that it is not known what had to be cut.
pub(crate) fn fail(error: &dyn std::error::Error, metrics: &Metrics) {
    tracing::error!(%error, "connections that policies deny may go on");
    metrics.failed("cut");
}

#[cfg(test)]
mod kernel {
    use std::fs::File;
    use std::net::UdpSocket;
    use std::os::fd::OwnedFd;
    use std::process::Command;

    use picket_linux::{Carried, Connection, Nfnetlink, Which};
    use picket_net::Protocol;
    use picket_nftables::render::indexed::{Guard, closed};
    use picket_policy::Policy;
    use picket_testing::build::{accept, policy};

    use super::*;
    use crate::testing::Node;

    fn scissors(namespace: &NetworkNamespace, begun: &Arc<AtomicU64>) -> Scissors {
        Scissors {
            cutter: Cutter::open(namespace).unwrap(),
            begun: Arc::clone(begun),
            known: 0,
            table: None,
            passes: 0,
            patience: AGAIN,
            found: None,
            metrics: Metrics::default(),
        }
    }

    fn news(begun: u64, table: Option<&Table>) -> News {
        let change = table.map(|table| Change::Whole(Arc::new(table.clone())));
        News { begun, change }
    }

    #[test]
    fn nothing_is_cut_by_a_table_that_may_not_be_in_force_any_more() {
        let begun = Arc::new(AtomicU64::new(1));
        let mut scissors = scissors(&NetworkNamespace::create().unwrap(), &begun);
        let table = closed(&Guard::default()).unwrap();
        scissors.follow(news(1, Some(&table)));
        begun.store(2, Ordering::SeqCst);
        scissors.pass();
        assert!(scissors.found.is_some(), "another table is being written");
        scissors.follow(news(2, None));
        scissors.pass();
        assert!(scissors.found.is_none(), "it came to nothing");
        begun.store(3, Ordering::SeqCst);
        scissors.follow(News {
            begun: 3,
            change: Some(Change::Next(Arc::new(Plan::from_iter([])))),
        });
        assert_eq!(scissors.passes, PASSES);
    }

    #[test]
    fn what_cannot_be_looked_at_is_looked_at_again_until_it_can_and_less_and_less_often() {
        let begun = Arc::new(AtomicU64::new(1));
        let mut scissors = scissors(&NetworkNamespace::create().unwrap(), &begun);
        scissors.follow(news(1, Some(&closed(&Guard::default()).unwrap())));
        let none = NetworkNamespace::from(OwnedFd::from(File::open("/dev/null").unwrap()));
        for longer in [2, 4, 8] {
            scissors.looked(Err(none.run(|| ()).unwrap_err()));
            assert_eq!((scissors.passes, scissors.patience), (PASSES, AGAIN * longer));
        }
        scissors.pass();
        assert_eq!((scissors.passes, scissors.patience), (PASSES - 1, AGAIN));
        scissors.pass();
        assert_eq!(scissors.passes, 0);
        // What is found and cannot be cut is looked for again, and that it can be found helps nothing.
        for longer in [2, 4, 8] {
            scissors.look_later();
            scissors.looked(Ok(Denied::default()));
            assert_eq!((scissors.passes, scissors.patience), (0, AGAIN * longer));
        }
        scissors.pass();
        assert_eq!((scissors.passes, scissors.patience), (0, AGAIN));
    }

    /// Has the node, whose address that is, reach the pod, and then have that address no more.
    fn connect(namespace: &NetworkNamespace, client: &str, port: u16) {
        let ip = |arguments: &str| {
            let run = || Command::new("ip").args(arguments.split(' ')).status().unwrap();
            assert!(namespace.run(run).unwrap().success(), "{arguments}");
        };
        let addresses = [client, "10.0.0.1"];
        ip("link set lo up");
        for address in addresses {
            ip(&format!("address add {address}/32 dev lo"));
        }
        let send = || {
            let socket = UdpSocket::bind((client, 0)).unwrap();
            socket.send_to(b"x", ("10.0.0.1", port)).unwrap();
        };
        namespace.run(send).unwrap();
        for address in addresses {
            ip(&format!("address delete {address}/32 dev lo"));
        }
    }

    /// The ports of the pod to which there are connections.
    fn ports(namespace: &NetworkNamespace) -> Vec<u16> {
        let mut ports = Vec::new();
        let note = |connection: &Connection| match connection.original.carried {
            Carried::Ports { destination, .. } => ports.push(destination),
            _ => panic!("{connection:?}"),
        };
        Nfnetlink::open(namespace)
            .unwrap()
            .connections(Which::All, note)
            .unwrap();
        ports.sort_unstable();
        ports
    }

    #[test]
    fn what_is_denied_is_cut_although_the_table_changes_whenever_connections_are_judged() {
        let namespace = NetworkNamespace::create().unwrap();
        let judging = || {
            let lets = |port| policy("x/a").ingress(accept().port(Protocol::UDP, port)).build();
            let table = |policy: Policy| Node::new([policy]).table();
            let (first, second) = (table(lets(1)), table(lets(2)));
            // By the rules of the namespace nothing is denied: nobody else cuts these.
            for port in [1, 2, 3] {
                connect(&NetworkNamespace::current().unwrap(), "10.0.0.9", port);
            }
            let here = NetworkNamespace::current().unwrap();
            assert_eq!(ports(&here), [1, 2, 3]);
            let begun = Arc::new(AtomicU64::new(1));
            let mut scissors = scissors(&here, &begun);
            scissors.follow(news(1, Some(&first)));
            scissors.look();
            begun.store(2, Ordering::SeqCst);
            // It may have begun before that: what the first table denies may have begun by the second.
            scissors.found.as_mut().unwrap().begun = 2;
            scissors.cut();
            assert_eq!(ports(&here), [1, 2, 3]);
            // A third has begun when the second is known.
            begun.store(3, Ordering::SeqCst);
            scissors.follow(news(2, Some(&second)));
            scissors.cut();
            assert_eq!(ports(&here), [1, 2], "what one of them allows stays");
            // The connection to port 1 is found by the second, while a fourth begins.
            scissors.look();
            begun.store(4, Ordering::SeqCst);
            scissors.follow(news(3, Some(&second)));
            scissors.cut();
            assert_eq!(ports(&here), [2]);
        };
        namespace.run(judging).unwrap();
    }
}
