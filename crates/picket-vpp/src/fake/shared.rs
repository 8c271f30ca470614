//! What the threads of a fake share.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::answer::{Answer, InterfaceEvent};
use super::fault::{Armed, Fault, Received, due};
use super::handle::Handled;
use super::names::Names;
use super::options::Options;
use super::request::Request;
use super::state::State;
use super::wire::{Writer, frame};

/// What looks at the state after each change.
pub(super) type Observer = Box<dyn FnMut(&State, &str) -> Result<(), String> + Send>;

/// How long a test waits for what must happen: far longer than it takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Shared {
    pub(super) options: Options,
    inner: Mutex<Inner>,
    /// Something was received, handled, released or ended.
    news: Condvar,
}

/// A connection of a client.
pub(super) struct Connection {
    /// The index that its requests carry.
    pub(super) client: u32,
    boot: u64,
    stream: UnixStream,
    /// INVARIANT: taken before the lock of [`Inner`], so that answers and events are in the order in which things happened.
    writing: Mutex<()>,
}

pub(super) struct Inner {
    pub(super) state: State,
    pub(super) names: Arc<Names>,
    /// How often everything was gone.
    boot: u64,
    pub(super) listening: bool,
    next_client: u32,
    /// Those whose threads have not ended yet.
    pub(super) connections: BTreeMap<u32, Arc<Connection>>,
    /// Who wants events of interfaces, with the pid that they gave.
    subscribers: BTreeMap<u32, u32>,
    pub(super) record: Vec<Received>,
    received: u64,
    pub(super) faults: Vec<Armed>,
    releases: u64,
    /// How many wait for all connections to end, while nothing is held.
    ending: usize,
    pub(super) observer: Option<Observer>,
    pub(super) findings: Vec<String>,
    pub(super) complaints: Vec<String>,
    pub(super) crashes: Vec<String>,
}

/// The connection ends.
pub(super) struct Close;

/// A message that was noted.
pub(super) struct Receipt {
    /// Its number in the record.
    number: u64,
    /// What goes wrong with it.
    pub(super) fault: Option<Fault>,
    /// How often held messages had been released when it came.
    pub(super) releases: u64,
}

