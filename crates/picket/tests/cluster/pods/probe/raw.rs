//! Packets of protocols for which the kernel need have no sockets.

use std::net::{IpAddr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use picket_lab::wire::{Chunk, Sctp, echo_reply, echo_request, payload};
use picket_linux::{NetworkNamespace, icmp_socket, internet_checksum, raw_sctp};
use picket_net::Family;

use super::super::Pod;
use super::PATIENCE;
use crate::prober::any;

/// Tells connections apart: what passes as part of an earlier one says nothing of policies.
static CONNECTION: AtomicU16 = AtomicU16::new(20_000);

/// A raw socket in a pod. It takes and gives packets as one for datagrams does.
pub(crate) fn raw(
    inside: &NetworkNamespace,
    at: IpAddr,
    open: fn(IpAddr, Option<&str>) -> picket_linux::Result<OwnedFd>,
    patience: Duration,
) -> UdpSocket {
    let socket = UdpSocket::from(inside.run(|| open(at, None)).unwrap().unwrap());
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(patience)).unwrap();
    socket
}

/// Whether one of the packets that a socket receives is the one waited for.
fn receives(socket: &UdpSocket, family: Family, is_it: impl Fn(&[u8]) -> bool) -> bool {
    let mut buffer = [0; 2048];
    while let Ok(length) = socket.recv(&mut buffer) {
        if payload(family, &buffer[..length]).is_some_and(&is_it) {
            return true;
        }
    }
    false
}

/// Whether an SCTP packet that asks for an association with a port arrives.
pub(super) fn sctp(from: &Pod, to: &Pod, at: SocketAddr, patience: Duration) -> bool {
    let family = Family::of(at.ip());
    let server = raw(&to.inside, at.ip(), raw_sctp, patience);
    let client = raw(&from.inside, any(family), raw_sctp, patience);
    let init = Sctp {
        source_port: CONNECTION.fetch_add(1, Ordering::Relaxed),
        destination_port: at.port(),
        verification_tag: 0,
        chunk: Chunk::Init { tag: 1 },
    };
    let sent = client.send_to(&init.encode(), SocketAddr::new(at.ip(), 0));
    sent.is_ok() && receives(&server, family, |packet| Sctp::decode(packet) == Some(init))
}

/// Whether an echo request to an address is answered.
pub(super) fn echo(from: &Pod, to: IpAddr, patience: Duration) -> bool {
    let family = Family::of(to);
    let client = raw(&from.inside, any(family), icmp_socket, patience);
    let identifier = CONNECTION.fetch_add(1, Ordering::Relaxed);
    let sent = client.send_to(&echo_request(family, identifier, 0, 7), SocketAddr::new(to, 0));
    sent.is_ok()
        && receives(&client, family, |message| {
            echo_reply(family, message, identifier) == Some(7)
        })
}

/// Sends an ICMPv6 message of a type, otherwise empty, to the address of a pod.
pub(crate) fn send_icmpv6(from: &Pod, to: &Pod, kind: u8) {
    let target = to.addresses.iter().find(|address| address.is_ipv6()).unwrap();
    let client = raw(&from.inside, any(Family::Ipv6), icmp_socket, PATIENCE);
    let mut message = [0; 32];
    message[0] = kind;
    // The kernel fills in the checksum, and says here already when the message is not let out.
    let _ = client.send_to(&message, SocketAddr::new(*target, 0));
}

/// Tells a pod, as a router on the way does, that a datagram from one of its ports was too big for the way ahead (RFC 792, RFC 1191).
pub(crate) fn send_fragmentation_needed(router: &Pod, from: SocketAddrV4, to: SocketAddrV4) {
    const ICMP: [u8; 8] = [3, 4, 0, 0, 0, 0, 0x05, 0x14];
    const UDP: u8 = 17;
    let length = 1500_u16.to_be_bytes();
    let mut datagram = vec![0x45, 0, length[0], length[1], 0, 0, 0x40, 0, 64, UDP, 0, 0];
    datagram.extend(from.ip().octets());
    datagram.extend(to.ip().octets());
    let checksum = internet_checksum(&datagram).to_be_bytes();
    datagram[10..12].copy_from_slice(&checksum);
    for word in [from.port(), to.port(), 1480, 0] {
        datagram.extend(word.to_be_bytes());
    }
    let mut message = [&ICMP[..], &datagram].concat();
    let checksum = internet_checksum(&message).to_be_bytes();
    message[2..4].copy_from_slice(&checksum);
    let client = raw(&router.inside, any(Family::Ipv4), icmp_socket, PATIENCE);
    let sent = client.send_to(&message, SocketAddr::new((*from.ip()).into(), 0));
    assert_eq!(sent.unwrap(), message.len());
}
