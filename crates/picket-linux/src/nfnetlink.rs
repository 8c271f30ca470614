//! nf_tables over netlink: transactions and what the kernel answers to them.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, getsockname, netlink, sendmsg, sockopt};

use crate::batch::{Batch, frame};
use crate::message::{Acknowledgement, acknowledgement};
use crate::receive::{Datagram, Room, receive};
use crate::{Error, NetworkNamespace, Result};

pub(crate) const NFNL_MSG_BATCH_BEGIN: u16 = 16;
pub(crate) const NFNL_MSG_BATCH_END: u16 = 17;
const NFNL_BATCH_GENID: u16 = 1;

/// What the kernel needs of a receive buffer for the answer to one message, its own bookkeeping included.
const ANSWER_BYTES: usize = 2048;
/// What both buffers have at least.
const BUFFER_BYTES: usize = 1 << 20;
/// The kernel doubles what it is asked for, and refuses more than it can double.
const LARGEST_BUFFER: usize = (i32::MAX / 2) as usize;

/// A connection to nf_tables in one network namespace.
#[derive(Debug)]
pub struct Nfnetlink {
    pub(crate) socket: OwnedFd,
    port: Port,
    sequence: u32,
    send_buffer: usize,
    receive_buffer: usize,
}

/// What tells the sockets of one network namespace apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(pub u32);

/// Why a transaction changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// Somebody, perhaps in another table, changed the ruleset since its generation was read (`ERESTART`).
    #[error("the ruleset is of another generation than the one that was read")]
    Stale,
    /// The kernel refuses messages.
    #[error("{}", refusals(.0))]
    Refused(Vec<Refused>),
    /// The kernel refuses the whole.
    #[error("the transaction was refused")]
    Whole(#[source] io::Error),
    /// A message cannot be written: an attribute of it is longer than 64 KiB. Nothing was sent.
    #[error("message {0} has an attribute longer than 64 KiB")]
    TooLong(usize),
    /// It could not be sent, or its answer not received.
    #[error("the transaction could not be sent")]
    Socket(#[source] io::Error),
    /// The answer was lost: only reading the ruleset tells whether the transaction took place.
    #[error("the answer to the transaction was lost")]
    Unanswered,
}

/// One message of a batch, and why the kernel refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which one, from 0.
    pub message: usize,
    /// The error code, as in `libc::ENOENT`.
    pub code: i32,
    /// The kernel's own words, if it has some.
    pub explanation: Option<String>,
    /// The byte of the message where the attribute begins that is to blame, if the kernel says so.
    pub offset: Option<u32>,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", io::Error::from_raw_os_error(self.code))?;
        self.explanation
            .as_ref()
            .map_or(Ok(()), |text| write!(f, ": {text}"))
    }
}

impl Nfnetlink {
    /// Opens it in `namespace`; it stays there whatever thread uses it.
    ///
    /// # Errors
    /// [`Error::Enter`] or [`Error::Socket`].
    pub fn open(namespace: &NetworkNamespace) -> Result<Self> {
        let socket = crate::netlink::open(namespace, Some(netlink::NETFILTER), 0)?;
        let port = getsockname(&socket)
            .and_then(netlink::SocketAddrNetlink::try_from)
            .map_err(|source| Error::socket("name a netlink socket", source))?;
        Ok(Self {
            socket,
            port: Port(port.pid()),
            sequence: 0,
            send_buffer: 0,
            receive_buffer: 0,
        })
    }

    /// By which others can tell its transactions, see [`crate::Monitor`].
    pub fn port(&self) -> Port {
        self.port
    }

    /// Carries out all of `batch`, or nothing; with a generation only when the ruleset is still of it. An empty batch is
    /// not sent.
    ///
    /// # Errors
    /// [`BatchError`].
    pub fn commit(&mut self, batch: Batch, generation: Option<u32>) -> std::result::Result<(), BatchError> {
        if let Some(message) = batch.too_long() {
            return Err(BatchError::TooLong(message));
        }
        if batch.is_empty() {
            return Ok(());
        }
        let count = batch.messages();
        let first = self.take_sequence(count + 2);
        let mut begin = frame(NFNL_MSG_BATCH_BEGIN);
        if let Some(generation) = generation {
            begin = begin.attribute(NFNL_BATCH_GENID, &generation.to_be_bytes());
        }
        let begin = begin.finish(first);
        let messages = batch.finish(first.wrapping_add(1));
        let last = u32::try_from(count).unwrap_or(u32::MAX);
        let end = frame(NFNL_MSG_BATCH_END).finish(first.wrapping_add(last).wrapping_add(1));
        self.make_room(begin.len() + messages.len() + end.len(), count);
        self.discard();
        self.send(&[&begin, &messages, &end])
            .map_err(|source| BatchError::Socket(source.into()))?;
        self.outcome(first, last)
    }

