//! TCP connections on which clients and servers send all the time, or one of them does and the other is silent. One that is given up
//! is followed by another.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use picket_linux::{NetworkNamespace, starting_tcp};
use picket_net::{Family, Protocol};

use super::flows::{Flows, Ledger, Places, Way};
use super::records::{Bytes, Record, Records};
use crate::prober::Ending;

/// How long a client waits until it asks again for a connection.
const PATIENCE: Duration = Duration::from_millis(200);

/// How long each end waits between two records, and until it looks whether there are some.
const PAUSE: Duration = Duration::from_millis(5);

/// The place of a way among all, and the family.
pub(crate) type Line = (usize, Family);

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::Client, Self::Server];

    fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Who says something on a connection. Of one who is silent nothing comes but what TCP acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Talk {
    Both,
    Client,
    Server,
}

impl Talk {
    pub(crate) const ALL: [Self; 3] = [Self::Both, Self::Client, Self::Server];

    fn has(self, side: Side) -> bool {
        match self {
            Self::Both => true,
            Self::Client => side == Side::Client,
            Self::Server => side == Side::Server,
        }
    }
}

/// What one end of a connection says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Voice {
    /// The newest epoch in which something was sent, or waits for room.
    pub(crate) sent: Option<usize>,
    /// The newest epoch of which something came at the other end.
    pub(crate) came: Option<usize>,
    /// Whether nothing can be sent any more.
    pub(crate) is_broken: bool,
}

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The epoch in which it was asked for.
    pub(crate) asked: usize,
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
    pub(crate) talk: Talk,
    /// Whether it has come about.
    pub(crate) stands: bool,
    /// What the client says, and the server.
    voices: [Voice; 2],
    /// Whether the client is about to end it.
    pub(crate) is_given_up: bool,
}

impl Connection {
    /// What those say who say something.
    pub(crate) fn voices(&self) -> impl Iterator<Item = &Voice> {
        let both = Side::BOTH.into_iter().zip(&self.voices);
        let talking = both.filter(|(side, _)| self.talk.has(*side));
        talking.map(|(_, voice)| voice)
    }

    fn voice(&mut self, side: Side) -> &mut Voice {
        let [client, server] = &mut self.voices;
        match side {
            Side::Client => client,
            Side::Server => server,
        }
    }

    /// One end has sent something, or could not.
    fn said(&mut self, side: Side, sent: usize, is_broken: bool) {
        let voice = self.voice(side);
        voice.is_broken = is_broken;
        if !is_broken {
            voice.sent = Some(sent);
        }
    }
}

/// What clients and servers share.
struct Shared {
    epoch: Arc<AtomicUsize>,
    ledger: Arc<Ledger>,
    connections: Mutex<BTreeMap<Line, Connection>>,
    /// How many connections were asked for, by the epoch.
    asked: Mutex<BTreeMap<(Line, usize), usize>>,
}

/// Keeps a connection on every way where one comes about, until it is asked to end.
pub(crate) struct Connections {
    shared: Arc<Shared>,
    clients: Vec<Ending>,
    servers: Vec<Ending>,
}

/// Who listens, and the way from each address.
type Service<'w> = (&'w str, BTreeMap<IpAddr, usize>);

