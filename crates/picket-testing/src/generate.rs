//! Proptest strategies for random clusters, policies and event sequences.
//!
//! Everything is drawn from small pools, so that selectors collide, prefixes overlap pods, nodes and each other, and
//! port names resolve differently from pod to pod. Addresses never clash: they depend on the pod's slot alone. Only a
//! finished pod may have the address of a live one, as it does in clusters that reuse addresses.

mod attachment;
mod cluster;
mod dialect;
mod event;
mod policy;

pub use cluster::{SLOTS, cluster, namespace, node, pod};
pub use dialect::HOSTS;
pub use event::events;
pub use policy::{Shape, policies, policy};

use picket_cluster::{Object, Semantics, Snapshot};
use picket_policy::Policy;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;

/// Every choice that semantics leave.
pub fn semantics() -> impl Strategy<Value = Semantics> {
    any::<(bool, bool, bool)>().prop_map(|(ipblock_matches_pods, accept_icmp, accept_icmpv6)| Semantics {
        ipblock_matches_pods,
        accept_icmp,
        accept_icmpv6,
    })
}

/// A random cluster with up to `max_policies` random policies.
pub fn snapshot(shape: Shape, max_policies: usize) -> impl Strategy<Value = Snapshot> {
    (cluster(), policies(shape, max_policies)).prop_map(|(cluster, policies)| together(&cluster, policies))
}

/// A cluster with policies.
pub fn together(cluster: &[Object], policies: Vec<Policy>) -> Snapshot {
    let policies = policies.into_iter().map(Object::Policy);
    cluster.iter().cloned().chain(policies).collect()
}

/// A random cluster with policies of every dialect, as the cluster network or another one sees it.
pub fn mixture(max_policies: usize) -> impl Strategy<Value = Snapshot> {
    let network = option::of(any::<Index>());
    (snapshot(Shape::Dialects, max_policies), network).prop_map(|(snapshot, network)| {
        let others: Vec<_> = snapshot.attached_networks().into_keys().cloned().collect();
        match network.filter(|_| !others.is_empty()) {
            Some(index) => snapshot.on(index.get(&others)),
            None => snapshot,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::flows::representative_flows;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn live_addresses_are_unique_and_named_nodes_exist(snapshot in snapshot(Shape::Custom, 4)) {
            let mut seen = BTreeSet::new();
            for pod in snapshot.live_pods() {
                prop_assert!(!pod.addresses.is_empty());
                let node = pod.node.as_ref().and_then(|name| snapshot.nodes.get(name));
                prop_assert_eq!(node.is_some(), pod.node.is_some());
                for address in pod.addresses.iter() {
                    let of_node = node.is_some_and(|node| node.addresses.contains(&address));
                    let proper = if pod.host_network { of_node } else { seen.insert(address) && !of_node };
                    prop_assert!(proper, "{}: {address}", pod.object);
                }
            }
            prop_assert!(representative_flows(&snapshot).len() < 100_000);
        }

        #[test]
        fn the_v1_shape_has_no_empty_list_and_no_rule_without_isolation(policies in policies(Shape::V1, 4)) {
            use picket_policy::{Direction, List, Tier};
            for policy in &policies {
                prop_assert_eq!(policy.tier, Tier::NetworkPolicy);
                for side in Direction::BOTH.map(|direction| policy.side(direction)) {
                    prop_assert!(side.isolates || side.rules.is_empty());
                    for rule in &side.rules {
                        prop_assert!(!matches!(&rule.peers, List::Items(items) if items.is_empty()));
                        prop_assert!(!matches!(&rule.ports, List::Items(items) if items.is_empty()));
                    }
                }
            }
        }
    }
}
