//! One connection to VPP: requests with their answers, lists, and events in between.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::definition::{Address, Call, Definition, Dump, Message, Reply};
use super::error::Error;
use super::message::{
    CREATE_ID, CREATE_REPLY_ID, ControlPing, ControlPingReply, SockclntCreate, SockclntCreateReply,
    SockclntDelete, SwInterfaceEvent,
};
use super::refusal::{Refusal, Subject};
use super::stream::{LONGEST, Stream, soon};
use super::table::Table;
use super::value::{Event, Label};

/// The most bytes of one list that are read.
const LONGEST_DUMP: usize = 256 << 20;
/// The most bytes of requests that VPP has not answered, unless it is one request.
const LONGEST_WINDOW: usize = 1 << 20;
/// How many times as long as one answer a whole list may take.
const DUMP_PATIENCE: u32 = 6;
/// The most events that are kept.
const MOST_EVENTS: usize = 1 << 16;

/// How patient a connection is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How long an answer may take.
    pub(super) answer: Duration,
    /// How many requests may be without one.
    pub(super) window: usize,
}

/// A client of VPP.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    limits: Limits,
    table: Table,
    client_index: u32,
    context: u32,
    /// The number of events, once VPP has said it.
    event_id: Option<u16>,
    events: VecDeque<Event>,
    has_failed: bool,
}

/// A request without an answer.
struct Waiting {
    /// Which of a batch.
    place: usize,
    length: usize,
    subject: Subject,
}

impl Connection {
    /// Says who we are at the other end of `socket`, and hears which messages VPP has.
    pub(super) fn open(socket: UnixStream, name: &Label, limits: Limits) -> Result<Self, Error> {
        let mut connection = Self {
            stream: Stream::new(socket, limits.answer),
            limits,
            table: Table::default(),
            client_index: 0,
            context: 0,
            event_id: None,
            events: VecDeque::new(),
            has_failed: false,
        };
        let create = SockclntCreate { name: name.clone() };
        let awaited = SockclntCreateReply::DEFINITION.name;
        let us = Subject::Part("this client");
        let (context, _) = connection.send(CREATE_ID, &create, awaited, &us)?;
        let deadline = soon(limits.answer);
        let (answered, reply): (_, SockclntCreateReply) = connection.next(CREATE_REPLY_ID, deadline)?;
        expect(answered == context, CREATE_REPLY_ID, answered, awaited)?;
        // Anything that is not negative is success.
        if reply.response < 0 {
            return Err(Error::Refused(Refusal {
                message: SockclntCreate::DEFINITION.name,
                subject: us,
                code: reply.response,
            }));
        }
        connection.client_index = reply.index;
        connection.table = Table::of(&reply.message_table)?;
        connection.event_id = connection.table.id(&SwInterfaceEvent::DEFINITION).ok();
        Ok(connection)
    }

    /// The messages that VPP has.
    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// Whether VPP has these messages as they are known.
    pub(super) fn knows(&self, messages: &[Definition]) -> bool {
        messages.iter().all(|message| self.table.id(message).is_ok())
    }

    /// Asks for one thing, and waits for its answer.
    pub(super) fn call<C: Call>(&mut self, call: C) -> Result<C::Reply, Error> {
        let mut answers = self.call_all([call])?;
        // INVARIANT: there is an answer to each call.
        let answer = answers.pop().ok_or(Error::GivenUp)?;
        Ok(answer?)
    }

    /// Asks for many things without waiting in between, and says what came of each, in their order. What VPP refuses
    /// keeps it from nothing else.
    pub(super) fn call_all<C: Call>(
        &mut self,
        calls: impl IntoIterator<Item = C>,
    ) -> Result<Vec<Result<C::Reply, Refusal>>, Error> {
        self.guarded(|this| this.pipeline(calls))
    }

    /// All of a list.
    pub(super) fn dump<D: Dump>(&mut self, dump: &D) -> Result<Vec<D::Details>, Error> {
        self.guarded(|this| this.list(dump))
    }

