//! Why a peer or a port of a rule does not match a connection, one condition at a time.

use std::net::IpAddr;

use picket_cluster::{Endpoint, Flow, NamedPort, Pod, Semantics, Snapshot};
use picket_net::{Family, PortRange, Prefix, Protocol};
use picket_policy::{
    Block, Direction, Labels, NamespaceScope, NetworkName, Networks, ObjectRef, Peer, PodSelector, Policy,
    PortMatch, Requirement, Selector,
};
use smol_str::SmolStr;

/// A condition of a rule that a connection does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Miss<'a> {
    /// The other end is on a network of the wire that the policy is not about.
    Network { has: NetworkName },
    /// The peer means one namespace by name, and the other end is in another.
    Namespace { wanted: &'a SmolStr, has: SmolStr },
    /// The namespace of the other end has other labels.
    NamespaceLabel {
        namespace: SmolStr,
        requirement: &'a Requirement,
        has: Option<SmolStr>,
    },
    /// The pod at the other end has other labels.
    PodLabel {
        requirement: &'a Requirement,
        has: Option<SmolStr>,
    },
    /// The node at the other end has other labels.
    NodeLabel {
        requirement: &'a Requirement,
        has: Option<SmolStr>,
    },
    /// The peer means pods, and the other end is none that selectors match.
    NotAPod(OtherEnd),
    /// The peer means nodes, and the other end is none.
    NotANode,
    /// The block is of the other address family.
    Family { family: Family },
    /// The other end has no address of the family.
    NoAddress,
    /// The address is not in the block.
    Outside { address: IpAddr },
    /// An exception of the block takes the address out.
    Except { address: IpAddr, except: Prefix },
    /// Blocks do not match pods, by choice.
    BlocksNoPods,
    /// picket made the address up: only a block of every address can mean it.
    MadeUp { address: IpAddr },
    /// The peer is a domain name: blocks beside it hold what is known of it.
    Domain,
    /// The port is of another protocol.
    Protocol { has: Protocol },
    /// The port is another.
    Port { has: u16 },
    /// The destination has no container port of that name and protocol.
    NoSuchPort { others: Vec<NamedPort> },
    /// The port of that name has another number.
    PortNumber { numbers: Vec<u16>, has: u16 },
    /// The destination is no pod that policies know, so that it has no named ports.
    NoNamedPorts,
}

/// What is no pod that selectors match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtherEnd {
    Address,
    Node,
    HostNetwork,
}

/// One end of a connection, with everything that conditions ask about.
#[derive(Clone, Copy, Debug)]
pub(super) struct End<'a> {
    pub(super) scene: &'a Snapshot,
    pub(super) semantics: &'a Semantics,
    pub(super) flow: &'a Flow,
    pub(super) direction: Direction,
}

