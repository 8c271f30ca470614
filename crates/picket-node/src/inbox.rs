//! What the other threads have to say to the one that enforces.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use picket_linux::{Epoll, Interest};
use picket_nftables::client;
use picket_nftables::model::InterfaceName;
use picket_source::Change;
use tokio::sync::Notify;

use crate::AgentError;
use crate::denied::{Denied, Told};
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
    Denied(Told<Denied>),
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

    /// Says what `hear` hears whenever something is `readable`, in a thread of its own, which ends with the process.
    ///
    /// # Errors
    /// When there is no such thread to be had.
    pub(crate) fn listen(
        self,
        name: &str,
        readable: Epoll,
        mut hear: impl FnMut() -> picket_linux::Result<Option<News>> + Send + 'static,
    ) -> Result<(), AgentError> {
        let listen = move || {
            loop {
                match readable.wait(None).and_then(|_| hear()) {
                    Ok(None) => {}
                    Ok(Some(news)) => self.tell(news),
                    Err(error) => return self.tell(News::Failed(error.into())),
                }
            }
        };
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(listen).map_err(AgentError::Start)?;
        Ok(())
    }
}

/// To wait until there is something to read.
pub(crate) fn readable(what: impl AsFd) -> picket_linux::Result<Epoll> {
    let epoll = Epoll::new()?;
    epoll.add(what, 0, Interest::Read)?;
    Ok(epoll)
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
