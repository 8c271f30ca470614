//! The thread that cuts connections which the rules in force would not let begin.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use picket_linux::NetworkNamespace;
use picket_nftables::client::Cutter;
use picket_nftables::model::Table;

use crate::AgentError;
use crate::host::Change;
use crate::metrics::Metrics;

/// When to look again: what had passed the rules from before and was on its way becomes known a moment later.
const AGAIN: Duration = Duration::from_millis(100);

/// Who cuts connections.
pub(crate) struct Cutting {
    changes: Sender<Change>,
    thread: JoinHandle<()>,
}

impl Cutting {
    /// Begins, in a thread of its own, which ends with this.
    pub(crate) fn start(namespace: &NetworkNamespace, metrics: Metrics) -> Result<Self, AgentError> {
        let scissors = Scissors {
            cutter: Cutter::open(namespace)?,
            table: None,
            metrics,
        };
        let (changes, news) = channel();
        let thread = thread::Builder::new()
            .name("picket-cut".to_owned())
            .spawn(move || scissors.run(&news))
            .map_err(AgentError::Start)?;
        Ok(Self { changes, thread })
    }

    /// Cuts what the table denies that is in force after this change. It does not wait.
    pub(crate) fn cut(&self, change: Change) {
        // The thread ends with this, and not before.
        let _ = self.changes.send(change);
    }

    /// Waits until what is to be cut is.
    pub(crate) fn finish(self) {
        drop(self.changes);
        if self.thread.join().is_err() {
            tracing::error!("connections that policies deny may go on");
        }
    }
}

struct Scissors {
    cutter: Cutter,
    /// What is in force.
    table: Option<Table>,
    metrics: Metrics,
}

impl Scissors {
    fn run(mut self, news: &Receiver<Change>) {
        let mut next = news.recv().ok();
        while let Some(change) = next {
            self.follow(change);
            // Only what is in force now counts.
            for change in news.try_iter() {
                self.follow(change);
            }
            self.cut();
            next = match news.recv_timeout(AGAIN) {
                Ok(newer) => Some(newer),
                Err(RecvTimeoutError::Timeout) => {
                    self.cut();
                    news.recv().ok()
                }
                Err(RecvTimeoutError::Disconnected) => {
                    thread::sleep(AGAIN);
                    self.cut();
                    None
                }
            };
        }
    }

    fn follow(&mut self, change: Change) {
        self.table = match change {
            Change::Whole(table) => Some(Table::clone(&table)),
            Change::Next(plan) => self.table.take().and_then(|table| {
                let now = table.carried(&plan);
                now.inspect_err(|error| self.fail(error)).ok()
            }),
        };
    }

    fn fail(&self, error: &dyn std::error::Error) {
        tracing::error!(%error, "connections that policies deny may go on");
        self.metrics.failed("cut");
    }

    fn cut(&mut self) {
        let Some(table) = &self.table else {
            return;
        };
        match self.cutter.cut(table) {
            Ok(found) => {
                for connection in &found.cut {
                    tracing::debug!(?connection, "cut");
                }
                if !found.cut.is_empty() {
                    let connections = found.cut.len();
                    tracing::info!(connections, "cut connections that policies deny");
                    self.metrics
                        .cut
                        .inc_by(u64::try_from(connections).unwrap_or(u64::MAX));
                }
                for (connection, error) in &found.failed {
                    tracing::error!(?connection, %error, "a connection that policies deny goes on");
                    self.metrics.failed("cut");
                }
            }
            Err(error) => self.fail(&error),
        }
    }
}
