//! How many calls there may be: at once, and in a second.

use std::time::Duration;

use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

/// Lets calls begin.
pub(super) struct Pace {
    at_once: Semaphore,
    /// Between the beginnings of two calls.
    interval: Duration,
    /// When the next may begin.
    next: Mutex<Instant>,
}

impl Pace {
    pub(super) fn new(at_once: usize, per_second: u32) -> Self {
        Self {
            at_once: Semaphore::new(at_once.clamp(1, Semaphore::MAX_PERMITS)),
            interval: Duration::from_secs(1) / per_second.max(1),
            next: Mutex::new(Instant::now()),
        }
    }

    /// Waits until a call may begin. It counts until what this returns is dropped.
    pub(super) async fn begin(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        let permit = self.at_once.acquire().await.ok();
        let turn = {
            let mut next = self.next.lock().await;
            let turn = (*next).max(Instant::now());
            *next = turn + self.interval;
            turn
        };
        sleep_until(turn).await;
        permit
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn no_more_are_let_in_than_there_may_be_at_once() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let pace = Pace::new(2, 1_000_000);
            let first = pace.begin().await;
            let _second = pace.begin().await;
            assert_eq!(pace.at_once.available_permits(), 0);
            drop(first);
            let _third = pace.begin().await;
            assert_eq!(pace.at_once.available_permits(), 0);
        });
    }

    #[test]
    fn calls_begin_one_interval_after_the_other() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let pace = Pace::new(8, 1000);
            let first = *pace.next.lock().await;
            for _ in 0..5 {
                drop(pace.begin().await);
            }
            let next = *pace.next.lock().await;
            assert!(next.duration_since(first) >= Duration::from_millis(5));
        });
    }
}
