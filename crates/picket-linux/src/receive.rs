//! Netlink sockets that hear the kernel alone. Whoever administers a network namespace may send to every other socket of
//! netlink in it, or to all that listen to something.

use std::os::fd::OwnedFd;

use rustix::io::{Errno, Result};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, bind, connect, recvfrom};

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
