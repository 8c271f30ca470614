//! What the tiers say of one end, rule by rule.

use std::sync::Arc;

use picket_cluster::{Reason, Snapshot, Verdict};
use picket_net::Protocol;
use picket_policy::{Action, List, Peer, Policy, PortMatch, Rule, Tier};

use super::miss::{End, Miss, selects};

/// What an end says and why.
#[derive(Clone, Debug)]
pub(super) struct Judged<'a> {
    pub(super) verdict: Verdict,
    pub(super) reason: Reason,
    /// In the order in which they are judged; none for an end that no policy applies to.
    pub(super) tiers: Vec<JudgedTier<'a>>,
}

/// What one tier says.
#[derive(Clone, Debug)]
pub(super) struct JudgedTier<'a> {
    pub(super) tier: Tier,
    pub(super) outcome: Outcome,
    /// The policies that select the pod and say something about the direction, in the order in which they are judged.
    pub(super) policies: Vec<JudgedPolicy<'a>>,
}

/// What comes out of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A tier before it has decided.
    NotReached,
    /// No rule matches and nothing isolates: the next tier is asked.
    Silent,
    /// A rule passes: the next tier is asked.
    Passes,
    /// It decides.
    Decides(Verdict),
}

/// What one policy says.
#[derive(Clone, Debug)]
pub(super) struct JudgedPolicy<'a> {
    pub(super) policy: &'a Arc<Policy>,
    pub(super) isolates: bool,
    pub(super) rules: Vec<JudgedRule<'a>>,
}

/// What one rule says.
#[derive(Clone, Debug)]
pub(super) struct JudgedRule<'a> {
    pub(super) rule: &'a Rule,
    /// For each peer what it misses; `None` when any peer will do.
    pub(super) peers: Option<Vec<(&'a Peer, Vec<Miss<'a>>)>>,
    /// For each port what it misses; `None` when any port will do.
    pub(super) ports: Option<Vec<(&'a PortMatch, Option<Miss<'a>>)>>,
    /// Whether it decides where it matches. What an audited policy denies does not.
    pub(super) counts: bool,
    /// Whether the tier looks at it no further than at rules before it.
    pub(super) decides: bool,
}

impl JudgedRule<'_> {
    pub(super) fn peers_match(&self) -> bool {
        let peers = self.peers.as_ref();
        peers.is_none_or(|peers| peers.iter().any(|(_, misses)| misses.is_empty()))
    }

    pub(super) fn ports_match(&self) -> bool {
        let ports = self.ports.as_ref();
        ports.is_none_or(|ports| ports.iter().any(|(_, miss)| miss.is_none()))
    }

    pub(super) fn matches(&self) -> bool {
        self.peers_match() && self.ports_match()
    }

    /// How many conditions fail: those of the peer with the fewest, and one when no port matches. An empty list counts
    /// as one.
    pub(super) fn failing(&self) -> usize {
        let peers = self.peers.as_ref().map_or(0, |peers| {
            let counts = peers.iter().map(|(_, misses)| misses.len());
            counts.min().unwrap_or(1)
        });
        peers + usize::from(!self.ports_match())
    }
}

/// Judges one end, asking every rule of every policy that selects it.
pub(super) fn judge<'a>(end: &End<'a>) -> Judged<'a> {
    let without = |verdict, reason| Judged {
        verdict,
        reason,
        tiers: Vec::new(),
    };
    if end.is_same_pod() {
        return without(Verdict::Allow, Reason::SamePod);
    }
    let Some(pod) = end.pod() else {
        return without(Verdict::Allow, Reason::NotAPod);
    };
    let selecting: Vec<_> = selecting(end).collect();
    let isolated = selecting.iter().any(|policy| policy.isolates(end.direction));
    let audited = selecting.iter().any(|policy| policy.side(end.direction).isolates);
    let mut defaults = selecting
        .iter()
        .filter(|policy| policy.tier == Tier::ClusterDefault);
    let by_default = !isolated && defaults.next().is_some();
    let own_node = end.is_own_node(pod) && (!by_default || audited);
    let mut decided = None;
    if own_node && end.direction == picket_policy::Direction::Ingress {
        decided = Some((Verdict::Allow, Reason::LocalNode));
    }
    let mut tiers = Vec::new();
    for tier in Tier::ALL {
        // Custom rules are about pods that something would isolate, and the cluster default about those that nothing does.
        if tier == Tier::Custom && !audited || tier == Tier::ClusterDefault && !by_default {
            continue;
        }
        // What an administrator denies comes before the exemption of the own node.
        if own_node && tier > Tier::Admin && decided.is_none() {
            decided = Some((Verdict::Allow, Reason::LocalNode));
        }
        let may_deny = tier != Tier::Custom || isolated;
        let mut judged = judge_tier(end, tier, &selecting, may_deny);
        if decided.is_some() {
            judged.0.outcome = Outcome::NotReached;
            forget_decisions(&mut judged.0);
        } else {
            decided = judged.1;
        }
        tiers.push(judged.0);
    }
    let (verdict, reason) = decided.unwrap_or((Verdict::Allow, Reason::NotIsolated));
    Judged {
        verdict,
        reason,
        tiers,
    }
}

