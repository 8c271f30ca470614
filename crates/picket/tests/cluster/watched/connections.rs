//! TCP connections on which a client sends all the time. One that is given up is followed by another.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use picket_linux::{NetworkNamespace, starting_tcp};
use picket_net::{Family, Protocol};

use super::flows::{Flows, Ledger, Places, Way, packet};
use crate::prober::{Ending, TURN};

/// How long a client waits until it asks again for a connection.
const PATIENCE: Duration = Duration::from_millis(200);

/// How long a client waits between two records, and a server until it looks whether there are some.
const PAUSE: Duration = Duration::from_millis(5);

/// Bytes of a record, which says the same as a packet.
const RECORD: usize = 8;

/// The place of a way among all, and the family.
pub(crate) type Line = (usize, Family);

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The epoch in which it was asked for.
    pub(crate) asked: usize,
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
    /// Whether it has come about.
    pub(crate) stands: bool,
    /// The newest epoch in which something was sent.
    pub(crate) sent: Option<usize>,
    /// The newest epoch of which something came.
    pub(crate) came: Option<usize>,
    /// Whether the client cannot send any more.
    pub(crate) is_broken: bool,
    /// Whether the client is about to end it.
    pub(crate) is_given_up: bool,
}

/// What clients and servers share.
struct Shared {
    epoch: Arc<AtomicUsize>,
    ledger: Arc<Ledger>,
    connections: Mutex<BTreeMap<Line, Connection>>,
}

/// Keeps a connection on every way where one comes about, until it is asked to end.
pub(crate) struct Connections {
    shared: Arc<Shared>,
    clients: Vec<Ending>,
    servers: Vec<Ending>,
}

impl Connections {
    /// Begins those of these ways that are for connections, in the epochs of other flows. What comes is in their ledger.
    pub(crate) fn start(places: &impl Places, ways: &[Way], flows: &Flows) -> Self {
        let mut connections = Self {
            shared: Arc::new(Shared {
                epoch: Arc::clone(&flows.epoch),
                ledger: Arc::clone(&flows.ledger),
                connections: Mutex::default(),
            }),
            clients: Vec::new(),
            servers: Vec::new(),
        };
        for family in Family::BOTH {
            let mut sockets = BTreeMap::new();
            let ways = ways.iter().enumerate();
            for (index, way) in ways.filter(|(_, way)| way.protocol == Protocol::TCP) {
                let target = SocketAddr::from((places.address(&way.to, family), way.port));
                let serve = || connections.serve(places.inside(&way.to), family, target);
                sockets.entry(target).or_insert_with(serve);
                let client = places.address(&way.from, family);
                connections.call((index, family), places.inside(&way.from), client, target);
            }
            connections.servers.extend(sockets.into_values());
        }
        connections
    }

    fn serve(&self, inside: &NetworkNamespace, family: Family, target: SocketAddr) -> Ending {
        let listener = inside.run(|| TcpListener::bind(target).unwrap()).unwrap();
        listener.set_nonblocking(true).unwrap();
        let shared = Arc::clone(&self.shared);
        Ending::start(move |end| {
            let mut inbound: Vec<Inbound> = Vec::new();
            // What is on its way when it is to end still counts.
            let mut is_last = false;
            while !is_last {
                is_last = end.load(Ordering::SeqCst);
                while let Ok((stream, peer)) = listener.accept() {
                    stream.set_nonblocking(true).unwrap();
                    // No other way leads from there to this port, so that the client has given up the one before.
                    inbound.retain(|before| before.peer != peer.ip());
                    inbound.push(Inbound {
                        peer: peer.ip(),
                        stream,
                        rest: Vec::new(),
                    });
                }
                inbound.retain_mut(|one| one.read(|record| shared.received(family, record)));
                sleep(PAUSE);
            }
        })
    }

