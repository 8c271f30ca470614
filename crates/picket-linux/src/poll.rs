//! Readiness of many descriptors.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::{Error, Result};

/// A set of descriptors to wait for. A descriptor that is closed leaves the set by itself.
#[derive(Debug)]
pub struct Epoll {
    file: OwnedFd,
}

/// Descriptors that one call reports at most; the others come with the next.
const EVENTS_AT_ONCE: usize = 256;

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read, or the end.
    Read,
    /// Room to write, which for a connection includes that it stands or failed.
    Write,
}

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// What was given with it.
    pub token: u64,
    /// Whether it failed or the other side has gone.
    pub failed: bool,
}

impl Epoll {
    /// An empty set.
    ///
    /// # Errors
    /// [`Error::Socket`] when no more files can be opened.
    pub fn new() -> Result<Self> {
        match epoll::create(epoll::CreateFlags::CLOEXEC) {
            Ok(file) => Ok(Self { file }),
            Err(source) => Err(Error::socket("wait for sockets", source)),
        }
    }

    /// Adds a descriptor; `token` comes back when it is ready.
    ///
    /// # Errors
    /// [`Error::Socket`] when it is in the set already or cannot be waited for.
    pub fn add(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> Result<()> {
        epoll::add(
            &self.file,
            descriptor,
            epoll::EventData::new_u64(token),
            flags(interest),
        )
        .map_err(|source| Error::socket("wait for a socket", source))
    }

    /// Changes what a descriptor in the set is waited for.
    ///
    /// # Errors
    /// [`Error::Socket`] when it is not in the set.
    pub fn change(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> Result<()> {
        epoll::modify(
            &self.file,
            descriptor,
            epoll::EventData::new_u64(token),
            flags(interest),
        )
        .map_err(|source| Error::socket("wait for a socket", source))
    }

    /// Takes a descriptor out of the set.
    ///
    /// # Errors
    /// [`Error::Socket`] when it is not in the set.
    pub fn remove(&self, descriptor: impl AsFd) -> Result<()> {
        epoll::delete(&self.file, descriptor).map_err(|source| Error::socket("wait for a socket", source))
    }

    /// Waits until something is ready, at most for `timeout` (`None`: for ever).
    ///
    /// # Errors
    /// [`Error::Socket`]; an interruption by a signal is an empty answer.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<Vec<Readiness>> {
        let timeout = timeout.map(|duration| Timespec {
            tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(duration.subsec_nanos()),
        });
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
        match epoll::wait(&self.file, spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(events.into_iter().map(readiness).collect()),
            Err(source) => Err(Error::socket("wait for sockets", source)),
        }
    }
}

fn readiness(event: epoll::Event) -> Readiness {
    // The kernel's structure is packed: fields are copied out, not referred to.
    let flags = event.flags;
    Readiness {
        token: event.data.u64(),
        failed: flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP),
    }
}

fn flags(interest: Interest) -> epoll::EventFlags {
    match interest {
        Interest::Read => epoll::EventFlags::IN,
        Interest::Write => epoll::EventFlags::OUT,
    }
}