impl Shared {
    pub(super) fn new(options: Options) -> Self {
        let inner = Inner {
            state: fresh(&options),
            names: Arc::new(Names::new(&options, 0)),
            boot: 0,
            listening: true,
            next_client: 0,
            connections: BTreeMap::new(),
            subscribers: BTreeMap::new(),
            record: Vec::new(),
            received: 0,
            faults: Vec::new(),
            releases: 0,
            ending: 0,
            observer: None,
            findings: Vec::new(),
            complaints: Vec::new(),
            crashes: Vec::new(),
        };
        Self {
            options,
            inner: Mutex::new(inner),
            news: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something holds; whether it does.
    pub(super) fn wait(&self, mut until: impl FnMut(&Inner) -> bool) -> bool {
        let waiting = self
            .news
            .wait_timeout_while(self.lock(), PATIENCE, |inner| !until(inner));
        let (inner, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        until(&inner)
    }

    pub(super) fn connect(&self, stream: UnixStream) -> Arc<Connection> {
        let mut inner = self.lock();
        inner.next_client += 1;
        let connection = Arc::new(Connection {
            client: inner.next_client | 1 << 31,
            boot: inner.boot,
            stream,
            writing: Mutex::new(()),
        });
        inner
            .connections
            .insert(connection.client, Arc::clone(&connection));
        connection
    }

    pub(super) fn disconnect(&self, connection: &Connection) {
        let mut inner = self.lock();
        inner.connections.remove(&connection.client);
        inner.subscribers.remove(&connection.client);
        drop(inner);
        connection.end();
        self.news.notify_all();
    }

    /// Notes what only a client with a defect sends. The connection ends, so that its test does not wait for an answer.
    pub(super) fn complain(&self, complaint: String) -> Close {
        self.lock().complaints.push(complaint);
        self.news.notify_all();
        Close
    }

    /// Notes that a message came; its number in the record, and the fault that is about it.
    pub(super) fn receive(&self, name: &str, bytes: usize, request: Option<&Request>) -> Receipt {
        let mut inner = self.lock();
        inner.received += 1;
        let number = inner.received;
        inner.record.push(Received {
            name: name.to_owned(),
            bytes,
            stops_workers: request.is_some_and(Request::stops_workers),
            retval: None,
            number,
        });
        let receipt = Receipt {
            number,
            fault: due(&mut inner.faults, name),
            releases: inner.releases,
        };
        drop(inner);
        self.news.notify_all();
        receipt
    }

    /// Waits for a release, or until everything is gone.
    pub(super) fn hold(&self, connection: &Connection, releases: u64) {
        let held = |inner: &mut Inner| {
            inner.ending == 0 && inner.releases == releases && inner.boot == connection.boot
        };
        drop(self.news.wait_while(self.lock(), held));
    }

    pub(super) fn release(&self) {
        self.lock().releases += 1;
        self.news.notify_all();
    }

    /// Holds nothing until every connection has ended; whether they have.
    pub(super) fn let_all_end(&self) -> bool {
        self.lock().ending += 1;
        self.news.notify_all();
        let have_ended = self.wait(|inner| inner.connections.is_empty());
        self.lock().ending -= 1;
        have_ended
    }

    /// Everything is gone, and every connection ends.
    pub(super) fn reset(&self) {
        let mut inner = self.lock();
        inner.boot += 1;
        inner.state = fresh(&self.options);
        inner.names = Arc::new(Names::new(&self.options, inner.boot));
        inner.subscribers.clear();
        let ended: Vec<_> = inner.connections.values().cloned().collect();
        inner.observe("restart");
        drop(inner);
        for connection in ended {
            connection.end();
        }
        self.news.notify_all();
    }

    /// Changes the state, tells who wants to know, and whoever watches.
    pub(super) fn change<T>(
        &self,
        what: &str,
        change: impl FnOnce(&mut State) -> (T, Option<InterfaceEvent>),
    ) -> T {
        let mut inner = self.lock();
        let (done, event) = change(&mut inner.state);
        inner.observe(what);
        let told = event.map(|event| inner.told(event)).unwrap_or_default();
        drop(inner);
        for (connection, bytes) in told {
            let _order = connection.writing.lock();
            connection.write(&bytes);
        }
        self.news.notify_all();
        done
    }

    /// Handles a message and answers it, as far as the fault lets it.
    pub(super) fn answer(
        &self,
        connection: &Connection,
        receipt: Receipt,
        (name, context, request): (&str, u32, Request),
    ) -> Result<(), Close> {
        let _order = connection.writing.lock();
        let mut inner = self.lock();
        if inner.boot != connection.boot {
            return Err(Close);
        }
        let handled = inner.handle(connection, &receipt, (name, context, request));
        if handled.crash {
            inner
                .crashes
                .push(format!("{name}: it reads a rule that was freed"));
            drop(inner);
            self.reset();
            return Err(Close);
        }
        let frames = handled.answers.iter().map(|answer| inner.encode(answer));
        let frames = frames.collect();
        drop(inner);
        self.deliver(connection, frames, receipt.fault)
    }

    /// Answers a handshake, as far as the fault lets it.
    pub(super) fn greet(
        &self,
        connection: &Connection,
        reply: &[u8],
        fault: Option<Fault>,
    ) -> Result<(), Close> {
        let _order = connection.writing.lock();
        self.deliver(connection, vec![frame(reply)], fault)
    }

    fn deliver(
        &self,
        connection: &Connection,
        frames: Vec<Vec<u8>>,
        fault: Option<Fault>,
    ) -> Result<(), Close> {
        let sent = match fault {
            Some(Fault::DropAfter) => Err(Close),
            Some(Fault::DropMidFrame) => {
                let whole = frames.into_iter().next().unwrap_or_else(|| frame(&[0; 16]));
                connection.write(whole.get(..whole.len() / 2).unwrap_or_default());
                Err(Close)
            }
            Some(Fault::Garbage(bytes)) => {
                connection.write(&bytes);
                Ok(())
            }
            _ => {
                connection.write(&frames.concat());
                Ok(())
            }
        };
        self.news.notify_all();
        sent
    }
}

impl Inner {
    fn handle(
        &mut self,
        connection: &Connection,
        receipt: &Receipt,
        (name, context, request): (&str, u32, Request),
    ) -> Handled {
        if let Some(Fault::Refuse(retval)) = &receipt.fault {
            let handled = request.refused(name, context, connection.client, *retval);
            self.note(receipt.number, handled.retval);
            return handled;
        }
        if let Request::WantEvents { enable, pid } = request {
            if enable {
                self.subscribers.insert(connection.client, pid);
            } else {
                self.subscribers.remove(&connection.client);
            }
        }
        let handled = self.state.handle(name, request, context, connection.client);
        self.note(receipt.number, handled.retval);
        if handled.changed {
            self.observe(name);
        }
        handled
    }

    fn note(&mut self, number: u64, retval: Option<i32>) {
        let noted = self
            .record
            .iter_mut()
            .rev()
            .find(|received| received.number == number);
        if let Some(received) = noted {
            received.retval = retval;
        }
    }

    fn observe(&mut self, after: &str) {
        let Some(observer) = self.observer.as_mut() else {
            return;
        };
        // An assertion of a test that fails in a thread of a connection would be lost there.
        let seen = catch_unwind(AssertUnwindSafe(|| observer(&self.state, after)));
        let finding = match seen {
            Ok(Ok(())) => return,
            Ok(Err(finding)) => finding,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                format!("the observer panicked: {}", text.unwrap_or_default())
            }
        };
        self.findings
            .push(format!("after message {}, {after}: {finding}", self.received));
    }

    /// An event, for each who wants it.
    fn told(&self, event: InterfaceEvent) -> Vec<(Arc<Connection>, Vec<u8>)> {
        let subscribed = self.subscribers.iter().filter_map(|(client, pid)| {
            let connection = self.connections.get(client)?;
            let event = Answer::interface_event(*client, *pid, event);
            Some((Arc::clone(connection), self.encode(&event)))
        });
        subscribed.collect()
    }

    fn encode(&self, answer: &Answer) -> Vec<u8> {
        let id = self.names.id(answer.name);
        frame(&Writer::default().u16(id).bytes(&answer.body).finish())
    }
}

impl Connection {
    /// Writes what it can: a client that is gone is noticed by reading.
    fn write(&self, bytes: &[u8]) {
        let written = (&self.stream).write_all(bytes);
        drop(written);
    }

    fn end(&self) {
        drop(self.stream.shutdown(Shutdown::Both));
    }
}

/// A VPP that has just started.
fn fresh(options: &Options) -> State {
    let mut state = State::new(options.max_sessions, options.reads_sctp);
    for (name, tag) in &options.interfaces {
        state.add_interface(name, tag, true);
    }
    if let Some(rules) = options.session_rules {
        state.enable_session_layer(rules);
        for id in &options.namespaces {
            state.add_namespace(id, 0);
        }
    }
    state
}
