//! One run of probes: what has been sent, what has come back, and what is still waited for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use picket_cluster::Verdict;
use picket_linux::{
    Epoll, Interest, icmp_socket, pending_connect, raise_open_files_limit, raw_sctp, starting_tcp, udp,
};
use picket_net::{Family, Protocol};
use picket_policy::NetworkName;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recvfrom, sendto};

use crate::probe::{Observation, Probe};
use crate::progress::Progress;
use crate::servers::host_of;
use crate::wire::{Chunk, Sctp, echo_reply, echo_request, payload};
use crate::{Error, Host, Network, Place, Ports, Topology};

/// How fast an attempt goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How long an answer is waited for.
    pub(crate) patience: Duration,
    /// How many probes that should be answered are under way at once, so that queues never overflow.
    pub(crate) window: usize,
}

/// The sockets from which one address of one place sends everything but TCP.
struct Sender {
    family: Family,
    mark: Mark,
    udp: UdpSocket,
    sctp: OwnedFd,
    icmp: OwnedFd,
}

/// What is in the packets of one network and in none of another's: connection tracking in a pod does not tell networks
/// apart that use the same addresses, and would take packets of one for answers on the other.
#[derive(Clone, Copy, Debug)]
struct Mark {
    source_port: u16,
    /// That of ICMP echo requests.
    identifier: u16,
}

/// A TCP connection under way.
struct Connection {
    stream: TcpStream,
    /// What the server has written so far; `None` before the connection stands.
    greeting: Option<Vec<u8>>,
}

pub(crate) struct Session<'a> {
    network: &'a Network,
    hosts: &'a [Host],
    probes: &'a [(Probe, Verdict)],
    epoll: Epoll,
    senders: Vec<Sender>,
    sender_of: BTreeMap<(&'a Place, Option<&'a str>, IpAddr), usize>,
    connections: BTreeMap<usize, Connection>,
    /// TCP connections that may be open at once.
    budget: usize,
    seen: Vec<Option<Observation>>,
    /// Probes that connected and then heard nothing.
    stalled: BTreeSet<usize>,
    /// Probes under way that should be answered.
    hopeful: usize,
    marks: BTreeMap<Option<NetworkName>, Mark>,
}

/// Files for everything that is not a probe: listeners, namespaces, the terminal.
const RESERVED_FILES: usize = 512;
/// Probes that are begun before answers are looked at.
const BATCH: usize = 64;
/// Epoll tokens: three for each sender, then one for each probe.
const KINDS: usize = 3;

impl<'a> Session<'a> {
    pub(crate) fn open(
        network: &'a Network,
        topology: &'a Topology,
        ports: &Ports,
        probes: &'a [(Probe, Verdict)],
        round: u16,
    ) -> Result<Self, Error> {
        let limit = raise_open_files_limit();
        let mut session = Self {
            network,
            hosts: &topology.hosts,
            probes,
            epoll: Epoll::new()?,
            senders: Vec::new(),
            sender_of: BTreeMap::new(),
            connections: BTreeMap::new(),
            budget: 0,
            seen: vec![None; probes.len()],
            stalled: BTreeSet::new(),
            hopeful: 0,
            marks: marks(topology.networks(), ports, round),
        };
        for (probe, _) in probes {
            session.open_sender(probe)?;
        }
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        session.budget = limit.saturating_sub(open + RESERVED_FILES).max(BATCH);
        Ok(session)
    }

    /// What every probe showed. A probe that was never answered was met with silence.
    pub(crate) fn finish(self) -> Vec<Observation> {
        let stalled = self.stalled;
        let seen = self.seen.into_iter().enumerate();
        seen.map(|(index, seen)| match seen {
            Some(seen) => seen,
            None if stalled.contains(&index) => {
                Observation::Broken("connected, and then nothing came".to_owned())
            }
            None => Observation::Silent,
        })
        .collect()
    }

