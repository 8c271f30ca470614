//! What the layout needs to know of one pod.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::{AddressSet, TrafficSet};
use picket_policy::{Action, Direction, ObjectRef, Tier};

use crate::model::InterfaceName;

/// A pod with the policies that select it, every peer resolved to addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// The pod.
    pub pod: ObjectRef,
    /// The interfaces that policies may act on.
    pub interfaces: Vec<Interface>,
    /// Every address of the node it runs on; none when it has no node yet.
    pub own_node: AddressSet,
    /// The policies that select it, in the order in which their chains are jumped to.
    pub policies: Vec<PolicyOnPod>,
}

/// An interface of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name within the pod.
    pub name: InterfaceName,
    /// The pod's own addresses on it.
    pub addresses: Vec<IpAddr>,
    /// Whether it leads to the cluster network, where the pod's node must always reach it.
    pub cluster: bool,
}

/// One policy, as far as it concerns the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyOnPod {
    /// The policy.
    pub object: ObjectRef,
    /// Its tier; only `NetworkPolicy` can be expressed.
    pub tier: Tier,
    /// The interfaces of the pod that it acts on, sorted.
    pub interfaces: Vec<InterfaceName>,
    /// What it says about connections to the pod.
    pub ingress: ResolvedSide,
    /// What it says about connections from the pod.
    pub egress: ResolvedSide,
}

impl PolicyOnPod {
    /// What it says about one direction.
    pub fn side(&self, direction: Direction) -> &ResolvedSide {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }

    /// Whether it acts on the cluster network.
    pub(super) fn is_on_cluster(&self, view: &PodView) -> bool {
        let mut interfaces = view.interfaces.iter().filter(|interface| interface.cluster);
        interfaces.any(|interface| self.interfaces.contains(&interface.name))
    }

    /// Whether it isolates the pod, or would, or has rules, in any direction, which do not stand in the common chains.
    pub(super) fn has_chain(&self) -> bool {
        let says_something = |&direction: &Direction| {
            let side = self.side(direction);
            side.isolates || side.audits || !side.rules.is_empty()
        };
        self.tier != Tier::Custom && Direction::BOTH.iter().any(says_something)
    }

    /// Whether it isolates the pod in one direction, in the NetworkPolicy tier.
    pub(super) fn isolates(&self, direction: Direction) -> bool {
        self.tier == Tier::NetworkPolicy && self.side(direction).isolates
    }

    /// Whether it would if it were not only audited.
    pub(super) fn audits(&self, direction: Direction) -> bool {
        self.tier == Tier::NetworkPolicy && self.side(direction).audits
    }
}

/// One direction of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedSide {
    /// Whether what no rule accepts is denied.
    pub isolates: bool,
    /// Whether it would be if the policy were not only audited.
    pub audits: bool,
    /// Its rules, in the order written; without what an audited policy denies.
    pub rules: Vec<ResolvedRule>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedRule {
    /// Its index as written.
    pub index: u32,
    /// What it does; accepts only in tier `NetworkPolicy`.
    pub action: Action,
    /// Who is at the other end.
    pub peers: Peers,
    /// What all of the peers may exchange. Ports by name are here for ingress, where the pod itself resolves them.
    pub traffic: TrafficSet,
    /// Egress rules with ports by name: each port that a name stands for, with those of the peers that have it.
    pub named: Vec<(TrafficSet, Targets)>,
}

/// The other ends of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peers {
    /// Anyone.
    Anyone,
    /// Some addresses; none matches nothing.
    Some {
        /// Addresses of pods and nodes.
        hosts: Targets,
        /// Addresses of ipBlocks, without their exceptions and without what an ipBlock does not match: the same over
        /// every interface but where that differs between networks.
        blocks: Targets,
    },
}

/// Addresses by the interface of the pod that leads to them: those on the interface's network. Pods that one policy selects share them.
pub type Targets = BTreeMap<InterfaceName, Arc<AddressSet>>;
