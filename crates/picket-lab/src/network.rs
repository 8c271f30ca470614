//! The lab's network, built of real namespaces.
//!
//! Every pod has one cable to its node, every node and external host one to the fabric. All routes are to single
//! addresses and all next hops are link-local, so arbitrary addresses work side by side:
//!
//! ```text
//! pod eth0 ─── p1 node up ─── h1 fabric h9 ─── eth0 external
//!     net1 ─── h1 network h2 ─── net1 another pod
//! ```
//!
//! A secondary network is a router, which it shares with the others on its wire and to which every interface on them has a
//! cable. Networks on different wires may use the same addresses, so each interface of a pod has its own routing table: see
//! [`crate::separation`].

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use picket_linux::{CableEnd, Netlink, NetworkNamespace, Route, RouteTable};
use picket_net::Family;

use crate::progress::Progress;
use crate::separation::{separate, table_of};
use crate::{Cable, Error, Place, Topology};

/// What the router's end of every cable is called on the wire. A node is both a router and a host of the fabric, and
/// answers no ARP request that comes from one of its own addresses: so the fabric has another one.
const NODE_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 1, 1));
const FABRIC_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 2, 1));
const GATEWAY_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
/// Above every index that the kernel gives by itself, so that the two ends of a cable never have the same.
const FIRST_INDEX: u32 = 100;
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
    routers: BTreeMap<Place, Router>,
    cables: BTreeMap<Place, Vec<Laid>>,
}

/// A namespace that forwards.
#[derive(Debug)]
struct Router {
    netlink: Netlink,
    /// The number of the next cable; numbers are not used again.
    next: u32,
}

/// A cable that has been laid.
#[derive(Debug)]
struct Laid {
    cable: Cable,
    /// The name of the router's end.
    end: String,
}

impl Network {
    /// Builds what `topology` plans.
    ///
    /// # Errors
    /// [`Error::Kernel`] with what the kernel refused; nothing is left behind.
    pub fn build(topology: &Topology, progress: &Progress) -> Result<Self, Error> {
        let mut network = Self {
            namespaces: BTreeMap::new(),
            routers: BTreeMap::new(),
            cables: BTreeMap::new(),
        };
        network.change(topology, progress)?;
        Ok(network)
    }

    /// Builds what `topology` plans and is missing, and removes what it does not plan. Returns what is new, which has
    /// no ruleset yet.
    ///
    /// # Errors
    /// [`Error::Kernel`] with what the kernel refused; the network is then incomplete.
    pub fn change(&mut self, topology: &Topology, progress: &Progress) -> Result<Vec<Place>, Error> {
        let places = topology.places();
        progress.begin("building namespaces", places.len());
        let kept = |place: &Place| {
            let laid = self.cables.get(place).into_iter().flatten();
            topology.cables_of(place).iter().eq(laid.map(|laid| &laid.cable))
        };
        let gone: Vec<Place> = self
            .namespaces
            .keys()
            .filter(|place| !places.contains(*place) || !kept(place))
            .cloned()
            .collect();
        for place in &gone {
            self.remove(place)?;
        }
        let mut new = Vec::new();
        for place in places {
            if !self.namespaces.contains_key(&place) {
                self.create(&place)?;
                for (position, cable) in topology.cables_of(&place).into_iter().enumerate() {
                    self.attach(topology, &place, cable, table_of(position))?;
                }
                self.separate(topology, &place)?;
                new.push(place);
            }
            progress.advance(1);
        }
        Ok(new)
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
        self.cables.values().map(Vec::len).sum()
    }

    fn create(&mut self, place: &Place) -> Result<(), Error> {
        let namespace = NetworkNamespace::create()?;
        namespace.set(&SETTINGS)?;
        let mut netlink = Netlink::open(&namespace)?;
        netlink.set_up("lo")?;
        if matches!(place, Place::Fabric | Place::Network(_) | Place::Node(_)) {
            namespace.set(&ROUTER_SETTINGS)?;
            self.routers.insert(place.clone(), Router { netlink, next: 1 });
        }
        self.namespaces.insert(place.clone(), namespace);
        Ok(())
    }

    fn remove(&mut self, place: &Place) -> Result<(), Error> {
        for Laid { cable, end } in self.cables.remove(place).unwrap_or_default() {
            if let Some(router) = self.routers.get_mut(&cable.router) {
                router.netlink.delete(&end)?;
            }
        }
        self.routers.remove(place);
        self.namespaces.remove(place);
        // What hung on it is cut off with it.
        let hangs = |laid: &Vec<Laid>| laid.iter().any(|laid| laid.cable.router == *place);
        let orphans: Vec<Place> = self
            .cables
            .iter()
            .filter(|(_, laid)| hangs(laid))
            .map(|(place, _)| place.clone())
            .collect();
        orphans.iter().try_for_each(|orphan| self.remove(orphan))
    }

