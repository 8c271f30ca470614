//! Sockets of the calling thread's network namespace. They stay in it whoever uses them later.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
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
/// [`Error::Socket`] when the address is not here or in use.
pub fn listening_tcp(address: SocketAddr) -> Result<TcpListener> {
    let open = || {
        let socket = stream(address)?;
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
pub fn starting_tcp(source: IpAddr, destination: SocketAddr) -> Result<TcpStream> {
    let open = || {
        let socket = stream(destination)?;
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
/// [`Error::Socket`] when the address is not here or in use.
pub fn udp(address: SocketAddr) -> Result<UdpSocket> {
    let open = || {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    open().map_err(|source: std::io::Error| Error::socket(format!("open {address} (UDP)"), source))
}

/// A raw, non-blocking SCTP socket at `address`: it receives every SCTP packet for it, IPv4 ones with their IP
/// header.
///
/// # Errors
/// [`Error::Socket`]; it needs `CAP_NET_RAW`.
pub fn raw_sctp(address: IpAddr) -> Result<OwnedFd> {
    raw(address, ipproto::SCTP)
}

/// A raw, non-blocking socket for ICMP or ICMPv6 at `address`. IPv4 packets come with their IP header; the kernel
/// fills in the checksum of ICMPv6, not that of ICMP.
///
/// # Errors
/// [`Error::Socket`]; it needs `CAP_NET_RAW`.
pub fn icmp_socket(address: IpAddr) -> Result<OwnedFd> {
    raw(
        address,
        match address {
            IpAddr::V4(_) => ipproto::ICMP,
            IpAddr::V6(_) => ipproto::ICMPV6,
        },
    )
}

fn raw(address: IpAddr, protocol: Protocol) -> Result<OwnedFd> {
    let open = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family(address), SocketType::RAW, flags, Some(protocol))?;
        bind(&socket, &SocketAddr::new(address, 0))?;
        Ok(socket)
    };
    open().map_err(|source: Errno| Error::socket(format!("open a raw socket at {address}"), source))
}

fn stream(address: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(
        family(address.ip()),
        SocketType::STREAM,
        flags,
        Some(ipproto::TCP),
    )
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    }
}
