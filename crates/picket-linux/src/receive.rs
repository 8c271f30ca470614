//! Netlink sockets that hear the kernel alone. Whoever administers a network namespace may send to every other socket of
//! netlink in it, or to all that listen to something.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;

use rustix::io::{Errno, Result};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, bind, connect, recvfrom};

/// Room for the longest datagram of netfilter. There are as many sockets as sandboxes, twice: a thread keeps one room for all that it
/// receives from.
pub(crate) struct Room(Box<[u8]>);

thread_local! {
    static SPARE: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

impl Room {
    /// That of this thread, or another while somebody has it.
    pub(crate) fn of_thread() -> Self {
        Self(
            SPARE
                .take()
                .unwrap_or_else(|| vec![0; 1 << 16].into_boxed_slice()),
        )
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        SPARE.set(Some(std::mem::take(&mut self.0)));
    }
}

impl Deref for Room {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Room {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Datagram {
    /// As many bytes of the kernel.
    Whole(usize),
    /// More of the kernel than the buffer holds.
    Cut,
    /// Something of somebody else, which counts for nothing.
    Foreign,
}

/// Gives a socket a port of its own, and lets it listen to groups of messages. Only the kernel can send to that port.
pub(crate) fn listen(socket: &OwnedFd, groups: u32) -> Result<()> {
    bind(socket, &SocketAddrNetlink::new(0, groups))?;
    connect(socket, &SocketAddrNetlink::new(0, 0))
}

/// Receives a datagram into `buffer`.
///
/// # Errors
/// Those of `recvfrom(2)`, but for interruptions.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8], flags: RecvFlags) -> Result<Datagram> {
    let flags = flags | RecvFlags::TRUNC;
    let (length, whole, source) = loop {
        match recvfrom(socket, &mut *buffer, flags) {
            Err(Errno::INTR) => {}
            received => break received?,
        }
    };
    // Groups have no owner: others can send to them too.
    let source = source.and_then(|source| SocketAddrNetlink::try_from(source).ok());
    Ok(match source {
        Some(source) if source.pid() == 0 && length == whole => Datagram::Whole(length),
        Some(source) if source.pid() == 0 => Datagram::Cut,
        _ => Datagram::Foreign,
    })
}
