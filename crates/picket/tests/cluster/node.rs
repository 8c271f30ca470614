//! Nodes as clusters have them: pods that a network plugin attached, kube-proxy, and a world outside.

mod gateways;
mod kube_proxy;
mod plugin;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use picket_linux::NetworkNamespace;
use picket_net::Family;
use tempfile::TempDir;

pub(crate) use kube_proxy::{KubeProxy, Mode};
use plugin::SUBNETS;
pub(crate) use plugin::{PLUGINS, Plugin};

use crate::agents::port_of;
use crate::pods::{ip, place_of};
use crate::proxy::Proxy;

/// The addresses of the node, of two hosts outside, and of a pod on another node: IPv4 and IPv6.
pub(crate) const HOSTS: [(&str, [&str; 2]); 4] = [
    ("node-1", ["192.0.2.1", "fd00:2::1"]),
    ("outside", ["192.0.2.9", "fd00:2::9"]),
    ("stranger", ["192.0.2.10", "fd00:2::10"]),
    ("remote", ["10.245.2.2", "fd78:0:0:2::2"]),
];

/// The port at which everybody serves.
pub(crate) const PORT: u16 = 8080;

/// How long a connection that must come about may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How long to wait for one that must not. The same way has been gone before, so that it takes a millisecond.
const DENIED: Duration = Duration::from_millis(300);

/// Addresses can be used at once.
const SETTINGS: [(&str, &str); 2] = [
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
];

const ROUTER: [(&str, &str); 2] = [("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")];

/// A node and its pods, a router, and the hosts behind that. Or two nodes on one link.
pub(crate) struct Node {
    places: BTreeMap<String, NetworkNamespace>,
    addresses: BTreeMap<String, [IpAddr; 2]>,
    pub(crate) folder: TempDir,
}

impl Node {
    /// A node with these pods, from which the API server of the kubeconfig can be reached.
    pub(crate) fn new(plugin: &Plugin, pods: &[&str], kubeconfig: &Path) -> Self {
        let mut node = Self::nothing();
        node.place("router").set(&ROUTER).unwrap();
        for (name, addresses) in HOSTS {
            node.host(name, addresses);
        }
        for (subnet, gateway) in SUBNETS[0].iter().zip(HOSTS[0].1) {
            ip(
                node.at("router"),
                &format!("route add {subnet} via {gateway} dev to-node-1"),
            );
        }
        node.attach("node-1", plugin, SUBNETS[0], pods);
        node.begin(&["node-1"], kubeconfig);
        node
    }

