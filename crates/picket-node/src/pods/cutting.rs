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
            order.carry_out(metrics);
            again.add(order, began.elapsed());
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
struct Again(BTreeMap<SandboxId, (Duration, Order)>);

impl Again {
    fn add(&mut self, order: Order, now: Duration) {
        self.0.insert(order.sandbox.clone(), (now + AGAIN, order));
    }

    fn next(&self) -> Option<Duration> {
        self.0.values().map(|(when, _)| *when).min()
    }

    fn carry_out(&mut self, now: Duration, metrics: &Metrics) {
        self.0.retain(|_, (when, order)| {
            if *when > now {
                return true;
            }
            *when = now + AGAIN;
            !order.carry_out(metrics)
        });
    }
}

impl Order {
    /// Whether it was. While a change of the table is under way it is not: if that comes to nothing this is still to be done,
    /// and else another is.
    fn carry_out(&self, metrics: &Metrics) -> bool {
        let Some(table) = &self.table else { return true };
        let _pod = tracing::info_span!("in", pod = self.pod).entered();
        let cut = Cutter::open(&self.namespace).and_then(|mut cutter| {
            let denied = cutter.denied_in_pod(table)?;
            // By another table some of them may have begun.
            let is_current = self.known == self.begun.load(Ordering::SeqCst);
            Ok(is_current.then(|| cutter.cut(denied)))
        });
        match &cut {
            Ok(Some(done)) => tell(done, metrics),
            Ok(None) => return false,
            Err(error) => fail(error, metrics),
        }
        true
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
        assert!(order.carry_out(&metrics));
        again.add(order, Duration::ZERO);
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
