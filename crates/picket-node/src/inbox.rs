//! What the other threads have to say to the one that enforces.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use picket_linux::{Epoll, Interest};
use picket_nftables::client;
use picket_nftables::model::InterfaceName;
use picket_source::Change;

use crate::denied::{Denied, Told};
use crate::trace::Asked;
use crate::{AgentError, queue};

/// How soon it is noticed that something has been worked out.
const GLANCE: Duration = Duration::from_millis(10);

/// What the thread of a proof has for its stack: as much as the first thread of a process.
const STACK: usize = 8 << 20;

/// For how long something may be worked out.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// While nobody has anything else to say.
    pub(crate) alone: Duration,
    /// Since it began, where somebody has.
    pub(crate) waited_for: Duration,
}

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
pub(crate) type Inbox = queue::Inbox<News>;

/// Where one tells news.
pub(crate) type Outbox = queue::Outbox<News>;

impl Outbox {
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
    /// Works something out in a thread of its own, and meanwhile hands over what others have done to the table. Everything else
    /// waits. What works is told whether to go on.
    pub(crate) fn meanwhile<T: Send>(
        &mut self,
        patience: Patience,
        work: impl Fn(&dyn Fn() -> bool) -> T + Sync,
        mut repair: impl FnMut(Vec<client::Change>),
    ) -> T {
        let (began, is_waited_for) = (Instant::now(), AtomicBool::new(!self.earlier.is_empty()));
        let goes_on = || {
            let longest = match is_waited_for.load(Ordering::Relaxed) {
                true => patience.waited_for,
                false => patience.alone,
            };
            began.elapsed() < longest
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("picket-proof".to_owned());
            let working = thread.stack_size(STACK).spawn_scoped(scope, || work(&goes_on));
            let Ok(working) = working else {
                return work(&goes_on);
            };
            while !working.is_finished() {
                match self.news.recv_timeout(GLANCE) {
                    Ok(News::Table(changes)) => repair(changes),
                    Ok(news) => {
                        self.earlier.push_back(news);
                        is_waited_for.store(true, Ordering::Relaxed);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    // Nobody has anything to say any more.
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            working.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel as unbounded;

    use super::*;
    use crate::queue::channel;

    /// As long as there is.
    const PATIENCE: Patience = Patience {
        alone: Duration::MAX,
        waited_for: Duration::MAX,
    };

    #[test]
    fn what_others_do_to_the_table_is_heard_while_something_is_worked_out_and_the_rest_after_it() {
        let (outbox, mut inbox) = channel();
        outbox.tell(News::Uplinks(BTreeSet::new()));
        outbox.tell(News::Table(vec![client::Change::Perhaps]));
        let (repaired, until_repaired) = unbounded();
        let until_repaired = Mutex::new(until_repaired);
        let worked = inbox.meanwhile(
            PATIENCE,
            |_| until_repaired.lock().unwrap().recv().unwrap(),
            |changes| repaired.send(changes).unwrap(),
        );
        assert_eq!(worked, [client::Change::Perhaps]);
        assert!(matches!(inbox.take(), Some(News::Uplinks(_))));
        assert!(inbox.take().is_none());
    }

    #[test]
    fn nobody_waits_for_what_is_worked_out_for_longer_than_he_has_patience() {
        let (outbox, mut inbox) = channel();
        let none = Patience {
            waited_for: Duration::ZERO,
            ..PATIENCE
        };
        let is_told = |inbox: &mut Inbox, patience| inbox.meanwhile(patience, |goes_on| !goes_on(), |_| {});
        assert!(!is_told(&mut inbox, none), "nobody waits");
        outbox.tell(News::Uplinks(BTreeSet::new()));
        // It is heard at some time.
        inbox.meanwhile(none, |goes_on| while goes_on() {}, |_| {});
        assert!(is_told(&mut inbox, none), "somebody has waited since before");
        assert!(!is_told(&mut inbox, PATIENCE));
        assert!(matches!(inbox.take(), Some(News::Uplinks(_))));
    }
}
