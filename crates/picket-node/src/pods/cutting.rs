//! The thread that cuts connections of pods which the rules in force there would not let begin.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use picket_linux::NetworkNamespace;
use picket_linux::runtime::SandboxId;
use picket_nftables::client::{Cutter, Severed};
use picket_nftables::model::Table;

use crate::AgentError;
use crate::cut::{AGAIN, Found, fail, tell};
use crate::metrics::Metrics;
use crate::retry::longer;

/// How many connections that were cut are known of each sandbox at least.
const SEVERED: usize = 1024;

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
    let mut severed = AllSevered::default();
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
            let outcome = order.carry_out(found, &mut severed, metrics);
            again.add(order, outcome, began.elapsed());
        }
        if is_over && again.next().is_some() {
            thread::sleep(AGAIN);
        }
        // Nobody waits for what fails again and again, but it is tried once more.
        let now = if is_over { Duration::MAX } else { began.elapsed() };
        again.carry_out(now, &mut severed, metrics);
        if is_over {
            return;
        }
        severed.forget_gone();
    }
}

/// What was cut in each sandbox that is there.
#[derive(Default)]
struct AllSevered(BTreeMap<SandboxId, (Weak<NetworkNamespace>, Severed)>);

impl AllSevered {
    fn take(&mut self, sandbox: &SandboxId) -> Severed {
        let known = self.0.remove(sandbox);
        known.map_or_else(|| Severed::up_to(SEVERED), |(_, severed)| severed)
    }

    fn keep(&mut self, order: &Order, severed: Severed) {
        if !severed.is_empty() {
            let namespace = Arc::downgrade(&order.namespace);
            self.0.insert(order.sandbox.clone(), (namespace, severed));
        }
    }

    fn forget_gone(&mut self) {
        self.0.retain(|_, (namespace, _)| namespace.strong_count() > 0);
    }
}

/// What is to be carried out once more, and when: until it has been, or the table is another.
#[derive(Default)]
struct Again(BTreeMap<SandboxId, Due>);

struct Due {
    when: Duration,
    /// How long to wait then: longer, the more often it was for nothing.
    patience: Duration,
    order: Order,
    /// What is still to be cut.
    found: Option<Found>,
}

/// What has become of an order.
enum Outcome {
    Done,
    /// This cannot be cut yet.
    Left(Found),
    /// It is not known what is to be cut, or some of it goes on.
    Failed,
}

impl Again {
    fn add(&mut self, order: Order, outcome: Outcome, now: Duration) {
        let mut due = Due {
            when: now + AGAIN,
            patience: AGAIN,
            found: None,
            order,
        };
        due.take(outcome, now);
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

    fn carry_out(&mut self, now: Duration, severed: &mut AllSevered, metrics: &Metrics) {
        self.0.retain(|_, due| {
            if due.when > now {
                return true;
            }
            let outcome = due.order.carry_out(due.found.take(), severed, metrics);
            let is_left = match outcome {
                Outcome::Done => false,
                Outcome::Left(_) => true,
                // Where the sandbox is gone nothing goes on, and nobody else has its network.
                Outcome::Failed => Arc::strong_count(&due.order.namespace) > 1,
            };
            due.take(outcome, now);
            is_left
        });
    }
}

impl Due {
    /// Says when to carry it out again.
    fn take(&mut self, outcome: Outcome, now: Duration) {
        (self.found, self.patience) = match outcome {
            Outcome::Done => (None, AGAIN),
            Outcome::Left(found) => (Some(found), AGAIN),
            Outcome::Failed => (None, longer(self.patience)),
        };
        self.when = now.saturating_add(self.patience);
    }
}

impl Order {
    /// Cuts what was found before, and what is found now; gives what cannot be cut yet. While a change of the table is under way
    /// nothing can: if that comes to nothing it is still to be cut, and else as far as the next table denies it, too.
    fn carry_out(&self, found: Option<Found>, severed: &mut AllSevered, metrics: &Metrics) -> Outcome {
        let Some(table) = &self.table else {
            return Outcome::Done;
        };
        let _pod = tracing::info_span!("in", pod = self.pod).entered();
        let left = Cutter::open(&self.namespace).and_then(|cutter| {
            let mut cutter = cutter.after(severed.take(&self.sandbox));
            let left = self.cut_with(&mut cutter, table, found, metrics);
            severed.keep(self, cutter.into_severed());
            left
        });
        left.unwrap_or_else(|error| {
            fail(&error, metrics);
            Outcome::Failed
        })
    }

