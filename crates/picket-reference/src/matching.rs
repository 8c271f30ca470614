//! Whether selectors, peers and ports match.

use std::net::IpAddr;

use picket_cluster::{Endpoint, Flow, Pod, Snapshot};
use picket_policy::{
    Block, Labels, List, NamespaceScope, Networks, Peer, PodSelector, Policy, PortMatch, Requirement, Rule,
    Selector,
};

use crate::managed_pod;
use crate::tiers::Question;

/// A rule "matches traffic if and only if the traffic matches both" its ports and its peers.
pub(crate) fn rule_matches(question: &Question<'_>, policy: &Policy, rule: &Rule) -> bool {
    any(&rule.ports, |port| {
        port_matches(question.snapshot, port, question.flow)
    }) && any(&rule.peers, |peer| peer_matches(question, policy, peer))
}

/// An absent list is no restriction; items are alternatives, and none of none matches.
fn any<T>(list: &List<T>, matches: impl Fn(&T) -> bool) -> bool {
    match list {
        List::Absent => true,
        List::Items(items) => items.iter().any(matches),
    }
}

fn port_matches(snapshot: &Snapshot, port: &PortMatch, flow: &Flow) -> bool {
    match port {
        PortMatch::Protocol(protocol) => *protocol == flow.protocol,
        PortMatch::Range(protocol, range) => {
            *protocol == flow.protocol && range.first() <= flow.port && flow.port <= range.last()
        }
        // A name is a container port of the destination, of the flow's protocol; nobody else has named ports.
        PortMatch::Named { protocol, name } => {
            protocol.is_none_or(|protocol| protocol == flow.protocol)
                && managed_pod(snapshot, &flow.destination).is_some_and(|pod| {
                    pod.ports.iter().any(|port| {
                        port.name == *name && port.protocol == flow.protocol && port.port == flow.port
                    })
                })
        }
    }
}

fn peer_matches(question: &Question<'_>, policy: &Policy, peer: &Peer) -> bool {
    let Question {
        snapshot,
        flow,
        peer: endpoint,
        ..
    } = question;
    match peer {
        Peer::Pods(selector) => {
            let pod = managed_pod(snapshot, endpoint);
            pod.is_some_and(|pod| is_about(policy, pod) && selects(snapshot, selector, pod))
        }
        Peer::Block(block) => block_matches(question, block),
        // Packets show addresses, and a pod of the host's network has its node's.
        Peer::Nodes(selector) => snapshot
            .node_at(endpoint, flow.family)
            .is_some_and(|node| selector_matches(selector, &node.labels)),
        // Names are known by the blocks beside them.
        Peer::Domain(_) => false,
    }
}

/// An ipBlock looks at the address of the other end, whatever has it.
fn block_matches(question: &Question<'_>, block: &Block) -> bool {
    let Question {
        snapshot,
        semantics,
        flow,
        peer,
        ..
    } = question;
    let within = |address: IpAddr| {
        block.prefix.contains(address) && !block.except.iter().any(|except| except.contains(address))
    };
    match peer {
        Endpoint::External(address) | Endpoint::Node { address, .. } => within(*address),
        Endpoint::Pod(object) => {
            let Some(pod) = snapshot.pods.get(object) else {
                return false;
            };
            let Some(address) = pod.addresses.of(flow.family) else {
                return false;
            };
            let asked = pod.host_network || semantics.ipblock_matches_pods;
            // picket made a synthetic address up, so only a block of every address can mean it.
            asked && within(address) && (!pod.synthetic || block.prefix.length() == 0)
        }
    }
}

/// Whether a policy is about the network that a pod is on. On a secondary network every interface is a pod, and a wire may hold
/// several networks: "policy-for" names those whose interfaces the policy selects and whose interfaces are its peers.
pub(crate) fn is_about(policy: &Policy, pod: &Pod) -> bool {
    match (&policy.networks, &pod.interface) {
        (Networks::Cluster, _) => true,
        (Networks::Among(networks), Some(interface)) => networks.contains(&interface.network),
        (Networks::Among(_), None) | (Networks::Attached(_), _) => false,
    }
}

/// Whether a pod is among those that a selector means.
pub(crate) fn selects(snapshot: &Snapshot, selector: &PodSelector, pod: &Pod) -> bool {
    let namespace = match &selector.namespaces {
        NamespaceScope::Named(name) => *name == pod.object.namespace,
        NamespaceScope::Matching(selector) => {
            selector_matches(selector, &snapshot.namespace(&pod.object.namespace).labels)
        }
    };
    namespace && selector_matches(&selector.pods, &pod.labels)
}

/// apimachinery `labels.Selector`: every requirement holds.
fn selector_matches(selector: &Selector, labels: &Labels) -> bool {
    selector
        .requirements()
        .iter()
        .all(|requirement| match requirement {
            Requirement::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            // An absent key is not in the values.
            Requirement::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Requirement::Exists(key) => labels.get(key).is_some(),
            Requirement::DoesNotExist(key) => labels.get(key).is_none(),
        })
}