impl<'a> End<'a> {
    pub(super) fn own(&self) -> &'a Endpoint {
        match self.direction {
            Direction::Egress => &self.flow.source,
            Direction::Ingress => &self.flow.destination,
        }
    }

    pub(super) fn peer(&self) -> &'a Endpoint {
        match self.direction {
            Direction::Egress => &self.flow.destination,
            Direction::Ingress => &self.flow.source,
        }
    }

    /// The pod at this end, if policies can apply to it.
    pub(super) fn pod(&self) -> Option<&'a Pod> {
        managed(self.scene, self.own())
    }

    /// What of `peer`, of a policy with these networks, the other end does not meet; empty when it matches.
    pub(super) fn peer_misses(&self, networks: &Networks, peer: &'a Peer) -> Vec<Miss<'a>> {
        match peer {
            Peer::Pods(selector) => match managed(self.scene, self.peer()) {
                Some(pod) => {
                    let other = network_of(pod).filter(|own| !networks.hold(Some(own)));
                    let other = other.map(|has| Miss::Network { has: has.clone() });
                    other
                        .into_iter()
                        .chain(self.selector_misses(selector, pod))
                        .collect()
                }
                None => vec![Miss::NotAPod(self.kind_of_peer())],
            },
            Peer::Block(block) => self.block_miss(block).into_iter().collect(),
            Peer::Nodes(selector) => self.scene.node_at(self.peer(), self.flow.family).map_or_else(
                || vec![Miss::NotANode],
                |node| {
                    unmet(selector, &node.labels)
                        .map(|(requirement, has)| Miss::NodeLabel { requirement, has })
                        .collect()
                },
            ),
            Peer::Domain(_) => vec![Miss::Domain],
        }
    }

    fn kind_of_peer(&self) -> OtherEnd {
        match self.peer() {
            Endpoint::Pod(_) => OtherEnd::HostNetwork,
            Endpoint::Node { .. } => OtherEnd::Node,
            Endpoint::External(_) => OtherEnd::Address,
        }
    }

    fn selector_misses(&self, selector: &'a PodSelector, pod: &Pod) -> Vec<Miss<'a>> {
        let namespace = &pod.object.namespace;
        let mut misses = Vec::new();
        match &selector.namespaces {
            NamespaceScope::Named(wanted) if wanted == namespace => {}
            NamespaceScope::Named(wanted) => misses.push(Miss::Namespace {
                wanted,
                has: namespace.clone(),
            }),
            NamespaceScope::Matching(selector) => {
                let known = self.scene.namespace(namespace);
                misses.extend(unmet(selector, &known.labels).map(|(requirement, has)| {
                    Miss::NamespaceLabel {
                        namespace: namespace.clone(),
                        requirement,
                        has,
                    }
                }));
            }
        }
        let labels = unmet(&selector.pods, &pod.labels);
        misses.extend(labels.map(|(requirement, has)| Miss::PodLabel { requirement, has }));
        misses
    }

    fn block_miss(&self, block: &Block) -> Option<Miss<'a>> {
        let (address, made_up) = match self.peer() {
            Endpoint::External(address) | Endpoint::Node { address, .. } => (*address, false),
            Endpoint::Pod(object) => {
                let pod = self.scene.pods.get(object)?;
                if !pod.host_network && !self.semantics.ipblock_matches_pods {
                    return Some(Miss::BlocksNoPods);
                }
                let Some(address) = pod.addresses.of(self.flow.family) else {
                    return Some(Miss::NoAddress);
                };
                (address, pod.synthetic)
            }
        };
        if block.prefix.family() != self.flow.family {
            return Some(Miss::Family {
                family: self.flow.family,
            });
        }
        if made_up && block.prefix.length() > 0 {
            return Some(Miss::MadeUp { address });
        }
        if !block.prefix.contains(address) {
            return Some(Miss::Outside { address });
        }
        let except = block.except.iter().find(|except| except.contains(address));
        except.map(|&except| Miss::Except { address, except })
    }

    /// Why `port` does not match; `None` when it does.
    pub(super) fn port_miss(&self, port: &PortMatch) -> Option<Miss<'a>> {
        let Flow {
            protocol,
            port: asked,
            ..
        } = *self.flow;
        let other = |own: Protocol| (own != protocol).then_some(Miss::Protocol { has: protocol });
        match port {
            PortMatch::Protocol(own) => other(*own),
            PortMatch::Range(own, range) => {
                other(*own).or_else(|| (!holds(*range, asked)).then_some(Miss::Port { has: asked }))
            }
            PortMatch::Named { protocol: own, name } => own.and_then(other).or_else(|| self.name_miss(name)),
        }
    }

    fn name_miss(&self, name: &SmolStr) -> Option<Miss<'a>> {
        let Flow {
            protocol,
            port: asked,
            ..
        } = *self.flow;
        let Some(pod) = managed(self.scene, &self.flow.destination) else {
            return Some(Miss::NoNamedPorts);
        };
        let alike = pod.ports.iter().filter(|port| port.protocol == protocol);
        let numbers: Vec<_> = alike.clone().filter(|port| port.name == *name).collect();
        if numbers.is_empty() {
            return Some(Miss::NoSuchPort {
                others: pod.ports.to_vec(),
            });
        }
        let numbers: Vec<_> = numbers.into_iter().map(|port| port.port).collect();
        (!numbers.contains(&asked)).then_some(Miss::PortNumber { numbers, has: asked })
    }

    /// Whether both ends are one pod. A workload and itself are two pods of it.
    pub(super) fn is_same_pod(&self) -> bool {
        let (Endpoint::Pod(one), Endpoint::Pod(other)) = (&self.flow.source, &self.flow.destination) else {
            return false;
        };
        let pod = |object: &ObjectRef| self.scene.pods.get(object);
        match (pod(one), pod(other)) {
            _ if one == other => one.kind == "Pod",
            (Some(one), Some(other)) => one.is_same_pod(other),
            _ => false,
        }
    }

    /// Whether the other end is the node that the pod runs on, or a hostNetwork pod there.
    pub(super) fn is_own_node(&self, pod: &Pod) -> bool {
        let node = match self.peer() {
            Endpoint::Node { name, .. } => Some(name),
            Endpoint::Pod(object) => {
                let other = self.scene.pods.get(object).filter(|other| other.host_network);
                other.and_then(|other| other.node.as_ref())
            }
            Endpoint::External(_) => None,
        };
        pod.node.is_some() && pod.node.as_ref() == node
    }
}

/// The pod at an end, if policies can apply to it.
pub(super) fn managed<'a>(scene: &'a Snapshot, endpoint: &Endpoint) -> Option<&'a Pod> {
    match endpoint {
        Endpoint::Pod(object) => scene
            .pods
            .get(object)
            .map(|pod| &**pod)
            .filter(|pod| pod.is_managed()),
        Endpoint::Node { .. } | Endpoint::External(_) => None,
    }
}

/// The secondary network of a pod that is an interface there.
pub(super) fn network_of(pod: &Pod) -> Option<&NetworkName> {
    pod.interface.as_deref().map(|interface| &interface.network)
}

/// Whether `policy` is about `pod`.
pub(super) fn selects(scene: &Snapshot, policy: &Policy, pod: &Pod) -> bool {
    let selector = &policy.subject;
    let namespace = match &selector.namespaces {
        NamespaceScope::Named(name) => *name == pod.object.namespace,
        NamespaceScope::Matching(selector) => meets(selector, &scene.namespace(&pod.object.namespace).labels),
    };
    policy.networks.hold(network_of(pod)) && namespace && meets(&selector.pods, &pod.labels)
}

fn holds(range: PortRange, port: u16) -> bool {
    (range.first()..=range.last()).contains(&port)
}

fn meets(selector: &Selector, labels: &Labels) -> bool {
    unmet(selector, labels).next().is_none()
}

/// The requirements that labels do not meet, each with the value that they have for its key.
fn unmet<'a>(
    selector: &'a Selector,
    labels: &Labels,
) -> impl Iterator<Item = (&'a Requirement, Option<SmolStr>)> {
    let unmet = selector.requirements().iter().filter_map(|requirement| {
        let has = labels.get(requirement.key());
        let met = match requirement {
            Requirement::In(_, values) => has.is_some_and(|value| values.contains(value)),
            Requirement::NotIn(_, values) => has.is_none_or(|value| !values.contains(value)),
            Requirement::Exists(_) => has.is_some(),
            Requirement::DoesNotExist(_) => has.is_none(),
        };
        (!met).then(|| (requirement, has.cloned()))
    });
    unmet.collect::<Vec<_>>().into_iter()
}
