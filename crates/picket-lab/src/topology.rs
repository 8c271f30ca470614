//! What the lab will build, planned from a snapshot: nodes, hosts and their addresses. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use picket_cluster::{Addresses, Endpoint, Node, Snapshot};
use picket_net::Family;
use picket_policy::{Labels, ObjectRef};
use smol_str::{SmolStr, format_smolstr};

use crate::external;

/// Where lab nodes get addresses that the snapshot does not give: IPv4 from 198.19.255.0/24 and, with more nodes than
/// that holds, the networks before it.
const NODE_V4: u32 = 0xc613_ff00;
/// The same for IPv6: 2001:2:0:ffff::/64.
const NODE_V6: u128 = 0x2001_0002_0000_ffff_0000_0000_0000_0000;

/// A network namespace of the lab.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The router between nodes and external hosts.
    Fabric,
    /// A node; hostNetwork pods live here too.
    Node(SmolStr),
    /// A pod.
    Pod(ObjectRef),
    /// A host outside the cluster, by its address.
    External(IpAddr),
}

impl fmt::Display for Place {
    /// `fabric`, `node/NAME`, `NAMESPACE/NAME` of a pod, or an address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fabric => f.write_str("fabric"),
            Self::Node(name) => write!(f, "node/{name}"),
            Self::Pod(object) if object.kind == "Pod" => write!(f, "{}/{}", object.namespace, object.name),
            Self::Pod(object) => write!(f, "{}/{}/{}", object.namespace, object.kind, object.name),
            Self::External(address) => write!(f, "{address}"),
        }
    }
}

/// What a host stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HostKind {
    /// A pod.
    Pod,
    /// A workload that stands for its pods; the lab builds one of them.
    Workload,
    /// A node.
    Node,
    /// An address outside the cluster.
    External,
}

/// Something that sends and answers probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// What it stands for.
    pub kind: HostKind,
    /// Its name, unique in the lab: `namespace/name`, `namespace/Kind/name`, `node/name`, or an address.
    pub id: String,
    /// The namespace it is in.
    pub place: Place,
    /// The addresses it sends from and answers at.
    pub addresses: Addresses,
    /// What policies know it as; a node's address is that of `addresses`.
    object: Endpoint,
}

impl Host {
    /// What policies know it as when it uses `family`; `None` when it has no such address.
    pub fn endpoint(&self, family: Family) -> Option<Endpoint> {
        let address = self.addresses.of(family)?;
        Some(match &self.object {
            Endpoint::Node { name, .. } => Endpoint::Node {
                name: name.clone(),
                address,
            },
            Endpoint::External(_) => Endpoint::External(address),
            pod @ Endpoint::Pod(_) => pod.clone(),
        })
    }
}

/// A lab that has been planned and not built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The snapshot as the lab has it: every live pod is on a node, every node exists and has an address of each
    /// family in use. Verdicts and rulesets are those of this snapshot.
    pub snapshot: Snapshot,
    /// Everything that is probed, ordered by kind and id.
    pub hosts: Vec<Host>,
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
    /// `outside` that belong to nothing in the cluster become external hosts, besides those that policies call for.
    ///
    /// # Errors
    /// See [`TopologyError`].
    pub fn plan(
        snapshot: &Snapshot,
        spread: usize,
        outside: &BTreeSet<IpAddr>,
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
        let mut hosts = cluster_hosts(&snapshot);
        let mut addresses = external::representatives(&snapshot);
        addresses.extend(outside);
        for host in &hosts {
            addresses.retain(|address| !host.addresses.iter().any(|own| own == *address));
        }
        hosts.extend(addresses.into_iter().map(|address| Host {
            kind: HostKind::External,
            id: address.to_string(),
            place: Place::External(address),
            addresses: [address].into_iter().collect(),
            object: Endpoint::External(address),
        }));
        check_addresses(&hosts)?;
        hosts.sort_by(|a, b| (a.kind, &a.id).cmp(&(b.kind, &b.id)));
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
        outside: &BTreeSet<IpAddr>,
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

    /// Where the cable of `place` leads: pods hang on their node, all else on the fabric, the fabric on nothing.
    pub fn router_of(&self, place: &Place) -> Option<Place> {
        match place {
            Place::Fabric => None,
            Place::Node(_) | Place::External(_) => Some(Place::Fabric),
            Place::Pod(object) => {
                let node = self.snapshot.pods.get(object)?.node.clone()?;
                Some(Place::Node(node))
            }
        }
    }

    /// Every address of `place`, ascending.
    pub fn addresses_of(&self, place: &Place) -> Vec<IpAddr> {
        match place {
            Place::Fabric => Vec::new(),
            Place::External(address) => vec![*address],
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

    /// Every namespace that has to be built: the fabric first, then nodes, pods and external hosts.
    pub fn places(&self) -> BTreeSet<Place> {
        let hosts = self.hosts.iter().map(|host| host.place.clone());
        let nodes = self.snapshot.nodes.keys().cloned().map(Place::Node);
        std::iter::once(Place::Fabric).chain(nodes).chain(hosts).collect()
    }
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
    let mut owners: BTreeMap<IpAddr, &Host> = BTreeMap::new();
    for host in hosts {
        for address in host.addresses.iter() {
            if external::unusable().contains(address) {
                return Err(TopologyError::UnusableAddress {
                    address,
                    host: host.id.clone(),
                });
            }
            match owners.insert(address, host) {
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
