//! What answers probes: on every host a TCP listener and a UDP socket at each port, and SCTP through a raw socket.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use picket_linux::{Epoll, Interest, listening_tcp, raw_sctp, udp};
use picket_net::{Family, Protocol};
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, recvfrom, sendto};

use crate::wire::{Chunk, Sctp, payload};
use crate::{Error, Host, Network, Place, Ports, Topology};

/// Running servers; dropping them ends them.
///
/// A TCP server writes one line, the [`Place`] it is in (on a secondary network with `@` and the interface), and closes. A UDP server returns what it gets.
#[derive(Debug)]
pub struct Servers {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    files: usize,
}

enum Server {
    Tcp(TcpListener, Arc<str>),
    Udp(UdpSocket),
    Sctp(OwnedFd, Family),
}

/// Answers to one socket before others get their turn.
const TURN: usize = 64;

/// How often an address that is in use is tried again, and how long to wait in between.
const PATIENCE: usize = 200;
const PAUSE: Duration = Duration::from_millis(5);

impl Servers {
    /// Starts them on every host of `topology`, at `ports`.
    ///
    /// # Errors
    /// [`Error::Kernel`], or [`Error::OpenFiles`] when there would be too many.
    pub fn start(network: &Network, topology: &Topology, ports: &Ports) -> Result<Self, Error> {
        let limit = picket_linux::raise_open_files_limit();
        // Hosts that share a namespace share its addresses.
        let ends: BTreeMap<End<'_>, String> = topology
            .hosts
            .iter()
            .flat_map(|host| {
                host.addresses
                    .iter()
                    .map(move |address| (end(host, address), host.greeting()))
            })
            .collect();
        let needed = ends.len() * (ports.of(Protocol::TCP).len() + ports.of(Protocol::UDP).len() + 1);
        if needed * 2 > limit {
            return Err(Error::OpenFiles {
                needed: needed * 2,
                limit,
            });
        }
        let mut servers = Vec::new();
        for ((place, device, address), greeting) in ends {
            let name: Arc<str> = format!("{greeting}\n").into();
            let opened = network
                .namespace(place)?
                .run(|| open(address, device, ports, &name))?;
            servers.extend(opened?);
        }
        let files = servers.len();
        let (stop, stopped) = UnixStream::pair().map_err(|source| picket_linux::Error::Socket {
            action: "start servers".to_owned(),
            source,
        })?;
        let epoll = Epoll::new()?;
        for (token, server) in (0..).zip(&servers) {
            match server {
                Server::Tcp(socket, _) => epoll.add(socket, token, Interest::Read)?,
                Server::Udp(socket) => epoll.add(socket, token, Interest::Read)?,
                Server::Sctp(socket, _) => epoll.add(socket, token, Interest::Read)?,
            }
        }
        epoll.add(&stopped, u64::MAX, Interest::Read)?;
        let thread = std::thread::spawn(move || {
            serve(&epoll, &servers);
            drop(stopped);
        });
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
            files,
        })
    }

    /// How many sockets they hold.
    pub fn sockets(&self) -> usize {
        self.files
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Servers {
    /// Ends them; their addresses are free once this returns.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A server thread that panicked has said so; there is nothing left to stop.
            drop(thread.join());
        }
    }
}

/// A namespace, the interface in it to which sockets are bound, and an address.
type End<'a> = (&'a Place, Option<&'a str>, IpAddr);

fn end(host: &Host, address: IpAddr) -> End<'_> {
    (&host.place, host.interface.as_deref(), address)
}

fn open(
    address: IpAddr,
    device: Option<&str>,
    ports: &Ports,
    name: &Arc<str>,
) -> Result<Vec<Server>, picket_linux::Error> {
    let mut servers = Vec::new();
    for port in ports.of(Protocol::TCP) {
        let listener = once_free(|| listening_tcp(SocketAddr::new(address, *port), device))?;
        servers.push(Server::Tcp(listener, Arc::clone(name)));
    }
    for port in ports.of(Protocol::UDP) {
        let socket = once_free(|| udp(SocketAddr::new(address, *port), device))?;
        servers.push(Server::Udp(socket));
    }
    servers.push(Server::Sctp(raw_sctp(address, device)?, Family::of(address)));
    Ok(servers)
}

/// Opens a socket at an address that servers which have just ended may have had: while another thread starts a program,
/// the new process holds copies of every socket until it runs that program.
fn once_free<T>(open: impl Fn() -> Result<T, picket_linux::Error>) -> Result<T, picket_linux::Error> {
    for _ in 0..PATIENCE {
        match open() {
            Err(picket_linux::Error::Socket { source, .. }) if source.kind() == ErrorKind::AddrInUse => {
                std::thread::sleep(PAUSE);
            }
            opened => return opened,
        }
    }
    open()
}

fn serve(epoll: &Epoll, servers: &[Server]) {
    while let Ok(ready) = epoll.wait(None) {
        for readiness in ready {
            let server = usize::try_from(readiness.token)
                .ok()
                .and_then(|index| servers.get(index));
            // The token of the other end of `stop` is no server's.
            let Some(server) = server else { return };
            match server {
                Server::Tcp(listener, name) => greet(listener, name),
                Server::Udp(socket) => echo(socket),
                Server::Sctp(socket, family) => acknowledge(socket, *family),
            }
        }
    }
}

fn greet(listener: &TcpListener, name: &str) {
    for _ in 0..TURN {
        match listener.accept() {
            // A prober that has given up is no concern of the server.
            Ok((mut stream, _)) => {
                let _gone = stream.write_all(name.as_bytes());
            }
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(_) => return,
        }
    }
}

fn echo(socket: &UdpSocket) {
    let mut buffer = [0; 2048];
    for _ in 0..TURN {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else {
            return;
        };
        // A reply that cannot be sent is a lost packet, which probers expect.
        let _lost = socket.send_to(buffer.get(..length).unwrap_or_default(), from);
    }
}

fn acknowledge(socket: &OwnedFd, family: Family) {
    let mut buffer = [0; 2048];
    for _ in 0..TURN {
        let Ok((length, _, Some(from))) = recvfrom(socket, &mut buffer, RecvFlags::empty()) else {
            return;
        };
        let Some(from) = host_of(from) else { continue };
        let packet = payload(family, buffer.get(..length).unwrap_or_default());
        let Some(Sctp {
            source_port,
            destination_port,
            chunk: Chunk::Init { tag },
            ..
        }) = packet.and_then(Sctp::decode)
        else {
            continue;
        };
        let answer = Sctp {
            source_port: destination_port,
            destination_port: source_port,
            verification_tag: tag,
            chunk: Chunk::InitAck { tag: tag.max(1) },
        };
        // As above: a lost packet.
        let _lost = sendto(socket, &answer.encode(), SendFlags::empty(), &from);
    }
}

/// The sender of a packet, as an address to send raw packets to: those have no port.
pub(crate) fn host_of(address: SocketAddrAny) -> Option<SocketAddr> {
    let address = SocketAddr::try_from(address).ok()?;
    Some(SocketAddr::new(address.ip(), 0))
}
