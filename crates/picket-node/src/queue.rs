//! How threads tell a loop what happens, in order, and no faster than it takes it in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::sync::Notify;

/// How much may wait until it is taken in. Then who has more to say waits, and the API server with it.
const WAITING: usize = 256;

/// Where news comes in.
pub struct Inbox<N> {
    pub(crate) news: Receiver<N>,
    /// What came while others were not to be heard, in order.
    pub(crate) earlier: VecDeque<N>,
    bell: Arc<Notify>,
}

/// Where one tells news.
pub struct Outbox<N> {
    news: SyncSender<N>,
    bell: Arc<Notify>,
}

impl<N> Clone for Outbox<N> {
    fn clone(&self) -> Self {
        Self {
            news: self.news.clone(),
            bell: Arc::clone(&self.bell),
        }
    }
}

/// The two ends.
#[must_use]
pub fn channel<N>() -> (Outbox<N>, Inbox<N>) {
    let (sender, receiver) = sync_channel(WAITING);
    let bell = Arc::new(Notify::new());
    let outbox = Outbox {
        news: sender,
        bell: Arc::clone(&bell),
    };
    let inbox = Inbox {
        news: receiver,
        earlier: VecDeque::new(),
        bell,
    };
    (outbox, inbox)
}

impl<N> Outbox<N> {
    /// Says something, as soon as there is room.
    pub fn tell(&self, news: N) {
        // When nobody hears it the loop has ended, and the process is about to.
        let _ = self.news.send(news);
        self.bell.notify_one();
    }
}

impl<N> Inbox<N> {
    /// Waits until there is something, or there was.
    pub async fn ready(&self) {
        self.bell.notified().await;
    }

    /// Has [`Inbox::ready`] say so, as there may be more.
    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    /// The next, if there is one.
    pub fn take(&mut self) -> Option<N> {
        self.earlier.pop_front().or_else(|| self.news.try_recv().ok())
    }
}
