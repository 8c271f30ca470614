//! The thread that cuts connections which the rules in force would not let begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use picket_dataplane::Plan;
use picket_linux::NetworkNamespace;
use picket_nftables::client::{Cut, Cutter};
use picket_nftables::model::Table;

use crate::AgentError;
use crate::host::Change;
use crate::metrics::Metrics;

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
    metrics: Metrics,
}

impl Scissors {
    fn run(mut self, news: &Receiver<News>) {
        while self.hear(news) {
            self.pass();
        }
        while self.passes > 0 && self.is_current() {
            thread::sleep(AGAIN);
            self.pass();
        }
    }

    /// Learns what is in force, and waits for it where there is nothing to be done before; `false` when nothing comes any more.
    fn hear(&mut self, news: &Receiver<News>) -> bool {
        let first = if self.passes == 0 || !self.is_current() {
            news.recv().map_err(RecvTimeoutError::from)
        } else {
            news.recv_timeout(AGAIN)
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

    /// Cuts what is denied now; nothing where the table is another meanwhile, by which some may have begun.
    fn pass(&mut self) {
        let Some(table) = self.table.as_ref().filter(|_| self.passes > 0) else {
            return;
        };
        match self.cutter.denied(table) {
            Ok(denied) if self.is_current() => {
                self.passes -= 1;
                let done = self.cutter.cut(denied);
                tell(&done, &self.metrics);
            }
            Ok(_) => {}
            Err(error) => {
                self.passes -= 1;
                fail(&error, &self.metrics);
            }
        }
    }
}

/// Tells what was cut.
pub(crate) fn tell(done: &Cut, metrics: &Metrics) {
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
}

/// Tells that it is not known what had to be cut.
pub(crate) fn fail(error: &dyn std::error::Error, metrics: &Metrics) {
    tracing::error!(%error, "connections that policies deny may go on");
    metrics.failed("cut");
}

#[cfg(test)]
mod kernel {
    use picket_nftables::render::indexed::{Guard, closed};

    use super::*;

    #[test]
    fn nothing_is_cut_by_a_table_that_may_not_be_in_force_any_more() {
        let begun = Arc::new(AtomicU64::new(1));
        let mut scissors = Scissors {
            cutter: Cutter::open(&NetworkNamespace::create().unwrap()).unwrap(),
            begun: Arc::clone(&begun),
            known: 0,
            table: None,
            passes: 0,
            metrics: Metrics::default(),
        };
        let table = closed(&Guard::default()).unwrap();
        let news = |begun, change| News { begun, change };
        scissors.follow(news(1, Some(Change::Whole(Arc::new(table)))));
        begun.store(2, Ordering::SeqCst);
        scissors.pass();
        assert_eq!(scissors.passes, PASSES, "another table is being written");
        scissors.follow(news(2, None));
        scissors.pass();
        assert_eq!(scissors.passes, PASSES - 1, "it came to nothing");
        begun.store(3, Ordering::SeqCst);
        scissors.follow(news(3, Some(Change::Next(Arc::new(Plan::from_iter([]))))));
        assert_eq!(scissors.passes, PASSES);
    }
}
