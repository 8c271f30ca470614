//! Hosts around one node, with real packets between them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use picket_linux::{Netlink, NetworkNamespace, Route, RouteTable, run_with_input};

use crate::let_go::once_unbound;

/// How long a connection that is not dropped may take.
const PATIENCE: Duration = Duration::from_millis(400);

/// A node that routes between its hosts.
pub(crate) struct Node {
    pub(crate) namespace: NetworkNamespace,
}

/// A network namespace behind a node, with an address of each family on `eth0`.
pub(crate) struct Host {
    pub(crate) namespace: NetworkNamespace,
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
}

impl Node {
    pub(crate) fn new() -> Self {
        let namespace = NetworkNamespace::create().expect("a namespace");
        namespace
            .set(&[
                ("ipv4/ip_forward", "1"),
                ("ipv6/conf/all/forwarding", "1"),
                // Routers ask for neighbours from their link-local address, which must not wait for its own check.
                ("ipv6/conf/all/accept_dad", "0"),
                ("ipv6/conf/default/accept_dad", "0"),
            ])
            .expect("forwarding");
        Self { namespace }
    }

    /// A host on a link of its own: 10.0.`number`.2 and fd00:0:0:`number`::2, with the node as gateway.
    pub(crate) fn host(&self, number: u8) -> Host {
        let host = Host::new(
            self,
            number,
            [10, 0, number, 2].into(),
            address6(number.into(), 2),
        );
        let outer = format!("host{number}");
        let gateways = [
            IpAddr::from([10, 0, number, 1]),
            address6(number.into(), 1).into(),
        ];
        let mut netlink = Netlink::open(&self.namespace).expect("netlink");
        let mut inner = Netlink::open(&host.namespace).expect("netlink");
        for gateway in gateways {
            let length = if gateway.is_ipv4() { 24 } else { 64 };
            netlink.add_address(&outer, gateway, length).expect("an address");
            let anywhere = if gateway.is_ipv4() {
                (Ipv4Addr::UNSPECIFIED.into(), 0)
            } else {
                (Ipv6Addr::UNSPECIFIED.into(), 0)
            };
            let route = Route {
                table: RouteTable::MAIN,
                destination: anywhere,
                gateway: Some(gateway),
                interface: "eth0".to_owned(),
                source: None,
            };
            inner.set_route(&route).expect("a route");
        }
        host
    }

    /// A host on the node's bridge `br0`: 10.0.0.`number` and fd00::`number`, all on one link.
    pub(crate) fn bridged_host(&self, number: u8) -> Host {
        let host = Host::new(
            self,
            number,
            [10, 0, 0, number].into(),
            address6(0, number.into()),
        );
        self.ip(&["link", "set", &format!("host{number}"), "master", "br0"]);
        host
    }

    pub(crate) fn ip(&self, arguments: &[&str]) {
        run(&self.namespace, "ip", arguments, "");
    }

    /// Loads what nft reads.
    pub(crate) fn load(&self, ruleset: &str) {
        run(&self.namespace, "nft", &["-f", "-"], ruleset);
    }

    /// What `nft` prints.
    pub(crate) fn nft(&self, arguments: &[&str]) -> String {
        run(&self.namespace, "nft", arguments, "")
    }

    /// How many packets the named counter of table `table` has counted.
    pub(crate) fn counted(&self, table: &str, counter: &str) -> u64 {
        let listing = self.nft(&["list", "counter", "inet", table, counter]);
        let mut words = listing.split_whitespace().skip_while(|word| *word != "packets");
        words
            .nth(1)
            .and_then(|count| count.parse().ok())
            .expect("a count")
    }
}

fn address6(subnet: u16, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, subnet, 0, 0, 0, host)
}

impl Host {
    fn new(node: &Node, number: u8, v4: Ipv4Addr, v6: Ipv6Addr) -> Self {
        let namespace = NetworkNamespace::create().expect("a namespace");
        let outer = format!("host{number}");
        let mut netlink = Netlink::open(&node.namespace).expect("netlink");
        netlink
            .create_cable(&outer, 100 + u32::from(number), "eth0", &namespace)
            .expect("a cable");
        netlink.set_up(&outer).expect("a link");
        let mut inner = Netlink::open(&namespace).expect("netlink");
        inner.set_up("lo").expect("a link");
        inner.add_address("eth0", v4.into(), 24).expect("an address");
        inner.add_address("eth0", v6.into(), 64).expect("an address");
        inner.set_up("eth0").expect("a link");
        Self { namespace, v4, v6 }
    }

    pub(crate) fn addresses(&self) -> [IpAddr; 2] {
        [self.v4.into(), self.v6.into()]
    }

    /// Listens on a TCP port at every address, until the listener is dropped.
    pub(crate) fn listen(&self, port: u16) -> TcpListener {
        let bind = || TcpListener::bind((Ipv6Addr::UNSPECIFIED, port));
        once_unbound(|| self.namespace.run(bind).expect("the namespace"))
    }

    /// Whether a TCP connection to `address` comes about.
    pub(crate) fn connects(&self, address: IpAddr, port: u16) -> bool {
        self.namespace
            .run(|| TcpStream::connect_timeout(&SocketAddr::new(address, port), PATIENCE).is_ok())
            .expect("the namespace")
    }
}

pub(crate) fn run(namespace: &NetworkNamespace, program: &str, arguments: &[&str], input: &str) -> String {
    let output = run_with_input(
        namespace,
        Command::new(program).args(arguments),
        input.as_bytes(),
        program,
    );
    String::from_utf8(output.expect(program)).expect("text")
}
