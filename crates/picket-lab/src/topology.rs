//! What the lab will build, planned from a snapshot: nodes, hosts and their addresses. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use picket_cluster::{Addresses, Attachment, Endpoint, Node, Snapshot};
use picket_net::Family;
use picket_policy::{Labels, NetworkName};
use smol_str::{SmolStr, format_smolstr};

use crate::attached::{attached_hosts, check_interfaces, wire};
use crate::{Host, HostKind, Place, external};

/// Where lab nodes get addresses that the snapshot does not give: IPv4 from 198.19.255.0/24 and, with more nodes than
/// that holds, the networks before it.
const NODE_V4: u32 = 0xc613_ff00;
/// The same for IPv6: 2001:2:0:ffff::/64.
const NODE_V6: u128 = 0x2001_0002_0000_ffff_0000_0000_0000_0000;

/// The interface of pods on the cluster network, and of external hosts.
pub(crate) const CLUSTER_INTERFACE: SmolStr = SmolStr::new_static("eth0");
/// The interface of nodes on the fabric.
const UPLINK: SmolStr = SmolStr::new_static("up");

/// A lab that has been planned and not built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The snapshot as the lab has it: every live pod is on a node, every node exists and has an address of each
    /// family in use. Verdicts and rulesets are those of this snapshot.
    pub snapshot: Snapshot,
    /// Everything that is probed, ordered by network (the cluster network first), kind and id.
    pub hosts: Vec<Host>,
}

/// An interface of a place, and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cable {
    /// The name of the interface.
    pub interface: SmolStr,
    /// The router at the other end.
    pub router: Place,
    /// The addresses of the interface, ascending.
    pub addresses: Vec<IpAddr>,
}

/// Why a snapshot cannot become a lab.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// There is nothing to build.
    #[error("there are no pods to build: give manifests with pods, or with workloads that stand for them")]
    NoPods,
    /// Two things claim one address.
    #[error("`{first}` and `{second}` both have the address {address}; give one of them another")]
    SharedAddress {
        /// The address.
        address: IpAddr,
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// An interface that the pod cannot have besides the others.
    #[error("`{pod}` cannot have the interface `{interface}` on network {network}: {problem}")]
    Interface {
        /// The pod.
        pod: String,
        /// The interface.
        interface: SmolStr,
        /// The network.
        network: NetworkName,
        /// Why not.
        problem: &'static str,
    },
    /// An address that no interface can have.
    #[error("`{host}` has the address {address}, which no interface can have")]
    UnusableAddress {
        /// The address.
        address: IpAddr,
        /// Who has it.
        host: String,
    },
}

impl Topology {
    /// Plans a lab of `snapshot`. Pods without a node are spread over `spread` lab nodes (at least one). Addresses of
    /// `outside` that belong to nothing on their network become external hosts of it, besides those that policies call
    /// for.
    ///
    /// # Errors
    /// See [`TopologyError`].
    pub fn plan(
        snapshot: &Snapshot,
        spread: usize,
        outside: &BTreeSet<(Option<NetworkName>, IpAddr)>,
    ) -> Result<Self, TopologyError> {
        let mut snapshot = snapshot.clone();
        snapshot
            .pods
            .retain(|_, pod| !pod.finished && (pod.host_network || !pod.addresses.is_empty()));
        if snapshot.pods.is_empty() {
            return Err(TopologyError::NoPods);
        }
        place_pods(&mut snapshot, spread.max(1));
        address_nodes(&mut snapshot);
        check_interfaces(&snapshot)?;
        let networks = snapshot.attached_networks().into_keys();
        let wires: BTreeSet<_> = networks.map(|network| wire(&snapshot, network)).collect();
        let outside: BTreeSet<_> = outside
            .iter()
            .map(|(on, address)| (on.as_ref().map(|network| wire(&snapshot, network)), *address))
            .collect();
        let mut hosts = with_external(cluster_hosts(&snapshot), &snapshot, None, &outside);
        for network in &wires {
            let on = snapshot.on(network);
            let attached = attached_hosts(&on, network);
            hosts.extend(with_external(attached, &on, Some(network), &outside));
        }
        check_addresses(&hosts)?;
        hosts.sort_by(|a, b| (&a.network, a.kind, &a.id).cmp(&(&b.network, b.kind, &b.id)));
        Ok(Self { snapshot, hosts })
    }

    /// Plans a lab of `snapshot` in which every pod and node that this one has too stays where it is.
    ///
    /// # Errors
    /// See [`TopologyError`].
    pub fn replan(
        &self,
        snapshot: &Snapshot,
        spread: usize,
        outside: &BTreeSet<(Option<NetworkName>, IpAddr)>,
    ) -> Result<Self, TopologyError> {
        let mut snapshot = snapshot.clone();
        for (object, pod) in &mut snapshot.pods {
            if let (None, Some(known)) = (&pod.node, self.snapshot.pods.get(object)) {
                Arc::make_mut(pod).node.clone_from(&known.node);
            }
        }
        for (name, known) in &self.snapshot.nodes {
            let needed = snapshot.pods.values().any(|pod| pod.node.as_ref() == Some(name));
            match snapshot.nodes.get_mut(name) {
                Some(node) if node.addresses.is_empty() => node.addresses.clone_from(&known.addresses),
                None if needed => {
                    snapshot.nodes.insert(name.clone(), known.clone());
                }
                _ => {}
            }
        }
        Self::plan(&snapshot, spread, outside)
    }

