//! One router namespace with a client and several servers behind it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use picket_linux::{Netlink, NetworkNamespace, Route, RouteTable, run_with_input};

use crate::load::{self, Measured};

/// The port that servers listen on.
pub(crate) const PORT: u16 = 8080;

/// The client's address.
pub(crate) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);

/// The index of the router's interface to the client; those of the servers follow.
const CLIENT_INDEX: u32 = 100;

/// The address of the server with this index.
pub(crate) fn server(index: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 2, index, 2)
}

/// The namespaces. They have no names: the kernel removes them with the last handle, however the process ends.
pub(crate) struct Topology {
    pub(crate) router: NetworkNamespace,
    pub(crate) client: NetworkNamespace,
    pub(crate) servers: Vec<NetworkNamespace>,
}

impl Topology {
    /// A client, a router and servers with these indices (from 0), all routes in place and every server listening.
    pub(crate) fn new(servers: impl Iterator<Item = u8>) -> Result<Self> {
        let router = NetworkNamespace::create()?;
        router.set(&[
            ("ipv4/ip_forward", "1"),
            // Closed connections must not fill the table in the middle of a measurement.
            ("netfilter/nf_conntrack_tcp_timeout_close", "1"),
        ])?;
        let client = host(&router, CLIENT_INDEX, "client", CLIENT)?;
        let mut topology = Self {
            router,
            client,
            servers: Vec::new(),
        };
        for index in servers {
            let address = server(index);
            let namespace = host(
                &topology.router,
                CLIENT_INDEX + 1 + u32::from(index),
                &format!("server{index}"),
                address,
            )?;
            let listener = namespace.run(|| TcpListener::bind((address, PORT)))??;
            load::serve(listener)?;
            topology.servers.push(namespace);
        }
        Ok(topology)
    }

    /// Connections from the client to a server.
    pub(crate) fn measure(&self, index: u8, duration: Duration) -> Result<Measured> {
        let address = SocketAddr::from((server(index), PORT));
        Ok(self.client.run(|| load::connect(address, duration))?)
    }
}

/// A namespace behind `router`, at its interface of this index and name. The router is its gateway at the first address
/// of the same /24.
fn host(router: &NetworkNamespace, index: u32, name: &str, address: Ipv4Addr) -> Result<NetworkNamespace> {
    let namespace = NetworkNamespace::create()?;
    let [a, b, c, _] = address.octets();
    let gateway = IpAddr::from([a, b, c, 1]);
    let mut outer = Netlink::open(router)?;
    outer.create_cable(name, index, "eth0", &namespace)?;
    outer.add_address(name, gateway, 24)?;
    outer.set_up(name)?;
    let mut inner = Netlink::open(&namespace)?;
    inner.add_address("eth0", address.into(), 24)?;
    inner.set_up("eth0")?;
    inner.set_route(&Route {
        table: RouteTable::MAIN,
        destination: (Ipv4Addr::UNSPECIFIED.into(), 0),
        gateway: Some(gateway),
        interface: "eth0".to_owned(),
        source: None,
    })?;
    Ok(namespace)
}

/// Replaces everything nft knows in a namespace.
pub(crate) fn load_ruleset(namespace: &NetworkNamespace, ruleset: &str) -> Result<()> {
    let input = format!("flush ruleset\n{ruleset}");
    run_with_input(
        namespace,
        Command::new("nft").args(["-f", "-"]),
        input.as_bytes(),
        "nftables",
    )
    .context("the ruleset does not load")?;
    Ok(())
}
