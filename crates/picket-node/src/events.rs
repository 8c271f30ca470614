//! Events of Kubernetes on objects that cannot be read or enforced, where `kubectl describe` shows them.
//!
//! Whoever finds something tells it and goes on; a thread of its own writes it. What that cannot write within
//! [`PATIENCE`], or has no room for, is counted and dropped: the log and the status say it anyway. What an object itself is
//! the reason for, every agent that reads it finds, and calls the Event the same: the first writes it.

use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use picket_nftables::model::NameHash;
use picket_policy::ObjectRef;
use picket_source::{Kube, KubeError, Occurrence, Recorded, Recorder};
use smol_str::SmolStr;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use crate::metrics::Metrics;
use crate::retry::Retry;
use crate::{AgentError, Extent, Settings, Source};

/// How many may wait until they are written.
const WAITING: usize = 256;

/// How long to try to write what nobody takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long to try again what is refused, from the first time on: a server that has just started may not know yet who may do
/// what.
const WHEN_REFUSED: Duration = Duration::from_secs(10);

/// How much time there is between two.
const PACE: Duration = Duration::from_millis(200);

/// How long something has to go wrong on a node until it is worth an Event. Most of it is mended at the next attempt.
const BRIEFLY: Duration = Duration::from_secs(1);

/// The most bytes of a message that API servers take.
const LONGEST: usize = 1024;

/// Why there is an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// What the object says cannot be enforced, or not all of it. That is so on every node.
    Unenforceable,
    /// What the object says is not in force on this node.
    NotInForce,
}

/// Where to tell what goes wrong with objects.
#[derive(Clone)]
pub(crate) struct Events {
    /// Empty where nobody writes it.
    queue: Option<Sender<Told>>,
    metrics: Metrics,
    node: SmolStr,
}

/// What was told, and when.
struct Told {
    at: Instant,
    occurrence: Occurrence,
}

impl Told {
    fn now(occurrence: Occurrence) -> Self {
        Self {
            at: Instant::now(),
            occurrence,
        }
    }
}

impl Events {
    /// Begins to write what is told, in a thread of its own that ends with the process; unless it is not wanted, or the
    /// process does not stay to write it.
    pub(crate) fn start(settings: &Settings, extent: Extent, metrics: &Metrics) -> Result<Self, AgentError> {
        let mut events = Self {
            queue: None,
            metrics: metrics.clone(),
            node: settings.node.clone(),
        };
        let Source::Kube(kube) = &settings.source else {
            return Ok(events);
        };
        if !settings.events || extent != Extent::Forever {
            return Ok(events);
        }
        let (sender, queue) = channel(WAITING);
        events.queue = Some(sender);
        let writer = Writer {
            kube: kube.clone(),
            recorder: None,
            metrics: metrics.clone(),
            patience: PATIENCE,
            has_complained: false,
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(AgentError::Start)?;
        let thread = thread::Builder::new().name("picket-events".to_owned());
        let write = move || runtime.block_on(writer.run(queue));
        thread.spawn(write).map_err(AgentError::Start)?;
        Ok(events)
    }

    /// Whether what has gone wrong on this node since then is worth an Event.
    pub(crate) fn matters(since: Timestamp) -> bool {
        let since = Timestamp::now().duration_since(since);
        since.unsigned_abs() >= BRIEFLY
    }

    /// Tells what is wrong with an object, to whom it concerns.
    pub(crate) fn tell(&self, object: &ObjectRef, reason: Reason, why: &str) {
        let Some(queue) = &self.queue else {
            return;
        };
        let told = Told::now(self.occurrence(object, reason, why));
        if queue.try_send(told).is_err() {
            self.metrics.event("lost");
        }
    }

    /// Events that nobody writes, and what says which were told since it was asked last: on what, and the message.
    #[cfg(test)]
    pub(crate) fn overheard() -> (Self, impl FnMut() -> Vec<(ObjectRef, String)>) {
        let (sender, mut queue) = channel(WAITING);
        let events = Self {
            queue: Some(sender),
            metrics: Metrics::default(),
            node: "node-1".into(),
        };
        let heard = move || {
            let told = std::iter::from_fn(|| queue.try_recv().ok());
            told.map(|told| (told.occurrence.object, told.occurrence.message))
                .collect()
        };
        (events, heard)
    }

    fn occurrence(&self, object: &ObjectRef, reason: Reason, why: &str) -> Occurrence {
        let (word, message, node) = match reason {
            Reason::Unenforceable => ("Unenforceable", safe(why), None),
            Reason::NotInForce => {
                let node = &self.node;
                let message = format!("not in force as it should be on node {node}: {why}");
                ("NotInForce", safe(&message), Some(node.clone()))
            }
        };
        let hash = NameHash::of(&format!("{object}\n{}\n{word}\n{message}", object.uid));
        Occurrence {
            name: format!("picket.{hash}"),
            object: object.clone(),
            reason: word,
            message,
            node,
            at: Timestamp::now(),
        }
    }
}

/// A message that API servers take, and that does nothing to the terminal of those who read it.
fn safe(text: &str) -> String {
    let printable = |character: char| if character.is_control() { ' ' } else { character };
    let mut safe: String = text.chars().map(printable).collect();
    if safe.len() > LONGEST {
        let end = "…";
        safe.truncate(safe.floor_char_boundary(LONGEST - end.len()));
        safe.push_str(end);
    }
    safe
}

struct Writer {
    kube: Kube,
    /// The way to the cluster, once it has been found.
    recorder: Option<Recorder>,
    metrics: Metrics,
    /// How long to try to write one, from when it was told.
    patience: Duration,
    /// Whether it has been said that Events cannot be written, since one could be.
    has_complained: bool,
}

impl Writer {
    async fn run(mut self, mut queue: Receiver<Told>) {
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while let Some(told) = queue.recv().await {
            pace.tick().await;
            let outcome = self.write(&told).await;
            self.metrics.event(outcome);
        }
    }