    /// Lays `cable` to `place`, gives `place` its addresses and both ends their routes, in `table` that of `place`.
    fn attach(
        &mut self,
        topology: &Topology,
        place: &Place,
        cable: Cable,
        table: RouteTable,
    ) -> Result<(), Error> {
        let at = cable.router.clone();
        let own = topology.addresses_of(&at);
        let no_such = |place: &Place| Error::NoSuchPlace(Box::new(place.clone()));
        let namespace = self.namespaces.get(place).ok_or_else(|| no_such(place))?;
        let router = self.routers.get_mut(&at).ok_or_else(|| no_such(&at))?;
        let (prefix, gateway) = match at {
            Place::Node(_) => ("p", NODE_V4),
            _ => ("h", FABRIC_V4),
        };
        let end = format!("{prefix}{}", router.next);
        router.next += 1;
        let index = FIRST_INDEX + router.next;
        let router = &mut router.netlink;
        router.create_cable(&end, index, &cable.interface, namespace)?;
        router.add_address(&end, gateway, 32)?;
        router.add_address(&end, GATEWAY_V6, 64)?;
        router.set_up(&end)?;
        // The kernel bounds how many neighbours all namespaces together may learn; these it need not learn.
        for address in cable.addresses.iter().copied().chain([HOST_V6]) {
            router.set_neighbour(&end, address, CableEnd::There(index))?;
        }
        for &address in &cable.addresses {
            let source = first_of(&own, Family::of(address));
            router.set_route(&route(address, None, &end, source))?;
        }
        let host = (namespace, table);
        connect(host, &cable, gateway, index)?;
        let addresses = cable.addresses.clone();
        let laid = Laid { cable, end };
        self.cables.entry(place.clone()).or_default().push(laid);
        if let Place::Node(_) = at {
            self.announce(&at, &own, &addresses)?;
        }
        Ok(())
    }

    /// Gives every interface of a pod on several networks its own routes.
    fn separate(&self, topology: &Topology, place: &Place) -> Result<(), Error> {
        if topology.attachments_of(place).is_empty() {
            return Ok(());
        }
        separate(self.namespace(place)?, &topology.cables_of(place))
    }

    /// Tells the fabric that pods with these addresses are behind `node`.
    fn announce(&mut self, node: &Place, own: &[IpAddr], addresses: &[IpAddr]) -> Result<(), Error> {
        let uplink = self.cables.get(node).and_then(|laid| laid.first());
        let Some(end) = uplink.map(|laid| laid.end.clone()) else {
            return Ok(());
        };
        let Some(fabric) = self.routers.get_mut(&Place::Fabric) else {
            return Ok(());
        };
        for &address in addresses {
            let gateway = match Family::of(address) {
                Family::Ipv4 => first_of(own, Family::Ipv4),
                Family::Ipv6 => Some(HOST_V6),
            };
            fabric.netlink.set_route(&route(address, gateway, &end, None))?;
        }
        Ok(())
    }
}

/// Sets up the host's end of `cable`, whose router has the address `gateway` and whose other end the number `index`.
fn connect(
    (namespace, table): (&NetworkNamespace, RouteTable),
    cable: &Cable,
    gateway: IpAddr,
    index: u32,
) -> Result<(), Error> {
    let interface = cable.interface.as_str();
    let mut host = Netlink::open(namespace)?;
    host.add_address(interface, HOST_V6, 64)?;
    for &address in &cable.addresses {
        host.add_address(interface, address, if address.is_ipv4() { 32 } else { 128 })?;
    }
    host.set_up(interface)?;
    for address in [gateway, GATEWAY_V6] {
        host.set_neighbour(interface, address, CableEnd::Here(index))?;
    }
    for family in Family::BOTH {
        let source = first_of(&cable.addresses, family);
        if source.is_some() {
            let route = default_route(family, gateway, interface, source);
            host.set_route(&Route { table, ..route })?;
        }
    }
    Ok(())
}

fn first_of(addresses: &[IpAddr], family: Family) -> Option<IpAddr> {
    addresses
        .iter()
        .copied()
        .find(|address| Family::of(*address) == family)
}

fn route(to: IpAddr, gateway: Option<IpAddr>, interface: &str, source: Option<IpAddr>) -> Route {
    Route {
        table: RouteTable::MAIN,
        destination: (to, if to.is_ipv4() { 32 } else { 128 }),
        gateway,
        interface: interface.to_owned(),
        source,
    }
}

fn default_route(family: Family, gateway_v4: IpAddr, interface: &str, source: Option<IpAddr>) -> Route {
    let (any, gateway) = match family {
        Family::Ipv4 => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), gateway_v4),
        Family::Ipv6 => (IpAddr::V6(Ipv6Addr::UNSPECIFIED), GATEWAY_V6),
    };
    Route {
        table: RouteTable::MAIN,
        destination: (any, 0),
        gateway: Some(gateway),
        interface: interface.to_owned(),
        source,
    }
}
