//! How the tiers compose, for one end of a connection.

use std::sync::Arc;

use picket_cluster::{Cause, EndJudgement, Endpoint, Flow, Pod, Reason, Semantics, Snapshot, Verdict};
use picket_net::Protocol;
use picket_policy::{Action, Direction, Mode, Policy, Rule, Tier};

use crate::matching::{is_about, rule_matches, selects};

/// One end of one connection.
pub(crate) struct Question<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) semantics: &'a Semantics,
    pub(crate) flow: &'a Flow,
    pub(crate) direction: Direction,
    /// The pod at this end.
    pub(crate) pod: &'a Pod,
    /// The other end.
    pub(crate) peer: &'a Endpoint,
    /// Whether policies that are only audited are taken for enforced ones.
    pub(crate) if_enforced: bool,
}

impl Question<'_> {
    /// Whether what a policy denies is denied.
    fn is_enforced(&self, policy: &Policy) -> bool {
        policy.mode == Mode::Enforce || self.if_enforced
    }

    /// Whether a policy isolates the pod, if it selects it.
    fn isolates(&self, policy: &Policy) -> bool {
        self.is_enforced(policy) && policy.side(self.direction).isolates
    }
}

/// `for tier in [Custom, Admin, NetworkPolicy, ClusterDefault, Baseline]`: the first tier that decides, decides; by default, allow.
pub(crate) fn judge_pod(question: &Question<'_>) -> EndJudgement {
    // `if not isolation: return clusterDefault(traffic, pod)` comes before `elif traffic.source == pod.node.kubelet`.
    let by_default = !is_selected(question) && cluster_default(question).is_some();
    let own_node = is_own_node(question.snapshot, question.pod, question.peer) && !by_default;
    if own_node && question.direction == Direction::Ingress {
        return EndJudgement::without_cause(Verdict::Allow, Reason::LocalNode);
    }
    let custom = Some(Tier::Custom).filter(|_| is_selected(question));
    for tier in custom.into_iter().chain([Tier::Admin]) {
        if let Some(decided) = ordered_tier(question, tier) {
            return decided;
        }
    }
    // "Traffic to and from the node where a Pod is running is always allowed", but for what an administrator denies.
    if own_node {
        return EndJudgement::without_cause(Verdict::Allow, Reason::LocalNode);
    }
    network_policies(question)
        .or_else(|| cluster_default(question))
        .or_else(|| ordered_tier(question, Tier::Baseline))
        .unwrap_or_else(|| EndJudgement::without_cause(Verdict::Allow, Reason::NotIsolated))
}

/// Whether a policy of tier NetworkPolicy isolates the pod.
fn is_isolated(question: &Question<'_>) -> bool {
    let mut policies = selecting(question, Tier::NetworkPolicy).into_iter();
    policies.any(|policy| question.isolates(policy))
}

/// Whether one does, or would if it were not only audited.
fn is_selected(question: &Question<'_>) -> bool {
    let mut policies = selecting(question, Tier::NetworkPolicy).into_iter();
    policies.any(|policy| policy.side(question.direction).isolates)
}

/// The cluster default of the v1beta1 proposal, for a pod that nothing isolates; it says nothing unless it denies.
fn cluster_default(question: &Question<'_>) -> Option<EndJudgement> {
    let mut defaults = selecting(question, Tier::ClusterDefault).into_iter();
    let denies = defaults.any(|policy| !policy.side(question.direction).rules.is_empty());
    let denies = denies && !is_isolated(question);
    denies.then(|| EndJudgement::without_cause(Verdict::Deny, Reason::ClusterDefault))
}

/// Whether `peer` is the node that `pod` runs on, or a hostNetwork pod there, which is the node too.
fn is_own_node(snapshot: &Snapshot, pod: &Pod, peer: &Endpoint) -> bool {
    let peer_node = match peer {
        Endpoint::Node { name, .. } => Some(name),
        Endpoint::Pod(object) => snapshot
            .pods
            .get(object)
            .filter(|other| other.host_network)
            .and_then(|other| other.node.as_ref()),
        Endpoint::External(_) => None,
    };
    pod.node.is_some() && pod.node.as_ref() == peer_node
}