    /// Sends every probe that has no answer yet and whose expected verdict is `wanted`, and waits.
    pub(crate) fn attempt(
        &mut self,
        wanted: impl Fn(Verdict) -> bool,
        pace: &Pace,
        progress: &Progress,
    ) -> Result<(), Error> {
        let unanswered = (0..).zip(self.probes).zip(&self.seen);
        let mut queue: VecDeque<usize> = unanswered
            .filter(|((_, (_, expected)), seen)| seen.is_none() && wanted(*expected))
            .map(|((index, _), _)| index)
            .collect();
        let mut waiting: VecDeque<(Instant, usize)> = VecDeque::new();
        while !queue.is_empty() || !waiting.is_empty() {
            let batch = self.next_batch(&mut queue, pace);
            let began = Instant::now();
            self.send(&batch)?;
            progress.advance(batch.len());
            waiting.extend(batch.iter().map(|index| (began + pace.patience, *index)));
            self.receive(if batch.is_empty() {
                self.pause(&waiting)
            } else {
                Duration::ZERO
            })?;
            // Answers that had arrived by now have been counted above.
            while waiting
                .front()
                .is_some_and(|(deadline, index)| *deadline <= began || self.is_over(*index))
            {
                if let Some((_, index)) = waiting.pop_front() {
                    self.give_up(index);
                }
            }
        }
        Ok(())
    }

    /// Until the next thing can happen: an answer, which ends the wait, or the first deadline.
    fn pause(&self, waiting: &VecDeque<(Instant, usize)>) -> Duration {
        match waiting.front() {
            Some((deadline, _)) => deadline
                .saturating_duration_since(Instant::now())
                .max(Duration::from_millis(1)),
            None => Duration::ZERO,
        }
    }

    /// The next probes of one source, as many as pace and open files allow.
    fn next_batch(&mut self, queue: &mut VecDeque<usize>, pace: &Pace) -> Vec<usize> {
        let mut batch = Vec::new();
        let mut source = None;
        while let Some((probe, expected)) = queue.front().and_then(|index| self.probes.get(*index)) {
            let is_tcp = probe.protocol == Protocol::TCP;
            let full = batch.len() >= BATCH
                || (expected.is_allow() && self.hopeful >= pace.window)
                || (is_tcp && self.connections.len() + batch.len() >= self.budget);
            if full || source.is_some_and(|source| source != probe.source) {
                break;
            }
            source = Some(probe.source);
            if expected.is_allow() {
                self.hopeful += 1;
            }
            batch.extend(queue.pop_front());
        }
        batch
    }

    fn send(&mut self, batch: &[usize]) -> Result<(), Error> {
        let mut begun = Vec::new();
        for &index in batch {
            let Some((probe, from, to)) = self.ends(index) else {
                continue;
            };
            if probe.protocol == Protocol::TCP {
                begun.push((index, from, SocketAddr::new(to, probe.port)));
            } else if let Some(seen) = self.send_datagram(index, &probe, from, to) {
                self.settle(index, seen);
            }
        }
        let Some(first) = begun.first().and_then(|(index, ..)| self.probes.get(*index)) else {
            return Ok(());
        };
        let Some(host) = self.hosts.get(first.0.source) else {
            return Ok(());
        };
        let device = host.interface.as_deref();
        let streams = self.network.namespace(&host.place)?.run(|| {
            begun
                .into_iter()
                .map(|(index, from, to)| (index, starting_tcp(from, device, to)))
                .collect::<Vec<_>>()
        })?;
        for (index, stream) in streams {
            match stream {
                Ok(stream) => {
                    self.epoll.add(&stream, self.token(index), Interest::Write)?;
                    self.connections.insert(
                        index,
                        Connection {
                            stream,
                            greeting: None,
                        },
                    );
                }
                Err(error) => self.settle(index, Observation::Broken(chain(&error))),
            }
        }
        Ok(())
    }

