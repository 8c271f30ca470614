//! From what was judged to what is shown.

use picket_cluster::{EndJudgement, Verdict};
use picket_policy::{Action, ObjectRef, Tier};

use super::answer::{
    ChangeAnswer, ExplainedEnd, ExplainedPeer, ExplainedPolicy, ExplainedPort, ExplainedRule, ExplainedTier,
    FlipAnswer, MissAnswer, NearestRule, Place, TierOutcome,
};
use super::change::{Change, RulePlace};
use super::miss::Miss;
use super::search::Flip;
use super::tiers::{Judged, JudgedPolicy, JudgedRule, JudgedTier, Outcome};
use super::words;
use crate::eval::CauseAnswer;

/// What one end says: the verdict is the engine's, the rest is what was found by asking every rule.
pub(super) fn end(judgement: &EndJudgement, judged: &Judged<'_>) -> ExplainedEnd {
    ExplainedEnd {
        verdict: judgement.verdict,
        reason: judgement.reason,
        causes: judgement.causes.iter().map(CauseAnswer::from).collect(),
        audited: judgement.audited.iter().map(CauseAnswer::from).collect(),
        tiers: judged.tiers.iter().map(tier).collect(),
        nearest: nearest(judged),
    }
}

fn tier(tier: &JudgedTier<'_>) -> ExplainedTier {
    ExplainedTier {
        tier: tier.tier,
        outcome: match tier.outcome {
            Outcome::NotReached => TierOutcome::NotReached,
            Outcome::Silent if tier.policies.is_empty() => TierOutcome::NoPolicy,
            Outcome::Silent => TierOutcome::NoMatch,
            Outcome::Passes => TierOutcome::Pass,
            Outcome::Decides(Verdict::Allow) => TierOutcome::Allow,
            Outcome::Decides(Verdict::Deny) => TierOutcome::Deny,
        },
        policies: tier.policies.iter().map(policy).collect(),
    }
}

fn policy(judged: &JudgedPolicy<'_>) -> ExplainedPolicy {
    let policy = judged.policy;
    ExplainedPolicy {
        kind: policy.object.kind.clone(),
        namespace: policy.object.namespace.clone(),
        name: policy.object.name.clone(),
        place: Place::from(&policy.position),
        priority: policy.tier.is_ordered().then_some(policy.priority),
        isolates: judged.isolates,
        mode: policy.mode,
        rules: judged.rules.iter().map(rule).collect(),
    }
}

fn rule(judged: &JudgedRule<'_>) -> ExplainedRule {
    ExplainedRule {
        rule: judged.rule.index,
        place: Place::from(&judged.rule.position),
        action: judged.rule.action,
        matches: judged.matches(),
        decides: judged.decides,
        failing: judged.failing(),
        peers: judged.peers.as_ref().map(|peers| {
            let peers = peers.iter().map(|(peer, misses)| ExplainedPeer {
                peer: words::peer(peer),
                matches: misses.is_empty(),
                misses: misses.iter().map(miss).collect(),
            });
            peers.collect()
        }),
        ports: judged.ports.as_ref().map(|ports| {
            let ports = ports.iter().map(|(port, missed)| ExplainedPort {
                port: words::port(port),
                matches: missed.is_none(),
                miss: missed.as_ref().map(miss),
            });
            ports.collect()
        }),
    }
}

fn miss(miss: &Miss<'_>) -> MissAnswer {
    MissAnswer {
        why: words::why(miss),
        text: words::miss(miss),
    }
}

/// Of a tier that denies because no rule matches, the rule with the fewest failing conditions, the first of equals.
fn nearest(judged: &Judged<'_>) -> Option<NearestRule> {
    let denies = |tier: &&JudgedTier<'_>| {
        tier.tier == Tier::NetworkPolicy && tier.outcome == Outcome::Decides(Verdict::Deny)
    };
    let tier = judged.tiers.iter().find(denies)?;
    let rules = tier.policies.iter().flat_map(|policy| {
        let accepts = policy
            .rules
            .iter()
            .filter(|rule| rule.rule.action == Action::Accept);
        accepts.map(move |rule| (policy, rule))
    });
    let (policy, rule) = rules.min_by_key(|(_, rule)| rule.failing())?;
    let object = &policy.policy.object;
    Some(NearestRule {
        kind: object.kind.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        rule: rule.rule.index,
        place: Place::from(&rule.rule.position),
        failing: rule.failing(),
        misses: failing(rule),
    })
}

/// The conditions that a rule fails by, in words.
fn failing(rule: &JudgedRule<'_>) -> Vec<String> {
    let mut texts = Vec::new();
    if !rule.peers_match() {
        let peers = rule.peers.iter().flatten();
        match peers.min_by_key(|(_, misses)| misses.len()) {
            Some((_, misses)) => texts.extend(misses.iter().map(words::miss)),
            None => texts.push("its list of peers is empty".to_owned()),
        }
    }
    if !rule.ports_match() {
        let mut misses: Vec<_> = rule
            .ports
            .iter()
            .flatten()
            .filter_map(|(_, miss)| miss.as_ref())
            .collect();
        // A port of the same protocol is nearer.
        misses.sort_by_key(|miss| matches!(miss, Miss::Protocol { .. }));
        texts.push(match misses.first() {
            Some(miss) => words::miss(miss),
            None => "its list of ports is empty".to_owned(),
        });
    }
    texts
}

/// What would make the verdict the other one.
pub(super) fn flip(flip: &Flip, verdict: Verdict) -> FlipAnswer {
    let all = |changes: &Vec<Change>| changes.iter().map(change).collect();
    FlipAnswer {
        to: Verdict::from_allowed(!verdict.is_allow()),
        changes: all(&flip.changes),
        others: flip.others.iter().map(all).collect(),
    }
}

fn change(change: &Change) -> ChangeAnswer {
    let mut answer = ChangeAnswer {
        change: words::change_kind(change),
        text: words::change(change),
        object: None,
        direction: None,
        rule: None,
        place: None,
        key: None,
        value: None,
        applied: change.clone(),
    };
    match change {
        Change::SetPodLabel { pod, key, value } => {
            answer.object = Some(pod.clone());
            answer.key = Some(key.clone());
            answer.value = Some(value.clone());
        }
        Change::RemovePodLabel { pod, key } => {
            answer.object = Some(pod.clone());
            answer.key = Some(key.clone());
        }
        Change::SetNamespaceLabel {
            namespace,
            key,
            value,
            ..
        } => {
            answer.object = Some(ObjectRef::new("Namespace", "", namespace));
            answer.key = Some(key.clone());
            answer.value = Some(value.clone());
        }
        Change::RemoveNamespaceLabel { namespace, key } => {
            answer.object = Some(ObjectRef::new("Namespace", "", namespace));
            answer.key = Some(key.clone());
        }
        Change::AddPort(place, _)
        | Change::AnyPort(place)
        | Change::AddPeer(place, _)
        | Change::RemoveExcept(place, _)
        | Change::RemoveRule(place) => at(&mut answer, place),
        Change::AddRule {
            policy,
            position,
            direction,
            ..
        } => {
            answer.object = Some(policy.clone());
            answer.direction = Some(*direction);
            answer.place = Some(Place::from(position));
        }
        Change::AddPolicy(policy) => answer.object = Some(policy.object.clone()),
    }
    answer
}

fn at(answer: &mut ChangeAnswer, place: &RulePlace) {
    answer.object = Some(place.policy.clone());
    answer.direction = Some(place.direction);
    answer.rule = Some(place.rule);
    answer.place = Some(Place::from(&place.position));
}
