//! The endpoints of a map.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_cluster::{Pod, Snapshot};
use picket_engine::Program;
use picket_net::{AddressRange, AddressSet, Family};
use picket_policy::{Direction, ObjectRef};
use smol_str::SmolStr;

use super::class::{Behaviour, Class, Classes};
use super::{EndpointKind, MapEndpoint, Place};

/// An endpoint on its way into the map.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) endpoint: MapEndpoint,
    pub(crate) place: Place,
    /// The id of the top owner of a pod.
    pub(crate) owner: Option<String>,
    /// The pods that it is or stands for.
    pub(super) pods: Vec<ObjectRef>,
    pub(crate) addresses: AddressSet,
}

/// Pods, workloads and nodes.
pub(crate) fn of_cluster(snapshot: &Snapshot, program: &Program, classes: &mut Classes<'_>) -> Vec<Found> {
    let named = snapshot.live_pods().filter_map(|pod| pod.node.as_ref());
    let names: BTreeSet<_> = snapshot.nodes.keys().chain(named).collect();
    let numbers: BTreeMap<_, usize> = names.into_iter().zip(0..).collect();
    let number = |name: &SmolStr| numbers.get(name).copied();
    let pods = snapshot.live_pods().map(|pod| {
        let class = classes.intern(class_of_pod(pod, program));
        let kind = if pod.is_workload() {
            EndpointKind::Workload
        } else {
            EndpointKind::Pod
        };
        let owner = pod.owner.as_ref().filter(|_| !pod.is_workload());
        let (on, node) = if pod.host_network {
            (None, pod.node.as_ref().and_then(number))
        } else {
            (pod.node.as_ref().and_then(number), None)
        };
        Found {
            endpoint: MapEndpoint {
                id: pod.id(),
                kind,
                interface: pod.interface.as_ref().map(|interface| interface.name.clone()),
                addresses: pod.addresses.iter().map(|address| address.to_string()).collect(),
            },
            place: Place { class, on, node },
            owner: owner.map(|owner| format!("{}/{}/{}", pod.object.namespace, owner.kind, owner.name)),
            pods: vec![pod.object.clone()],
            addresses: pod.addresses.iter().collect(),
        }
    });
    let mut found: Vec<_> = pods.collect();
    for node in snapshot.nodes.values() {
        let identities = |family| {
            let own = node
                .addresses
                .iter()
                .filter(move |&&address| Family::of(address) == family);
            own.map(|&address| program.identity_of(address)).collect()
        };
        let class = classes.intern(Class {
            identities: Family::BOTH.map(identities),
            egress: None,
            ingress: None,
            external: false,
        });
        found.push(Found {
            endpoint: MapEndpoint {
                id: node.name.to_string(),
                kind: EndpointKind::Node,
                interface: None,
                addresses: node.addresses.iter().map(IpAddr::to_string).collect(),
            },
            place: Place {
                class,
                on: None,
                node: number(&node.name),
            },
            owner: None,
            pods: Vec::new(),
            addresses: node.addresses.iter().copied().collect(),
        });
    }
    found
}

/// The class of a pod, whatever stands for it in a map.
pub(super) fn class_of_pod(pod: &Pod, program: &Program) -> Class {
    let entry = program.pod(&pod.object).filter(|_| pod.is_managed());
    let identities = Family::BOTH.map(|family| {
        let identity = match &entry {
            Some(entry) => entry.identity(family),
            None => {
                let address = pod.addresses.of(family);
                address.map(|address| program.identity_by_address(pod, address))
            }
        };
        identity.into_iter().collect()
    });
    let subject = |direction| entry.as_ref().and_then(|entry| entry.subject(direction));
    Class {
        identities,
        egress: subject(Direction::Egress),
        ingress: subject(Direction::Ingress),
        external: false,
    }
}

/// The addresses of all live pods and nodes.
pub(crate) fn taken_addresses(snapshot: &Snapshot) -> AddressSet {
    let pods = snapshot.live_pods().flat_map(|pod| pod.addresses.iter());
    let nodes = snapshot
        .nodes
        .values()
        .flat_map(|node| node.addresses.iter().copied());
    pods.chain(nodes).collect()
}