impl Connections {
    /// Begins those of these ways that are for connections, in the epochs of other flows. What comes is in their ledger.
    pub(crate) fn start(places: &impl Places, ways: &[Way], flows: &Flows) -> Self {
        let mut connections = Self {
            shared: Arc::new(Shared {
                epoch: Arc::clone(&flows.epoch),
                ledger: Arc::clone(&flows.ledger),
                connections: Mutex::default(),
                asked: Mutex::default(),
            }),
            clients: Vec::new(),
            servers: Vec::new(),
        };
        for family in Family::BOTH {
            let ways = ways.iter().enumerate();
            let ways: Vec<_> = ways.filter(|(_, way)| way.protocol == Protocol::TCP).collect();
            let target = |way: &Way| SocketAddr::from((places.address(&way.to, family), way.port));
            let mut services: BTreeMap<SocketAddr, Service<'_>> = BTreeMap::new();
            for (index, way) in &ways {
                let (_, callers) = services.entry(target(way)).or_insert((&way.to, BTreeMap::new()));
                let before = callers.insert(places.address(&way.from, family), *index);
                assert_eq!(before, None, "two ways are one: {way:?}");
            }
            for (at, (to, callers)) in services {
                connections.serve(places.inside(to), family, at, callers);
            }
            for (index, way) in ways {
                let client = places.address(&way.from, family);
                connections.call(
                    (index, family),
                    way,
                    places.inside(&way.from),
                    client,
                    target(way),
                );
            }
        }
        connections
    }

    fn serve(
        &mut self,
        inside: &NetworkNamespace,
        family: Family,
        at: SocketAddr,
        callers: BTreeMap<IpAddr, usize>,
    ) {
        let listener = inside.run(|| TcpListener::bind(at).unwrap()).unwrap();
        listener.set_nonblocking(true).unwrap();
        let shared = Arc::clone(&self.shared);
        self.servers.push(Ending::start(move |end| {
            let mut inbound: Vec<Inbound> = Vec::new();
            // What is on its way when it is to end still counts.
            let mut is_last = false;
            while !is_last {
                is_last = end.load(Ordering::SeqCst);
                while let Ok((stream, peer)) = listener.accept() {
                    let line = (callers[&peer.ip()], family);
                    // The client has given up all but the last, which may have come about before one that was asked for earlier.
                    inbound.retain(|before| before.line != line || shared.is_last(line, before.peer));
                    inbound.push(shared.accept(line, peer, stream));
                }
                inbound.retain_mut(|one| shared.answer(one));
                sleep(PAUSE);
            }
        }));
    }

    fn call(&mut self, line: Line, way: &Way, inside: &NetworkNamespace, client: IpAddr, server: SocketAddr) {
        let talks = way.talks;
        let inside = inside.duplicate().unwrap();
        let shared = Arc::clone(&self.shared);
        self.clients.push(Ending::start(move |end| {
            inside.enter().unwrap();
            // Each line begins with another talk than the next, and comes to all that it has.
            let talks = talks.iter().copied().cycle().skip(line.0);
            for talk in talks.take_while(|_| !end.load(Ordering::SeqCst)) {
                let stream = shared.begin(line, talk, client, server);
                if let Some(stream) = stream.filter(|stream| shared.stands(line, stream)) {
                    shared.talk(line, talk, stream, end);
                }
                shared.connections.lock().unwrap().remove(&line);
            }
        }));
    }

    /// Those that there are, or may come about.
    pub(crate) fn all(&self) -> BTreeMap<Line, Connection> {
        self.shared.connections.lock().unwrap().clone()
    }

