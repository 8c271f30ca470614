//! How long packets are waited for that are on their way while the table changes.

use std::future::{Future, pending};
use std::pin::Pin;
use std::thread;
use std::time::Duration;

use picket_linux::await_packets;
use tokio::sync::oneshot;
use tokio::time::sleep;

/// For how long nothing is to change before they are waited for.
const QUIET: Duration = Duration::from_millis(20);

/// How long to wait where what follows could not be done.
const ONCE_MORE: Duration = Duration::from_secs(1);

/// The time until no packet is on its way that was being judged when a change came into force.
#[derive(Default)]
pub(crate) struct Grace(Option<(u64, Waiting)>);

type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Grace {
    /// It is that of this change, the last one, or of none.
    pub(crate) fn follow(&mut self, change: Option<u64>) {
        if self.0.as_ref().map(|(of, _)| *of) != change {
            self.0 = change.map(|change| (change, Box::pin(after(QUIET)) as Waiting));
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
            self.0 = Some((change, Box::pin(after(ONCE_MORE))));
        }
    }
}

async fn after(quiet: Duration) {
    sleep(quiet).await;
    // The kernel says when. Where no thread can begin that asks it, one may later.
    while !in_a_thread(await_packets).await {
        sleep(ONCE_MORE).await;
    }
}

/// Does something in a thread of its own; whether it was done.
async fn in_a_thread(work: impl FnOnce() + Send + 'static) -> bool {
    let (done, is_done) = oneshot::channel();
    let work = move || {
        work();
        // Nobody may be waiting for it any more.
        let _ = done.send(());
    };
    let thread = thread::Builder::new().name("picket-grace".to_owned());
    thread.spawn(work).is_ok() && is_done.await.is_ok()
}
