//! Trying again what the kernel did not take.

use std::time::{Duration, Instant};

/// How long until the first attempt, and at most until any.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);

/// When to try again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    pub(crate) at: Instant,
    /// How long it was until then.
    after: Duration,
}

/// How long to wait once more where it was for nothing.
pub(crate) fn longer(after: Duration) -> Duration {
    (after * 2).min(LONGEST)
}

impl Retry {
    /// When to try again what has failed now, after twice as long as the time before if that was an attempt too.
    pub(crate) fn after(before: Option<Self>, now: Instant) -> Self {
        let after = before.map_or(FIRST, |before| longer(before.after));
        Self {
            at: now + after,
            after,
        }
    }

    /// Has the time come already.
    #[cfg(test)]
    pub(crate) fn hurry(&mut self) {
        self.at -= self.after;
    }
}
