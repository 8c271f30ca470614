//! Pods that send to many ports of others all the time, and in which epoch what arrives was sent and came.
//!
//! Whoever looks at it says when an epoch ends. A packet that was sent in one and came in another was judged in one of them, or
//! between them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};

use picket_lab::{Lab, Place};
use picket_linux::NetworkNamespace;
use picket_net::{Family, Protocol};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use super::connections::{Side, Talk};
use super::records::Record;
use crate::apiserver::agent::NODE;
use crate::prober::{BOUND, Ending, OF_ONE_PORT, TURN, address, namespace};

/// How long a sender waits before the next packet. There are a dozen of them and more, so that some packet is sent every few hundred
/// microseconds, and processors are left to others.
const PAUSE: Duration = Duration::from_millis(3);

/// How many bytes may wait for a receiver, with what the kernel needs for each packet: some thousands of packets.
const ROOM: usize = 8 << 20;

/// From one pod or node to a port of another, over both families.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Way {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
    /// Who says something on its connections, one after the other.
    pub(crate) talks: &'static [Talk],
}

impl Way {
    /// That of packets which nobody answers.
    pub(crate) fn udp(from: &str, to: &str, port: u16) -> Self {
        Self {
            from: from.to_owned(),
            to: to.to_owned(),
            protocol: Protocol::UDP,
            port,
            talks: &[],
        }
    }

    /// That of connections.
    pub(crate) fn tcp(from: &str, to: &str, port: u16) -> Self {
        Self {
            protocol: Protocol::TCP,
            talks: &Talk::ALL,
            ..Self::udp(from, to, port)
        }
    }

    /// The same with silent servers: where nothing restricts either end for a while, connection tracking takes what a server sends on a
    /// connection that has been cut for the beginning of another, which the server has opened, and so do the policies from then on.
    pub(crate) fn tcp_to_silence(from: &str, to: &str, port: u16) -> Self {
        Self {
            talks: &[Talk::Client],
            ..Self::tcp(from, to, port)
        }
    }
}

/// Where pods are whose names are written as in `namespace/name`, and nodes.
pub(crate) trait Places {
    /// The network namespace of a pod or a node.
    fn inside(&self, id: &str) -> &NetworkNamespace;

    /// The network namespace in which the packets of that pod or node are judged.
    fn judging(&self, id: &str) -> &NetworkNamespace;

    /// Its address of a family.
    fn address(&self, id: &str, family: Family) -> IpAddr;
}

impl Places for Lab {
    fn inside(&self, id: &str) -> &NetworkNamespace {
        match self.topology().snapshot.nodes.contains_key(id) {
            true => self.network().namespace(&Place::Node(id.into())).unwrap(),
            false => namespace(self, id),
        }
    }

    /// The node of the agent judges them all.
    fn judging(&self, _: &str) -> &NetworkNamespace {
        self.inside(NODE)
    }

    fn address(&self, id: &str, family: Family) -> IpAddr {
        match self.topology().snapshot.nodes.get(id) {
            Some(node) => address_of(&node.addresses, family),
            None => address(self, id, family),
        }
    }
}

/// The first address of a family.
pub(crate) fn address_of<'a>(addresses: impl IntoIterator<Item = &'a IpAddr>, family: Family) -> IpAddr {
    let mut addresses = addresses.into_iter();
    *addresses.find(|address| Family::of(**address) == family).unwrap()
}

/// Packets that went one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Passage {
    /// The place of the way among all.
    pub(crate) way: usize,
    pub(crate) family: Family,
    /// The epoch in which they were sent.
    pub(crate) sent: usize,
    /// The epoch in which they were received.
    pub(crate) came: usize,
    /// Of which connection they are, if they are of one.
    pub(crate) of: Option<Spoken>,
}

/// What is said on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spoken {
    pub(crate) by: Side,
    /// The epoch in which the connection was asked for.
    pub(crate) asked: usize,
}

/// A point in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(Instant);

impl Moment {
    pub(crate) fn now() -> Self {
        Self(Instant::now())
    }

    /// How long after another moment, if it is after it.
    pub(crate) fn after(self, other: Self) -> Option<Duration> {
        self.0.checked_duration_since(other.0)
    }
}

/// How many packets went, and when the last came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) packets: usize,
    pub(crate) last: Moment,
}

/// What went where.
#[derive(Default)]
pub(super) struct Ledger {
    /// How many packets were sent which way in which epoch.
    sent: Mutex<BTreeMap<(usize, usize), usize>>,
    arrived: Mutex<BTreeMap<Passage, Arrival>>,
}

/// Sends until it is asked to end.
pub(crate) struct Flows {
    pub(super) epoch: Arc<AtomicUsize>,
    pub(super) ledger: Arc<Ledger>,
    /// How many packets were sent.
    total: Arc<AtomicUsize>,
    senders: Vec<Ending>,
    receivers: Vec<Ending>,
}

/// Where a packet of a sender goes: the way, and its end.
type Target = (usize, SocketAddr);

impl Flows {
    /// Begins those of these ways on which nobody answers, in epoch 0.
    pub(crate) fn start(places: &impl Places, ways: &[Way]) -> Self {
        let mut flows = Self {
            epoch: Arc::default(),
            ledger: Arc::default(),
            total: Arc::default(),
            senders: Vec::new(),
            receivers: Vec::new(),
        };
        for family in Family::BOTH {
            let mut sockets = BTreeMap::new();
            let mut targets: BTreeMap<&str, Vec<Target>> = BTreeMap::new();
            let ways = ways.iter().enumerate();
            for (index, way) in ways.filter(|(_, way)| way.protocol == Protocol::UDP) {
                let target = SocketAddr::from((places.address(&way.to, family), way.port));
                sockets.insert(target, &way.to);
                targets.entry(&way.from).or_default().push((index, target));
            }
            for (target, pod) in sockets {
                flows.receive(places.inside(pod), family, target);
            }
            for (pod, targets) in targets {
                flows.send(places.inside(pod), places.address(pod, family), targets);
            }
        }
        flows
    }