    /// Sends one packet; `None` when an answer can be waited for.
    fn send_datagram(&self, index: usize, probe: &Probe, from: IpAddr, to: IpAddr) -> Option<Observation> {
        let host = self.hosts.get(probe.source)?;
        let key = (&host.place, host.interface.as_deref(), from);
        let sender = self.senders.get(*self.sender_of.get(&key)?)?;
        let nonce = u32::try_from(index).ok()?;
        let host = SocketAddr::new(to, 0);
        let sent = match probe.protocol {
            Protocol::UDP => sendto(
                &sender.udp,
                &nonce.to_be_bytes(),
                SendFlags::empty(),
                &SocketAddr::new(to, probe.port),
            ),
            Protocol::SCTP => {
                let init = Sctp {
                    source_port: sender.mark.source_port,
                    destination_port: probe.port,
                    verification_tag: 0,
                    chunk: Chunk::Init { tag: nonce + 1 },
                };
                sendto(&sender.sctp, &init.encode(), SendFlags::empty(), &host)
            }
            _ => {
                let request = echo_request(sender.family, sender.mark.identifier, 0, nonce);
                sendto(&sender.icmp, &request, SendFlags::empty(), &host)
            }
        };
        match sent {
            // EPERM is the sender's own ruleset dropping the packet; a full queue is a lost packet.
            Ok(_) | Err(Errno::PERM | Errno::AGAIN | Errno::NOBUFS) => None,
            Err(error) => Some(Observation::Broken(format!("cannot send: {error}"))),
        }
    }

    /// Takes in every answer that is there; waits for the first up to `pause`.
    fn receive(&mut self, pause: Duration) -> Result<(), Error> {
        let mut pause = pause;
        loop {
            let ready = self.epoll.wait(Some(pause))?;
            if ready.is_empty() {
                return Ok(());
            }
            for readiness in ready {
                let Ok(token) = usize::try_from(readiness.token) else {
                    continue;
                };
                match token.checked_sub(self.senders.len() * KINDS) {
                    Some(index) => self.continue_connection(index)?,
                    None => self.receive_datagrams(token / KINDS, token % KINDS),
                }
            }
            pause = Duration::ZERO;
        }
    }

    fn receive_datagrams(&mut self, sender: usize, kind: usize) {
        let mut buffer = [0; 2048];
        loop {
            let Some(sender) = self.senders.get(sender) else {
                return;
            };
            let (family, mark) = (sender.family, sender.mark);
            let received = match kind {
                0 => recvfrom(&sender.udp, &mut buffer, RecvFlags::empty()),
                1 => recvfrom(&sender.sctp, &mut buffer, RecvFlags::empty()),
                _ => recvfrom(&sender.icmp, &mut buffer, RecvFlags::empty()),
            };
            let Ok((length, _, from)) = received else { return };
            let bytes = buffer.get(..length).unwrap_or_default();
            let nonce = match kind {
                0 => <[u8; 4]>::try_from(bytes).ok().map(u32::from_be_bytes),
                1 => payload(family, bytes)
                    .and_then(Sctp::decode)
                    .and_then(|packet| match packet.chunk {
                        Chunk::InitAck { .. } => packet.verification_tag.checked_sub(1),
                        Chunk::Init { .. } => None,
                    }),
                _ => payload(family, bytes).and_then(|message| echo_reply(family, message, mark.identifier)),
            };
            let from = from.and_then(host_of).map(|from| from.ip());
            if let (Some(index), Some(from)) = (nonce.and_then(|nonce| usize::try_from(nonce).ok()), from) {
                match self.ends(index) {
                    Some((_, _, to)) if to == from => self.settle(index, Observation::Answered),
                    Some((_, _, to)) => {
                        let text = format!("{from} answered instead of {to}");
                        self.settle(index, Observation::Broken(text));
                    }
                    None => {}
                }
            }
        }
    }