    pub(crate) fn take_sequence(&mut self, count: usize) -> u32 {
        let first = self.sequence.wrapping_add(1);
        self.sequence = self
            .sequence
            .wrapping_add(u32::try_from(count).unwrap_or(u32::MAX));
        first
    }

    /// Makes the buffers large enough for a message of `bytes` and for `answers`, where it may. Where not, sending tells.
    fn make_room(&mut self, bytes: usize, answers: usize) {
        let send = (bytes + ANSWER_BYTES).clamp(BUFFER_BYTES, LARGEST_BUFFER);
        if send > self.send_buffer && sockopt::set_socket_send_buffer_size_force(&self.socket, send).is_ok() {
            self.send_buffer = send;
        }
        let receive = answers.saturating_mul(ANSWER_BYTES);
        let receive = receive.clamp(BUFFER_BYTES, LARGEST_BUFFER);
        if receive > self.receive_buffer
            && sockopt::set_socket_recv_buffer_size_force(&self.socket, receive).is_ok()
        {
            self.receive_buffer = receive;
        }
    }

    pub(crate) fn send(&self, parts: &[&[u8]]) -> rustix::io::Result<()> {
        let parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        loop {
            let mut nothing = SendAncillaryBuffer::default();
            match sendmsg(&self.socket, &parts, &mut nothing, SendFlags::empty()) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Forgets what came for earlier requests.
    fn discard(&self) {
        let mut room = Room::of_thread();
        while matches!(
            receive(&self.socket, &mut room, RecvFlags::DONTWAIT),
            Ok(_) | Err(Errno::NOBUFS)
        ) {}
    }

    /// Collects the answers to a batch whose frame begins with sequence number `first` and whose last message is the
    /// `last`th. The kernel works while it is sent to: all answers are there.
    fn outcome(&self, first: u32, last: u32) -> std::result::Result<(), BatchError> {
        let mut room = Room::of_thread();
        let (mut refused, mut whole, mut acknowledged) = (Vec::new(), None, false);
        loop {
            let length = match receive(&self.socket, &mut room, RecvFlags::DONTWAIT) {
                Ok(Datagram::Whole(length)) => length,
                // More answers than there was room for: those that are there count.
                Ok(Datagram::Cut | Datagram::Foreign) | Err(Errno::NOBUFS) => continue,
                Err(Errno::AGAIN) => break,
                Err(source) => return Err(BatchError::Socket(source.into())),
            };
            let Some(answer) = acknowledgement(room.get(..length).unwrap_or_default()) else {
                continue;
            };
            let number = answer.sequence.wrapping_sub(first);
            match answer.error {
                0 => acknowledged |= number == last,
                code if (1..=last).contains(&number) => refused.push(refusal(number - 1, code, answer)),
                code if number == 0 || number == last.wrapping_add(1) => whole = Some(code),
                _ => {}
            }
        }
        match (whole, refused.is_empty()) {
            (Some(libc::ERESTART), _) => Err(BatchError::Stale),
            (_, false) => Err(BatchError::Refused(refused)),
            (Some(code), true) => Err(BatchError::Whole(io::Error::from_raw_os_error(code))),
            (None, true) if acknowledged => Ok(()),
            (None, true) => Err(BatchError::Unanswered),
        }
    }
}

fn refusal(message: u32, code: i32, answer: Acknowledgement) -> Refused {
    Refused {
        message: usize::try_from(message).unwrap_or(usize::MAX),
        code,
        explanation: answer.explanation,
        offset: answer.offset,
    }
}

fn refusals(refused: &[Refused]) -> String {
    let each: Vec<String> = refused
        .iter()
        .map(|one| format!("message {}: {one}", one.message))
        .collect();
    each.join("; ")
}

pub(crate) fn refused(action: &str, error: Errno) -> Error {
    Error::Netlink {
        action: action.to_owned(),
        detail: String::new(),
        source: error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_answered_may_have_taken_place_or_not() {
        // Whoever may do nothing here may still ask.
        let netlink = Nfnetlink::open(&NetworkNamespace::current().unwrap()).unwrap();
        let outcome = netlink.outcome(1, 1);
        assert!(matches!(outcome, Err(BatchError::Unanswered)), "{outcome:?}");
    }
}
