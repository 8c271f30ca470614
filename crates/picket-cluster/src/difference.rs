//! What has changed between two states.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_policy::{NetworkName, ObjectRef};

use crate::{Event, Network, Object, Pod, Snapshot, Wire};

impl Snapshot {
    /// The events that lead from this state to another: what goes, then what pods need, then pods.
    pub fn events_to(&self, now: &Self) -> Vec<Event> {
        let policies: Vec<_> = missing(&self.policies, &now.policies).collect();
        // A namespace goes with the policy that it is.
        let taken_along: BTreeSet<_> = policies
            .iter()
            .filter(|policy| policy.kind == "Namespace")
            .map(|policy| &policy.name)
            .collect();
        let networks = missing(&self.networks, &now.networks);
        let networks = networks.map(|name| network((name, &None)).object_ref());
        let namespaces = missing(&self.namespaces, &now.namespaces);
        let namespaces = namespaces.map(|name| ObjectRef::new("Namespace", "", name));
        let nodes = missing(&self.nodes, &now.nodes).map(|name| ObjectRef::new("Node", "", name));
        let gone = missing(&self.pods, &now.pods)
            .chain(policies.iter().copied())
            .chain(missing(&self.services, &now.services))
            .cloned()
            .chain(networks)
            .chain(namespaces)
            .chain(nodes);

        let namespaces = now.namespaces.iter();
        let namespaces = namespaces
            .filter(|(name, namespace)| {
                self.namespaces.get(*name) != Some(*namespace) || taken_along.contains(name)
            })
            .map(|(_, namespace)| Object::Namespace(namespace.clone()));
        let nodes = new(&self.nodes, &now.nodes).map(|(_, node)| Object::Node(node.clone()));
        let services = new(&self.services, &now.services).map(|(_, own)| Object::Service(own.clone()));
        let networks = new(&self.networks, &now.networks).map(network);
        let policies = new(&self.policies, &now.policies);
        let policies = policies.map(|(_, policy)| Object::Policy((**policy).clone()));
        let pods = new(&self.pods, &now.pods).map(|(_, pod): (_, &Arc<Pod>)| Object::Pod(Arc::clone(pod)));
        let comes = namespaces
            .chain(nodes)
            .chain(services)
            .chain(networks)
            .chain(policies)
            .chain(pods);
        gone.map(Event::Delete).chain(comes.map(Event::Apply)).collect()
    }
}

fn network((name, wire): (&NetworkName, &Option<Wire>)) -> Object {
    Object::Network(Network {
        name: name.clone(),
        wire: wire.clone(),
    })
}

/// The keys that are there no more.
fn missing<'a, K: Ord, V>(
    before: &'a BTreeMap<K, V>,
    now: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = &'a K> {
    before.keys().filter(|key| !now.contains_key(key))
}

/// What was not there before, or is another now.
fn new<'a, K: Ord, V: PartialEq>(
    before: &'a BTreeMap<K, V>,
    now: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (&'a K, &'a V)> {
    now.iter().filter(|(key, value)| before.get(*key) != Some(*value))
}
