//! Single changes that may make an end allow, the least far-reaching first; and what those are made of that make it deny.

use std::sync::Arc;

use picket_cluster::{Endpoint, NAMESPACE_NAME_LABEL, Pod, Verdict};
use picket_net::{PortRange, Prefix};
use picket_policy::{
    Action, Block, Labels, List, Mode, NamespaceScope, Networks, ObjectRef, Peer, PodSelector, Policy,
    PortMatch, Position, Requirement, Rule, Selector, Side, Tier,
};
use smol_str::{SmolStr, format_smolstr};

use super::change::{Change, RulePlace};
use super::miss::{End, Miss, managed, network_of};
use super::tiers::{Judged, JudgedPolicy, JudgedRule, Outcome};

/// The most changes that are tried at one end.
const MOST: usize = 24;

/// The ranks from which on changes take labels away, which anything may rest on.
const REMOVAL: usize = 7;

/// Changes that may make a denying end allow.
pub(super) fn to_allow(end: &End<'_>, judged: &Judged<'_>) -> Vec<Change> {
    let decides = |verdict| move |outcome: &Outcome| *outcome == Outcome::Decides(verdict);
    let Some(tier) = judged
        .tiers
        .iter()
        .find(|tier| decides(Verdict::Deny)(&tier.outcome))
    else {
        return Vec::new();
    };
    let mut ranked: Vec<(usize, Change)> = Vec::new();
    // Always works, and so is always tried.
    let mut last = None;
    if tier.tier == Tier::NetworkPolicy {
        for policy in &tier.policies {
            for rule in &policy.rules {
                let place = place(end, policy, rule);
                ranked.extend(mends(end, policy.policy, rule, &place));
            }
        }
        last = new_accept(end, &tier.policies);
    } else if tier.tier == Tier::ClusterDefault {
        last = new_accept(end, &[]);
    } else {
        for (policy, rule) in deciding(&tier.policies) {
            ranked.extend(rule_before(end, policy, rule, Action::Accept).map(|change| (0, change)));
            ranked.push((1, Change::RemoveRule(place(end, policy, rule))));
        }
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    let (near, far): (Vec<_>, Vec<_>) = ranked
        .into_iter()
        .take(MOST)
        .partition(|(rank, _)| *rank < REMOVAL);
    let changes = |ranked: Vec<(usize, Change)>| ranked.into_iter().map(|(_, change)| change);
    changes(near).chain(last).chain(changes(far)).collect()
}

pub(super) fn deciding<'b, 'a>(
    policies: &'b [JudgedPolicy<'a>],
) -> impl Iterator<Item = (&'b JudgedPolicy<'a>, &'b JudgedRule<'a>)> {
    policies.iter().flat_map(|policy| {
        let rules = policy.rules.iter().filter(|rule| rule.decides);
        rules.map(move |rule| (policy, rule))
    })
}

pub(super) fn place(end: &End<'_>, policy: &JudgedPolicy<'_>, rule: &JudgedRule<'_>) -> RulePlace {
    RulePlace {
        policy: policy.policy.object.clone(),
        direction: end.direction,
        rule: rule.rule.index,
        position: rule.rule.position.clone(),
    }
}

/// What makes one rule match that fails at its peers or at its ports, with ranks.
fn mends(end: &End<'_>, policy: &Policy, rule: &JudgedRule<'_>, place: &RulePlace) -> Vec<(usize, Change)> {
    match (rule.peers_match(), rule.ports_match()) {
        (true, false) => vec![match port(end) {
            Some(port) => (0, Change::AddPort(place.clone(), port)),
            None => (4, Change::AnyPort(place.clone())),
        }],
        (false, true) => {
            let peers = rule.peers.iter().flatten();
            let single = peers.filter_map(|(_, misses)| match misses.as_slice() {
                [only] => mend(end, only, place),
                _ => None,
            });
            let added = peer(end, Some(policy)).map(|peer| (3, Change::AddPeer(place.clone(), peer)));
            single.chain(added).collect()
        }
        _ => Vec::new(),
    }
}