    /// How many were asked for since an epoch began, by line.
    pub(crate) fn asked_since(&self, epoch: usize) -> Vec<(Line, usize)> {
        let asked = self.shared.asked.lock().unwrap();
        let asked = asked.iter().filter(|((_, when), _)| *when >= epoch);
        asked.map(|((line, _), times)| (*line, *times)).collect()
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

/// A connection as its server has it.
struct Inbound {
    line: Line,
    peer: SocketAddr,
    records: Records,
    /// The epoch in which it was asked for, if the server says something.
    asked: Option<usize>,
}

impl Shared {
    /// Asks for a connection. Nobody sees it without its client, as the kernel may have let it begin.
    fn begin(&self, line: Line, talk: Talk, client: IpAddr, server: SocketAddr) -> Option<TcpStream> {
        let mut connections = self.connections.lock().unwrap();
        let asked = self.epoch.load(Ordering::SeqCst);
        let stream = starting_tcp(client, None, server).ok()?;
        let begun = Connection {
            asked,
            client: stream.local_addr().unwrap(),
            server,
            talk,
            stands: false,
            voices: <[Voice; 2]>::default(),
            is_given_up: false,
        };
        connections.insert(line, begun);
        *self.asked.lock().unwrap().entry((line, asked)).or_default() += 1;
        Some(stream)
    }

    /// Waits until a connection has come about, as long as that may take or until it is given up; whether it has.
    fn stands(&self, line: Line, stream: &TcpStream) -> bool {
        let began = Instant::now();
        let is_given_up = || self.connections.lock().unwrap()[&line].is_given_up;
        while stream.peer_addr().is_err() && began.elapsed() < PATIENCE && !is_given_up() {
            sleep(PAUSE);
        }
        stream.peer_addr().is_ok()
    }

    /// Says what a client says and takes what comes, until the connection is given up or everything is to end.
    fn talk(&self, line: Line, talk: Talk, stream: TcpStream, end: &AtomicBool) {
        let mut records = Records::on(stream);
        let mut is_broken = false;
        while !end.load(Ordering::SeqCst) {
            records.read(|bytes| self.received(line, Side::Server, bytes));
            let sent = self.epoch.load(Ordering::SeqCst);
            let mut connections = self.connections.lock().unwrap();
            let connection = connections.get_mut(&line).unwrap();
            let (way, asked) = (line.0, connection.asked);
            if talk.has(Side::Client) {
                is_broken = is_broken || !records.say(&Record { way, sent, asked });
                connection.said(Side::Client, sent, is_broken);
            }
            connection.stands = true;
            if connection.is_given_up {
                return;
            }
            drop(connections);
            sleep(PAUSE);
        }
    }

    /// Whether the client has asked for this one and for none since.
    fn is_last(&self, line: Line, peer: SocketAddr) -> bool {
        let connections = self.connections.lock().unwrap();
        connections.get(&line).is_some_and(|one| one.client == peer)
    }

    /// A server has a connection. Where the client has given it up already the server says nothing.
    fn accept(&self, line: Line, peer: SocketAddr, stream: TcpStream) -> Inbound {
        let connections = self.connections.lock().unwrap();
        let known = connections.get(&line).filter(|one| one.client == peer);
        let talking = known.filter(|one| one.talk.has(Side::Server));
        Inbound {
            line,
            peer,
            records: Records::on(stream),
            asked: talking.map(|one| one.asked),
        }
    }

    /// Takes what has come at a server, and says what it says; `false` when nothing comes any more.
    fn answer(&self, inbound: &mut Inbound) -> bool {
        let Inbound {
            line,
            peer,
            records,
            asked,
        } = inbound;
        let mut goes_on = records.read(|bytes| self.received(*line, Side::Client, bytes));
        let Some(asked) = *asked else {
            return goes_on;
        };
        let sent = self.epoch.load(Ordering::SeqCst);
        let way = line.0;
        goes_on = goes_on && records.say(&Record { way, sent, asked });
        let mut connections = self.connections.lock().unwrap();
        if let Some(connection) = connections.get_mut(line).filter(|one| one.client == *peer) {
            connection.said(Side::Server, sent, !goes_on);
        }
        goes_on
    }

    /// What one end has said has come at the other.
    fn received(&self, line: Line, by: Side, bytes: Bytes) {
        let came = self.epoch.load(Ordering::SeqCst);
        let record = Record::from(bytes);
        assert_eq!(record.way, line.0, "{record:?} at the {:?}", by.other());
        self.ledger.heard(line.1, by, &record, came);
        let mut connections = self.connections.lock().unwrap();
        let known = connections.get_mut(&line);
        if let Some(connection) = known.filter(|one| one.asked == record.asked) {
            let voice = connection.voice(by);
            voice.came = voice.came.max(Some(record.sent));
        }
    }
}
