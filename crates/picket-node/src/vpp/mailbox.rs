//! What is wanted, from the loop of the agent to the thread of a target: always the latest, with what is new since the last that
//! was taken.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use picket_linux::{Epoll, Interest};

use super::render::Wanted;

type Latest = Arc<Mutex<Option<Arc<Wanted>>>>;

/// The end of the loop, which never waits.
pub(crate) struct Sender {
    latest: Latest,
    bell: UnixStream,
}

/// The end of the thread.
pub(crate) struct Receiver {
    latest: Latest,
    bell: UnixStream,
}

/// The two ends.
pub(crate) fn channel() -> io::Result<(Sender, Receiver)> {
    let (ours, theirs) = UnixStream::pair()?;
    for bell in [&ours, &theirs] {
        bell.set_nonblocking(true)?;
    }
    let latest = Latest::default();
    let sender = Sender {
        latest: Arc::clone(&latest),
        bell: ours,
    };
    Ok((sender, Receiver { latest, bell: theirs }))
}

impl Sender {
    /// From now on this is wanted.
    pub(crate) fn send(&self, wanted: Arc<Wanted>) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = Some(match latest.take() {
            Some(before) => Arc::new(before.then(&wanted)),
            None => wanted,
        });
        drop(latest);
        // A bell that is full has been rung.
        let _ = (&self.bell).write(&[1]);
    }
}

impl Receiver {
    /// What is wanted since the last time, if that is something else.
    pub(crate) fn take(&self) -> Option<Arc<Wanted>> {
        let mut rings = [0; 64];
        while matches!((&self.bell).read(&mut rings), Ok(1..)) {}
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Waits until something else is wanted, there is something to hear, or time has passed.
    ///
    /// # Errors
    /// When nothing can be waited for.
    pub(crate) fn wait(&self, hear: Option<impl AsFd>, limit: Duration) -> picket_linux::Result<()> {
        let epoll = Epoll::new()?;
        epoll.add(&self.bell, 0, Interest::Read)?;
        if let Some(hear) = hear {
            epoll.add(hear, 1, Interest::Read)?;
        }
        epoll.wait(Some(limit)).map(drop)
    }
}
