//! Sockets of the calling thread's network namespace. They stay in it whoever uses them later.
//!
//! A socket that is given an interface (`device`) sends and receives through no other (`SO_BINDTODEVICE`): so it does
//! not matter that other interfaces may lead to the same addresses.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, SocketFlags, SocketType, bind, connect, ipproto, listen, socket_with, sockopt,
};

use crate::{Error, Result};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// A listener at `address`, non-blocking. It takes up to 4096 connections before they are accepted.
///
/// # Errors
/// [`Error::Socket`] when the address or the interface is not here, or the address in use.
pub fn listening_tcp(address: SocketAddr, device: Option<&str>) -> Result<TcpListener> {
    let open = || {
        let socket = stream(address, device)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &address)?;
        listen(&socket, BACKLOG)?;
        Ok(TcpListener::from(socket))
    };
    open().map_err(|source: Errno| Error::socket(format!("listen at {address} (TCP)"), source))
}

/// A connection from `source` to `destination` that has been begun and not waited for: it stands or has failed once
/// it is writable; [`pending_connect`] then tells. Closing it resets it at once, so no port stays occupied.
///
/// # Errors
/// [`Error::Socket`] when it could not be begun, for example without a route.
pub fn starting_tcp(source: IpAddr, device: Option<&str>, destination: SocketAddr) -> Result<TcpStream> {
    let open = || {
        let socket = stream(destination, device)?;
        sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
        bind(&socket, &SocketAddr::new(source, 0))?;
        match connect(&socket, &destination) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
            Err(error) => Err(error),
        }
    };
    open().map_err(|error: Errno| Error::socket(format!("connect from {source} to {destination}"), error))
}

/// How a begun connection ended: `Ok` when it stands.
///
/// # Errors
/// Why it failed, as in refused or unreachable.
pub fn pending_connect(stream: &TcpStream) -> std::io::Result<()> {
    match stream.take_error()? {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// A non-blocking UDP socket at `address`.
///
/// # Errors
/// [`Error::Socket`] when the address or the interface is not here, or the address in use.
pub fn udp(address: SocketAddr, device: Option<&str>) -> Result<UdpSocket> {
    let open = || {
        let socket = open_socket(address.ip(), SocketType::DGRAM, ipproto::UDP, device)?;
        bind(&socket, &address)?;
        Ok(UdpSocket::from(socket))
    };
    open().map_err(|source: Errno| Error::socket(format!("open {address} (UDP)"), source))
}

/// A raw, non-blocking SCTP socket at `address`: it receives every SCTP packet for it, IPv4 ones with their IP
/// header.
///
/// # Errors
/// [`Error::Socket`]; it needs `CAP_NET_RAW`.
pub fn raw_sctp(address: IpAddr, device: Option<&str>) -> Result<OwnedFd> {
    raw(address, device, ipproto::SCTP)
}

/// A raw, non-blocking socket for ICMP or ICMPv6 at `address`. IPv4 packets come with their IP header; the kernel
/// fills in the checksum of ICMPv6, not that of ICMP.
///
/// # Errors
/// [`Error::Socket`]; it needs `CAP_NET_RAW`.
pub fn icmp_socket(address: IpAddr, device: Option<&str>) -> Result<OwnedFd> {
    raw(
        address,
        device,
        match address {
            IpAddr::V4(_) => ipproto::ICMP,
            IpAddr::V6(_) => ipproto::ICMPV6,
        },
    )
}

fn raw(address: IpAddr, device: Option<&str>, protocol: Protocol) -> Result<OwnedFd> {
    let open = || {
        let socket = open_socket(address, SocketType::RAW, protocol, device)?;
        bind(&socket, &SocketAddr::new(address, 0))?;
        Ok(socket)
    };
    open().map_err(|source: Errno| Error::socket(format!("open a raw socket at {address}"), source))
}

fn stream(address: SocketAddr, device: Option<&str>) -> rustix::io::Result<OwnedFd> {
    open_socket(address.ip(), SocketType::STREAM, ipproto::TCP, device)
}

fn open_socket(
    address: IpAddr,
    kind: SocketType,
    protocol: Protocol,
    device: Option<&str>,
) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family(address), kind, flags, Some(protocol))?;
    match device {
        Some(device) => bind_to_device(socket, device),
        None => Ok(socket),
    }
}

#[expect(unsafe_code, reason = "rustix has no `SO_BINDTODEVICE`")]
fn bind_to_device(socket: OwnedFd, device: &str) -> rustix::io::Result<OwnedFd> {
    let length = libc::socklen_t::try_from(device.len()).map_err(|_| Errno::NODEV)?;
    // SAFETY: the descriptor is open for the whole call, and the kernel reads at most `length` bytes of `device`, which
    // has that many; it takes a name without a final zero byte.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            device.as_ptr().cast(),
            length,
        )
    };
    if failed == 0 {
        return Ok(socket);
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::NODEV))
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    }
}
