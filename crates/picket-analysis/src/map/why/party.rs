//! Members of classes to ask about.

use std::sync::Arc;

use picket_cluster::{Endpoint, Pod, Snapshot};
use picket_engine::Program;
use picket_net::{AddressSet, Family};

use crate::directory::Party;
use crate::map::class::Class;
use crate::map::endpoint::{class_of_pod, taken_addresses};
use crate::map::{EndpointKind, Map, MapEndpoint};

/// For each class some of its members, and for each endpoint one.
#[derive(Debug)]
pub(super) struct Parties {
    of_class: Vec<Vec<Party>>,
    of_endpoint: Vec<Option<Party>>,
}

impl Parties {
    pub(super) fn new(map: &Map<'_>, snapshot: &Snapshot, program: &Program) -> Self {
        let taken = taken_addresses(snapshot);
        let mut parties = Self {
            of_class: Vec::new(),
            of_endpoint: Vec::new(),
        };
        for ((endpoint, place), members) in map.endpoints.iter().zip(&map.places).zip(&map.members) {
            let found = match map.classes.get(place.class) {
                Some(class) if endpoint.kind == EndpointKind::External => outside(class, program, &taken),
                _ => parties_of(endpoint, &members.pods, snapshot),
            };
            parties.of_endpoint.push(found.first().cloned());
            if parties.of_class.len() <= place.class {
                parties.of_class.resize_with(place.class + 1, Vec::new);
            }
            // An endpoint can stand for pods of several classes that behave alike, of which it has the first.
            let of_class = found.into_iter().filter(|party| match party {
                Party::Pod(pod) => map.classes.get(place.class) == Some(&class_of_pod(pod, program)),
                Party::Node { .. } | Party::External(_) => true,
            });
            if let Some(candidates) = parties.of_class.get_mut(place.class) {
                of_class.for_each(|party| take(candidates, party));
            }
        }
        parties
    }

    /// One end of a question about an endpoint.
    pub(super) fn of(&self, endpoint: usize) -> Option<Party> {
        self.of_endpoint.get(endpoint).cloned().flatten()
    }

    /// The namespace of a class of pods that policies can select.
    pub(super) fn namespace(&self, class: usize) -> Option<&str> {
        match self.of_class.get(class)?.first()? {
            Party::Pod(pod) if pod.is_managed() => Some(&pod.object.namespace),
            _ => None,
        }
    }

    /// A member of each of two classes, of which neither is the other nor the other's node. `None` where there is no
    /// such pair: then nothing that policies say of these classes is ever shown.
    pub(super) fn pair(&self, from: usize, to: usize, program: &Program) -> Option<(Party, Party)> {
        let (sources, destinations) = (self.of_class.get(from)?, self.of_class.get(to)?);
        let mut pairs = sources
            .iter()
            .flat_map(|source| destinations.iter().map(move |destination| (source, destination)));
        let is_pair = |(one, other): &(&Party, &Party)| {
            let apart = match (one, other) {
                (Party::Pod(one), Party::Pod(other)) => one.is_workload() || !one.is_same_pod(other),
                (one, other) => one != other,
            };
            apart && !is_node_of(one, other, program) && !is_node_of(other, one, program)
        };
        let (one, other) = pairs.find(is_pair)?;
        Some((one.clone(), other.clone()))
    }
}

/// Keeps the first two of a class, and the first that is elsewhere: enough to find a pair that is not a node and a pod
/// on it, where there is one.
fn take(candidates: &mut Vec<Party>, party: Party) {
    let elsewhere = candidates.iter().all(|known| node(known) != node(&party));
    if candidates.len() < 2 || candidates.len() < 3 && elsewhere {
        candidates.push(party);
    }
}

fn node(party: &Party) -> Option<&str> {
    match party {
        Party::Pod(pod) => pod.node.as_deref(),
        Party::Node { name, .. } => Some(name),
        Party::External(_) => None,
    }
}

fn is_node_of(one: &Party, other: &Party, program: &Program) -> bool {
    let (Party::Pod(pod), Some(peer)) = (other, end(one)) else {
        return false;
    };
    pod.is_managed() && program.is_own_node(pod, &peer)
}

fn end(party: &Party) -> Option<Endpoint> {
    Some(match party {
        Party::Pod(pod) => Endpoint::Pod(pod.object.clone()),
        Party::Node { name, addresses } => Endpoint::Node {
            name: name.clone(),
            address: *addresses.first()?,
        },
        Party::External(address) => Endpoint::External(*address),
    })
}

fn parties_of(endpoint: &MapEndpoint, pods: &[picket_policy::ObjectRef], snapshot: &Snapshot) -> Vec<Party> {
    match endpoint.kind {
        EndpointKind::Pod | EndpointKind::Workload => {
            let pods = pods.iter().filter_map(|object| snapshot.pods.get(object));
            pods.map(|pod: &Arc<Pod>| Party::Pod(Arc::clone(pod))).collect()
        }
        EndpointKind::Node => {
            let node = snapshot.nodes.get(endpoint.id.as_str());
            let party = node.map(|node| Party::Node {
                name: node.name.clone(),
                addresses: node.addresses.iter().copied().collect(),
            });
            party.into_iter().collect()
        }
        // Those are known by their class.
        EndpointKind::External => Vec::new(),
    }
}

/// An address that nobody has and that only this class holds.
fn outside(class: &Class, program: &Program, taken: &AddressSet) -> Vec<Party> {
    let first = Family::BOTH.into_iter().filter_map(|family| {
        let identity = class.identities(family).first()?;
        let region = program.region(*identity).of_family(family).difference(taken);
        let range = region.ranges().next()?;
        Some(Party::External(range.first()))
    });
    first.collect()
}
