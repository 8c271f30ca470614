//! What others than the kernel send to netlink sockets, in real network namespaces. These need root.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use picket_linux::{Batch, Monitor, Netlink, NetworkNamespace, Nfnetlink, Notice, RouteMonitor};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketType, sendto, socket};

const NEWGEN: u16 = 10 << 8 | 15;
const NEWLINK: u16 = 16;
const ERROR: u16 = 2;
const GROUP_OF_RULESETS: u32 = 1 << 6;
const GROUP_OF_LINKS: u32 = 1;

fn other(namespace: &NetworkNamespace, protocol: Option<Protocol>) -> OwnedFd {
    let other = || socket(AddressFamily::NETLINK, SocketType::RAW, protocol);
    namespace.run(other).unwrap().unwrap()
}

/// A message with this sequence number.
fn message(kind: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + payload.len()).unwrap();
    let header = [
        &length.to_ne_bytes()[..],
        &kind.to_ne_bytes(),
        &[0; 2],
        &sequence.to_ne_bytes(),
        &[0; 4],
    ];
    [&header.concat(), payload].concat()
}

/// That a transaction made generation 7, as the kernel tells it.
fn generation() -> Vec<u8> {
    let generation = [8, 0, 1, 0, 0, 0, 0, 7];
    message(NEWGEN, 0, &[&[0; 4][..], &generation].concat())
}

#[test]
fn nobody_else_can_answer_a_request() {
    let namespace = NetworkNamespace::create().unwrap();
    let mut netlink = Nfnetlink::open(&namespace).unwrap();
    let other = other(&namespace, Some(netlink::NETFILTER));
    let to = SocketAddrNetlink::new(netlink.port().0, 0);
    // That the request was carried out, and what a list ends with.
    for forged in [message(ERROR, 1, &[0; 20]), message(3, 1, &[0; 4]), generation()] {
        let sent = sendto(&other, &forged, SendFlags::empty(), &to);
        assert_eq!(sent, Err(Errno::CONNREFUSED));
    }
    assert_ne!(netlink.generation().unwrap(), 7);
}

#[test]
fn a_transaction_that_the_kernel_does_not_tell_of_is_none() {
    let namespace = NetworkNamespace::create().unwrap();
    let mut monitor = Monitor::open(&namespace).unwrap();
    let other = other(&namespace, Some(netlink::NETFILTER));
    let all = SocketAddrNetlink::new(0, GROUP_OF_RULESETS);
    sendto(&other, &generation(), SendFlags::empty(), &all).unwrap();
    assert_eq!(monitor.notices().unwrap(), []);

    let mut netlink = Nfnetlink::open(&namespace).unwrap();
    let mut batch = Batch::default();
    batch.message(0, Batch::CREATE, 1);
    batch.text(1, "t");
    sendto(&other, &generation(), SendFlags::empty(), &all).unwrap();
    netlink.commit(batch, None).unwrap();
    let notices = monitor.notices().unwrap();
    let [Notice::Committed(commit)] = notices.as_slice() else {
        panic!("{notices:?}");
    };
    assert_eq!(commit.port, netlink.port());
}

#[test]
fn a_change_of_routes_that_the_kernel_does_not_tell_of_is_none() {
    let namespace = NetworkNamespace::create().unwrap();
    let monitor = RouteMonitor::open(&namespace).unwrap();
    let other = other(&namespace, None);
    let all = SocketAddrNetlink::new(0, GROUP_OF_LINKS);
    let forged = message(NEWLINK, 0, &[0; 16]);
    sendto(&other, &forged, SendFlags::empty(), &all).unwrap();
    assert!(!monitor.has_changed().unwrap());

    let mut netlink = Netlink::open(&namespace).unwrap();
    netlink.set_up("lo").unwrap();
    assert!(monitor.has_changed().unwrap());
    let loopback = netlink.addresses().unwrap();
    assert!(loopback.contains(&IpAddr::from([127, 0, 0, 1])));
}
