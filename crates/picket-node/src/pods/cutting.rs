//! The thread that cuts connections of pods which the rules in force there would not let begin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use picket_linux::NetworkNamespace;
use picket_linux::runtime::SandboxId;
use picket_nftables::client::Cutter;
use picket_nftables::model::Table;

use crate::AgentError;
use crate::cut::{AGAIN, fail, tell};
use crate::metrics::Metrics;

/// Who cuts connections.
pub(super) struct Cutting {
    orders: Sender<Order>,
    thread: JoinHandle<()>,
}

/// What is in force in a sandbox now.
#[derive(Clone)]
pub(super) struct Order {
    pub(super) sandbox: SandboxId,
    pub(super) pod: String,
    pub(super) namespace: Arc<NetworkNamespace>,
    /// `None` where nothing restricts the pod.
    pub(super) table: Option<Arc<Table>>,
    /// How many changes of the table have begun, and how many had when this was in force.
    pub(super) begun: Arc<AtomicU64>,
    pub(super) known: u64,
}

impl Cutting {
    /// Begins, in a thread of its own, which ends with this.
    pub(super) fn start(metrics: Metrics) -> Result<Self, AgentError> {
        let (orders, news) = channel();
        let thread = thread::Builder::new()
            .name("picket-cut".to_owned())
            .spawn(move || run(&news, &metrics))
            .map_err(AgentError::Start)?;
        Ok(Self { orders, thread })
    }

    /// Cuts what the table denies that is in force. It does not wait.
    pub(super) fn cut(&self, order: Order) {
        // The thread ends with this, and not before.
        let _ = self.orders.send(order);
    }

    /// Waits until what is to be cut is.
    pub(super) fn finish(self) {
        drop(self.orders);
        if self.thread.join().is_err() {
            tracing::error!("connections that policies deny may go on");
        }
    }
}

fn run(news: &Receiver<Order>, metrics: &Metrics) {
    // What is to be carried out once more, and when.
    let mut again: BTreeMap<SandboxId, (Instant, Order)> = BTreeMap::new();
    loop {
        let next = match again.values().map(|(when, _)| *when).min() {
            None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(when) => news.recv_timeout(when.saturating_duration_since(Instant::now())),
        };
        let is_over = matches!(next, Err(RecvTimeoutError::Disconnected));
        // Only what is in force now counts.
        let orders = next.into_iter().chain(news.try_iter());
        let latest: BTreeMap<_, _> = orders.map(|order| (order.sandbox.clone(), order)).collect();
        for (sandbox, order) in latest {
            order.carry_out(metrics);
            again.insert(sandbox, (Instant::now() + AGAIN, order));
        }
        if is_over && !again.is_empty() {
            thread::sleep(AGAIN);
        }
        let now = Instant::now();
        again.retain(|_, (when, order)| {
            let is_due = *when <= now;
            if is_due {
                order.carry_out(metrics);
            }
            !is_due
        });
        if is_over {
            return;
        }
    }
}

impl Order {
    fn carry_out(&self, metrics: &Metrics) {
        let Some(table) = &self.table else { return };
        let _pod = tracing::info_span!("in", pod = self.pod).entered();
        let cut = Cutter::open(&self.namespace).and_then(|mut cutter| {
            let denied = cutter.denied_in_pod(table)?;
            // By another table some of them may have begun.
            let is_current = self.known == self.begun.load(Ordering::SeqCst);
            Ok(is_current.then(|| cutter.cut(denied)))
        });
        match cut {
            Ok(done) => done.iter().for_each(|done| tell(done, metrics)),
            Err(error) => fail(&error, metrics),
        }
    }
}
