//! Following the sandboxes of a runtime as they come and go.

use std::time::{Duration, Instant};

use super::call::{Events, Heard};
use super::message::{ContainerEventResponse, GetEventsRequest};
use super::{Runtime, RuntimeError, Sandbox};

/// How often runtimes are asked that do not say when something happens: containerd before 1.7, CRI-O where it is not
/// told to. So are the others until they have told something: they begin to listen some time after they were asked to, and
/// do not say when.
const INTERVAL: Duration = Duration::from_millis(200);

/// How often the others are asked, should an event be lost.
const REASSURANCE: Duration = Duration::from_secs(10);

/// The longest wait after a runtime that does not answer.
const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// Knows which sandboxes there are, and waits for others.
#[derive(Default)]
pub struct Follower {
    known: Option<Vec<Sandbox>>,
    source: Source,
    learned: Learned,
    failures: u32,
}

/// How one learns of sandboxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Learned {
    /// The runtime told that something happened.
    Event,
    /// It was asked without that.
    #[default]
    Asking,
}

/// How one learns that something happened.
#[derive(Default)]
enum Source {
    /// Nobody listens yet, or not any more.
    #[default]
    None,
    /// By events, of which some have been told or none yet.
    Events(Events, bool),
    /// By asking again and again: the runtime has no events.
    Polling,
}

impl Follower {
    /// Waits until the ready sandboxes are others than they were when this was last asked, or `patience` is over, and
    /// returns them. The first time it does not wait, and neither does it after a failure, but for a pause before it asks
    /// again, which grows to three seconds.
    ///
    /// # Errors
    /// [`RuntimeError::Call`]: the runtime does not answer. One can ask again.
    pub fn next(&mut self, runtime: &Runtime, patience: Duration) -> Result<Vec<Sandbox>, RuntimeError> {
        runtime.caller.pause(self.penalty());
        self.learned = Learned::Asking;
        let end = Instant::now() + patience;
        loop {
            if let Source::None = self.source {
                // Before the list, so that nothing happens between them.
                let question = GetEventsRequest {};
                let events = runtime
                    .caller
                    .listen::<_, ContainerEventResponse>("GetContainerEvents", question);
                self.source = Source::Events(events, false);
            }
            match runtime.sandboxes() {
                Ok(sandboxes) => {
                    self.failures = 0;
                    if self.known.as_ref() != Some(&sandboxes) || Instant::now() >= end {
                        self.known = Some(sandboxes.clone());
                        return Ok(sandboxes);
                    }
                }
                Err(error) => {
                    self.failures += 1;
                    // The one that answers next may be another that can do more.
                    self.source = Source::None;
                    self.known = None;
                    return Err(error);
                }
            }
            self.wait(runtime, end.saturating_duration_since(Instant::now()));
        }
    }

    /// How one learned of what [`next`](Self::next) has returned last.
    #[must_use]
    pub fn learned(&self) -> Learned {
        self.learned
    }

    /// Waits until something has happened, or has perhaps.
    fn wait(&mut self, runtime: &Runtime, patience: Duration) {
        self.learned = Learned::Asking;
        let Source::Events(events, have_told) = &mut self.source else {
            return runtime.caller.pause(INTERVAL.min(patience));
        };
        let rest = if *have_told { REASSURANCE } else { INTERVAL };
        match runtime.caller.hear(events, rest.min(patience)) {
            Heard::Event => {
                *have_told = true;
                self.learned = Learned::Event;
            }
            Heard::Nothing => {}
            Heard::Unknown => self.source = Source::Polling,
            Heard::End => {
                self.source = Source::None;
                runtime.caller.pause(INTERVAL);
            }
        }
    }

    fn penalty(&self) -> Duration {
        match self.failures {
            0 => Duration::ZERO,
            failures => (INTERVAL * 2_u32.saturating_pow(failures.min(8))).min(LONGEST_WAIT),
        }
    }
}
