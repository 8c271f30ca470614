//! What people call the endpoints of a cluster.

mod nearest;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::{Interface, Pod, Snapshot};
use picket_net::{Family, parse_address};
use picket_policy::ObjectRef;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

pub use nearest::nearest;

/// One end of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Party {
    /// A pod or workload.
    Pod(Arc<Pod>),
    /// A node, by all of its addresses that are asked about, ascending. What is said of it holds for each of them.
    Node {
        /// The name.
        name: SmolStr,
        /// The addresses.
        addresses: Vec<IpAddr>,
    },
    /// An address of no pod and no node.
    External(IpAddr),
}

impl Party {
    /// What the answer calls it: `namespace/name`, `namespace/Kind/name`, the node's name, or the address.
    pub fn id(&self) -> String {
        match self {
            Self::Pod(pod) => pod.id(),
            Self::Node { name, .. } => name.to_string(),
            Self::External(address) => address.to_string(),
        }
    }

    /// The interface that it is, on a secondary network.
    pub fn interface(&self) -> Option<&Interface> {
        match self {
            Self::Pod(pod) => pod.interface.as_deref(),
            Self::Node { .. } | Self::External(_) => None,
        }
    }

    /// Its addresses of one family.
    pub fn addresses(&self, family: Family) -> Vec<IpAddr> {
        match self {
            Self::Pod(pod) => pod.addresses.of(family).into_iter().collect(),
            Self::Node { addresses, .. } => {
                let of_family = addresses.iter().filter(|&&address| Family::of(address) == family);
                of_family.copied().collect()
            }
            Self::External(address) => Some(*address)
                .filter(|&address| Family::of(address) == family)
                .into_iter()
                .collect(),
        }
    }
}

/// Why a text names no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownParty {
    /// Nothing is called so.
    #[error("nothing in the input is called `{asked}`{}", suggestion(.nearest, .closest_is_likely))]
    Nothing {
        /// What was asked for.
        asked: String,
        /// Names that exist, the nearest first.
        nearest: Vec<String>,
        /// Whether the first of them is probably what was meant.
        closest_is_likely: bool,
    },
    /// The pod has run to its end.
    #[error(
        "pod `{asked}` has finished (its `status.phase` is Succeeded or Failed): for policies it no longer exists"
    )]
    Finished {
        /// What was asked for.
        asked: String,
    },
    /// The workload's pods are there themselves.
    #[error(
        "the pods of `{asked}` are in the input themselves: ask about one of them, such as {}",
        quoted(.pods)
    )]
    HasPods {
        /// What was asked for.
        asked: String,
        /// Some of its pods.
        pods: Vec<String>,
    },
    /// The address is a Service's.
    #[error(
        "`{address}` is an address of service `{service}`: policies are judged after service translation, so ask \
         about a pod behind it and the pod's own port"
    )]
    Service {
        /// The address.
        address: IpAddr,
        /// The service, as `namespace/name`.
        service: String,
    },
    /// Not written as any endpoint can be.
    #[error(
        "`{asked}` is no endpoint: write `namespace/pod`, `namespace/Kind/name` for a workload, the name of a node, or \
         an address{}",
        suggestion(.nearest, &true)
    )]
    Malformed {
        /// What was asked for.
        asked: String,
        /// Names that exist, the nearest first.
        nearest: Vec<String>,
    },
}

fn quoted(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

fn suggestion(nearest: &[String], likely: &bool) -> String {
    match nearest {
        [] => String::new(),
        names if *likely => format!("; did you mean {}?", quoted(names).replace(", ", " or ")),
        names => format!("; there are, for example, {}", quoted(names)),
    }
}

/// Everything that can be asked about, by name and by address.
#[derive(Clone, Debug)]
pub struct Directory<'a> {
    snapshot: &'a Snapshot,
    by_id: FxHashMap<String, &'a Arc<Pod>>,
    by_address: FxHashMap<IpAddr, Holder<'a>>,
    services: FxHashMap<IpAddr, &'a ObjectRef>,
}

