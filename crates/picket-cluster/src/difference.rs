//! What has changed between two states.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_policy::ObjectRef;

use crate::event::network_ref;
use crate::{Event, Network, Object, Snapshot};

impl Snapshot {
    /// The events that lead from this state to another: what goes, then what pods need, then pods.
    pub fn events_to(&self, now: &Self) -> Vec<Event> {
        // With a namespace goes the policy that it is, and with that policy the namespace.
        let gone_policies: Vec<_> = find_gone(&self.policies, &now.policies).collect();
        let gone_namespaces: BTreeSet<_> = find_gone(&self.namespaces, &now.namespaces).collect();
        let is_namespace = |object: &ObjectRef| object.kind == "Namespace";
        let policies = gone_policies.iter().filter(|policy| is_namespace(policy));
        let lost_namespaces: BTreeSet<_> = policies.map(|policy| &policy.name).collect();
        let is_lost = |object: &ObjectRef| is_namespace(object) && gone_namespaces.contains(&object.name);

        let networks = find_gone(&self.networks, &now.networks);
        let nodes = find_gone(&self.nodes, &now.nodes);
        let namespaces = gone_namespaces.iter();
        let gone = find_gone(&self.pods, &now.pods)
            .chain(gone_policies.iter().copied())
            .chain(find_gone(&self.services, &now.services))
            .cloned()
            .chain(networks.map(network_ref))
            .chain(namespaces.map(|name| ObjectRef::new("Namespace", "", name)))
            .chain(nodes.map(|name| ObjectRef::new("Node", "", name)));

        let namespaces = now.namespaces.iter();
        let namespaces = namespaces
            .filter(|(name, namespace)| {
                self.namespaces.get(*name) != Some(*namespace) || lost_namespaces.contains(name)
            })
            .map(|(_, namespace)| Object::Namespace(namespace.clone()));
        let nodes = find_changed(&self.nodes, &now.nodes).map(|(_, node)| Object::Node(node.clone()));
        let services = find_changed(&self.services, &now.services);
        let services = services.map(|(_, service)| Object::Service(service.clone()));
        let networks = find_changed(&self.networks, &now.networks).map(|(name, wire)| {
            Object::Network(Network {
                name: name.clone(),
                wire: wire.clone(),
            })
        });
        let policies = now.policies.iter();
        let policies = policies
            .filter(|(object, policy)| self.policies.get(*object) != Some(*policy) || is_lost(object))
            .map(|(_, policy)| Object::Policy((**policy).clone()));
        let pods = find_changed(&self.pods, &now.pods).map(|(_, pod)| Object::Pod(Arc::clone(pod)));
        let comes = namespaces
            .chain(nodes)
            .chain(services)
            .chain(networks)
            .chain(policies)
            .chain(pods);
        gone.map(Event::Delete).chain(comes.map(Event::Apply)).collect()
    }
}

/// The keys that are there no more.
fn find_gone<'a, K: Ord, V>(
    before: &'a BTreeMap<K, V>,
    now: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = &'a K> {
    before.keys().filter(|key| !now.contains_key(key))
}

/// What was not there before, or is another now.
fn find_changed<'a, K: Ord, V: PartialEq>(
    before: &'a BTreeMap<K, V>,
    now: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (&'a K, &'a V)> {
    now.iter().filter(|(key, value)| before.get(*key) != Some(*value))
}

#[cfg(test)]
mod tests {
    use picket_policy::{
        Mode, NamespaceScope, Networks, PodSelector, Policy, Position, Selector, Side, Tier,
    };

    use super::*;
    use crate::{Namespace, Store};

    /// A namespace of the v1beta1 proposal isolates its pods.
    #[test]
    fn of_a_namespace_and_the_policy_that_it_is_either_goes_alone() {
        let namespace = || Object::Namespace(Namespace::implied("n0"));
        let policy = || {
            Object::Policy(Policy {
                object: ObjectRef::new("Namespace", "", "n0"),
                position: Position::unknown(),
                mode: Mode::Enforce,
                tier: Tier::NetworkPolicy,
                priority: 0,
                networks: Networks::Cluster,
                subject: PodSelector {
                    namespaces: NamespaceScope::Named("n0".into()),
                    pods: Selector::default(),
                },
                ingress: Side::default(),
                egress: Side::default(),
            })
        };
        let both: Snapshot = [namespace(), policy()].into_iter().collect();
        for left in [vec![namespace()], vec![policy()], vec![]] {
            let left: Snapshot = left.into_iter().collect();
            for (from, to) in [(&both, &left), (&left, &both)] {
                let mut store = Store::new();
                let events = Snapshot::default()
                    .events_to(from)
                    .into_iter()
                    .chain(from.events_to(to));
                events.for_each(|event| store.apply(event));
                assert_eq!(*store.snapshot(), *to);
            }
        }
    }
}