    fn cut_with(
        &self,
        cutter: &mut Cutter,
        table: &Table,
        found: Option<Found>,
        metrics: &Metrics,
    ) -> picket_linux::Result<Outcome> {
        let mut is_done = true;
        if let Some(found) = found {
            if !self.was_in_force_after(&found) {
                return Ok(Outcome::Left(found));
            }
            let denied = match found.is_old {
                true => cutter.still_denied_in_pod(found.denied, table)?,
                false => found.denied,
            };
            is_done = tell(&cutter.cut(denied), metrics);
        }
        let denied = cutter.denied_in_pod(table)?;
        let found = Found::now(denied, self.begun.load(Ordering::SeqCst));
        if !self.was_in_force_after(&found) {
            return Ok(Outcome::Left(found));
        }
        is_done &= tell(&cutter.cut(found.denied), metrics);
        Ok(if is_done { Outcome::Done } else { Outcome::Failed })
    }

    /// Whether the table was in force at some time after something was found.
    fn was_in_force_after(&self, found: &Found) -> bool {
        found.begun <= self.known || self.known == self.begun.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod kernel {
    use std::fs::File;
    use std::os::fd::OwnedFd;

    use picket_nftables::render::indexed::{Guard, closed};

    use super::*;

    fn order(begun: &Arc<AtomicU64>) -> Order {
        Order {
            sandbox: SandboxId::read("sandbox-a").unwrap(),
            pod: "x/a".to_owned(),
            namespace: Arc::new(NetworkNamespace::create().unwrap()),
            table: Some(Arc::new(closed(&Guard::default()).unwrap())),
            begun: Arc::clone(begun),
            known: 1,
        }
    }

    #[test]
    fn a_change_that_comes_to_nothing_leaves_the_second_look_to_be_done() {
        let begun = Arc::new(AtomicU64::new(1));
        let order = order(&begun);
        let (mut again, metrics) = (Again::default(), Metrics::default());
        let outcome = order.carry_out(None, &mut AllSevered::default(), &metrics);
        assert!(matches!(outcome, Outcome::Done));
        again.add(order, outcome, Duration::ZERO);
        again.carry_out(AGAIN / 2, &mut AllSevered::default(), &metrics);
        assert_eq!(again.next(), Some(AGAIN), "it is not time yet");
        begun.store(2, Ordering::SeqCst);
        again.carry_out(AGAIN, &mut AllSevered::default(), &metrics);
        assert_eq!(again.next(), Some(2 * AGAIN), "another table is being written");
        begun.store(1, Ordering::SeqCst);
        again.carry_out(2 * AGAIN, &mut AllSevered::default(), &metrics);
        assert_eq!(again.next(), None, "it came to nothing");
    }

    #[test]
    fn what_cannot_be_carried_out_is_tried_again_as_long_as_there_is_the_sandbox_and_less_and_less_often() {
        let none = OwnedFd::from(File::open("/dev/null").unwrap());
        let sandbox = Arc::new(NetworkNamespace::from(none));
        let order = Order {
            namespace: Arc::clone(&sandbox),
            ..order(&Arc::default())
        };
        let (mut again, metrics) = (Again::default(), Metrics::default());
        let outcome = order.carry_out(None, &mut AllSevered::default(), &metrics);
        assert!(matches!(outcome, Outcome::Failed));
        again.add(order, outcome, Duration::ZERO);
        for next in [2, 6, 14, 30] {
            assert_eq!(again.next(), Some(AGAIN * next));
            again.carry_out(AGAIN * next, &mut AllSevered::default(), &metrics);
        }
        drop(sandbox);
        again.carry_out(Duration::MAX, &mut AllSevered::default(), &metrics);
        assert_eq!(again.next(), None, "it is gone");
    }
}
