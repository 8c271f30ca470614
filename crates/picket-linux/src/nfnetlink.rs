//! nf_tables over netlink: transactions and what the kernel answers to them, and dumps.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, netlink, recv, sendmsg, sockopt};

use crate::batch::{Batch, family_header, frame, message_type};
use crate::message::{Acknowledgement, HEADER, Message, NLM_F_REQUEST, acknowledgement, u16_at, u32_at};
use crate::{Error, NetworkNamespace, Result};

const NFNL_MSG_BATCH_BEGIN: u16 = 16;
const NFNL_MSG_BATCH_END: u16 = 17;
const NFNL_BATCH_GENID: u16 = 1;
const NFT_MSG_GETGEN: u8 = 16;
const NFTA_GEN_ID: u16 = 1;
const NLMSG_DONE: u16 = 3;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_DUMP_INTR: u16 = 0x10;

/// Bytes of the header of a family, `struct nfgenmsg`.
const FAMILY_HEADER: usize = 4;
/// What the kernel needs of a receive buffer for the answer to one message, its own bookkeeping included.
const ANSWER_BYTES: usize = 2048;
/// What both buffers have at least.
const BUFFER_BYTES: usize = 1 << 20;
/// The kernel doubles what it is asked for, and refuses more than it can double.
const LARGEST_BUFFER: usize = (i32::MAX / 2) as usize;
/// How often a dump is begun again when what it shows changes meanwhile.
const DUMPS: usize = 100;

/// A connection to nf_tables in one network namespace.
#[derive(Debug)]
pub struct Nfnetlink {
    socket: OwnedFd,
    sequence: u32,
    send_buffer: usize,
    receive_buffer: usize,
    buffer: Vec<u8>,
}

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

/// An object of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its kind (`NFT_MSG_*`).
    pub kind: u8,
    attributes: Vec<u8>,
}

impl Reply {
    /// What it says.
    pub fn attributes(&self) -> Attributes<'_> {
        Attributes::of(&self.attributes)
    }
}

/// The attributes in some bytes, each with its kind and its bytes.
#[derive(Clone, Debug)]
pub struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// Those of a message, or within an attribute.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes of the first of one kind.
    pub fn find(self, kind: u16) -> Option<&'a [u8]> {
        let mut all = self;
        all.find_map(|(found, bytes)| (found == kind).then_some(bytes))
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        const KIND: u16 = 0x3fff;
        let length = usize::from(u16_at(self.0, 0)?);
        let kind = u16_at(self.0, 2)? & KIND;
        let payload = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    }
}

impl Nfnetlink {
    /// Opens it in `namespace`; it stays there whatever thread uses it.
    ///
    /// # Errors
    /// [`Error::Enter`] or [`Error::Socket`].
    pub fn open(namespace: &NetworkNamespace) -> Result<Self> {
        Ok(Self {
            socket: crate::netlink::open(namespace, Some(netlink::NETFILTER))?,
            sequence: 0,
            send_buffer: 0,
            receive_buffer: 0,
            buffer: vec![0; 1 << 16],
        })
    }

    /// The generation of the ruleset of this namespace. Every transaction of anybody makes the next one.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub fn generation(&mut self) -> Result<u32> {
        let action = "read the generation of the ruleset";
        let replies = self.replies(NFT_MSG_GETGEN, 0, 0, &[], action)?;
        let number = replies
            .objects
            .first()
            .and_then(|reply| reply.attributes().find(NFTA_GEN_ID))
            .and_then(|bytes| bytes.try_into().ok());
        number
            .map(u32::from_be_bytes)
            .ok_or_else(|| refused(action, Errno::PROTO))
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

    /// Every object that the kernel lists for a kind of request (`NFT_MSG_GET*`) with these attributes, as of one moment:
    /// two lists of one generation that are alike.
    ///
    /// # Errors
    /// [`Error::Netlink`]; also when what is listed changes all the time.
    pub fn dump(
        &mut self,
        kind: u8,
        family: u8,
        attributes: &[(u16, &[u8])],
        action: &str,
    ) -> Result<Vec<Reply>> {
        let mut before = None;
        for _ in 0..DUMPS {
            let Some(generation) = self.settled_generation()? else {
                continue;
            };
            let replies = self.replies(kind, NLM_F_DUMP, family, attributes, action)?;
            // The kernel marks a change between two datagrams, but none within the last.
            if !replies.are_of_one_moment || self.generation()? != generation {
                continue;
            }
            // A hash table that grows or shrinks between two datagrams, which is no change, loses elements of its list.
            let now = Some((generation, replies.objects));
            if now == before {
                return Ok(now.map(|(_, objects)| objects).unwrap_or_default());
            }
            before = now;
        }
        Err(refused(action, Errno::INTR))
    }

    /// The generation of the ruleset if the transaction that made it is over: its number is there before its changes.
    fn settled_generation(&mut self) -> Result<Option<u32>> {
        let generation = self.generation()?;
        // An empty transaction waits for the one that is under way, changes nothing and is not answered.
        let first = self.take_sequence(2);
        let begin = frame(NFNL_MSG_BATCH_BEGIN).finish(first);
        let end = frame(NFNL_MSG_BATCH_END).finish(first.wrapping_add(1));
        self.send(&[&begin, &end])
            .map_err(|error| refused("wait for transactions of nf_tables", error))?;
        let settled = self.generation()? == generation;
        Ok(settled.then_some(generation))
    }