/// The policies of one tier that select the pod, in the order in which the tier judges them.
fn selecting<'a>(question: &Question<'a>, tier: Tier) -> Vec<&'a Arc<Policy>> {
    let mut policies: Vec<_> = question
        .snapshot
        .policies
        .values()
        .filter(|policy| policy.tier == tier && is_about(policy, question.pod))
        .filter(|policy| selects(question.snapshot, &policy.subject, question.pod))
        .collect();
    policies.sort_by_key(|policy| (policy.priority, &policy.object));
    policies
}

/// Custom, Admin and Baseline: the first rule that matches decides, unless it passes. An audited policy denies nothing, and
/// custom rules, which are about isolated pods, deny nothing to a pod that only audited policies would isolate.
fn ordered_tier(question: &Question<'_>, tier: Tier) -> Option<EndJudgement> {
    let may_deny = tier != Tier::Custom || is_isolated(question);
    for policy in selecting(question, tier) {
        for rule in &policy.side(question.direction).rules {
            let counts = rule.action != Action::Deny || (may_deny && question.is_enforced(policy));
            if counts && rule_matches(question, policy, rule) {
                let (verdict, reason) = match rule.action {
                    Action::Accept => (Verdict::Allow, Reason::AllowedByRule),
                    Action::Deny => (Verdict::Deny, Reason::DeniedByRule),
                    Action::Pass => return None,
                };
                return Some(EndJudgement {
                    verdict,
                    reason,
                    causes: vec![by_rule(question, policy, rule)],
                    audited: Vec::new(),
                });
            }
        }
    }
    None
}

/// NetworkPolicy: says nothing about a pod that no policy isolates; otherwise its verdict is final, and policies "do
/// not conflict; they are additive". For a pod that only audited policies would isolate, what they accept is accepted,
/// and the rest is left to the tiers after this one.
fn network_policies(question: &Question<'_>) -> Option<EndJudgement> {
    if !is_selected(question) {
        return None;
    }
    let selecting = selecting(question, Tier::NetworkPolicy);
    let isolating: Vec<_> = selecting
        .iter()
        .filter(|policy| question.isolates(policy))
        .collect();
    if is_accepted_icmp(question) {
        return Some(EndJudgement::without_cause(Verdict::Allow, Reason::IcmpAccepted));
    }
    let mut accepting: Vec<_> = selecting
        .iter()
        .flat_map(|policy| {
            policy
                .side(question.direction)
                .rules
                .iter()
                .map(move |rule| (policy, rule))
        })
        .filter(|(policy, rule)| rule_matches(question, policy, rule))
        .map(|(policy, rule)| by_rule(question, policy, rule))
        .collect();
    if accepting.is_empty() && isolating.is_empty() {
        return None;
    }
    if accepting.is_empty() {
        let mut causes: Vec<_> = isolating
            .iter()
            .map(|policy| by_isolation(question, policy))
            .collect();
        causes.sort();
        return Some(EndJudgement {
            verdict: Verdict::Deny,
            reason: Reason::NoRuleMatches,
            causes,
            audited: Vec::new(),
        });
    }
    accepting.sort();
    Some(EndJudgement {
        verdict: Verdict::Allow,
        reason: Reason::AllowedByRule,
        causes: accepting,
        audited: Vec::new(),
    })
}

fn is_accepted_icmp(question: &Question<'_>) -> bool {
    match question.flow.protocol {
        Protocol::ICMP => question.semantics.accept_icmp,
        Protocol::ICMPV6 => question.semantics.accept_icmpv6,
        _ => false,
    }
}

fn by_rule(question: &Question<'_>, policy: &Policy, rule: &Rule) -> Cause {
    Cause {
        object: policy.object.clone(),
        direction: question.direction,
        rule: Some(rule.index),
        position: rule.position.clone(),
    }
}

fn by_isolation(question: &Question<'_>, policy: &Policy) -> Cause {
    Cause {
        object: policy.object.clone(),
        direction: question.direction,
        rule: None,
        position: policy.position.clone(),
    }
}
