//! The thread that cuts connections of pods which the rules in force there would not let begin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use picket_linux::NetworkNamespace;
use picket_linux::runtime::SandboxId;
use picket_nftables::client::Cutter;
use picket_nftables::model::Table;

use crate::AgentError;
use crate::cut::{AGAIN, Found, fail, tell};
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
    /// How many changes of the table have begun and not come to nothing, and how many had when this was in force.
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
    let (mut again, began) = (Again::default(), Instant::now());
    loop {
        let next = match again.next() {
            None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(when) => news.recv_timeout(when.saturating_sub(began.elapsed())),
        };
        let is_over = matches!(next, Err(RecvTimeoutError::Disconnected));
        // Only what is in force now counts.
        let orders = next.into_iter().chain(news.try_iter());
        let latest: BTreeMap<_, _> = orders.map(|order| (order.sandbox.clone(), order)).collect();
        for order in latest.into_values() {
            let found = again.found(&order.sandbox);
            let left = order.carry_out(found, metrics);
            again.add(order, left, began.elapsed());
        }
        if is_over && again.next().is_some() {
            thread::sleep(AGAIN);
        }
        again.carry_out(began.elapsed(), metrics);
        if is_over {
            return;
        }
    }
}

/// What is to be carried out once more, and when: until it has been, or the table is another.
#[derive(Default)]
struct Again(BTreeMap<SandboxId, Due>);

struct Due {
    when: Duration,
    order: Order,
    /// What is still to be cut.
    found: Option<Found>,
}

impl Again {
    fn add(&mut self, order: Order, found: Option<Found>, now: Duration) {
        let due = Due {
            when: now + AGAIN,
            found,
            order,
        };
        self.0.insert(due.order.sandbox.clone(), due);
    }

    fn next(&self) -> Option<Duration> {
        self.0.values().map(|due| due.when).min()
    }

    /// What an earlier table denied in a sandbox and is still to be cut.
    fn found(&mut self, sandbox: &SandboxId) -> Option<Found> {
        let found = self.0.get_mut(sandbox)?.found.take();
        found.map(Found::outdated)
    }

    fn carry_out(&mut self, now: Duration, metrics: &Metrics) {
        self.0.retain(|_, due| {
            if due.when > now {
                return true;
            }
            due.when = now + AGAIN;
            due.found = due.order.carry_out(due.found.take(), metrics);
            due.found.is_some()
        });
    }
}

impl Order {
    /// Cuts what was found before, and what is found now; gives what cannot be cut yet. While a change of the table is under way
    /// nothing can: if that comes to nothing it is still to be cut, and else as far as the next table denies it, too.
    fn carry_out(&self, found: Option<Found>, metrics: &Metrics) -> Option<Found> {
        let table = self.table.as_ref()?;
        let _pod = tracing::info_span!("in", pod = self.pod).entered();
        let left = Cutter::open(&self.namespace)
            .and_then(|mut cutter| self.cut_with(&mut cutter, table, found, metrics));
        left.unwrap_or_else(|error| {
            fail(&error, metrics);
            None
        })
    }

    fn cut_with(
        &self,
        cutter: &mut Cutter,
        table: &Table,
        found: Option<Found>,
        metrics: &Metrics,
    ) -> picket_linux::Result<Option<Found>> {
        if let Some(found) = found {
            if !self.was_in_force_after(&found) {
                return Ok(Some(found));
            }
            let denied = match found.is_old {
                true => cutter.still_denied_in_pod(found.denied, table)?,
                false => found.denied,
            };
            tell(&cutter.cut(denied), metrics);
        }
        let denied = cutter.denied_in_pod(table)?;
        let found = Found::now(denied, self.begun.load(Ordering::SeqCst));
        if !self.was_in_force_after(&found) {
            return Ok(Some(found));
        }
        tell(&cutter.cut(found.denied), metrics);
        Ok(None)
    }

    /// Whether the table was in force at some time after something was found.
    fn was_in_force_after(&self, found: &Found) -> bool {
        found.begun <= self.known || self.known == self.begun.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod kernel {
    use picket_nftables::render::indexed::{Guard, closed};

    use super::*;

    #[test]
    fn a_change_that_comes_to_nothing_leaves_the_second_look_to_be_done() {
        let begun = Arc::new(AtomicU64::new(1));
        let order = Order {
            sandbox: SandboxId::read("sandbox-a").unwrap(),
            pod: "x/a".to_owned(),
            namespace: Arc::new(NetworkNamespace::create().unwrap()),
            table: Some(Arc::new(closed(&Guard::default()).unwrap())),
            begun: Arc::clone(&begun),
            known: 1,
        };
        let (mut again, metrics) = (Again::default(), Metrics::default());
        assert!(order.carry_out(None, &metrics).is_none());
        again.add(order, None, Duration::ZERO);
        again.carry_out(AGAIN / 2, &metrics);
        assert_eq!(again.next(), Some(AGAIN), "it is not time yet");
        begun.store(2, Ordering::SeqCst);
        again.carry_out(AGAIN, &metrics);
        assert_eq!(again.next(), Some(2 * AGAIN), "another table is being written");
        begun.store(1, Ordering::SeqCst);
        again.carry_out(2 * AGAIN, &metrics);
        assert_eq!(again.next(), None, "it came to nothing");
    }
}