    /// What happened, as far as it is known after so much time at most: at once when something is.
    pub(super) fn events(&mut self, limit: Duration) -> Result<Vec<Event>, Error> {
        self.guarded(|this| {
            let awaited = SwInterfaceEvent::DEFINITION.name;
            let mut deadline = soon(if this.events.is_empty() {
                limit
            } else {
                Duration::ZERO
            });
            while let Some(body) = this.stream.receive(awaited, deadline)? {
                if !this.keep_event(&body)? {
                    return Err(unexpected(&body, awaited));
                }
                if this.events.len() > MOST_EVENTS {
                    break;
                }
                deadline = Instant::now();
            }
            Ok(this.events.drain(..).collect())
        })
    }

    /// What becomes readable when VPP says something, or ends.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.stream.socket()
    }

    /// Takes leave.
    pub(super) fn close(mut self) -> Result<(), Error> {
        let index = self.client_index;
        self.call(SockclntDelete { index }).map(|_| ())
    }

    /// Gives the connection up when `work` fails: what is under way then could be taken for an answer to something else.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.has_failed {
            return Err(Error::GivenUp);
        }
        let done = work(self);
        self.has_failed = done.as_ref().is_err_and(Error::ends_connection);
        done
    }

    fn pipeline<C: Call>(
        &mut self,
        calls: impl IntoIterator<Item = C>,
    ) -> Result<Vec<Result<C::Reply, Refusal>>, Error> {
        let id = self.id::<C>()?;
        let reply_id = self.id::<C::Reply>()?;
        let awaited = C::Reply::DEFINITION.name;
        let mut waiting: BTreeMap<u32, Waiting> = BTreeMap::new();
        let mut unanswered = 0;
        let mut answers = Vec::new();
        for call in calls {
            if waiting.len() >= self.limits.window || unanswered >= LONGEST_WINDOW {
                // Half of them at once, so that what follows goes together.
                while waiting.len() > self.limits.window / 2 || unanswered > LONGEST_WINDOW / 2 {
                    unanswered -= self.answer::<C>(reply_id, &mut waiting, &mut answers)?;
                }
            }
            let subject = call.subject();
            let (context, length) = self.send(id, &call, awaited, &subject)?;
            unanswered += length;
            let place = answers.len();
            waiting.insert(
                context,
                Waiting {
                    place,
                    length,
                    subject,
                },
            );
            answers.push(None);
        }
        while !waiting.is_empty() {
            self.answer::<C>(reply_id, &mut waiting, &mut answers)?;
        }
        // INVARIANT: nothing waits any more, so each has an answer.
        Ok(answers.into_iter().flatten().collect())
    }

    /// Takes one answer; how many bytes its request had.
    fn answer<C: Call>(
        &mut self,
        id: u16,
        waiting: &mut BTreeMap<u32, Waiting>,
        answers: &mut [Option<Result<C::Reply, Refusal>>],
    ) -> Result<usize, Error> {
        let (context, reply): (_, C::Reply) = self.next(id, soon(self.limits.answer))?;
        let asked = waiting.remove(&context).ok_or(Error::Unexpected {
            id,
            context,
            awaited: C::Reply::DEFINITION.name,
        })?;
        let answer = match reply.retval() {
            0 => Ok(reply),
            code => Err(Refusal {
                message: C::DEFINITION.name,
                subject: asked.subject,
                code,
            }),
        };
        if let Some(place) = answers.get_mut(asked.place) {
            *place = Some(answer);
        }
        Ok(asked.length)
    }

    fn list<D: Dump>(&mut self, dump: &D) -> Result<Vec<D::Details>, Error> {
        let id = self.id::<D>()?;
        let details_id = self.id::<D::Details>()?;
        let ping_id = self.id::<ControlPing>()?;
        let ping_reply_id = self.id::<ControlPingReply>()?;
        let awaited = D::Details::DEFINITION.name;
        let all = Subject::Part("all");
        let (context, _) = self.send(id, dump, awaited, &all)?;
        let (ping, _) = self.send(ping_id, &ControlPing {}, awaited, &all)?;
        let end = soon(self.limits.answer.saturating_mul(DUMP_PATIENCE));
        let mut details = Vec::new();
        let mut length = 0_usize;
        loop {
            let body = self.next_body(awaited, end.min(soon(self.limits.answer)))?;
            if message_id(&body) == Some(ping_reply_id) {
                let (address, _) = ControlPingReply::read(&body)?;
                expect(address.context == ping, ping_reply_id, address.context, awaited)?;
                return Ok(details);
            }
            let (address, one) = read::<D::Details>(&body, details_id)?;
            expect(address.context == context, details_id, address.context, awaited)?;
            details.push(one);
            length = length.saturating_add(body.len());
            if length > LONGEST_DUMP {
                return Err(Error::LongDump {
                    message: awaited,
                    longest: LONGEST_DUMP,
                });
            }
        }
    }

    /// The number of a message.
    fn id<M: Message>(&self) -> Result<u16, Error> {
        self.table
            .id(&M::DEFINITION)
            .map_err(|lacks| Error::Incompatible(vec![lacks]))
    }

    /// Sends a message; by what its answer is known, and its length.
    fn send<M: Message>(
        &mut self,
        id: u16,
        message: &M,
        awaited: &'static str,
        subject: &Subject,
    ) -> Result<(u32, usize), Error> {
        self.context = self.context.wrapping_add(1);
        let address = Address {
            id,
            client_index: self.client_index,
            context: self.context,
        };
        let sent = self.stream.send(awaited, |bytes| message.write(address, bytes))?;
        let length = sent.map_err(|length| Error::TooLong {
            message: M::DEFINITION.name,
            subject: subject.to_string(),
            length,
            longest: LONGEST,
        })?;
        Ok((self.context, length))
    }

    /// The next message that is no event, which must be an `M`, and to which request it is the answer.
    fn next<M: Message>(&mut self, id: u16, deadline: Instant) -> Result<(u32, M), Error> {
        let body = self.next_body(M::DEFINITION.name, deadline)?;
        let (address, message) = read(&body, id)?;
        Ok((address.context, message))
    }

    /// The next message that is no event. Events do not make the wait any longer.
    fn next_body(&mut self, awaited: &'static str, deadline: Instant) -> Result<Vec<u8>, Error> {
        while let Some(body) = self.stream.receive(awaited, deadline)? {
            if !self.keep_event(&body)? {
                return Ok(body);
            }
            if Instant::now() >= deadline {
                break;
            }
        }
        Err(Error::TimedOut {
            awaited,
            limit: self.limits.answer,
        })
    }

    /// Keeps a message that is an event; whether it is.
    fn keep_event(&mut self, body: &[u8]) -> Result<bool, Error> {
        if self.event_id.is_none() || message_id(body) != self.event_id {
            return Ok(false);
        }
        let (_, event) = SwInterfaceEvent::read(body)?;
        let interface = event.sw_if_index;
        let event = if event.deleted {
            Event::Deleted { interface }
        } else {
            Event::Changed {
                interface,
                state: event.flags,
            }
        };
        match self.events.len() {
            0..MOST_EVENTS => self.events.push_back(event),
            MOST_EVENTS => self.events.push_back(Event::Lost),
            _ => {}
        }
        Ok(true)
    }
}

/// The number of a message, which is what it begins with.
fn message_id(body: &[u8]) -> Option<u16> {
    body.first_chunk().map(|id| u16::from_be_bytes(*id))
}

/// An `M`, if that is what the number says.
fn read<M: Message>(body: &[u8], id: u16) -> Result<(Address, M), Error> {
    if message_id(body).is_some_and(|other| other != id) {
        return Err(unexpected(body, M::DEFINITION.name));
    }
    Ok(M::read(body)?)
}

/// Refuses an answer to something that was not asked.
fn expect(is_asked: bool, id: u16, context: u32, awaited: &'static str) -> Result<(), Error> {
    if is_asked {
        return Ok(());
    }
    Err(Error::Unexpected { id, context, awaited })
}

/// What is not due, as much as can be said of it.
fn unexpected(body: &[u8], awaited: &'static str) -> Error {
    let context = body.get(2..).and_then(<[u8]>::first_chunk);
    Error::Unexpected {
        id: message_id(body).unwrap_or_default(),
        context: context.map_or(0, |context| u32::from_be_bytes(*context)),
        awaited,
    }
}
