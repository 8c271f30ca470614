//! Everything that is allowed between all endpoints: the connectivity map.
//!
//! Never pairs of pods times policies: endpoints fall into classes that the engine cannot tell apart, and what passes
//! between two classes is one lookup at each end ([`class`]). The connections themselves are made one row at a time, so
//! a map of any size is written in the memory of one row.

pub(crate) mod class;
pub(crate) mod endpoint;
mod group;
mod level;
pub(crate) mod traffic;
mod tree;
mod why;
pub mod write;

#[cfg(test)]
mod tests;

use std::cell::RefCell;

use picket_cluster::Snapshot;
use picket_engine::Program;
use picket_net::TrafficSet;
use picket_policy::ObjectRef;
use serde::Serialize;
use smol_str::SmolStr;

use class::{Classes, Pair, Rows};
pub use group::{Cell, Group};
use traffic::{TrafficId, Traffics};

/// How pods are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Each on its own.
    #[default]
    Pod,
    /// As one endpoint for all pods of a top owner, when they behave alike.
    Workload,
}

/// What an endpoint is. Sorted as their names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EndpointKind {
    /// Addresses of one family that no pod and no node has, and that no policy can tell apart.
    External,
    /// A node.
    Node,
    /// A pod.
    Pod,
    /// A workload that stands for its pods.
    Workload,
}

impl EndpointKind {
    /// `external`, `node`, `pod` or `workload`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::External => "external",
            Self::Node => "node",
            Self::Pod => "pod",
            Self::Workload => "workload",
        }
    }
}

/// One endpoint of a map, in the shape of its JSON (`docs/schema/matrix.schema.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MapEndpoint {
    /// `namespace/name`, `namespace/Kind/name`, the node's name, or the first range of external addresses.
    pub id: String,
    /// What it is.
    pub kind: EndpointKind,
    /// The interface on the secondary network that is looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<SmolStr>,
    /// Its addresses, ascending, IPv4 first; inclusive ranges `first-last` for external endpoints.
    pub addresses: Vec<String>,
}

/// The families that a connection is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionFamily {
    /// Both, which are equal, or the only one that both ends have.
    Any,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl ConnectionFamily {
    /// `any`, `ipv4` or `ipv6`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
        }
    }
}

/// Something that may pass from one endpoint to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection<'a> {
    /// Who opens it.
    pub from: &'a MapEndpoint,
    /// To whom.
    pub to: &'a MapEndpoint,
    /// In which families.
    pub family: ConnectionFamily,
    /// What may pass; never nothing.
    pub allow: TrafficSet,
}

/// The JSON of what is allowed, as in `docs/schema/matrix.schema.json`.
pub(crate) fn allow_json(allow: &TrafficSet) -> serde_json::Value {
    // INVARIANT: what is written there is JSON.
    serde_json::from_str(&traffic::json(allow)).unwrap_or_default()
}

/// The connectivity map of one snapshot.
///
/// Finished pods are no endpoints. A workload and itself is a pair: two different pods of it. What a node and the pods
/// on it may exchange is more than what policies say; for a workload whose pods are on several nodes the map says what
/// holds for each of them.
#[derive(Debug)]
pub struct Map<'a> {
    endpoints: Vec<MapEndpoint>,
    /// For each endpoint what the engine knows of it.
    places: Vec<Place>,
    /// For each endpoint the pods that it is or stands for, and the workload that it belongs to.
    members: Vec<Members>,
    /// The endpoints, by their ids.
    by_id: Vec<usize>,
    classes: Classes<'a>,
    traffics: RefCell<Traffics>,
}

/// What is behind an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Members {
    /// The pods that it is or stands for; none for nodes and external addresses.
    pods: Vec<ObjectRef>,
    /// The id of the top owner, for a pod that has one.
    owner: Option<String>,
}

/// Where an endpoint stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its class; that of each of its pods, for a workload.
    pub(crate) class: usize,
    /// The number of the node of a managed pod.
    pub(crate) on: Option<usize>,
    /// The node that the endpoint is, for nodes and hostNetwork pods.
    pub(crate) node: Option<usize>,
}

impl<'a> Map<'a> {
    /// Works out the map. `program` is `snapshot`, compiled.
    pub fn new(snapshot: &Snapshot, program: &'a Program, by: By) -> Self {
        let traffics = RefCell::new(Traffics::new());
        let mut classes = Classes::new(program, &traffics);
        let mut found = endpoint::of_cluster(snapshot, program, &mut classes);
        let taken = endpoint::taken_addresses(snapshot);
        endpoint::add_external(&taken, program, &mut classes, &mut found);
        let behaviours = classes.behaviours(&traffics);
        let mut found = endpoint::merge_external(found, &behaviours);
        if by == By::Workload {
            found = endpoint::merge_workloads(found, &behaviours);
        }
        found.sort_by(|one, other| {
            (one.endpoint.kind, &one.endpoint.id).cmp(&(other.endpoint.kind, &other.endpoint.id))
        });
        let mut members = Vec::with_capacity(found.len());
        let (endpoints, places): (Vec<_>, Vec<_>) = found
            .into_iter()
            .map(|found| {
                let (pods, owner) = (found.pods, found.owner);
                members.push(Members { pods, owner });
                (found.endpoint, found.place)
            })
            .unzip();
        let mut by_id: Vec<usize> = (0..endpoints.len()).collect();
        by_id.sort_by_key(|&at| endpoints.get(at).map(|endpoint| &endpoint.id));
        classes.set_behaviours(behaviours);
        Self {
            endpoints,
            places,
            members,
            by_id,
            classes,
            traffics,
        }
    }