/// The addresses that are not taken, one endpoint for each identity and family.
pub(crate) fn add_external(
    taken: &AddressSet,
    program: &Program,
    classes: &mut Classes<'_>,
    found: &mut Vec<Found>,
) {
    let identities: BTreeSet<_> = program
        .prefixes()
        .into_iter()
        .map(|(_, identity)| identity)
        .collect();
    for identity in identities {
        let region = program.region(identity).difference(taken);
        for family in Family::BOTH {
            let addresses = region.of_family(family);
            if addresses.is_empty() {
                continue;
            }
            let only = |candidate| {
                if candidate == family {
                    vec![identity]
                } else {
                    Vec::new()
                }
            };
            let class = classes.intern(Class {
                identities: Family::BOTH.map(only),
                egress: None,
                ingress: None,
                external: true,
            });
            found.push(external(class, addresses));
        }
    }
}

pub(crate) fn external(class: usize, addresses: AddressSet) -> Found {
    let ranges: Vec<_> = addresses.ranges().map(|range| range.to_string()).collect();
    Found {
        endpoint: MapEndpoint {
            id: ranges.first().cloned().unwrap_or_default(),
            kind: EndpointKind::External,
            interface: None,
            addresses: ranges,
        },
        place: Place {
            class,
            on: None,
            node: None,
        },
        owner: None,
        pods: Vec::new(),
        addresses,
    }
}

fn behaviour_of(found: &Found, behaviours: &[Behaviour]) -> Behaviour {
    behaviours.get(found.place.class).copied().unwrap_or_default()
}

/// Makes one endpoint of all external ones of a family that behave alike.
pub(crate) fn merge_external(found: Vec<Found>, behaviours: &[Behaviour]) -> Vec<Found> {
    let (externals, mut rest): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|found| found.endpoint.kind == EndpointKind::External);
    let mut alike: BTreeMap<(Option<Family>, Behaviour), (usize, Vec<AddressRange>)> = BTreeMap::new();
    for one in externals {
        let family = one.addresses.ranges().next().map(|range| range.family());
        let key = (family, behaviour_of(&one, behaviours));
        let (_, ranges) = alike.entry(key).or_insert((one.place.class, Vec::new()));
        ranges.extend(one.addresses.ranges());
    }
    let merged = alike
        .into_values()
        .map(|(class, ranges)| external(class, ranges.into_iter().collect()));
    rest.extend(merged);
    rest
}

/// Makes one endpoint of all pods of a top owner where they behave alike.
pub(crate) fn merge_workloads(found: Vec<Found>, behaviours: &[Behaviour]) -> Vec<Found> {
    let mut merged = Vec::new();
    let mut owned: BTreeMap<String, Vec<Found>> = BTreeMap::new();
    for one in found {
        match one.owner.clone() {
            Some(owner) => owned.entry(owner).or_default().push(one),
            None => merged.push(one),
        }
    }
    for (id, pods) in owned {
        let distinct: BTreeSet<_> = pods.iter().map(|pod| behaviour_of(pod, behaviours)).collect();
        match pods.first() {
            Some(first) if distinct.len() == 1 => merged.push(workload(id, first.place.class, &pods)),
            _ => merged.extend(pods),
        }
    }
    merged
}

/// One endpoint for pods that behave alike, as those of `class` do.
pub(crate) fn workload(id: String, class: usize, pods: &[Found]) -> Found {
    let addresses = pods
        .iter()
        .fold(AddressSet::empty(), |all, pod| all.union(&pod.addresses));
    let mut texts: Vec<_> = pods
        .iter()
        .flat_map(|pod| pod.endpoint.addresses.clone())
        .collect();
    texts.sort_by_key(|text| picket_net::parse_address(text));
    texts.dedup();
    Found {
        endpoint: MapEndpoint {
            id,
            kind: EndpointKind::Workload,
            interface: common(pods.iter().map(|pod| pod.endpoint.interface.clone())),
            addresses: texts,
        },
        place: Place {
            class,
            on: common(pods.iter().map(|pod| pod.place.on)),
            node: common(pods.iter().map(|pod| pod.place.node)),
        },
        owner: None,
        pods: pods.iter().flat_map(|pod| pod.pods.iter().cloned()).collect(),
        addresses,
    }
}

/// The node that all have in common.
fn common<T: Ord + Clone>(values: impl Iterator<Item = Option<T>>) -> Option<T> {
    let distinct: BTreeSet<_> = values.collect();
    match distinct.into_iter().collect::<Vec<_>>().as_slice() {
        [only] => only.clone(),
        _ => None,
    }
}