    /// The snapshot as a network sees it.
    pub fn on(&self, network: Option<&NetworkName>) -> Snapshot {
        match network {
            Some(network) => self.snapshot.on(network),
            None => self.snapshot.clone(),
        }
    }

    /// The network that the wire of this one is called by, which is that of its hosts: the first of those on it.
    pub fn wire(&self, network: &NetworkName) -> NetworkName {
        wire(&self.snapshot, network)
    }

    /// The networks that hosts are on, the cluster network (`None`) first; of those on one wire the first.
    pub fn networks(&self) -> BTreeSet<Option<NetworkName>> {
        self.hosts.iter().map(|host| host.network.clone()).collect()
    }

    /// Every cable of `place`, the one to its node or to the fabric first.
    pub fn cables_of(&self, place: &Place) -> Vec<Cable> {
        let main = self.router_of(place).map(|router| Cable {
            interface: match place {
                Place::Node(_) => UPLINK,
                _ => CLUSTER_INTERFACE,
            },
            router,
            addresses: self.addresses_of(place),
        });
        let attachments = self.attachments_of(place).into_iter().map(|attachment| Cable {
            interface: attachment.interface.clone(),
            router: Place::Network(self.wire(&attachment.network)),
            addresses: attachment.addresses.iter().collect(),
        });
        main.into_iter().chain(attachments).collect()
    }

    /// The interfaces of a pod on secondary networks, in the order in which they were added to it; of every other place
    /// none.
    pub fn attachments_of(&self, place: &Place) -> Vec<&Attachment> {
        let Place::Pod(object) = place else {
            return Vec::new();
        };
        let pod = self.snapshot.pods.get(object);
        let attachments = pod.into_iter().flat_map(|pod| &pod.attachments);
        attachments
            .filter(|attachment| !attachment.addresses.is_empty())
            .collect()
    }

    /// Where the first cable of `place` leads: pods hang on their node, external hosts of a secondary network on its
    /// router, all else on the fabric, routers that are no nodes on nothing.
    pub fn router_of(&self, place: &Place) -> Option<Place> {
        match place {
            Place::Fabric | Place::Network(_) => None,
            Place::Node(_) | Place::External(None, _) => Some(Place::Fabric),
            Place::External(Some(network), _) => Some(Place::Network(network.clone())),
            Place::Pod(object) => {
                let node = self.snapshot.pods.get(object)?.node.clone()?;
                Some(Place::Node(node))
            }
        }
    }

    /// Every address of `place` but those on interfaces of secondary networks, ascending.
    pub fn addresses_of(&self, place: &Place) -> Vec<IpAddr> {
        match place {
            Place::Fabric | Place::Network(_) => Vec::new(),
            Place::External(_, address) => vec![*address],
            Place::Node(name) => self
                .snapshot
                .nodes
                .get(name)
                .map_or(Vec::new(), |node| node.addresses.iter().copied().collect()),
            Place::Pod(object) => self
                .snapshot
                .pods
                .get(object)
                .map_or(Vec::new(), |pod| pod.addresses.iter().collect()),
        }
    }

    /// The place whose name [`Place`] writes as `name`.
    pub fn place(&self, name: &str) -> Option<Place> {
        self.places().into_iter().find(|place| place.to_string() == name)
    }

    /// Every namespace that has to be built: the fabric first, then the routers of secondary networks, nodes, pods and
    /// external hosts.
    pub fn places(&self) -> BTreeSet<Place> {
        let hosts = self.hosts.iter().map(|host| host.place.clone());
        let nodes = self.snapshot.nodes.keys().cloned().map(Place::Node);
        let networks = self.hosts.iter().filter_map(|host| host.network.clone());
        std::iter::once(Place::Fabric)
            .chain(networks.map(Place::Network))
            .chain(nodes)
            .chain(hosts)
            .collect()
    }
}

/// `hosts` of a network that `snapshot` shows, and the hosts outside the cluster on it.
fn with_external(
    mut hosts: Vec<Host>,
    snapshot: &Snapshot,
    network: Option<&NetworkName>,
    outside: &BTreeSet<(Option<NetworkName>, IpAddr)>,
) -> Vec<Host> {
    let mut addresses = external::representatives(snapshot);
    let asked = outside.iter().filter(|(on, _)| on.as_ref() == network);
    addresses.extend(asked.map(|(_, address)| *address));
    for host in &hosts {
        addresses.retain(|address| !host.addresses.iter().any(|own| own == *address));
    }
    hosts.extend(
        addresses
            .into_iter()
            .map(|address| Host::external(network, address)),
    );
    hosts
}