fn forget_decisions(tier: &mut JudgedTier<'_>) {
    for policy in &mut tier.policies {
        for rule in &mut policy.rules {
            rule.decides = false;
        }
    }
}

fn selecting<'a>(end: &End<'a>) -> impl Iterator<Item = &'a Arc<Policy>> {
    let scene: &'a Snapshot = end.scene;
    let pod = end.pod();
    let direction = end.direction;
    scene.policies.values().filter(move |policy| {
        let side = policy.side(direction);
        (side.isolates || !side.rules.is_empty()) && pod.is_some_and(|pod| selects(scene, policy, pod))
    })
}

fn judge_tier<'a>(
    end: &End<'a>,
    tier: Tier,
    selecting: &[&'a Arc<Policy>],
    may_deny: bool,
) -> (JudgedTier<'a>, Option<(Verdict, Reason)>) {
    let mut ordered: Vec<_> = selecting
        .iter()
        .copied()
        .filter(|policy| policy.tier == tier)
        .collect();
    ordered.sort_by_key(|policy| (policy.priority, &policy.object));
    let counts =
        |policy: &Policy, rule: &Rule| policy.counts(rule) && (may_deny || rule.action != Action::Deny);
    let policies = ordered.into_iter().map(|policy| {
        let side = policy.side(end.direction);
        JudgedPolicy {
            policy,
            isolates: policy.isolates(end.direction),
            rules: side
                .rules
                .iter()
                .map(|rule| judge_rule(end, policy, rule, counts(policy, rule)))
                .collect(),
        }
    });
    let mut judged = JudgedTier {
        tier,
        outcome: Outcome::Silent,
        policies: policies.collect(),
    };
    let decided = match tier {
        Tier::NetworkPolicy => union(end, &mut judged),
        Tier::Custom | Tier::Admin | Tier::ClusterDefault | Tier::Baseline => first_match(&mut judged),
    };
    (judged, decided)
}

fn judge_rule<'a>(end: &End<'a>, policy: &Policy, rule: &'a Rule, counts: bool) -> JudgedRule<'a> {
    let peers = match &rule.peers {
        List::Absent => None,
        List::Items(peers) => {
            let misses = |peer| (peer, end.peer_misses(&policy.networks, peer));
            Some(peers.iter().map(misses).collect())
        }
    };
    let ports = match &rule.ports {
        List::Absent => None,
        List::Items(ports) => Some(ports.iter().map(|port| (port, end.port_miss(port))).collect()),
    };
    JudgedRule {
        rule,
        peers,
        ports,
        counts,
        decides: false,
    }
}

/// All but NetworkPolicy: the first rule that matches decides, unless it passes.
fn first_match(tier: &mut JudgedTier<'_>) -> Option<(Verdict, Reason)> {
    let mut rules = tier.policies.iter_mut().flat_map(|policy| &mut policy.rules);
    let rule = rules.find(|rule| rule.counts && rule.matches())?;
    rule.decides = true;
    let denied = if tier.tier == Tier::ClusterDefault {
        Reason::ClusterDefault
    } else {
        Reason::DeniedByRule
    };
    let (outcome, decided) = match rule.rule.action {
        Action::Accept => (
            Outcome::Decides(Verdict::Allow),
            Some((Verdict::Allow, Reason::AllowedByRule)),
        ),
        Action::Deny => (Outcome::Decides(Verdict::Deny), Some((Verdict::Deny, denied))),
        Action::Pass => (Outcome::Passes, None),
    };
    tier.outcome = outcome;
    decided
}

/// NetworkPolicy: a union of accepts that is final for isolated pods. Where only audited policies would isolate, it accepts
/// and denies nothing.
fn union(end: &End<'_>, tier: &mut JudgedTier<'_>) -> Option<(Verdict, Reason)> {
    let mut policies = tier.policies.iter();
    if !policies.any(|judged| judged.policy.side(end.direction).isolates) {
        return None;
    }
    let isolated = tier.policies.iter().any(|judged| judged.isolates);
    let icmp = match end.flow.protocol {
        Protocol::ICMP => end.semantics.accept_icmp,
        Protocol::ICMPV6 => end.semantics.accept_icmpv6,
        _ => false,
    };
    let mut accepted = false;
    if !icmp {
        for rule in tier.policies.iter_mut().flat_map(|policy| &mut policy.rules) {
            rule.decides = rule.matches();
            accepted |= rule.decides;
        }
    }
    let (verdict, reason) = match (icmp, accepted) {
        (true, _) => (Verdict::Allow, Reason::IcmpAccepted),
        (false, true) => (Verdict::Allow, Reason::AllowedByRule),
        (false, false) if !isolated => return None,
        (false, false) => (Verdict::Deny, Reason::NoRuleMatches),
    };
    tier.outcome = Outcome::Decides(verdict);
    Some((verdict, reason))
}
