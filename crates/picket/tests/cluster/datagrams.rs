//! Flows of UDP datagrams, and associations of SCTP, between two places. Kernels need no sockets for SCTP: packets are made here.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use picket_lab::wire::{Chunk, Sctp, payload};
use picket_linux::{Carried, NetworkNamespace, Nfnetlink, Which, crc32c, raw_sctp};
use picket_net::Family;

use crate::pods::{patience, raw};

/// The ports of clients. What passes as part of an earlier flow says nothing.
static CLIENT: AtomicU16 = AtomicU16::new(25_000);

/// Tells packets apart.
static SERIAL: AtomicU32 = AtomicU32::new(1);

/// What the chunks of SCTP are called that carry, keep up and open an association (RFC 9260, section 3.2).
const DATA: u8 = 0;
const HEARTBEAT: u8 = 4;
const COOKIE_ECHO: u8 = 10;
const COOKIE_ACK: u8 = 11;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Udp,
    Sctp,
}

impl Kind {
    pub(crate) const BOTH: [Self; 2] = [Self::Udp, Self::Sctp];

    /// As policies name it.
    pub(crate) fn protocol(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }
}

/// What a client has begun with a server, who has answered.
pub(crate) struct Flow {
    kind: Kind,
    client: End,
    server: End,
}

/// One end of it.
struct End {
    socket: UdpSocket,
    at: SocketAddr,
    /// What it calls the association.
    tag: u32,
}

impl End {
    fn open(kind: Kind, inside: &NetworkNamespace, at: SocketAddr) -> Self {
        let socket = match kind {
            Kind::Udp => inside.run(|| UdpSocket::bind(at)).unwrap().unwrap(),
            Kind::Sctp => raw(inside, at.ip(), raw_sctp, patience(true)),
        };
        let tag = SERIAL.fetch_add(1, Ordering::Relaxed);
        Self { socket, at, tag }
    }

    /// A packet to the other end with one chunk of SCTP.
    fn packet(&self, to: &Self, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        packet.extend(self.at.port().to_be_bytes());
        packet.extend(to.at.port().to_be_bytes());
        packet.extend(to.tag.to_be_bytes());
        packet.extend([0; 4]);
        // A fragment that is the first and the last, where it is data.
        packet.extend([kind, if kind == DATA { 3 } else { 0 }]);
        packet.extend(u16::try_from(4 + content.len()).unwrap().to_be_bytes());
        packet.extend(content);
        let checksum = crc32c(&packet).to_le_bytes();
        packet[8..12].copy_from_slice(&checksum);
        packet
    }

    /// A packet to the other end that opens an association.
    fn opening(&self, to: &Self, verification_tag: u32, chunk: Chunk) -> Vec<u8> {
        Sctp {
            source_port: self.at.port(),
            destination_port: to.at.port(),
            verification_tag,
            chunk,
        }
        .encode()
    }

    /// What this end may say in the middle of everything, none of it twice.
    fn news(&self, kind: Kind, to: &Self) -> Vec<Vec<u8>> {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        match kind {
            Kind::Udp => vec![serial.to_vec()],
            Kind::Sctp => {
                // The number of the chunk, the stream, its place there, what it is for, and what is said.
                let data = [&serial[..], &[0; 8], &serial].concat();
                // The only parameter, its length, and what the other end is to repeat.
                let heartbeat = [&[0, 1, 0, 8], &serial[..]].concat();
                vec![
                    self.packet(to, DATA, &data),
                    self.packet(to, HEARTBEAT, &heartbeat),
                ]
            }
        }
    }

    /// Whether what is sent arrives, which is expected or is not.
    fn sends(&self, kind: Kind, to: &Self, packet: &[u8], expected: bool) -> bool {
        let target = match kind {
            Kind::Udp => to.at,
            Kind::Sctp => SocketAddr::new(to.at.ip(), 0),
        };
        // The kernel says here already when the packet is not let out.
        if self.socket.send_to(packet, target).is_err() {
            return false;
        }
        to.socket.set_read_timeout(Some(patience(expected))).unwrap();
        let mut buffer = [0; 2048];
        while let Ok(length) = to.socket.recv(&mut buffer) {
            let received = &buffer[..length];
            let received = match kind {
                Kind::Udp => Some(received),
                Kind::Sctp => payload(Family::of(to.at.ip()), received),
            };
            if received == Some(packet) {
                return true;
            }
        }
        false
    }
}

impl Flow {
    /// From a place and the address that the client has there, to another and where the server is in it.
    pub(crate) fn open(
        kind: Kind,
        client: (&NetworkNamespace, IpAddr),
        (to, server): (&NetworkNamespace, SocketAddr),
    ) -> Self {
        Self::begin(kind, client, End::open(kind, to, server))
    }

    /// Another one with the same server.
    pub(crate) fn beside(&self, client: (&NetworkNamespace, IpAddr)) -> Self {
        let server = End {
            socket: self.server.socket.try_clone().unwrap(),
            at: self.server.at,
            tag: SERIAL.fetch_add(1, Ordering::Relaxed),
        };
        Self::begin(self.kind, client, server)
    }

    fn begin(kind: Kind, (from, address): (&NetworkNamespace, IpAddr), server: End) -> Self {
        let client = SocketAddr::new(address, CLIENT.fetch_add(1, Ordering::Relaxed));
        let client = End::open(kind, from, client);
        let flow = Self { kind, client, server };
        if kind == Kind::Sctp {
            flow.associate();
        }
        flow.expect(true, true);
        flow
    }

    /// Opens the association (RFC 9260, section 5.1).
    fn associate(&self) {
        let (client, server) = (&self.client, &self.server);
        let init = client.opening(server, 0, Chunk::Init { tag: client.tag });
        let answer = server.opening(client, client.tag, Chunk::InitAck { tag: server.tag });
        let echo = client.packet(server, COOKIE_ECHO, b"probe\0\0\0");
        let end = server.packet(client, COOKIE_ACK, &[]);
        for (number, packet) in [init, answer, echo, end].iter().enumerate() {
            let (from, to) = match number % 2 {
                0 => (client, server),
                _ => (server, client),
            };
            assert!(from.sends(self.kind, to, packet, true), "packet {number}");
        }
    }

    /// Holds that what the client sends arrives, or does not, and then the same of the server.
    pub(crate) fn expect(&self, down: bool, up: bool) {
        let (client, server) = (&self.client, &self.server);
        for (from, to, expected) in [(client, server, down), (server, client, up)] {
            for packet in from.news(self.kind, to) {
                let arrived = from.sends(self.kind, to, &packet, expected);
                assert_eq!(arrived, expected, "{:?}: {} -> {}", self.kind, from.at, to.at);
            }
        }
    }

    /// Whether connection tracking knows at a place that the client has begun it.
    pub(crate) fn is_tracked(&self, at: &NetworkNamespace) -> bool {
        let carried = Carried::Ports {
            source: self.client.at.port(),
            destination: self.server.at.port(),
        };
        let mut found = false;
        let mut tracked = Nfnetlink::open(at).unwrap();
        let listed = tracked.connections(Which::From(self.client.at.ip()), |connection| {
            let begun = &connection.original;
            let is_it = begun.destination == self.server.at.ip() && begun.carried == carried;
            found |= is_it && begun.protocol == self.kind.number();
        });
        listed.unwrap();
        found
    }
}
