//! Nodes: what they say of themselves, and what the pods on them say.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_cluster::{Event, Node, Object};
use picket_policy::ObjectRef;
use smol_str::SmolStr;

use super::facts::NodeFacts;

/// Every node that there is or that a pod names, with all its addresses, as files have them.
#[derive(Default)]
pub(super) struct Nodes {
    nodes: BTreeMap<SmolStr, State>,
    /// How many nodes have an address.
    holders: BTreeMap<IpAddr, usize>,
}

#[derive(Default)]
struct State {
    facts: Option<NodeFacts>,
    /// How many pods name it.
    pods: usize,
    /// How many of them say that an address is its.
    said: BTreeMap<IpAddr, usize>,
    shown: Option<Node>,
}

/// What a change of a node leads to.
#[derive(Default)]
pub(super) struct Effect {
    pub(super) event: Option<Event>,
    /// The addresses that are a node's now and were not, or were and are not.
    pub(super) addresses: Vec<IpAddr>,
}

impl Nodes {
    /// Whether an address is a node's.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        self.holders.contains_key(&address)
    }

    /// Whether it is known that a node says just this.
    pub(super) fn knows(&self, name: &str, facts: &NodeFacts) -> bool {
        self.nodes.get(name).and_then(|node| node.facts.as_ref()) == Some(facts)
    }

    /// The names of the nodes that are more than names.
    pub(super) fn names(&self) -> impl Iterator<Item = &SmolStr> {
        let known = self.nodes.iter().filter(|(_, node)| node.facts.is_some());
        known.map(|(name, _)| name)
    }

    /// What a node says now; `None` when it is gone.
    pub(super) fn set(&mut self, name: &SmolStr, facts: Option<NodeFacts>) -> Effect {
        self.nodes.entry(name.clone()).or_default().facts = facts;
        self.refresh(name)
    }

    /// A pod on it says what addresses it has.
    pub(super) fn add_pod(&mut self, name: &SmolStr, addresses: &[IpAddr]) -> Effect {
        let node = self.nodes.entry(name.clone()).or_default();
        node.pods += 1;
        for address in addresses {
            *node.said.entry(*address).or_default() += 1;
        }
        self.refresh(name)
    }

    /// That pod is gone, or says otherwise.
    pub(super) fn remove_pod(&mut self, name: &SmolStr, addresses: &[IpAddr]) -> Effect {
        if let Some(node) = self.nodes.get_mut(name) {
            node.pods = node.pods.saturating_sub(1);
            for address in addresses {
                decrease(&mut node.said, *address);
            }
        }
        self.refresh(name)
    }

    fn refresh(&mut self, name: &SmolStr) -> Effect {
        let Some(state) = self.nodes.get_mut(name) else {
            return Effect::default();
        };
        let exists = state.facts.is_some() || state.pods > 0;
        let now = exists.then(|| {
            let facts = state.facts.as_ref();
            let own = facts.map(|facts| facts.addresses.as_slice()).unwrap_or_default();
            Node {
                name: name.clone(),
                labels: facts.map(|facts| facts.labels.clone()).unwrap_or_default(),
                addresses: own.iter().chain(state.said.keys()).copied().collect(),
                pod_cidrs: facts.map(|facts| facts.pod_cidrs.clone()).unwrap_or_default(),
            }
        });
        if state.shown == now {
            return Effect::default();
        }
        let none = BTreeSet::new();
        let addresses = |node: &Option<Node>| {
            let addresses = node.as_ref().map_or(&none, |node| &node.addresses);
            addresses.clone()
        };
        let (before, after) = (addresses(&state.shown), addresses(&now));
        state.shown.clone_from(&now);
        if now.is_none() {
            self.nodes.remove(name);
        }
        let mut changed = Vec::new();
        for &address in before.symmetric_difference(&after) {
            let had = self.has(address);
            if after.contains(&address) {
                *self.holders.entry(address).or_default() += 1;
            } else {
                decrease(&mut self.holders, address);
            }
            if self.has(address) != had {
                changed.push(address);
            }
        }
        Effect {
            event: Some(match now {
                Some(node) => Event::Apply(Object::Node(node)),
                None => Event::Delete(ObjectRef::new("Node", "", name)),
            }),
            addresses: changed,
        }
    }
}

/// One less; nothing where there is none left.
fn decrease(counts: &mut BTreeMap<IpAddr, usize>, address: IpAddr) {
    if let Some(count) = counts.get_mut(&address) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(&address);
        }
    }
}
