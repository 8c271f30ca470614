//! A VPP for tests: strict where VPP is strict, and wrong where VPP is wrong.
//!
//! Written from what is known of VPP's binary API and of its sources, and not from the client beside it: each tests the
//! other. It listens on a real socket, keeps what VPP keeps, sends packets through that, and fails when it is told to.
//!
//! # What is assumed
//! - Indices of ACLs, interfaces, rules and namespaces are given out again, the one freed last first.
//! - VPP reads past messages with a wrong length or number without a word, so that who sent one waits forever. The fake ends
//!   the connection, and [`Fake::complaints`] says why: as it does for a wrong `client_index` or header.
//! - An interface that is added is down, and there is no event of it; there is one when it goes up or down and when it is
//!   removed, with its lists and sessions.
//! - An ACL whose rule has a source and a destination of different families is refused with -58. One that is twice in a list
//!   gives 1, and then the output list may have been changed though the input list was refused.
//! - A session rule with two families is refused with -1, where VPP would take the wrong bytes of one.
//! - Disabling the session layer removes its namespaces and rules; enabling it twice changes nothing. With another engine than
//!   that of rules it has none to list, as VPP gives tables only to the engine that keeps them.
//! - A session lets its flow pass the way it went through the interface, and what answers it the other way; messages of ICMP
//!   that are no requests have no answer. Fragments behind the first have sessions too, with ports 0. Sessions do not grow
//!   old, and a table that is full drops new flows at once.
//! - The ACL plugin reads the ports of TCP and UDP alone; those of SCTP are 0 to it ([`Options::reads_sctp`]).

mod acl;
mod answer;
mod fault;
mod handle;
mod journey;
mod layer;
mod names;
mod options;
mod packet;
mod pool;
mod request;
pub mod retval;
mod rules;
mod server;
mod sessions;
mod shared;
mod state;
#[cfg(test)]
mod tests;
mod tree;
mod wire;

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

pub use acl::{Acl, AclAction, AclRule};
pub use fault::{Fault, Received, When};
pub use journey::{Journey, Point, Translation};
pub use layer::{Namespace, Transport};
pub use options::{Dumps, Options};
pub use packet::{Direction, DroppedBy, Packet, Verdict};
pub use rules::{Connection, SessionRule};
pub use sessions::Flow;
pub use state::{Interface, Lists, State};

use answer::InterfaceEvent;
use fault::Armed;
use shared::Shared;