    /// A connection is ready: it stands, has failed, or has something to read.
    fn continue_connection(&mut self, index: usize) -> Result<(), Error> {
        let token = self.token(index);
        let Some(connection) = self.connections.get_mut(&index) else {
            return Ok(());
        };
        let Some(greeting) = &mut connection.greeting else {
            match pending_connect(&connection.stream) {
                Ok(()) => {
                    connection.greeting = Some(Vec::new());
                    self.epoll.change(&connection.stream, token, Interest::Read)?;
                }
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    self.settle(index, Observation::Refused);
                }
                Err(error) => self.settle(index, Observation::Broken(format!("cannot connect: {error}"))),
            }
            return Ok(());
        };
        let mut buffer = [0; 512];
        let answer = match connection.stream.read(&mut buffer) {
            Ok(0) => Observation::Broken("connected, and closed without a word".to_owned()),
            Ok(length) => {
                greeting.extend(buffer.get(..length).unwrap_or_default());
                let Some(line) = greeting.strip_suffix(b"\n") else {
                    return Ok(());
                };
                let line = String::from_utf8_lossy(line).into_owned();
                let expected = self
                    .probes
                    .get(index)
                    .and_then(|(probe, _)| self.hosts.get(probe.destination));
                match expected {
                    Some(host) if host.greeting() == line => Observation::Answered,
                    _ => Observation::Broken(format!("`{line}` answered instead")),
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => Observation::Broken(format!("connected, then: {error}")),
        };
        self.settle(index, answer);
        Ok(())
    }

    fn settle(&mut self, index: usize, answer: Observation) {
        self.connections.remove(&index);
        let Some(seen) = self.seen.get_mut(index) else {
            return;
        };
        if seen.is_none() {
            *seen = Some(answer);
            self.release(index);
        }
    }

    /// Its time is over for this attempt.
    fn give_up(&mut self, index: usize) {
        if self.is_over(index) {
            return;
        }
        if self
            .connections
            .remove(&index)
            .is_some_and(|connection| connection.greeting.is_some())
        {
            self.stalled.insert(index);
        }
        self.release(index);
    }

    fn release(&mut self, index: usize) {
        if self
            .probes
            .get(index)
            .is_some_and(|(_, expected)| expected.is_allow())
        {
            self.hopeful = self.hopeful.saturating_sub(1);
        }
    }

    fn is_over(&self, index: usize) -> bool {
        self.seen.get(index).is_none_or(Option::is_some)
    }

    fn token(&self, index: usize) -> u64 {
        u64::try_from(self.senders.len() * KINDS + index).unwrap_or(u64::MAX)
    }

    fn ends(&self, index: usize) -> Option<(Probe, IpAddr, IpAddr)> {
        let (probe, _) = *self.probes.get(index)?;
        let from = self.hosts.get(probe.source)?.addresses.of(probe.family)?;
        let to = self.hosts.get(probe.destination)?.addresses.of(probe.family)?;
        Some((probe, from, to))
    }

    fn open_sender(&mut self, probe: &Probe) -> Result<(), Error> {
        let Some(host) = self.hosts.get(probe.source) else {
            return Ok(());
        };
        let Some(address) = host.addresses.of(probe.family) else {
            return Ok(());
        };
        let device = host.interface.as_deref();
        let key = (&host.place, device, address);
        if self.sender_of.contains_key(&key) {
            return Ok(());
        }
        let Some(&mark) = self.marks.get(&host.network) else {
            return Ok(());
        };
        let port = mark.source_port;
        let sender =
            self.network
                .namespace(&host.place)?
                .run(|| -> Result<Sender, picket_linux::Error> {
                    Ok(Sender {
                        family: probe.family,
                        mark,
                        udp: udp(SocketAddr::new(address, port), device)?,
                        sctp: raw_sctp(address, device)?,
                        icmp: icmp_socket(address, device)?,
                    })
                })??;
        let token = u64::try_from(self.senders.len() * KINDS).unwrap_or(u64::MAX);
        self.epoll.add(&sender.udp, token, Interest::Read)?;
        self.epoll.add(&sender.sctp, token + 1, Interest::Read)?;
        self.epoll.add(&sender.icmp, token + 2, Interest::Read)?;
        self.sender_of.insert(key, self.senders.len());
        self.senders.push(sender);
        Ok(())
    }
}

/// The mark of each network. Those of another round are different, unless there were very many.
fn marks(
    networks: BTreeSet<Option<NetworkName>>,
    ports: &Ports,
    round: u16,
) -> BTreeMap<Option<NetworkName>, Mark> {
    let source_ports = (0..20_000u16)
        .map(|step| 40_000 + (round.wrapping_add(step)) % 20_000)
        .filter(|port| !ports.any_has(*port));
    let identifiers = (0..=u16::MAX).map(|step| round.wrapping_add(step));
    networks
        .into_iter()
        .zip(source_ports.zip(identifiers))
        .map(|(network, (source_port, identifier))| {
            let mark = Mark {
                source_port,
                identifier,
            };
            (network, mark)
        })
        .collect()
}

/// An error with what it came from.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}