    fn call(&mut self, line: Line, inside: &NetworkNamespace, client: IpAddr, server: SocketAddr) {
        let inside = inside.duplicate().unwrap();
        let shared = Arc::clone(&self.shared);
        self.clients.push(Ending::start(move |end| {
            inside.enter().unwrap();
            while !end.load(Ordering::SeqCst) {
                let stream = shared.begin(line, client, server);
                if let Some(stream) = stream.filter(stands) {
                    shared.send(line, stream, end);
                }
                shared.connections.lock().unwrap().remove(&line);
            }
        }));
    }

    /// Those that there are, or may come about.
    pub(crate) fn all(&self) -> BTreeMap<Line, Connection> {
        self.shared.connections.lock().unwrap().clone()
    }

    /// Has another one follow this.
    pub(crate) fn give_up(&self, line: Line) {
        let mut connections = self.shared.connections.lock().unwrap();
        if let Some(connection) = connections.get_mut(&line) {
            connection.is_given_up = true;
        }
    }

    /// Ends, when everything that is on its way has come.
    pub(crate) fn end(&mut self) {
        for thread in self.clients.drain(..).chain(self.servers.drain(..)) {
            thread.end();
        }
    }
}

/// Waits until a connection has come about, as long as that may take; whether it has.
fn stands(stream: &TcpStream) -> bool {
    let began = Instant::now();
    while stream.peer_addr().is_err() && began.elapsed() < PATIENCE {
        sleep(PAUSE);
    }
    stream.peer_addr().is_ok()
}

impl Shared {
    /// Asks for a connection. Nobody sees it without its client, as the kernel may have let it begin.
    fn begin(&self, line: Line, client: IpAddr, server: SocketAddr) -> Option<TcpStream> {
        let mut connections = self.connections.lock().unwrap();
        let asked = self.epoch.load(Ordering::SeqCst);
        let stream = starting_tcp(client, None, server).ok()?;
        let begun = Connection {
            asked,
            client: stream.local_addr().unwrap(),
            server,
            stands: false,
            sent: None,
            came: None,
            is_broken: false,
            is_given_up: false,
        };
        connections.insert(line, begun);
        Some(stream)
    }

    /// Sends until the connection is given up, or everything is to end.
    fn send(&self, line: Line, mut stream: TcpStream, end: &AtomicBool) {
        stream.set_nonblocking(false).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_write_timeout(Some(TURN)).unwrap();
        let mut is_broken = false;
        while !end.load(Ordering::SeqCst) {
            let sent = self.epoch.load(Ordering::SeqCst);
            // After half a record nobody knows where the next begins.
            is_broken = is_broken || stream.write_all(&packet(line.0, sent)).is_err();
            let mut connections = self.connections.lock().unwrap();
            let connection = connections.get_mut(&line).unwrap();
            (connection.stands, connection.is_broken) = (true, is_broken);
            if !is_broken {
                connection.sent = Some(sent);
            }
            if connection.is_given_up {
                return;
            }
            drop(connections);
            sleep(PAUSE);
        }
    }

    fn received(&self, family: Family, record: [u8; RECORD]) {
        let came = self.epoch.load(Ordering::SeqCst);
        let passage = self.ledger.received(family, record, came);
        let mut connections = self.connections.lock().unwrap();
        if let Some(connection) = connections.get_mut(&(passage.way, family)) {
            connection.came = connection.came.max(Some(passage.sent));
        }
    }
}

/// A connection as its server has it.
struct Inbound {
    peer: IpAddr,
    stream: TcpStream,
    /// What has come of a record.
    rest: Vec<u8>,
}

impl Inbound {
    /// Takes what has come; `false` when nothing comes any more.
    fn read(&mut self, mut each: impl FnMut([u8; RECORD])) -> bool {
        let mut bytes = [0; 1024];
        let goes_on = loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => break false,
                Ok(length) => self.rest.extend(&bytes[..length]),
                Err(error) => break error.kind() == ErrorKind::WouldBlock,
            }
        };
        let whole = self.rest.len() / RECORD * RECORD;
        let (records, _) = self.rest.as_chunks();
        records.iter().for_each(|record| each(*record));
        self.rest.drain(..whole);
        goes_on
    }
}