/// Why a fake cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum FakeError {
    /// The directory for its socket cannot be made.
    #[error("cannot make the directory `{}`", path.display())]
    Directory {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot listen.
    #[error("cannot listen at `{}`", path.display())]
    Listen {
        /// The path of the socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The options are about a message that it does not know.
    #[error("there is no message `{0}`")]
    UnknownMessage(String),
}

/// A VPP that runs until it is dropped.
pub struct Fake {
    shared: Arc<Shared>,
    socket: PathBuf,
    /// The directory that was made for the socket.
    directory: Option<PathBuf>,
    acceptor: Mutex<Option<JoinHandle<()>>>,
}

/// What tells the directories of one process apart.
static DIRECTORIES: AtomicU64 = AtomicU64::new(0);

impl Fake {
    /// Starts one.
    pub fn start(options: Options) -> Result<Self, FakeError> {
        if let Some(message) = options.unknown() {
            return Err(FakeError::UnknownMessage(message.to_owned()));
        }
        let mut directory = None;
        let socket = match &options.socket {
            Some(path) => path.clone(),
            None => {
                let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
                let name = format!("picket-fake-vpp-{}-{number}", std::process::id());
                let path = std::env::temp_dir().join(name);
                std::fs::create_dir(&path).map_err(|source| FakeError::Directory {
                    path: path.clone(),
                    source,
                })?;
                directory.insert(path).join("api.sock")
            }
        };
        let fake = Self {
            shared: Arc::new(Shared::new(options)),
            socket,
            directory,
            acceptor: Mutex::new(None),
        };
        fake.up()?;
        Ok(fake)
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Starts it again: all state is gone, messages have other numbers, every connection has ended. Interfaces of
    /// [`Options::interface`] are there again.
    pub fn restart(&self) {
        self.shared.reset();
    }

    /// Stops it: as [`restart`](Self::restart), and nobody listens.
    pub fn down(&self) {
        self.shared.lock().listening = false;
        // The thread that accepts looks whether it should when somebody comes.
        drop(UnixStream::connect(&self.socket));
        let acceptor = self
            .acceptor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(acceptor) = acceptor {
            drop(acceptor.join());
            drop(std::fs::remove_file(&self.socket));
        }
        self.shared.reset();
    }

    /// Listens again after [`down`](Self::down).
    pub fn up(&self) -> Result<(), FakeError> {
        let failed = |source| FakeError::Listen {
            path: self.socket.clone(),
            source,
        };
        let mut acceptor = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        if acceptor.is_some() {
            return Ok(());
        }
        let listener = UnixListener::bind(&self.socket).map_err(failed)?;
        self.shared.lock().listening = true;
        let shared = Arc::clone(&self.shared);
        let started = thread::Builder::new().spawn(move || server::accept(&shared, &listener));
        *acceptor = Some(started.map_err(failed)?);
        Ok(())
    }

    /// How many connections there are that the fake has not done with.
    pub fn connections(&self) -> usize {
        self.shared.lock().connections.len()
    }

    /// Adds an interface, which is down, and which nobody is told of.
    pub fn add_interface(&self, name: &str, tag: &str) -> u32 {
        self.shared.change("an interface is added", |state| {
            (state.add_interface(name, tag, false), None)
        })
    }

    /// Gives an interface another tag, of which nobody is told; whether it is there.
    pub fn set_tag(&self, sw_if_index: u32, tag: &str) -> bool {
        self.shared.change("a tag is set", |state| {
            let interface = state.interfaces.get_mut(sw_if_index);
            let tagged = interface.map(|interface| tag.clone_into(&mut interface.tag));
            (tagged.is_some(), None)
        })
    }

    /// Sets an interface up or down and tells who wanted to know; whether it is there.
    pub fn set_up(&self, sw_if_index: u32, up: bool) -> bool {
        self.shared.change("an interface is set", |state| {
            let interface = state.interfaces.get_mut(sw_if_index);
            let event = interface.map(|interface| {
                interface.up = up;
                InterfaceEvent {
                    sw_if_index,
                    up,
                    deleted: false,
                }
            });
            (event.is_some(), event)
        })
    }

    /// Removes an interface with its lists and sessions and tells who wanted to know; whether it was there.
    pub fn remove_interface(&self, sw_if_index: u32) -> bool {
        self.shared.change("an interface is removed", |state| {
            let removed = state.remove_interface(sw_if_index);
            let event = InterfaceEvent {
                sw_if_index,
                up: false,
                deleted: true,
            };
            (removed, removed.then_some(event))
        })
    }

    /// Adds a FIB, of both families, beside FIB 0.
    pub fn add_fib(&self, id: u32) {
        self.shared.change("a FIB is added", |state| {
            state.fibs.insert(id);
            ((), None)
        });
    }

    /// Changes the state as somebody else does: the text says what, to who [observes](Self::observe).
    pub fn change<T>(&self, what: &str, change: impl FnOnce(&mut State) -> T) -> T {
        self.shared.change(what, |state| (change(state), None))
    }

    /// A copy of the state.
    pub fn state(&self) -> State {
        self.shared.lock().state.clone()
    }

    /// Sends a packet through an interface; a flow that a rule reflects is remembered.
    pub fn packet(&self, sw_if_index: u32, direction: Direction, packet: &Packet) -> Verdict {
        self.shared.lock().state.packet(sw_if_index, direction, packet)
    }

    /// Sends a packet from one interface to another, and its answer back: [`State::journey`].
    pub fn journey(&self, from: u32, to: u32, packet: &Packet, translation: Option<Translation>) -> Journey {
        self.shared.lock().state.journey(from, to, packet, translation)
    }

    /// What the local rules of a namespace say of a connection that begins there.
    pub fn connects(&self, namespace: u32, packet: &Packet) -> Connection {
        self.shared.lock().state.connects(namespace, packet)
    }

    /// What the global rules say of a connection from outside.
    pub fn accepts(&self, packet: &Packet) -> Connection {
        self.shared.lock().state.accepts(packet)
    }

    /// Lets something go wrong with a message that is to come.
    pub fn fail(&self, when: When, fault: Fault) {
        self.shared.lock().faults.push(Armed::new(when, fault));
    }

    /// Takes back what still waits for its message.
    pub fn forget_faults(&self) {
        self.shared.lock().faults.clear();
    }

    /// How many faults still wait for their message.
    pub fn faults(&self) -> usize {
        self.shared.lock().faults.len()
    }

    /// Lets go on what [`Fault::Hold`] holds.
    pub fn release(&self) {
        self.shared.release();
    }

    /// Waits until every connection has ended, whose clients have gone; what is held goes on, and so does what was sent and is to
    /// be held when its turn comes. False if that takes longer than a minute.
    pub fn let_all_end(&self) -> bool {
        self.shared.let_all_end()
    }

    /// Every message since the start, or since the record was cleared, in order.
    pub fn record(&self) -> Vec<Received> {
        self.shared.lock().record.clone()
    }

    /// Empties the record.
    pub fn clear_record(&self) {
        self.shared.lock().record.clear();
    }

    /// Waits until the messages of the record are as they should be; false if that takes longer than a minute.
    pub fn wait_for(&self, record: impl Fn(&[Received]) -> bool) -> bool {
        self.shared.wait(|inner| record(&inner.record))
    }

    /// Waits until there are so many [connections](Self::connections); false if that takes longer than a minute.
    pub fn wait_for_connections(&self, count: usize) -> bool {
        self.shared.wait(|inner| inner.connections.len() == count)
    }

    /// Has every change of the state looked at, while nothing else happens: `observer` gets the state and what changed it, the
    /// name of a message for instance. What it finds wrong, or panics with, is in [`findings`](Self::findings): it runs in the
    /// threads of connections. It may not call the fake.
    pub fn observe(&self, observer: impl FnMut(&State, &str) -> Result<(), String> + Send + 'static) {
        self.shared.lock().observer = Some(Box::new(observer));
    }

    /// What the observer found, each with the message after which it did.
    pub fn findings(&self) -> Vec<String> {
        self.shared.lock().findings.clone()
    }

    /// What only a client with a defect sends: for each the connection ended.
    pub fn complaints(&self) -> Vec<String> {
        self.shared.lock().complaints.clone()
    }

    /// What VPP would have died of: for each the fake was started again.
    pub fn crashes(&self) -> Vec<String> {
        self.shared.lock().crashes.clone()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.down();
        if let Some(directory) = &self.directory {
            drop(std::fs::remove_dir_all(directory));
        }
    }
}