/// What makes the other end meet one condition. A label that is there keeps its value: Services and other policies know
/// the pods by it.
fn mend(end: &End<'_>, miss: &Miss<'_>, place: &RulePlace) -> Option<(usize, Change)> {
    match miss {
        Miss::PodLabel { requirement, has } => {
            let Endpoint::Pod(pod) = end.peer() else {
                return None;
            };
            let (pod, key) = (pod.clone(), requirement.key().clone());
            match (value(requirement), has) {
                (Some(value), None) => Some((2, Change::SetPodLabel { pod, key, value })),
                (None, Some(_)) => Some((7, Change::RemovePodLabel { pod, key })),
                _ => None,
            }
        }
        Miss::NamespaceLabel {
            namespace,
            requirement,
            has,
        } if requirement.key() != NAMESPACE_NAME_LABEL => {
            let (namespace, key) = (namespace.clone(), requirement.key().clone());
            match (value(requirement), has) {
                (Some(value), None) => Some((
                    5,
                    Change::SetNamespaceLabel {
                        namespace,
                        key,
                        value,
                    },
                )),
                (None, Some(_)) => Some((8, Change::RemoveNamespaceLabel { namespace, key })),
                _ => None,
            }
        }
        Miss::Except { except, .. } => Some((5, Change::RemoveExcept(place.clone(), *except))),
        _ => None,
    }
}

/// The value of the label that meets a requirement; `None` when the label must go.
fn value(requirement: &Requirement) -> Option<SmolStr> {
    match requirement {
        Requirement::In(_, values) => values.first().cloned(),
        Requirement::Exists(_) => Some("true".into()),
        Requirement::NotIn(..) | Requirement::DoesNotExist(_) => None,
    }
}

/// The port of the connection; `None` for protocols without ports, which no policy can name.
fn port(end: &End<'_>) -> Option<PortMatch> {
    let protocol = end.flow.protocol;
    let range = PortRange::single(end.flow.port).filter(|_| protocol.has_ports())?;
    Some(PortMatch::Range(protocol, range))
}

/// A peer that means the other end and as little else as a policy can say. `policy` is where it will stand.
fn peer(end: &End<'_>, policy: Option<&Policy>) -> Option<Peer> {
    if let Some(pod) = managed(end.scene, end.peer())
        && policy.is_none_or(|policy| policy.networks.hold(network_of(pod)))
    {
        let namespace = &pod.object.namespace;
        let own = policy.is_some_and(|policy| policy.object.namespace == *namespace);
        let name = Requirement::In(NAMESPACE_NAME_LABEL.into(), vec![namespace.clone()]);
        return Some(Peer::Pods(PodSelector {
            namespaces: if own {
                NamespaceScope::Named(namespace.clone())
            } else {
                NamespaceScope::Matching([name].into_iter().collect())
            },
            pods: lasting(&pod.labels),
        }));
    }
    let prefix = match end.peer() {
        Endpoint::External(address) | Endpoint::Node { address, .. } => Prefix::host(*address),
        Endpoint::Pod(object) => {
            let pod = end.scene.pods.get(object)?;
            let address = pod.addresses.of(end.flow.family)?;
            if pod.synthetic {
                Prefix::new(address, 0)?
            } else {
                Prefix::host(address)
            }
        }
    };
    Some(Peer::Block(Block {
        prefix,
        except: Vec::new(),
    }))
}

/// The labels that all pods of a workload share, as a selector.
pub(super) fn lasting(labels: &Labels) -> Selector {
    const OF_ONE_POD: [&str; 7] = [
        "pod-template-hash",
        "controller-revision-hash",
        "pod-template-generation",
        "controller-uid",
        "batch.kubernetes.io/controller-uid",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
    ];
    let lasting = labels
        .iter()
        .filter(|(key, _)| !OF_ONE_POD.contains(&key.as_str()));
    lasting
        .map(|(key, value)| Requirement::In(key.clone(), vec![value.clone()]))
        .collect()
}

/// A rule about this connection and nothing else that can be told apart from it.
pub(super) fn exact_rule(end: &End<'_>, policy: Option<&Policy>, action: Action, index: u32) -> Option<Rule> {
    Some(Rule {
        index,
        position: Position::unknown(),
        action,
        peers: List::Items(vec![peer(end, policy)?]),
        ports: port(end).map_or(List::Absent, |port| List::Items(vec![port])),
    })
}