    fn receive(&mut self, to: &NetworkNamespace, family: Family, target: SocketAddr) {
        let bind = || UdpSocket::bind(target).unwrap();
        let socket = to.run(bind).unwrap();
        // Of what is always allowed nothing may be lost, however long the receiver waits for a processor. Where sockets are to be small,
        // they are.
        let _ = set_socket_recv_buffer_size_force(&socket, ROOM);
        socket.set_read_timeout(Some(TURN)).unwrap();
        let (ledger, epoch) = (Arc::clone(&self.ledger), Arc::clone(&self.epoch));
        // What is on its way when it is to end still counts.
        self.receivers.push(Ending::start(move |end| {
            loop {
                let mut packet = [0; 8];
                match socket.recv(&mut packet) {
                    Ok(_) => ledger.received(family, packet, epoch.load(Ordering::SeqCst)),
                    Err(_) if end.load(Ordering::SeqCst) => return,
                    Err(_) => {}
                }
            }
        }));
    }

    /// Sends from an address of a namespace.
    fn send(&mut self, inside: &NetworkNamespace, from: IpAddr, targets: Vec<Target>) {
        let inside = inside.duplicate().unwrap();
        let (ledger, epoch) = (Arc::clone(&self.ledger), Arc::clone(&self.epoch));
        let total = Arc::clone(&self.total);
        self.senders.push(Ending::start(move |end| {
            inside.enter().unwrap();
            while !end.load(Ordering::SeqCst) {
                let socket = UdpSocket::bind((from, 0)).unwrap();
                for (way, target) in targets.iter().cycle().take(targets.len().max(OF_ONE_PORT)) {
                    let sent = epoch.load(Ordering::SeqCst);
                    // Nobody hears of a packet that is dropped on the way.
                    if socket.send_to(&packet(*way, sent), target).is_ok() {
                        *ledger.sent.lock().unwrap().entry((*way, sent)).or_default() += 1;
                    }
                    total.fetch_add(1, Ordering::SeqCst);
                    sleep(PAUSE);
                }
            }
        }));
    }

    /// Begins the next epoch.
    pub(crate) fn next(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// What arrived since this was last asked.
    pub(crate) fn arrived(&self) -> BTreeMap<Passage, Arrival> {
        std::mem::take(&mut self.ledger.arrived.lock().unwrap())
    }

    /// How many packets were sent one way, in each epoch.
    pub(crate) fn sent(&self, way: usize) -> BTreeMap<usize, usize> {
        let sent = self.ledger.sent.lock().unwrap();
        let of_way = sent.iter().filter(|((other, _), _)| *other == way);
        of_way.map(|((_, epoch), packets)| (*epoch, *packets)).collect()
    }

    /// How many packets were sent, whatever way.
    pub(crate) fn total(&self) -> usize {
        self.total.load(Ordering::SeqCst)
    }

    /// Waits until so many more were sent.
    pub(crate) fn until_sent(&self, more: usize) {
        let goal = self.total() + more;
        until("a packet", || self.total() >= goal);
    }

    /// Waits until so many more were sent, and no longer.
    pub(crate) fn just_sent(&self, more: usize) {
        let goal = self.total() + more;
        while self.total() < goal {
            yield_now();
        }
    }

    /// Ends, when everything that is on its way has come.
    pub(crate) fn end(&mut self) {
        for thread in self.senders.drain(..).chain(self.receivers.drain(..)) {
            thread.end();
        }
    }
}

/// Waits until something holds of what arrives.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    until_none(what, || Some(()).filter(|()| !holds()));
}

/// The same until nothing is left of what is waited for.
pub(crate) fn until_none<T: Debug>(what: &str, mut left: impl FnMut() -> Option<T>) {
    let began = Instant::now();
    while let Some(left) = left() {
        assert!(
            began.elapsed() < BOUND,
            "{what} does not come about within {BOUND:?}: {left:?}"
        );
        sleep(TURN);
    }
}

impl Ledger {
    fn received(&self, family: Family, packet: [u8; 8], came: usize) {
        let [way, sent] = numbers(packet.as_chunks().0);
        self.note(Passage {
            way,
            family,
            sent,
            came,
            of: None,
        });
    }

    /// A record of a connection came, which one end has said.
    pub(super) fn heard(&self, family: Family, by: Side, record: &Record, came: usize) {
        let Record { way, sent, asked } = *record;
        self.note(Passage {
            way,
            family,
            sent,
            came,
            of: Some(Spoken { by, asked }),
        });
    }

    fn note(&self, passage: Passage) {
        let last = Moment::now();
        let mut arrived = self.arrived.lock().unwrap();
        let arrival = arrived.entry(passage).or_insert(Arrival { packets: 0, last });
        *arrival = Arrival {
            packets: arrival.packets + 1,
            last,
        };
    }
}

/// What says which way it is sent, and when.
pub(super) fn packet(way: usize, sent: usize) -> [u8; 8] {
    let [a, b, c, d] = u32::try_from(way).unwrap().to_le_bytes();
    let [e, f, g, h] = u32::try_from(sent).unwrap().to_le_bytes();
    [a, b, c, d, e, f, g, h]
}

/// The numbers that something says.
pub(super) fn numbers<const N: usize>(said: &[[u8; 4]]) -> [usize; N] {
    std::array::from_fn(|at| usize::try_from(u32::from_le_bytes(said[at])).unwrap())
}