    /// The endpoints, by kind and then by id.
    pub fn endpoints(&self) -> &[MapEndpoint] {
        &self.endpoints
    }

    /// Calls `take` with every connection, by the ids of both ends and then by family, until it fails.
    ///
    /// # Errors
    /// The first error of `take`.
    pub fn try_for_each<E>(&self, mut take: impl FnMut(Connection<'_>) -> Result<(), E>) -> Result<(), E> {
        self.each(|from, to, family, traffic| {
            let (Some(from), Some(to)) = (self.endpoints.get(from), self.endpoints.get(to)) else {
                return Ok(());
            };
            let allow = self.traffics.borrow().get(traffic).clone();
            take(Connection {
                from,
                to,
                family,
                allow,
            })
        })
    }

    /// Every connection from or to the endpoint called `id`, in the order of [`Map::try_for_each`].
    pub fn connections_of(&self, id: &str) -> Vec<Connection<'_>> {
        let mut found = Vec::new();
        let mut rows = Rows::default();
        let own = self
            .by_id
            .binary_search_by_key(&id, |&at| self.endpoints.get(at).map_or("", |own| &own.id));
        let own = own.ok().and_then(|own| self.by_id.get(own..=own));
        for &from in &self.by_id {
            let all = own.is_some_and(|own| own == [from]);
            let to = if all { &self.by_id } else { own.unwrap_or(&[]) };
            let taken = self.row(&mut rows, from, to, &mut |to, family, traffic| {
                if let (Some(from), Some(to)) = (self.endpoints.get(from), self.endpoints.get(to)) {
                    let allow = self.traffics.borrow().get(traffic).clone();
                    found.push(Connection {
                        from,
                        to,
                        family,
                        allow,
                    });
                }
                Ok::<_, std::convert::Infallible>(())
            });
            let Ok(()) = taken;
        }
        found
    }

    /// As [`Map::try_for_each`], by the numbers of endpoints and traffic.
    fn each<E>(
        &self,
        mut take: impl FnMut(usize, usize, ConnectionFamily, TrafficId) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rows = Rows::default();
        for &from in &self.by_id {
            self.row(&mut rows, from, &self.by_id, &mut |to, family, traffic| {
                take(from, to, family, traffic)
            })?;
        }
        Ok(())
    }

    /// Everything that one endpoint may send to some.
    fn row<E>(
        &self,
        rows: &mut Rows,
        from: usize,
        to: &[usize],
        take: &mut impl FnMut(usize, ConnectionFamily, TrafficId) -> Result<(), E>,
    ) -> Result<(), E> {
        if let (Some(source), Some(kind)) = (self.places.get(from), self.kind(from)) {
            self.classes.fill(rows, source.class, &self.traffics);
            for &to in to {
                let Some(destination) = self.places.get(to) else {
                    continue;
                };
                let mut pair = rows.to(destination.class);
                if source.node.is_some() && source.node == destination.on {
                    pair = self
                        .classes
                        .sent_by_own_node(source.class, destination.class, &self.traffics);
                } else if source.on.is_some() && source.on == destination.node {
                    pair = self
                        .classes
                        .to_own_node(source.class, destination.class, &self.traffics);
                }
                for (family, traffic) in pair.connections() {
                    if self.is_pair((from, kind), to) {
                        take(to, family, traffic)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn kind(&self, at: usize) -> Option<EndpointKind> {
        self.endpoints.get(at).map(|endpoint| endpoint.kind)
    }

    fn is_pair(&self, (from, kind): (usize, EndpointKind), to: usize) -> bool {
        match kind {
            EndpointKind::External => self.kind(to) != Some(EndpointKind::External),
            EndpointKind::Workload => true,
            EndpointKind::Node | EndpointKind::Pod => {
                let ends = self.endpoints.get(from).zip(self.endpoints.get(to));
                from != to && !ends.is_some_and(|(from, to)| is_same_pod(from, to))
            }
        }
    }
}

/// Whether both are interfaces of one pod.
pub(crate) fn is_same_pod(from: &MapEndpoint, to: &MapEndpoint) -> bool {
    pod_of(from).is_some_and(|from| pod_of(to) == Some(from))
}

/// The pod that has the interface and others on the same network.
pub(crate) fn pod_of(endpoint: &MapEndpoint) -> Option<&str> {
    endpoint.interface.as_ref()?;
    endpoint.id.split_once('@').map(|(pod, _)| pod)
}

impl Pair {
    /// What is listed: one entry for equal or only families, else one for each in which something is allowed.
    pub(crate) fn connections(self) -> impl Iterator<Item = (ConnectionFamily, TrafficId)> {
        let entries = match (self.v4, self.v6) {
            (Some(four), Some(six)) if four != six => [
                Some((ConnectionFamily::Ipv4, four)),
                Some((ConnectionFamily::Ipv6, six)),
            ],
            (Some(both), _) | (None, Some(both)) => [Some((ConnectionFamily::Any, both)), None],
            (None, None) => [None, None],
        };
        entries
            .into_iter()
            .flatten()
            .filter(|(_, traffic)| *traffic != TrafficId::NONE)
    }
}
