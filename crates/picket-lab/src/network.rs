//! The lab's network, built of real namespaces.
//!
//! Every pod has one cable to its node, every node and external host one to the fabric. All routes are to single
//! addresses and all next hops are link-local, so arbitrary addresses work side by side:
//!
//! ```text
//! pod eth0 ─── p1 node up ─── h1 fabric h9 ─── eth0 external
//! ```

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use picket_cluster::Addresses;
use picket_linux::{Netlink, NetworkNamespace, Route};
use picket_net::Family;

use crate::progress::Progress;
use crate::{Error, Place, Topology};

/// What the router's end of every cable is called on the wire.
const GATEWAY_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 1, 1));
const GATEWAY_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
/// The other end.
const HOST_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2));

/// Strict reverse paths off, whatever the machine's default, and IPv6 addresses usable at once.
const SETTINGS: [(&str, &str); 8] = [
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv6/conf/all/disable_ipv6", "0"),
    ("ipv6/conf/default/disable_ipv6", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/dad_transmits", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    // No address that the lab did not give.
    ("ipv6/conf/default/addr_gen_mode", "1"),
];
const ROUTER_SETTINGS: [(&str, &str); 2] = [("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")];

/// The namespaces of a lab. Dropping it, also by killing the process, removes every one of them and what is in it.
#[derive(Debug)]
pub struct Network {
    namespaces: BTreeMap<Place, NetworkNamespace>,
    cables: usize,
}

impl Network {
    /// Builds what `topology` plans.
    ///
    /// # Errors
    /// [`Error::Kernel`] with what the kernel refused; nothing is left behind.
    pub fn build(topology: &Topology, progress: &Progress) -> Result<Self, Error> {
        let places = topology.places();
        progress.begin("building namespaces", places.len() * 2);
        let mut network = Self {
            namespaces: BTreeMap::new(),
            cables: 0,
        };
        for place in places {
            network.create(place)?;
            progress.advance(1);
        }
        let mut fabric = Router::open(network.namespace(&Place::Fabric)?)?;
        let mut nodes = BTreeMap::new();
        for node in topology.snapshot.nodes.values() {
            let addresses: Vec<IpAddr> = node.addresses.iter().copied().collect();
            let place = Place::Node(node.name.clone());
            let (router, host) =
                network.attach(&mut fabric, &place, "h", "up", &addresses, &Addresses::default())?;
            let own = addresses.iter().copied().collect();
            for pod in topology.pods_on(&node.name) {
                for address in pod.addresses.iter() {
                    let gateway = match Family::of(address) {
                        Family::Ipv4 => own_v4(&own),
                        Family::Ipv6 => Some(HOST_V6),
                    };
                    fabric
                        .netlink
                        .add_route(&route(address, gateway, &router, None))?;
                }
            }
            nodes.insert(
                node.name.clone(),
                (
                    Router {
                        netlink: host,
                        cables: 0,
                    },
                    own,
                ),
            );
            progress.advance(1);
        }
        for (name, (router, own)) in &mut nodes {
            for pod in topology.pods_on(name) {
                let addresses: Vec<IpAddr> = pod.addresses.iter().collect();
                network.attach(router, &pod.place, "p", "eth0", &addresses, own)?;
                progress.advance(1);
            }
        }
        for host in &topology.hosts {
            if let Place::External(address) = host.place {
                network.attach(
                    &mut fabric,
                    &host.place,
                    "h",
                    "eth0",
                    &[address],
                    &Addresses::default(),
                )?;
                progress.advance(1);
            }
        }
        Ok(network)
    }

    /// The namespace of `place`.
    ///
    /// # Errors
    /// [`Error::NoSuchPlace`].
    pub fn namespace(&self, place: &Place) -> Result<&NetworkNamespace, Error> {
        self.namespaces
            .get(place)
            .ok_or_else(|| Error::NoSuchPlace(Box::new(place.clone())))
    }

    /// Every namespace there is.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.namespaces.keys()
    }

    /// How many cables there are.
    pub fn cables(&self) -> usize {
        self.cables
    }

    fn create(&mut self, place: Place) -> Result<(), Error> {
        let namespace = NetworkNamespace::create()?;
        namespace.set(&SETTINGS)?;
        if matches!(place, Place::Fabric | Place::Node(_)) {
            namespace.set(&ROUTER_SETTINGS)?;
        }
        Netlink::open(&namespace)?.set_up("lo")?;
        self.namespaces.insert(place, namespace);
        Ok(())
    }

    /// Lays a cable from `router` to `place`, gives `place` its addresses and both ends their routes. `own` is what
    /// the router itself sends from. Returns the name of the router's end, and the netlink of `place`.
    fn attach(
        &mut self,
        router: &mut Router,
        place: &Place,
        prefix: &str,
        interface: &str,
        addresses: &[IpAddr],
        own: &Addresses,
    ) -> Result<(String, Netlink), Error> {
        let namespace = self.namespace(place)?;
        router.cables += 1;
        let end = format!("{prefix}{}", router.cables);
        router.netlink.create_cable(&end, interface, namespace)?;
        router.netlink.add_address(&end, GATEWAY_V4, 32)?;
        router.netlink.add_address(&end, GATEWAY_V6, 64)?;
        router.netlink.set_up(&end)?;

        let mut host = Netlink::open(namespace)?;
        host.add_address(interface, HOST_V6, 64)?;
        for &address in addresses {
            host.add_address(interface, address, if address.is_ipv4() { 32 } else { 128 })?;
        }
        host.set_up(interface)?;
        for family in Family::BOTH {
            let source = addresses
                .iter()
                .copied()
                .find(|address| Family::of(*address) == family);
            if source.is_some() {
                host.add_route(&default_route(family, interface, source))?;
            }
        }
        for &address in addresses {
            let source = own.of(Family::of(address));
            router.netlink.add_route(&route(address, None, &end, source))?;
        }
        self.cables += 1;
        Ok((end, host))
    }
}

/// A namespace that forwards, and how many cables it has.
struct Router {
    netlink: Netlink,
    cables: usize,
}

impl Router {
    fn open(namespace: &NetworkNamespace) -> Result<Self, Error> {
        Ok(Self {
            netlink: Netlink::open(namespace)?,
            cables: 0,
        })
    }
}

fn own_v4(own: &Addresses) -> Option<IpAddr> {
    own.of(Family::Ipv4)
}

fn route(to: IpAddr, gateway: Option<IpAddr>, interface: &str, source: Option<IpAddr>) -> Route {
    Route {
        destination: (to, if to.is_ipv4() { 32 } else { 128 }),
        gateway,
        interface: interface.to_owned(),
        source,
    }
}

fn default_route(family: Family, interface: &str, source: Option<IpAddr>) -> Route {
    let (any, gateway) = match family {
        Family::Ipv4 => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), GATEWAY_V4),
        Family::Ipv6 => (IpAddr::V6(Ipv6Addr::UNSPECIFIED), GATEWAY_V6),
    };
    Route {
        destination: (any, 0),
        gateway: Some(gateway),
        interface: interface.to_owned(),
        source,
    }
}
