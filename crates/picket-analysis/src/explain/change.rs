//! Changes to a cluster or its policies, as values that can be applied.

use std::sync::Arc;

use picket_cluster::{Namespace, Snapshot};
use picket_net::Prefix;
use picket_policy::{Direction, Labels, List, ObjectRef, Peer, Policy, PortMatch, Position, Rule};
use smol_str::SmolStr;

/// A rule of a policy, by the places of both in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulePlace {
    /// The policy.
    pub policy: ObjectRef,
    /// The side of the policy.
    pub direction: Direction,
    /// The index of the rule as written, from 0.
    pub rule: u32,
    /// Where the rule begins.
    pub position: Position,
}

/// One change that somebody can make to a cluster or its policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Give a pod, or the pods of a workload, a label.
    SetPodLabel {
        /// The pod or workload.
        pod: ObjectRef,
        /// The key.
        key: SmolStr,
        /// The value.
        value: SmolStr,
    },
    /// Take a label from a pod, or from the pods of a workload.
    RemovePodLabel {
        /// The pod or workload.
        pod: ObjectRef,
        /// The key.
        key: SmolStr,
    },
    /// Give a namespace a label.
    SetNamespaceLabel {
        /// The namespace.
        namespace: SmolStr,
        /// The key.
        key: SmolStr,
        /// The value.
        value: SmolStr,
    },
    /// Take a label from a namespace.
    RemoveNamespaceLabel {
        /// The namespace.
        namespace: SmolStr,
        /// The key.
        key: SmolStr,
    },
    /// Add a port to a rule that has ports.
    AddPort(RulePlace, PortMatch),
    /// Let a rule be about every port.
    AnyPort(RulePlace),
    /// Add a peer to a rule that has peers.
    AddPeer(RulePlace, Peer),
    /// Take an exception out of the blocks of a rule.
    RemoveExcept(RulePlace, Prefix),
    /// Add a rule to a policy.
    AddRule {
        /// The policy.
        policy: ObjectRef,
        /// Where the policy begins.
        position: Position,
        /// The side.
        direction: Direction,
        /// The place in the list of rules: the new one comes before the rule that is there now, or at the end.
        at: usize,
        /// The rule, with an index that no other has.
        rule: Rule,
    },
    /// Remove a rule, and leave the policy with the directions that it isolates.
    RemoveRule(RulePlace),
    /// Add a policy.
    AddPolicy(Arc<Policy>),
}

impl Change {
    /// The snapshot after the change. What the change is about and the snapshot does not hold is left as it is.
    pub fn apply(&self, snapshot: &mut Snapshot) {
        match self {
            Self::SetPodLabel { pod, key, value } => {
                relabel_pod(snapshot, pod, |labels| labels.with(key, value));
            }
            Self::RemovePodLabel { pod, key } => relabel_pod(snapshot, pod, |labels| without(labels, key)),
            Self::SetNamespaceLabel {
                namespace,
                key,
                value,
                ..
            } => relabel_namespace(snapshot, namespace, |labels| labels.with(key, value)),
            Self::RemoveNamespaceLabel { namespace, key } => {
                relabel_namespace(snapshot, namespace, |labels| without(labels, key));
            }
            Self::AddPort(place, port) => change_rule(snapshot, place, |rule| {
                if let List::Items(ports) = &mut rule.ports {
                    ports.push(port.clone());
                }
            }),
            Self::AnyPort(place) => change_rule(snapshot, place, |rule| rule.ports = List::Absent),
            Self::AddPeer(place, peer) => change_rule(snapshot, place, |rule| {
                if let List::Items(peers) = &mut rule.peers {
                    peers.push(peer.clone());
                }
            }),
            Self::RemoveExcept(place, except) => change_rule(snapshot, place, |rule| {
                if let List::Items(peers) = &mut rule.peers {
                    for peer in peers {
                        if let Peer::Block(block) = peer {
                            block.except.retain(|own| own != except);
                        }
                    }
                }
            }),
            Self::AddRule {
                policy,
                direction,
                at,
                rule,
                ..
            } => change_rules(snapshot, policy, *direction, |rules| {
                rules.insert((*at).min(rules.len()), rule.clone());
            }),
            Self::RemoveRule(place) => change_rules(snapshot, &place.policy, place.direction, |rules| {
                rules.retain(|rule| rule.index != place.rule);
            }),
            Self::AddPolicy(policy) => {
                snapshot
                    .policies
                    .insert(policy.object.clone(), Arc::clone(policy));
            }
        }
    }
}

fn without(labels: &Labels, key: &str) -> Labels {
    let others = labels.iter().filter(|(own, _)| *own != key);
    others.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn relabel_pod(snapshot: &mut Snapshot, pod: &ObjectRef, change: impl Fn(&Labels) -> Labels) {
    if let Some(pod) = snapshot.pods.get_mut(pod) {
        let pod = Arc::make_mut(pod);
        pod.labels = change(&pod.labels);
    }
}

fn relabel_namespace(snapshot: &mut Snapshot, name: &SmolStr, change: impl Fn(&Labels) -> Labels) {
    let namespace = snapshot
        .namespaces
        .entry(name.clone())
        .or_insert_with(|| Namespace::implied(name));
    *namespace = Namespace::new(name, &change(&namespace.labels));
}

fn change_rules(
    snapshot: &mut Snapshot,
    policy: &ObjectRef,
    direction: Direction,
    change: impl FnOnce(&mut Vec<Rule>),
) {
    if let Some(policy) = snapshot.policies.get_mut(policy) {
        let policy = Arc::make_mut(policy);
        change(match direction {
            Direction::Ingress => &mut policy.ingress.rules,
            Direction::Egress => &mut policy.egress.rules,
        });
    }
}

fn change_rule(snapshot: &mut Snapshot, place: &RulePlace, change: impl FnOnce(&mut Rule)) {
    change_rules(snapshot, &place.policy, place.direction, |rules| {
        if let Some(rule) = rules.iter_mut().find(|rule| rule.index == place.rule) {
            change(rule);
        }
    });
}