/// Gives every pod a node, and every node that pods name an object.
fn place_pods(snapshot: &mut Snapshot, spread: usize) {
    let names: Vec<SmolStr> = (1..)
        .map(|number| format_smolstr!("lab-{number}"))
        .filter(|name| !snapshot.nodes.contains_key(name))
        .take(spread)
        .collect();
    let mut next = names.iter().cycle();
    for pod in snapshot.pods.values_mut().filter(|pod| pod.node.is_none()) {
        Arc::make_mut(pod).node = next.next().cloned();
    }
    for pod in snapshot.pods.values() {
        if let Some(name) = &pod.node {
            let node = snapshot.nodes.entry(name.clone()).or_insert_with(|| Node {
                name: name.clone(),
                labels: Labels::default(),
                addresses: BTreeSet::new(),
                pod_cidrs: Vec::new(),
            });
            if pod.host_network && !pod.synthetic {
                node.addresses.extend(pod.addresses.iter());
            }
        }
    }
}

/// Gives every node an address of each family in use, and hostNetwork pods their node's.
fn address_nodes(snapshot: &mut Snapshot) {
    let of_pods = snapshot.pods.values().flat_map(|pod| pod.addresses.iter());
    let of_nodes = snapshot
        .nodes
        .values()
        .flat_map(|node| node.addresses.iter().copied());
    let mut taken: BTreeSet<IpAddr> = of_pods.chain(of_nodes).collect();
    let mut families: BTreeSet<Family> = taken.iter().map(|address| Family::of(*address)).collect();
    if families.is_empty() {
        families.extend(Family::BOTH);
    }
    for node in snapshot.nodes.values_mut() {
        for &family in &families {
            if node
                .addresses
                .iter()
                .any(|address| Family::of(*address) == family)
            {
                continue;
            }
            let mut free = lab_node_addresses(family).filter(|address| taken.insert(*address));
            node.addresses.extend(free.next());
        }
    }
    for pod in snapshot.pods.values_mut().filter(|pod| pod.host_network) {
        let node = pod.node.as_ref().and_then(|name| snapshot.nodes.get(name));
        let own = |address: IpAddr| node.is_some_and(|node| node.addresses.contains(&address));
        if pod.addresses.is_empty() || !pod.addresses.iter().all(own) {
            let addresses = node
                .into_iter()
                .flat_map(|node| node.addresses.iter().copied())
                .collect();
            Arc::make_mut(pod).addresses = addresses;
        }
    }
}

fn lab_node_addresses(family: Family) -> Box<dyn Iterator<Item = IpAddr>> {
    match family {
        // Host numbers 1 to 254 of each /24, downwards from the last.
        Family::Ipv4 => Box::new(
            (0..256u32)
                .flat_map(|network| (1..255u32).map(move |host| NODE_V4 - (network << 8) + host))
                .map(|bits| Ipv4Addr::from_bits(bits).into()),
        ),
        Family::Ipv6 => {
            Box::new((1..u128::from(u32::MAX)).map(|host| Ipv6Addr::from_bits(NODE_V6 + host).into()))
        }
    }
}

fn cluster_hosts(snapshot: &Snapshot) -> Vec<Host> {
    let pods = snapshot.pods.values().map(|pod| Host {
        kind: if pod.is_workload() {
            HostKind::Workload
        } else {
            HostKind::Pod
        },
        id: pod.id(),
        network: None,
        interface: (!pod.host_network).then_some(CLUSTER_INTERFACE),
        place: match (&pod.node, pod.host_network) {
            (Some(node), true) => Place::Node(node.clone()),
            _ => Place::Pod(pod.object.clone()),
        },
        addresses: pod.addresses,
        object: Endpoint::Pod(pod.object.clone()),
    });
    let nodes = snapshot.nodes.values().filter_map(|node| {
        let addresses: Addresses = node.addresses.iter().copied().collect();
        let address = addresses.iter().next()?;
        Some(Host {
            kind: HostKind::Node,
            id: format!("node/{}", node.name),
            network: None,
            interface: None,
            place: Place::Node(node.name.clone()),
            addresses,
            object: Endpoint::Node {
                name: node.name.clone(),
                address,
            },
        })
    });
    pods.chain(nodes).collect()
}

fn check_addresses(hosts: &[Host]) -> Result<(), TopologyError> {
    let mut owners: BTreeMap<(&Option<NetworkName>, IpAddr), &Host> = BTreeMap::new();
    for host in hosts {
        for address in host.addresses.iter() {
            if external::unusable().contains(address) {
                return Err(TopologyError::UnusableAddress {
                    address,
                    host: host.id.clone(),
                });
            }
            match owners.insert((&host.network, address), host) {
                Some(other) if other.place != host.place => {
                    return Err(TopologyError::SharedAddress {
                        address,
                        first: other.id.clone(),
                        second: host.id.clone(),
                    });
                }
                _ => {}
            }
        }
    }
    Ok(())
}
