//! Changes that together may make an allowing end deny.

use std::sync::Arc;

use picket_cluster::{NAMESPACE_NAME_LABEL, Reason, Verdict};
use picket_policy::{
    Action, Direction, Mode, NamespaceScope, Networks, PodSelector, Policy, Position, Requirement, Side, Tier,
};

use super::candidate::{
    deciding, exact_rule, free_index, isolation, lasting, place, rule_before, unused_name,
};
use super::change::Change;
use super::miss::End;
use super::search::after;
use super::tiers::{Judged, JudgedPolicy, JudgedRule, JudgedTier, Outcome, judge};

/// Ways to make an allowing end deny, each of changes that are all needed.
pub(super) fn to_deny(end: &End<'_>, judged: &Judged<'_>) -> Vec<Vec<Change>> {
    match judged.reason {
        Reason::AllowedByRule => against_rules(end, judged),
        Reason::NotIsolated => {
            // Rules that match without isolating begin to count.
            let tiers = judged
                .tiers
                .iter()
                .filter(|tier| tier.tier == Tier::NetworkPolicy);
            let matching = tiers.flat_map(|tier| &tier.policies).flat_map(|policy| {
                let rules = policy.rules.iter().filter(|rule| rule.matches());
                rules.map(move |rule| Change::RemoveRule(place(end, policy, rule)))
            });
            vec![matching.chain(isolation(end)).collect()]
        }
        _ => Vec::new(),
    }
}

fn against_rules(end: &End<'_>, judged: &Judged<'_>) -> Vec<Vec<Change>> {
    let allowing = |tier: &&JudgedTier<'_>| tier.outcome == Outcome::Decides(Verdict::Allow);
    let Some(tier) = judged.tiers.iter().find(allowing) else {
        return Vec::new();
    };
    if tier.tier == Tier::NetworkPolicy {
        let rules = deciding(&tier.policies);
        let removed = rules.map(|(policy, rule)| Change::RemoveRule(place(end, policy, rule)));
        // What audited policies do not accept they do not deny.
        let is_isolated = tier.policies.iter().any(|policy| policy.isolates);
        let is_denied = is_isolated || later_tiers_deny(judged);
        return vec![removed.chain(isolation(end).filter(|_| !is_denied)).collect()];
    }
    let Some((policy, rule)) = deciding(&tier.policies).next() else {
        return Vec::new();
    };
    if policy.policy.mode == Mode::Enforce {
        let denied = rule_before(end, policy, rule, Action::Deny);
        return denied.into_iter().map(|change| vec![change]).collect();
    }
    // What an audited policy denies is not denied: another has to, before it or in its place.
    let before = earlier_rule(end, tier, policy).or_else(|| earlier_policy(end, tier.tier, policy));
    let before = before.into_iter().map(|change| vec![change]);
    before.chain(without_audited(end, tier)).collect()
}

/// Whether the tiers after NetworkPolicy deny what that one leaves to them.
fn later_tiers_deny(judged: &Judged<'_>) -> bool {
    let later = judged.tiers.iter().filter(|tier| tier.tier > Tier::NetworkPolicy);
    let decides = |rule: &&JudgedRule<'_>| rule.counts && rule.matches();
    let first = later.filter_map(|tier| {
        let mut rules = tier.policies.iter().flat_map(|policy| &policy.rules);
        rules.find(decides)
    });
    let mut actions = first.map(|rule| rule.rule.action);
    actions.find(|action| *action != Action::Pass) == Some(Action::Deny)
}

/// A rule that denies in the last enforced policy that the tier asks before `audited`.
fn earlier_rule(end: &End<'_>, tier: &JudgedTier<'_>, audited: &JudgedPolicy<'_>) -> Option<Change> {
    let earlier = tier.policies.iter();
    let earlier = earlier.take_while(|own| own.policy.object != audited.policy.object);
    let enforced = earlier.filter(|own| own.policy.mode == Mode::Enforce).last()?;
    Some(Change::AddRule {
        policy: enforced.policy.object.clone(),
        position: enforced.policy.position.clone(),
        direction: end.direction,
        // Wherever it stands: no rule matches before that of the audited policy.
        at: 0,
        rule: exact_rule(end, None, Action::Deny, free_index(enforced))?,
    })
}

/// A policy that denies and is asked before `audited`. Before Baseline comes NetworkPolicy; before a policy of Admin one of
/// a smaller priority, unless there is none.
fn earlier_policy(end: &End<'_>, tier: Tier, audited: &JudgedPolicy<'_>) -> Option<Change> {
    if tier == Tier::Baseline {
        return isolation(end);
    }
    let pod = end.pod()?;
    let name = Requirement::In(NAMESPACE_NAME_LABEL.into(), vec![pod.object.namespace.clone()]);
    let side = Side {
        isolates: false,
        rules: vec![exact_rule(end, None, Action::Deny, 0)?],
    };
    let (ingress, egress) = match end.direction {
        Direction::Ingress => (side, Side::default()),
        Direction::Egress => (Side::default(), side),
    };
    Some(Change::AddPolicy(Arc::new(Policy {
        object: unused_name(end, &audited.policy.object.kind, "", pod),
        position: Position::unknown(),
        mode: Mode::Enforce,
        tier,
        priority: audited.policy.priority.checked_sub(1)?,
        networks: Networks::Cluster,
        subject: PodSelector {
            namespaces: NamespaceScope::Matching([name].into_iter().collect()),
            pods: lasting(&pod.labels),
        },
        ingress,
        egress,
    })))
}

/// Ways that begin by removing what audited policies of the tier accept: then what comes after it decides, and has to deny.
fn without_audited(end: &End<'_>, tier: &JudgedTier<'_>) -> Vec<Vec<Change>> {
    let rules = tier.policies.iter().flat_map(|policy| {
        let matching = policy.rules.iter().filter(|rule| rule.counts && rule.matches());
        matching.map(move |rule| (policy, rule))
    });
    let accepted = rules
        .take_while(|(policy, rule)| policy.policy.mode == Mode::Audit && rule.rule.action == Action::Accept);
    let removed = accepted.map(|(policy, rule)| Change::RemoveRule(place(end, policy, rule)));
    let removed: Vec<_> = removed.collect();
    let scene = after(end.scene, &removed);
    let changed = End {
        scene: &scene,
        ..*end
    };
    let judged = judge(&changed);
    if !judged.verdict.is_allow() {
        return vec![removed];
    }
    // INVARIANT: the tier has no accept of an audited policy left that decides, so that this ends after the last tier.
    let ways = to_deny(&changed, &judged).into_iter();
    ways.map(|way| removed.iter().cloned().chain(way).collect())
        .collect()
}
