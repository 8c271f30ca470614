//! What the other threads have to say to the one that enforces.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use picket_nftables::client;
use picket_nftables::model::InterfaceName;
use picket_source::Change;
use tokio::sync::Notify;

use crate::AgentError;
use crate::denied::Told;
use crate::trace::Asked;

/// How much may wait until it is taken in. Then who has more to say waits, and the API server with it.
const WAITING: usize = 256;

/// Something to hear.
pub(crate) enum News {
    /// Something changed in the cluster; known since then.
    Cluster(Instant, Change),
    /// Others have changed the table of the node.
    Table(Vec<client::Change>),
    /// Packets were denied.
    Denied(Told),
    /// Other interfaces lead away from the node: these.
    Uplinks(BTreeSet<InterfaceName>),
    /// Somebody asks what becomes of a connection.
    Asked(Asked),
    /// A thread cannot go on.
    Failed(AgentError),
}

/// Where news comes in.
pub(crate) struct Inbox {
    news: Receiver<News>,
    bell: Arc<Notify>,
}

/// Where one tells news.
#[derive(Clone)]
pub(crate) struct Outbox {
    news: SyncSender<News>,
    bell: Arc<Notify>,
}

/// The two ends.
pub(crate) fn channel() -> (Outbox, Inbox) {
    let (sender, receiver) = sync_channel(WAITING);
    let bell = Arc::new(Notify::new());
    let outbox = Outbox {
        news: sender,
        bell: Arc::clone(&bell),
    };
    (outbox, Inbox { news: receiver, bell })
}

impl Outbox {
    /// Says something, as soon as there is room.
    pub(crate) fn tell(&self, news: News) {
        // When nobody hears it the agent has ended, and the process is about to.
        let _ = self.news.send(news);
        self.bell.notify_one();
    }
}

impl Inbox {
    /// Waits until there is something, or there was.
    pub(crate) async fn ready(&self) {
        self.bell.notified().await;
    }

    /// The next, if there is one.
    pub(crate) fn next(&self) -> Option<News> {
        self.news.try_recv().ok()
    }
}
