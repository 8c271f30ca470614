//! Packets between pods, and the rules that they meet.

mod raw;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::time::Duration;

use picket_linux::NetworkNamespace;
use picket_net::Family;

pub(crate) use raw::{raw, send_fragmentation_needed, send_icmpv6};

use super::Pod;
use crate::prober::any;

/// How long a packet that must arrive may take: longer than until a lost one is repeated.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long to wait for a packet that must not. The same way has been gone before, so that it takes a millisecond.
const DENIED: Duration = Duration::from_millis(300);

/// How long to wait for a packet that is expected, or is not.
pub(crate) fn patience(expected: bool) -> Duration {
    if expected { PATIENCE } else { DENIED }
}

/// Runs `ip` in a namespace.
pub(crate) fn ip(namespace: &NetworkNamespace, arguments: &str) {
    let mut command = Command::new("ip");
    command.args(arguments.split_whitespace());
    let output = namespace.run(|| command.output()).unwrap().unwrap();
    assert!(
        output.status.success(),
        "ip {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A path at which other programs find a namespace, as long as it is held here.
pub(crate) fn place_of(namespace: &NetworkNamespace) -> String {
    format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        namespace.as_fd().as_raw_fd()
    )
}

/// What `nft` prints when it does something in a pod.
pub(crate) fn nft(pod: &Pod, commands: &str) -> String {
    let mut nft = Command::new("nft");
    let output = pod.inside.run(|| nft.arg(commands).output()).unwrap().unwrap();
    assert!(output.status.success(), "{commands}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What `nft` lists of the table of policies in a pod; nothing where there is none.
pub(crate) fn table(pod: &Pod) -> String {
    let mut command = Command::new("nft");
    command.args(["list", "table", "inet", "multi_networkpolicy"]);
    let output = pod.inside.run(|| command.output()).unwrap().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Whether a packet to a port, as in `80`, `udp/53` or `sctp/80`, arrives, or an echo request of `icmp` or `icmpv6` is answered.
/// `expected` says how long to wait for it.
fn arrives(from: &Pod, to: &Pod, port: &str, expected: bool) -> bool {
    let patience = patience(expected);
    let mut all = true;
    // Every address must do what is expected.
    let asked = to.addresses.iter().filter(|address| match port {
        "icmp" => address.is_ipv4(),
        "icmpv6" => address.is_ipv6(),
        _ => true,
    });
    for address in asked {
        let arrived = arrives_at(from, to, *address, port, patience);
        assert!(
            to.addresses.len() == 1 || arrived == expected,
            "{}->{} {address}",
            from.name,
            to.name
        );
        all &= arrived;
    }
    all
}

/// The same for one address.
fn arrives_at(from: &Pod, to: &Pod, address: IpAddr, port: &str, patience: Duration) -> bool {
    if port.starts_with("icmp") {
        return raw::echo(from, address, patience);
    }
    let (protocol, port) = port.split_once('/').unwrap_or(("tcp", port));
    let at = SocketAddr::new(address, port.parse().unwrap());
    match protocol {
        "tcp" => {
            let _server = once_free(|| to.inside.run(|| TcpListener::bind(at)).unwrap());
            let client = || TcpStream::connect_timeout(&at, patience);
            from.inside.run(client).unwrap().is_ok()
        }
        "udp" => {
            let server = once_free(|| to.inside.run(|| UdpSocket::bind(at)).unwrap());
            let any = any(Family::of(address));
            let client = from.inside.run(|| UdpSocket::bind((any, 0))).unwrap().unwrap();
            server.set_read_timeout(Some(patience)).unwrap();
            // The kernel says here already when the packet is not let out.
            client.send_to(b"x", at).is_ok() && server.recv(&mut [0; 8]).is_ok()
        }
        "sctp" => raw::sctp(from, to, at, patience),
        other => panic!("no probes of `{other}`"),
    }
}

/// Opens a port that may not be free yet: a program that another test starts holds every socket until it runs.
pub(crate) fn once_free<T>(open: impl Fn() -> std::io::Result<T>) -> T {
    loop {
        match open() {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            opened => return opened.unwrap(),
        }
    }
}

/// Makes pods ask anew who has which address, as plugins do when an address moves.
pub(crate) fn forget_neighbours(pods: &Pods) {
    for pod in pods.values() {
        ip(&pod.inside, "neighbour flush all");
    }
}

/// Pods by the names that a scenario gives them.
pub(crate) type Pods = BTreeMap<String, Pod>;

/// Reads `a->b`, `a->b:80`, `a->b:udp/53`, `a->b:sctp/80` or `a->b:icmp`: from, to, port.
fn read(probe: &str) -> (&str, &str, &str) {
    let (from, rest) = probe.split_once("->").unwrap();
    let (to, port) = rest.split_once(':').unwrap_or((rest, "5555"));
    (from, to, port)
}

/// Sends a packet for each probe, and holds what becomes of it against what is expected.
pub(crate) fn expect(pods: &Pods, probes: &[&str], expected: bool, when: &str) {
    for probe in probes.iter().flat_map(|probes| probes.split_whitespace()) {
        let (from, to, port) = read(probe);
        let arrived = arrives(&pods[from], &pods[to], port, expected);
        assert_eq!(
            arrived,
            expected,
            "{probe} {when}\n{}\n{}",
            table(&pods[from]),
            table(&pods[to])
        );
    }
}
