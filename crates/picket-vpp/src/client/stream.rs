//! Messages in frames over a socket, none of which is waited for without end.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::error::Error;

/// Bytes before each message: a pointer and a mark of VPP's own, and between them its length.
const HEADER: usize = 16;
/// The most bytes of a message, in either direction: an ACL of more than a million rules.
pub(super) const LONGEST: usize = 64 << 20;
/// Bytes that are read at once, and that are collected before they are written.
const PORTION: usize = 64 << 10;
/// The longest that anything is waited for.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// The least time for which the socket is asked: none at all is no time-out for it.
const MOMENT: Duration = Duration::from_millis(1);

/// What the socket of VPP carries.
#[derive(Debug)]
pub(super) struct Stream {
    socket: UnixStream,
    /// What has come and not been taken.
    received: Vec<u8>,
    /// How much of that has been taken.
    taken: usize,
    /// What has not gone yet.
    outgoing: Vec<u8>,
    /// How long VPP may take to read what is sent.
    limit: Duration,
}

/// What some bytes begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The message, without the header before it.
    pub message: &'a [u8],
    /// What follows it.
    pub rest: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The first frame of these bytes; `None` until all of it is there.
    ///
    /// # Errors
    /// The length of the message when it is more than any has.
    pub fn first(bytes: &'a [u8]) -> Result<Option<Self>, usize> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let [_, _, _, _, _, _, _, _, a, b, c, d, ..] = *header;
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if length > LONGEST {
            return Err(length);
        }
        let split = rest.split_at_checked(length);
        Ok(split.map(|(message, rest)| Self { message, rest }))
    }
}

impl Stream {
    /// The frames of a connected socket.
    pub(super) fn new(socket: UnixStream, limit: Duration) -> Self {
        Self {
            socket,
            received: Vec::new(),
            taken: 0,
            outgoing: Vec::new(),
            limit,
        }
    }

    /// The socket, to wait for.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Appends a frame to what is to be sent, unless it is too long; it goes when there is enough, or when an answer is
    /// waited for. Either way the length of the message.
    pub(super) fn send(
        &mut self,
        awaited: &'static str,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Result<usize, usize>, Error> {
        let start = self.outgoing.len();
        self.outgoing.extend([0; HEADER]);
        write(&mut self.outgoing);
        let length = self.outgoing.len() - start - HEADER;
        let encoded = u32::try_from(length).ok().filter(|_| length <= LONGEST);
        let Some(encoded) = encoded else {
            self.outgoing.truncate(start);
            return Ok(Err(length));
        };
        if let Some(header) = self.outgoing.get_mut(start + 8..start + 12) {
            header.copy_from_slice(&encoded.to_be_bytes());
        }
        if self.outgoing.len() >= PORTION {
            self.flush(awaited)?;
        }
        Ok(Ok(length))
    }

    /// Sends what has not gone yet.
    pub(super) fn flush(&mut self, awaited: &'static str) -> Result<(), Error> {
        let deadline = soon(self.limit);
        let mut written = 0;
        while let Some(rest) = self.outgoing.get(written..).filter(|rest| !rest.is_empty()) {
            let left = deadline.saturating_duration_since(Instant::now());
            let sent = self
                .socket
                .set_write_timeout(Some(left.max(MOMENT)))
                .and_then(|()| self.socket.write(rest));
            match sent {
                Ok(0) => return Err(Error::Closed { awaited }),
                Ok(sent) => written += sent,
                Err(error) if again(&error) => {}
                Err(error) if has_ended(&error) => return Err(Error::Closed { awaited }),
                Err(source) => {
                    return Err(Error::Socket {
                        doing: "send to",
                        source,
                    });
                }
            }
            if left.is_zero() && written < self.outgoing.len() {
                return Err(Error::NotRead { limit: self.limit });
            }
        }
        self.outgoing.clear();
        Ok(())
    }

    /// The next message, without its header; `None` when it is not there in time. `awaited` is its name in errors.
    pub(super) fn receive(
        &mut self,
        awaited: &'static str,
        deadline: Instant,
    ) -> Result<Option<Vec<u8>>, Error> {
        if !self.outgoing.is_empty() {
            self.flush(awaited)?;
        }
        let mut is_late = false;
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            // What comes byte by byte comes too late as well.
            if is_late || !self.read(awaited, deadline)? {
                return Ok(None);
            }
            is_late = Instant::now() >= deadline;
        }
    }

    /// A message that is there already.
    fn take(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let waiting = self.received.get(self.taken..).unwrap_or_default();
        match Frame::first(waiting) {
            Ok(None) => {
                self.received.drain(..self.taken);
                self.taken = 0;
                Ok(None)
            }
            Ok(Some(Frame { message, rest })) => {
                let message = message.to_vec();
                self.taken = self.received.len() - rest.len();
                Ok(Some(message))
            }
            Err(length) => Err(Error::LongFrame {
                length,
                longest: LONGEST,
            }),
        }
    }

    /// Reads what comes in time. For the kernel the shortest time-out is several milliseconds: without time it is not to wait at all.
    fn read_within(&mut self, left: Duration, portion: &mut [u8]) -> io::Result<usize> {
        if left.is_zero() {
            self.socket.set_nonblocking(true)?;
            let read = self.socket.read(portion);
            self.socket.set_nonblocking(false)?;
            return read;
        }
        self.socket.set_read_timeout(Some(left.max(MOMENT)))?;
        self.socket.read(portion)
    }

    /// Waits for more bytes; whether some came. What is there already is read even when there is no time left.
    fn read(&mut self, awaited: &'static str, deadline: Instant) -> Result<bool, Error> {
        let mut portion = vec![0; PORTION];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.read_within(left, &mut portion) {
                Ok(0) => return Err(Error::Closed { awaited }),
                Ok(length) => {
                    self.received.extend(portion.iter().take(length));
                    return Ok(true);
                }
                Err(error) if again(&error) => {}
                Err(error) if has_ended(&error) => return Err(Error::Closed { awaited }),
                Err(source) => {
                    return Err(Error::Socket {
                        doing: "receive from",
                        source,
                    });
                }
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }
}

/// The time after which what may take so long is given up.
pub(super) fn soon(limit: Duration) -> Instant {
    Instant::now() + limit.min(LONGEST_WAIT)
}

/// Whether only time passed.
fn again(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// Whether the other end is gone.
fn has_ended(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted
    )
}