    /// Writes an Event; what became of it, in a word.
    async fn write(&mut self, told: &Told) -> &'static str {
        let (mut retry, mut refused) = (None, Refused::default());
        loop {
            let attempt = self.attempt(&told.occurrence).await;
            let waited = told.at.elapsed();
            let (outcome, why, patience) = match attempt {
                Ok(Recorded::Created) => return self.wrote("created"),
                Ok(Recorded::Known) => return self.wrote("known"),
                Ok(Recorded::Refused(why)) => {
                    // Attempts that did not reach anybody are no reason to wait longer for the next.
                    retry = retry.filter(|_| refused.0.is_some());
                    ("refused", why, refused.patience(waited))
                }
                Err(error) => {
                    refused = Refused::default();
                    ("lost", error.to_string(), self.patience)
                }
            };
            let next = Retry::after(retry, Instant::now());
            if next.at > told.at + patience {
                self.complain(&why);
                return outcome;
            }
            sleep_until(next.at.into()).await;
            retry = Some(next);
        }
    }

    async fn attempt(&mut self, occurrence: &Occurrence) -> Result<Recorded, KubeError> {
        let recorder = match &mut self.recorder {
            Some(recorder) => recorder,
            none => none.insert(Recorder::open(&self.kube).await?),
        };
        recorder.record(occurrence).await
    }

    fn wrote(&mut self, outcome: &'static str) -> &'static str {
        self.has_complained = false;
        outcome
    }

    /// Says why Events cannot be written, once.
    fn complain(&mut self, why: &str) {
        if !std::mem::replace(&mut self.has_complained, true) {
            tracing::warn!(
                why,
                "what is wrong with objects cannot be written to the cluster as Events"
            );
        }
    }
}

/// How long something had waited when it was refused for the first time, since a server could not be asked.
#[derive(Default)]
struct Refused(Option<Duration>);

impl Refused {
    /// How long to try what is refused after such a wait, from when it was told.
    fn patience(&mut self, waited: Duration) -> Duration {
        *self.0.get_or_insert(waited) + WHEN_REFUSED
    }
}

#[cfg(test)]
mod tests;