/// An index that no rule of the policy has.
pub(super) fn free_index(policy: &JudgedPolicy<'_>) -> u32 {
    let used = policy.rules.iter().map(|rule| rule.rule.index);
    used.max().map_or(0, |last| last.saturating_add(1))
}

/// A new rule of the policy that is most about this pod; or a new policy, where none can be written into.
fn new_accept(end: &End<'_>, policies: &[JudgedPolicy<'_>]) -> Option<Change> {
    let peer = managed(end.scene, end.peer());
    let writable = policies
        .iter()
        .filter(|policy| policy.isolates && policy.policy.object.kind != "Namespace")
        // What another one says of the peer no selector can.
        .filter(|policy| peer.is_none_or(|peer| policy.policy.networks.hold(network_of(peer))));
    let closest = writable.rev().max_by_key(|policy| {
        let subject = &policy.policy.subject.pods;
        (!policy.rules.is_empty(), subject.requirements().len())
    });
    let Some(closest) = closest else {
        return new_policy(end, |policy| {
            exact_rule(end, Some(policy), Action::Accept, 0)
                .into_iter()
                .collect()
        });
    };
    let policy = closest.policy;
    Some(Change::AddRule {
        policy: policy.object.clone(),
        position: policy.position.clone(),
        direction: end.direction,
        at: closest.rules.len(),
        rule: exact_rule(end, Some(policy), Action::Accept, free_index(closest))?,
    })
}

/// A new rule that decides before `rule` does.
pub(super) fn rule_before(
    end: &End<'_>,
    policy: &JudgedPolicy<'_>,
    rule: &JudgedRule<'_>,
    action: Action,
) -> Option<Change> {
    Some(Change::AddRule {
        policy: policy.policy.object.clone(),
        position: policy.policy.position.clone(),
        direction: end.direction,
        at: policy
            .rules
            .iter()
            .position(|own| own.rule.index == rule.rule.index)?,
        rule: exact_rule(end, None, action, free_index(policy))?,
    })
}

/// A policy that isolates the pod and allows nothing.
pub(super) fn isolation(end: &End<'_>) -> Option<Change> {
    new_policy(end, |_| Vec::new())
}

fn new_policy(end: &End<'_>, rules: impl Fn(&Policy) -> Vec<Rule>) -> Option<Change> {
    let pod: &Pod = end.pod()?;
    let kind = match pod.interface {
        Some(_) => "MultiNetworkPolicy",
        None => "NetworkPolicy",
    };
    let mut policy = Policy {
        object: unused_name(end, kind, &pod.object.namespace, pod),
        position: Position::unknown(),
        mode: Mode::Enforce,
        tier: Tier::NetworkPolicy,
        priority: 0,
        networks: Networks::Cluster,
        subject: PodSelector {
            namespaces: NamespaceScope::Named(pod.object.namespace.clone()),
            pods: lasting(&pod.labels),
        },
        ingress: Side::default(),
        egress: Side::default(),
    };
    let side = Side {
        isolates: true,
        rules: rules(&policy),
    };
    match end.direction {
        picket_policy::Direction::Ingress => policy.ingress = side,
        picket_policy::Direction::Egress => policy.egress = side,
    }
    Some(Change::AddPolicy(Arc::new(policy)))
}

pub(super) fn unused_name(end: &End<'_>, kind: &str, namespace: &str, pod: &Pod) -> ObjectRef {
    let names = (1..).map(|number| match number {
        1 => format_smolstr!("{}-{}", pod.object.name, end.direction),
        _ => format_smolstr!("{}-{}-{number}", pod.object.name, end.direction),
    });
    let mut objects = names.map(|name| ObjectRef::new(kind, namespace, &name));
    let free = objects.find(|object| !end.scene.policies.contains_key(object));
    // INVARIANT: there are more numbers than policies.
    free.unwrap_or_else(|| ObjectRef::new(kind, namespace, &pod.object.name))
}
