//! Current objects, and immutable snapshots of them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::Family;
use picket_policy::{Mode, NetworkName, ObjectRef, Policy};
use smol_str::SmolStr;

use crate::event::network_ref;
use crate::network::NETWORK_KIND;
use crate::{Endpoint, Event, Namespace, Node, Object, Pod, Service, Wire};

/// Everything that exists at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Namespaces by name. One that is not here but that an object names is implied; see [`Snapshot::namespace`].
    pub namespaces: BTreeMap<SmolStr, Namespace>,
    /// Nodes by name.
    pub nodes: BTreeMap<SmolStr, Node>,
    /// Pods and workloads that stand for pods, finished ones included.
    pub pods: BTreeMap<ObjectRef, Arc<Pod>>,
    /// Services.
    pub services: BTreeMap<ObjectRef, Service>,
    /// Secondary networks that have a definition, with the wires that they are on as far as anybody can tell; pods and
    /// policies may name others.
    pub networks: BTreeMap<NetworkName, Option<Wire>>,
    /// Policies of every dialect.
    pub policies: BTreeMap<ObjectRef, Arc<Policy>>,
}

impl Snapshot {
    /// The namespace `name`, implied when nothing is known of it.
    pub fn namespace(&self, name: &str) -> Cow<'_, Namespace> {
        match self.namespaces.get(name) {
            Some(namespace) => Cow::Borrowed(namespace),
            None => Cow::Owned(Namespace::implied(name)),
        }
    }

    /// The same with every policy enforced that is only audited.
    #[must_use]
    pub fn enforced(&self) -> Self {
        let mut enforced = self.clone();
        for policy in enforced.policies.values_mut() {
            if policy.mode == Mode::Audit {
                Arc::make_mut(policy).mode = Mode::Enforce;
            }
        }
        enforced
    }

    /// Pods that have not finished, hostNetwork pods included, in the order of their objects.
    pub fn live_pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values().filter(|pod| !pod.finished)
    }

    /// The pod `namespace/name` whatever its uid, or the workload `namespace/kind/name`.
    pub fn pod(&self, kind: &str, namespace: &str, name: &str) -> Option<&Arc<Pod>> {
        let first = ObjectRef::new(kind, namespace, name);
        let (object, pod) = self.pods.range(first..).next()?;
        (object.kind == kind && object.namespace == namespace && object.name == name).then_some(pod)
    }

    /// The node whose network an end is in: that of a node's address, or of a hostNetwork pod that has one of them.
    pub fn node_at(&self, end: &Endpoint, family: Family) -> Option<&Node> {
        match end {
            Endpoint::Node { name, .. } => self.nodes.get(name),
            Endpoint::Pod(object) => {
                let pod = self.pods.get(object)?;
                let node = self
                    .nodes
                    .get(pod.node.as_ref().filter(|_| pod.host_network && !pod.finished)?)?;
                node.addresses
                    .contains(&pod.addresses.of(family)?)
                    .then_some(node)
            }
            Endpoint::External(_) => None,
        }
    }

    /// Whose address this is: a node's, a pod's that has its own network, or nobody's.
    ///
    /// Linear in the number of pods; callers with many questions keep an index.
    pub fn endpoint_at(&self, address: IpAddr) -> Endpoint {
        if let Some(node) = self.nodes.values().find(|node| node.addresses.contains(&address)) {
            return Endpoint::Node {
                name: node.name.clone(),
                address,
            };
        }
        let mut pods = self
            .live_pods()
            .filter(|pod| pod.addresses.iter().any(|own| own == address));
        match pods.next() {
            Some(pod) => Endpoint::Pod(pod.object.clone()),
            None => Endpoint::External(address),
        }
    }
}

/// Current objects, changed by events.
#[derive(Clone, Debug, Default)]
pub struct Store {
    snapshot: Arc<Snapshot>,
    /// While a list is being received: what it has named so far.
    listed: Option<BTreeSet<ObjectRef>>,
}

impl Store {
    /// A store without objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// The current objects. Cheap; later events do not change the value returned.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot)
    }

    /// Takes in one event.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::Init => self.listed = Some(BTreeSet::new()),
            Event::Apply(object) => {
                if let Some(listed) = &mut self.listed {
                    listed.insert(object.object_ref());
                }
                insert(Arc::make_mut(&mut self.snapshot), object);
            }
            Event::Delete(object) => remove(Arc::make_mut(&mut self.snapshot), &object),
            Event::InitDone => {
                if let Some(listed) = self.listed.take() {
                    let snapshot = Arc::make_mut(&mut self.snapshot);
                    retain(snapshot, &listed);
                    // Of what came in order nodes of the tree are half empty, which is much of the memory for 100,000 pods.
                    snapshot.pods = std::mem::take(&mut snapshot.pods).into_iter().collect();
                }
            }
        }
    }
}

impl FromIterator<Object> for Snapshot {
    fn from_iter<I: IntoIterator<Item = Object>>(objects: I) -> Self {
        let mut snapshot = Self::default();
        for object in objects {
            insert(&mut snapshot, object);
        }
        snapshot
    }
}

fn insert(snapshot: &mut Snapshot, object: Object) {
    match object {
        Object::Namespace(namespace) => {
            snapshot.namespaces.insert(namespace.name.clone(), namespace);
        }
        Object::Node(node) => {
            snapshot.nodes.insert(node.name.clone(), node);
        }
        Object::Pod(pod) => {
            snapshot.pods.insert(pod.object.clone(), pod);
        }
        Object::Service(service) => {
            snapshot.services.insert(service.object.clone(), service);
        }
        Object::Network(network) => {
            snapshot.networks.insert(network.name, network.wire);
        }
        Object::Policy(policy) => {
            snapshot.policies.insert(policy.object.clone(), Arc::new(policy));
        }
    }
}

fn remove(snapshot: &mut Snapshot, object: &ObjectRef) {
    match object.kind.as_str() {
        "Namespace" => {
            snapshot.namespaces.remove(&object.name);
            // One that isolates its pods is a policy too.
            snapshot.policies.remove(object);
        }
        "Node" => drop(snapshot.nodes.remove(&object.name)),
        "Service" => drop(snapshot.services.remove(object)),
        NETWORK_KIND => snapshot
            .networks
            .retain(|network, _| (&network.namespace, &network.name) != (&object.namespace, &object.name)),
        _ => {
            // Pods, workloads and policies of every dialect: a kind belongs to one of the two maps.
            if snapshot.pods.remove(object).is_none() {
                snapshot.policies.remove(object);
            }
        }
    }
}

fn retain(snapshot: &mut Snapshot, listed: &BTreeSet<ObjectRef>) {
    snapshot
        .namespaces
        .retain(|name, _| listed.contains(&ObjectRef::new("Namespace", "", name)));
    snapshot
        .nodes
        .retain(|name, _| listed.contains(&ObjectRef::new("Node", "", name)));
    snapshot.pods.retain(|object, _| listed.contains(object));
    snapshot.services.retain(|object, _| listed.contains(object));
    snapshot
        .networks
        .retain(|network, _| listed.contains(&network_ref(network)));
    snapshot.policies.retain(|object, _| listed.contains(object));
}
