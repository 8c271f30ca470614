//! The thread that cuts connections which the rules in force would not let begin.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use picket_linux::NetworkNamespace;
use picket_nftables::client::Cutter;
use picket_nftables::model::Table;

use crate::AgentError;
use crate::metrics::Metrics;

/// When to look again: what had passed the rules from before and was on its way becomes known a moment later.
const AGAIN: Duration = Duration::from_millis(100);

/// Who cuts connections.
pub(crate) struct Cutting {
    tables: Sender<Arc<Table>>,
    thread: JoinHandle<()>,
}

impl Cutting {
    /// Begins, in a thread of its own, which ends with this.
    pub(crate) fn start(namespace: &NetworkNamespace, metrics: Metrics) -> Result<Self, AgentError> {
        let scissors = Scissors {
            cutter: Cutter::open(namespace)?,
            metrics,
        };
        let (tables, news) = channel();
        let thread = thread::Builder::new()
            .name("picket-cut".to_owned())
            .spawn(move || scissors.run(&news))
            .map_err(AgentError::Start)?;
        Ok(Self { tables, thread })
    }

    /// Cuts what this table denies, which is in force now. It does not wait.
    pub(crate) fn cut(&self, table: &Arc<Table>) {
        // The thread ends with this, and not before.
        let _ = self.tables.send(Arc::clone(table));
    }

    /// Waits until what is to be cut is.
    pub(crate) fn finish(self) {
        drop(self.tables);
        if self.thread.join().is_err() {
            tracing::error!("connections that policies deny may go on");
        }
    }
}

struct Scissors {
    cutter: Cutter,
    metrics: Metrics,
}

impl Scissors {
    fn run(mut self, news: &Receiver<Arc<Table>>) {
        let mut next = news.recv().ok();
        while let Some(table) = next {
            // Only what is in force now counts.
            let table = news.try_iter().last().unwrap_or(table);
            self.cut(&table);
            next = match news.recv_timeout(AGAIN) {
                Ok(newer) => Some(newer),
                Err(RecvTimeoutError::Timeout) => {
                    self.cut(&table);
                    news.recv().ok()
                }
                Err(RecvTimeoutError::Disconnected) => {
                    thread::sleep(AGAIN);
                    self.cut(&table);
                    None
                }
            };
        }
    }

    fn cut(&mut self, table: &Table) {
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
            Err(error) => {
                tracing::error!(%error, "connections that policies deny may go on");
                self.metrics.failed("cut");
            }
        }
    }
}
