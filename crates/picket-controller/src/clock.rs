//! The time, as the machine itself counts it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A clock that nobody sets: how long it is since some moment. Clones show the same.
#[derive(Clone)]
pub(crate) struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({:?})", self.now())
    }
}

impl Clock {
    /// The clock of this machine. It goes on while the machine is suspended, as leases do.
    pub(crate) fn of_machine() -> Self {
        Self::new(|| {
            let time = clock_gettime(ClockId::Boottime);
            let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
            let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
            Duration::new(seconds, nanoseconds)
        })
    }

    pub(crate) fn new(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(crate) fn now(&self) -> Duration {
        (self.0)()
    }
}

/// A clock that shows what a test says.
#[cfg(test)]
#[derive(Clone, Default)]
pub(crate) struct Hands(Arc<std::sync::atomic::AtomicU64>);

#[cfg(test)]
impl Hands {
    /// The clock.
    pub(crate) fn clock(&self) -> Clock {
        let hands = Arc::clone(&self.0);
        Clock::new(move || Duration::from_millis(hands.load(std::sync::atomic::Ordering::Relaxed)))
    }

    /// Time passes.
    pub(crate) fn forward(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap();
        self.0.fetch_add(by, std::sync::atomic::Ordering::Relaxed);
    }
}
