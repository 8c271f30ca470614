//! The address that VPP gives packets of a pod that come back to it through a service: it counts as the node's.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_cluster::{Event, Node, Object};
use picket_policy::ObjectRef;
use smol_str::SmolStr;

/// Which address that is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NatLoopback {
    /// The last address for hosts in each of the node's podCIDRs.
    #[default]
    LastOfPodCidr,
    /// This one, of every node.
    Address(IpAddr),
    /// None.
    None,
}

/// Gives nodes that address, unless a pod has it.
pub(crate) struct Loopbacks {
    rule: NatLoopback,
    nodes: BTreeMap<SmolStr, Node>,
    /// Pods by their addresses.
    pods: BTreeMap<IpAddr, BTreeSet<ObjectRef>>,
    addresses: BTreeMap<ObjectRef, Vec<IpAddr>>,
}

impl Loopbacks {
    pub(crate) fn new(rule: NatLoopback) -> Self {
        Self {
            rule,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            addresses: BTreeMap::new(),
        }
    }

    /// The same events, and what follows of them for nodes.
    pub(crate) fn adapt(&mut self, events: Vec<Event>) -> Vec<Event> {
        if self.rule == NatLoopback::None {
            return events;
        }
        let mut adapted = Vec::with_capacity(events.len());
        for event in events {
            match event {
                Event::Init => {
                    *self = Self::new(self.rule);
                    adapted.push(Event::Init);
                }
                Event::Apply(Object::Node(node)) => {
                    adapted.push(Event::Apply(Object::Node(self.with(&node))));
                    self.nodes.insert(node.name.clone(), node);
                }
                Event::Apply(Object::Pod(pod)) => {
                    let is_own = !pod.host_network && !pod.finished;
                    let addresses = pod.addresses.iter().filter(|_| is_own).collect();
                    let changed = self.put(pod.object.clone(), addresses);
                    adapted.push(Event::Apply(Object::Pod(pod)));
                    adapted.extend(self.nodes_with(&changed));
                }
                Event::Delete(object) => {
                    if object.kind == "Node" {
                        self.nodes.remove(object.name.as_str());
                    }
                    let changed = self.put(object.clone(), Vec::new());
                    adapted.push(Event::Delete(object));
                    adapted.extend(self.nodes_with(&changed));
                }
                event => adapted.push(event),
            }
        }
        adapted
    }

    /// A pod has these addresses now; those that nobody had before, or nobody has any more.
    fn put(&mut self, pod: ObjectRef, addresses: Vec<IpAddr>) -> Vec<IpAddr> {
        let mut changed = Vec::new();
        for address in self.addresses.remove(&pod).unwrap_or_default() {
            if let Some(holders) = self.pods.get_mut(&address) {
                holders.remove(&pod);
                if holders.is_empty() {
                    self.pods.remove(&address);
                    changed.push(address);
                }
            }
        }
        for &address in &addresses {
            let holders = self.pods.entry(address).or_default();
            if holders.is_empty() {
                changed.push(address);
            }
            holders.insert(pod.clone());
        }
        if !addresses.is_empty() {
            self.addresses.insert(pod, addresses);
        }
        changed
    }

    /// Nodes to which these addresses matter, as they are now.
    fn nodes_with(&self, addresses: &[IpAddr]) -> Vec<Event> {
        if addresses.is_empty() {
            return Vec::new();
        }
        let concerned = self.nodes.values().filter(|node| {
            self.candidates(node)
                .iter()
                .any(|address| addresses.contains(address))
        });
        concerned
            .map(|node| Event::Apply(Object::Node(self.with(node))))
            .collect()
    }

    fn candidates(&self, node: &Node) -> Vec<IpAddr> {
        match self.rule {
            NatLoopback::None => Vec::new(),
            NatLoopback::Address(address) => vec![address],
            NatLoopback::LastOfPodCidr => picket_vpp::loopback::of(node),
        }
    }

    fn with(&self, node: &Node) -> Node {
        let mut node = node.clone();
        let free = self.candidates(&node).into_iter();
        let free = free.filter(|address| !self.pods.contains_key(address));
        node.addresses.extend(free.collect::<Vec<_>>());
        node
    }
}

#[cfg(test)]
mod tests {
    use picket_cluster::Store;
    use picket_testing::generate::{Shape, events};
    use picket_vpp::loopback;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn nodes_have_the_addresses_that_they_have_where_everything_is_known_at_once(
            events in events(Shape::Custom, 40),
        ) {
            let mut loopbacks = Loopbacks::new(NatLoopback::default());
            let (mut told, mut adapted) = (Store::new(), Store::new());
            let mut is_listed = false;
            for event in events {
                is_listed = event == Event::Init || is_listed && event != Event::InitDone;
                told.apply(event.clone());
                for event in loopbacks.adapt(vec![event]) {
                    adapted.apply(event);
                }
                // Until a list has ended what it has not named yet stays as it was.
                if is_listed {
                    continue;
                }
                let mut expected = (*told.snapshot()).clone();
                loopback::add(&mut expected);
                prop_assert_eq!(&adapted.snapshot().nodes, &expected.nodes);
            }
        }
    }
}