    fn nothing() -> Self {
        Self {
            places: BTreeMap::new(),
            addresses: BTreeMap::new(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Has a plugin attach pods to a node.
    fn attach(&mut self, to: &str, plugin: &Plugin, subnets: [&str; 2], pods: &[&str]) {
        self.at(to).set(&ROUTER).unwrap();
        self.at(to).set(plugin.settings).unwrap();
        for pod in pods {
            self.place(pod);
            let addresses = plugin.attach(self.at(to), self.at(pod), pod, subnets, self.folder.path());
            self.addresses.insert((*pod).to_owned(), addresses);
        }
    }

    /// Has everybody serve, and the nodes reach the API server.
    fn begin(&self, nodes: &[&str], kubeconfig: &Path) {
        for place in self.addresses.keys() {
            serve(self.at(place));
        }
        for node in nodes {
            Proxy::from(self.at(node), port_of(kubeconfig));
        }
    }

    fn place(&mut self, name: &str) -> &NetworkNamespace {
        let namespace = NetworkNamespace::create().unwrap();
        namespace.set(&SETTINGS).unwrap();
        ip(&namespace, "link set lo up");
        self.places.insert(name.to_owned(), namespace);
        self.at(name)
    }

    /// The namespace of a pod, a host or a node.
    pub(crate) fn at(&self, place: &str) -> &NetworkNamespace {
        &self.places[place]
    }

    /// The address of a pod, a host or a node.
    pub(crate) fn address(&self, place: &str, family: Family) -> IpAddr {
        let [v4, v6] = self.addresses[place];
        if family == Family::Ipv4 { v4 } else { v6 }
    }

    /// Builds a host behind the router.
    fn host(&mut self, name: &str, addresses: [&str; 2]) {
        self.place(name);
        let (host, router) = (self.at(name), self.at("router"));
        let end = format!("to-{name}");
        ip(host, &format!("link add eth0 type veth peer name {end}"));
        ip(host, &format!("link set {end} netns {}", place_of(router)));
        for (namespace, link) in [(host, "eth0"), (router, end.as_str())] {
            ip(namespace, &format!("link set {link} up"));
        }
        ip(router, &format!("address add 169.254.2.1/32 dev {end}"));
        ip(router, &format!("address add fe80::1/64 dev {end}"));
        for (address, gateway) in addresses.iter().zip(["169.254.2.1", "fe80::1"]) {
            ip(host, &format!("address add {address} dev eth0"));
            ip(host, &format!("route add default via {gateway} dev eth0 onlink"));
            ip(router, &format!("route add {address} dev {end}"));
        }
        let addresses = addresses.map(|address| address.parse().unwrap());
        self.addresses.insert(name.to_owned(), addresses);
    }

    /// Whom a server takes for the client, if a connection comes about. `expected` says how long to wait for it.
    pub(crate) fn connect(&self, from: &str, to: SocketAddr, expected: bool) -> io::Result<IpAddr> {
        let stream = match expected {
            true => self.dial(from, to)?,
            false => self
                .at(from)
                .run(|| TcpStream::connect_timeout(&to, DENIED))
                .unwrap()?,
        };
        let client = seen_by(&stream);
        // The connection ends on both sides before the next begins.
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!((&stream).read(&mut [0; 1]).unwrap(), 0);
        Ok(client)
    }

    /// A connection that must come about, on which the server sends back what it gets.
    pub(crate) fn open(&self, from: &str, to: SocketAddr) -> TcpStream {
        let stream = self.dial(from, to).unwrap();
        seen_by(&stream);
        stream
    }

    /// A connection that must come about. In the virtual machine one of many did not now and then, with the IPVS of its kernel and
    /// nothing of ours there: another one, from another port, may.
    fn dial(&self, from: &str, to: SocketAddr) -> io::Result<TcpStream> {
        let connect = || TcpStream::connect_timeout(&to, PATIENCE);
        let dial = || self.at(from).run(connect).unwrap();
        dial().or_else(|_| dial())
    }

    /// What other programs have put into the tables of a node's kernel, without what has been counted.
    pub(crate) fn foreign_rules(&self, node: &str) -> String {
        let mut rules = String::new();
        for program in ["iptables-legacy-save", "ip6tables-legacy-save"] {
            writeln!(rules, "{}", self.run(node, program, &[])).unwrap();
        }
        for table in self.run(node, "nft", &["list", "tables"]).lines() {
            if table != "table inet picket" {
                let words: Vec<_> = table.split(' ').collect();
                let list = ["-s", "list", words[0], words[1], words[2]];
                rules.push_str(&self.run(node, "nft", &list));
            }
        }
        let lines = rules.lines().filter(|line| !line.starts_with(['#', ':']));
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// Runs a program on a node; what it prints.
    pub(crate) fn run(&self, node: &str, program: &str, arguments: &[&str]) -> String {
        let mut command = std::process::Command::new(program);
        let output = self.at(node).run(|| command.args(arguments).output());
        let output = output.unwrap().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Whom a server says that it takes for the client.
fn seen_by(mut server: &TcpStream) -> IpAddr {
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut told, mut byte) = (String::new(), [0; 1]);
    while server.read_exact(&mut byte).is_ok() && byte != *b"\n" {
        told.push(char::from(byte[0]));
    }
    told.parse().unwrap()
}

/// Tells everyone who connects to a place from which address it did, and then sends back what it gets, for as long as the tests run.
fn serve(place: &NetworkNamespace) {
    let listener = place.run(|| TcpListener::bind(("::", PORT)).unwrap());
    let listener = listener.unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let address = client.peer_addr().unwrap().ip().to_canonical();
            thread::spawn(move || {
                // Who does not listen any more needs no answer.
                let _ = writeln!(client, "{address}");
                let _ = std::io::copy(&mut client.try_clone().unwrap(), &mut client);
            });
        }
    });
}