    fn take_sequence(&mut self, count: usize) -> u32 {
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

    fn send(&self, parts: &[&[u8]]) -> rustix::io::Result<()> {
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
    fn discard(&mut self) {
        while matches!(
            recv(&self.socket, &mut self.buffer, RecvFlags::DONTWAIT),
            Ok(_) | Err(Errno::INTR | Errno::NOBUFS)
        ) {}
    }

    /// Collects the answers to a batch whose frame begins with sequence number `first` and whose last message is the
    /// `last`th. The kernel works while it is sent to: all answers are there.
    fn outcome(&mut self, first: u32, last: u32) -> std::result::Result<(), BatchError> {
        let (mut refused, mut whole, mut acknowledged) = (Vec::new(), None, false);
        loop {
            let length = match recv(&self.socket, &mut self.buffer, RecvFlags::DONTWAIT) {
                Ok((length, _)) => length,
                // More answers than there was room for: those that are there count.
                Err(Errno::INTR | Errno::NOBUFS) => continue,
                Err(Errno::AGAIN) => break,
                Err(source) => return Err(BatchError::Socket(source.into())),
            };
            let Some(answer) = acknowledgement(self.buffer.get(..length).unwrap_or_default()) else {
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

    /// What comes for one request.
    fn replies(
        &mut self,
        kind: u8,
        flags: u16,
        family: u8,
        attributes: &[(u16, &[u8])],
        action: &str,
    ) -> Result<Replies> {
        let sequence = self.take_sequence(1);
        let flags_and_request = NLM_F_REQUEST | flags;
        let message = attributes.iter().fold(
            Message::new(message_type(kind), flags_and_request, &family_header(family, 0)),
            |message, (kind, bytes)| message.attribute(*kind, bytes),
        );
        self.send(&[&message.finish(sequence)])
            .map_err(|error| refused(action, error))?;
        let mut replies = Replies {
            objects: Vec::new(),
            are_of_one_moment: true,
            resource: None,
        };
        loop {
            let length = match recv(&self.socket, &mut self.buffer, RecvFlags::empty()) {
                Ok((length, whole)) if length == whole => length,
                Ok(_) => return Err(refused(action, Errno::MSGSIZE)),
                Err(Errno::INTR) => continue,
                // What is missing must be asked for again, once the rest of this dump is read.
                Err(Errno::NOBUFS) if flags & NLM_F_DUMP != 0 => {
                    replies.are_of_one_moment = false;
                    continue;
                }
                Err(error) => return Err(refused(action, error)),
            };
            let mut rest = self.buffer.get(..length).unwrap_or_default();
            while let Some((message, after)) = split_message(rest) {
                rest = after;
                if u32_at(message, 8) != Some(sequence) {
                    continue;
                }
                if let Some(answer) = acknowledgement(message) {
                    return Err(explained(action, &answer));
                }
                if u16_at(message, 4) == Some(NLMSG_DONE) {
                    let code = u32_at(message, HEADER).map_or(0, u32::cast_signed);
                    if code < 0 {
                        return Err(refused(action, Errno::from_raw_os_error(code.wrapping_neg())));
                    }
                    return Ok(replies);
                }
                replies.add(message);
                if flags & NLM_F_DUMP == 0 {
                    return Ok(replies);
                }
            }
        }
    }
}

/// What the kernel replied to one request.
struct Replies {
    objects: Vec<Reply>,
    are_of_one_moment: bool,
    /// The last bits of the generation of what was listed.
    resource: Option<u16>,
}

impl Replies {
    fn add(&mut self, message: &[u8]) {
        let interrupted = u16_at(message, 6).is_none_or(|flags| flags & NLM_F_DUMP_INTR != 0);
        let resource = u16_at(message, HEADER + 2);
        let moved_on = self.resource.is_some() && self.resource != resource;
        self.are_of_one_moment &= !interrupted && !moved_on;
        self.resource = resource;
        let [kind, _] = u16_at(message, 4).unwrap_or_default().to_le_bytes();
        self.objects.push(Reply {
            kind,
            attributes: message.get(HEADER + FAMILY_HEADER..).unwrap_or_default().to_vec(),
        });
    }
}

/// The first message of a datagram, and what follows it.
fn split_message(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(u32_at(bytes, 0)?).ok()?;
    let message = bytes.get(..length).filter(|message| message.len() >= HEADER)?;
    Some((
        message,
        bytes.get(length.next_multiple_of(4)..).unwrap_or_default(),
    ))
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

fn refused(action: &str, error: Errno) -> Error {
    Error::Netlink {
        action: action.to_owned(),
        detail: String::new(),
        source: error.into(),
    }
}

fn explained(action: &str, answer: &Acknowledgement) -> Error {
    Error::Netlink {
        action: action.to_owned(),
        detail: answer
            .explanation
            .as_ref()
            .map_or(String::new(), |text| format!(": {text}")),
        source: io::Error::from_raw_os_error(answer.error),
    }
}
