//! How long sources are judged twice after a change.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Sleep, sleep};

/// For how long nothing is to change before it ends. Mostly no packet is on its way any more then that was being judged when the last
/// change came into force.
const QUIET: Duration = Duration::from_millis(20);

/// How long to wait where it could not be ended.
const ONCE_MORE: Duration = Duration::from_secs(1);

/// The time until that is to end.
#[derive(Default)]
pub(crate) struct Grace(Option<(u64, Pin<Box<Sleep>>)>);

impl Grace {
    /// It is that of this change, the last one, or of none.
    pub(crate) fn follow(&mut self, change: Option<u64>) {
        if self.0.as_ref().map(|(of, _)| *of) != change {
            self.0 = change.map(|change| (change, Box::pin(sleep(QUIET))));
        }
    }

    /// Waits until it is over, for ever where there is none.
    pub(crate) async fn over(&mut self) {
        match &mut self.0 {
            Some((_, waiting)) => waiting.await,
            None => pending().await,
        }
    }

    /// What was to follow was done, or is to be tried again.
    pub(crate) fn ended(&mut self, is_done: bool) {
        if let Some((change, _)) = self.0.take()
            && !is_done
        {
            self.0 = Some((change, Box::pin(sleep(ONCE_MORE))));
        }
    }
}
