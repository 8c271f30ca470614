//! Following the sandboxes of a runtime as they come and go.

use std::time::{Duration, Instant};

use super::call::{Events, Heard};
use super::message::{ContainerEventResponse, GetEventsRequest};
use super::{Runtime, RuntimeError, Sandbox};

/// How often runtimes are asked that do not say when something happens: containerd before 1.7, CRI-O where it is not
/// told to. So are the others until they have told something, since they begin to listen some time after they were asked to
/// and do not say when; and from when on they did not tell of something.
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
    /// By events.
    Events(Events, Trust),
    /// By asking again and again: the runtime has no events.
    Polling,
}

/// Whether events tell everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// None has been told yet.
    NotYet,
    /// Some have been told.
    Full,
    /// One was not told: containerd 1.7 tells each to one of those who listen.
    Lost,
}

impl Trust {
    /// How long to wait for an event before one asks all the same.
    fn rest(self) -> Duration {
        match self {
            Self::Full => REASSURANCE,
            Self::NotYet | Self::Lost => INTERVAL,
        }
    }

    /// What it is once an event has been told.
    fn told(self) -> Self {
        match self {
            Self::NotYet | Self::Full => Self::Full,
            Self::Lost => Self::Lost,
        }
    }

    /// What it is once something has happened of which no event told.
    fn missed(self) -> Self {
        match self {
            Self::NotYet => Self::NotYet,
            Self::Full | Self::Lost => Self::Lost,
        }
    }
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
        // Whether the next list is asked for though events should have told whatever happened.
        let mut is_reassuring = false;
        let end = Instant::now() + patience;
        loop {
            if let Source::None = self.source {
                // Before the list, so that nothing happens between them.
                let question = GetEventsRequest {};
                let events = runtime
                    .caller
                    .listen::<_, ContainerEventResponse>("GetContainerEvents", question);
                self.source = Source::Events(events, Trust::NotYet);
            }
            match runtime.sandboxes() {
                Ok(sandboxes) => {
                    self.failures = 0;
                    let have_changed = self.known.as_ref() != Some(&sandboxes);
                    if have_changed && is_reassuring {
                        self.doubt();
                    }
                    if have_changed || Instant::now() >= end {
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
            is_reassuring = self.wait(runtime, end.saturating_duration_since(Instant::now()));
        }
    }

    /// How one learned of what [`next`](Self::next) has returned last.
    #[must_use]
    pub fn learned(&self) -> Learned {
        self.learned
    }

    /// Waits until something has happened, or has perhaps; whether there were events to hear, and none was told.
    fn wait(&mut self, runtime: &Runtime, patience: Duration) -> bool {
        self.learned = Learned::Asking;
        let Source::Events(events, trust) = &mut self.source else {
            runtime.caller.pause(INTERVAL.min(patience));
            return false;
        };
        match runtime.caller.hear(events, trust.rest().min(patience)) {
            Heard::Event => {
                *trust = trust.told();
                self.learned = Learned::Event;
            }
            Heard::Nothing => return true,
            Heard::Unknown => self.source = Source::Polling,
            Heard::End => {
                self.source = Source::None;
                runtime.caller.pause(INTERVAL);
            }
        }
        false
    }

    /// Takes it that events do not tell everything.
    fn doubt(&mut self) {
        if let Source::Events(_, trust) = &mut self.source {
            *trust = trust.missed();
        }
    }

    fn penalty(&self) -> Duration {
        match self.failures {
            0 => Duration::ZERO,
            failures => (INTERVAL * 2_u32.saturating_pow(failures.min(8))).min(LONGEST_WAIT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_did_not_tell_of_a_change_is_asked_as_often_as_one_that_tells_nothing() {
        let trust = Trust::NotYet;
        assert_eq!(trust.rest(), INTERVAL);
        // Until it has told something, it need not have told of everything.
        let trust = trust.missed().told();
        assert_eq!(trust.rest(), REASSURANCE);
        assert_eq!(trust.told().rest(), REASSURANCE);
        let trust = trust.missed();
        assert_eq!(trust.rest(), INTERVAL);
        // What it tells is heard, and is not all.
        assert_eq!(trust.told().rest(), INTERVAL);
    }
}