#[derive(Clone, Copy, Debug)]
enum Holder<'a> {
    Node(&'a SmolStr),
    Pod(&'a Arc<Pod>),
}

impl<'a> Directory<'a> {
    /// The directory of a snapshot.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let mut by_address = FxHashMap::default();
        let services = snapshot.services.values();
        // Where several claim an address, a node comes before pods, and the first pod before others.
        for node in snapshot.nodes.values() {
            for &address in &node.addresses {
                by_address.entry(address).or_insert(Holder::Node(&node.name));
            }
        }
        for pod in snapshot.live_pods() {
            for address in pod.addresses.iter() {
                by_address.entry(address).or_insert(Holder::Pod(pod));
            }
        }
        Self {
            snapshot,
            by_id: snapshot.pods.values().map(|pod| (pod.id(), pod)).collect(),
            by_address,
            services: services
                .flat_map(|service| {
                    service
                        .addresses
                        .iter()
                        .map(move |&address| (address, &service.object))
                })
                .collect(),
        }
    }

    /// The snapshot it was made of.
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// What `text` names: `namespace/pod`, `namespace/Kind/name`, an address, a node as `name` or `node/name`.
    ///
    /// The address of a pod or node is that pod or node; of the node's addresses of that family only this one then
    /// counts. A pod `name` in a namespace `node` comes before the node.
    ///
    /// # Errors
    /// When it names nothing that exists, or something that no policy question can be about.
    pub fn find(&self, text: &str) -> Result<Party, UnknownParty> {
        let asked = text.trim();
        if let Some(pod) = self.by_id.get(asked) {
            return Self::live(pod, asked);
        }
        if let Some(address) = parse_address(asked) {
            return self.at(address);
        }
        let parts: Vec<_> = asked.split('/').collect();
        match parts.as_slice() {
            [name] | ["node", name] if self.snapshot.nodes.contains_key(*name) => {
                let addresses = self.snapshot.nodes.get(*name).map(|node| &node.addresses);
                Ok(Party::Node {
                    name: SmolStr::new(name),
                    addresses: addresses.into_iter().flatten().copied().collect(),
                })
            }
            [_, _] => Err(self.nothing(asked)),
            [namespace, "Pod", name] => match self.by_id.get(&format!("{namespace}/{name}")) {
                Some(pod) => Self::live(pod, asked),
                None => Err(self.nothing(asked)),
            },
            [namespace, kind, name] => Err(self.has_pods(asked, namespace, kind, name)),
            _ => Err(UnknownParty::Malformed {
                asked: asked.to_owned(),
                nearest: nearest(asked, self.names(), 3).0,
            }),
        }
    }

    fn live(pod: &Arc<Pod>, asked: &str) -> Result<Party, UnknownParty> {
        if pod.finished {
            return Err(UnknownParty::Finished {
                asked: asked.to_owned(),
            });
        }
        Ok(Party::Pod(Arc::clone(pod)))
    }

    fn at(&self, address: IpAddr) -> Result<Party, UnknownParty> {
        match self.by_address.get(&address) {
            Some(Holder::Pod(pod)) => Ok(Party::Pod(Arc::clone(pod))),
            Some(Holder::Node(name)) => {
                let node = self.snapshot.nodes.get(*name).into_iter();
                let family = Family::of(address);
                let counts = |candidate: &IpAddr| *candidate == address || Family::of(*candidate) != family;
                Ok(Party::Node {
                    name: (*name).clone(),
                    addresses: node
                        .flat_map(|node| node.addresses.iter().copied().filter(counts))
                        .collect(),
                })
            }
            None => match self.services.get(&address) {
                Some(service) => Err(UnknownParty::Service {
                    address,
                    service: format!("{}/{}", service.namespace, service.name),
                }),
                None => Ok(Party::External(address)),
            },
        }
    }

    fn has_pods(&self, asked: &str, namespace: &str, kind: &str, name: &str) -> UnknownParty {
        let owned = self.snapshot.live_pods().filter(|pod| {
            pod.object.namespace == namespace
                && pod
                    .owner
                    .as_ref()
                    .is_some_and(|owner| owner.kind == kind && owner.name == name)
        });
        let pods: Vec<_> = owned.take(3).map(|pod| pod.id()).collect();
        if pods.is_empty() {
            return self.nothing(asked);
        }
        UnknownParty::HasPods {
            asked: asked.to_owned(),
            pods,
        }
    }

    fn nothing(&self, asked: &str) -> UnknownParty {
        let (nearest, closest_is_likely) = nearest(asked, self.names(), 3);
        UnknownParty::Nothing {
            asked: asked.to_owned(),
            nearest,
            closest_is_likely,
        }
    }

    /// Everything that can be asked about by name, sorted within pods and within nodes.
    fn names(&self) -> impl Iterator<Item = String> + '_ {
        let pods = self.snapshot.live_pods().map(|pod| pod.id());
        pods.chain(self.snapshot.nodes.keys().map(SmolStr::to_string))
    }
}
