//! What explanations say is what the engine decides, and what they name does what they say.

use std::collections::BTreeSet;

use picket_cluster::{Flow, Reason, Semantics, Snapshot};
use picket_engine::Engine;
use picket_policy::{Action, Mode, Tier};
use picket_testing::flows::representative_flows;
use picket_testing::generate::{self, Shape, semantics};
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// The tier that decides, and the rules by which it does: policy and index.
fn deciding(end: &ExplainedEnd) -> BTreeSet<(&str, &str, u32)> {
    let policies = end.tiers.iter().flat_map(|tier| &tier.policies);
    let rules = policies.flat_map(|policy| policy.rules.iter().map(move |rule| (policy, rule)));
    rules
        .filter(|(_, rule)| rule.decides && rule.action != Action::Pass)
        .map(|(policy, rule)| (policy.namespace.as_str(), policy.name.as_str(), rule.rule))
        .collect()
}

fn explains_the_engine(end: &ExplainedEnd) -> Result<(), TestCaseError> {
    let rules: BTreeSet<_> = end
        .causes
        .iter()
        .filter_map(|cause| Some((cause.namespace.as_str(), cause.name.as_str(), cause.rule?)))
        .collect();
    if end.reason != Reason::ClusterDefault {
        prop_assert_eq!(deciding(end), rules);
    }
    let outcomes: Vec<_> = end.tiers.iter().map(|tier| tier.outcome).collect();
    let decided = match end.reason {
        Reason::AllowedByRule => Some(TierOutcome::Allow),
        Reason::DeniedByRule | Reason::NoRuleMatches | Reason::ClusterDefault => Some(TierOutcome::Deny),
        Reason::IcmpAccepted => Some(TierOutcome::Allow),
        _ => None,
    };
    for outcome in [TierOutcome::Allow, TierOutcome::Deny] {
        let expected = usize::from(decided == Some(outcome));
        prop_assert_eq!(outcomes.iter().filter(|own| **own == outcome).count(), expected);
    }
    if end.reason == Reason::NoRuleMatches {
        let isolating: BTreeSet<_> = end
            .causes
            .iter()
            .map(|cause| (cause.namespace.as_str(), cause.name.as_str()))
            .collect();
        let shown = end
            .tiers
            .iter()
            .flat_map(|tier| &tier.policies)
            .filter(|policy| policy.isolates);
        let shown: BTreeSet<_> = shown
            .map(|policy| (policy.namespace.as_str(), policy.name.as_str()))
            .collect();
        prop_assert_eq!(isolating, shown);
    }
    Ok(())
}

fn judged(snapshot: &Snapshot, semantics: &Semantics, flow: &Flow) -> Verdict {
    let engine = Engine::compile(snapshot, semantics.clone());
    Evaluator::new(snapshot, engine.program()).judge(flow).verdict()
}

/// Whether policies decide about the connection at either end, so that another policy could decide otherwise.
fn is_about_policies(flow: &ExplainedFlow) -> bool {
    [&flow.egress, &flow.ingress].into_iter().any(|end| {
        matches!(
            end.reason,
            Reason::NotIsolated
                | Reason::AllowedByRule
                | Reason::DeniedByRule
                | Reason::NoRuleMatches
                | Reason::ClusterDefault
        )
    })
}

/// Whether an audited policy of the tier Admin accepts before every policy that there may be. What goes to the pod's own
/// node is allowed after that tier, whatever the others say.
fn is_accepted_first_to_a_node(explained: &ExplainedFlow, flow: &Flow) -> bool {
    let admin = explained
        .egress
        .tiers
        .iter()
        .filter(|tier| tier.tier == Tier::Admin);
    let mut policies = admin.flat_map(|tier| &tier.policies);
    let accepts = policies.any(|policy| {
        let accepts = policy
            .rules
            .iter()
            .any(|rule| rule.decides && rule.action == Action::Accept);
        accepts && policy.mode == Mode::Audit && policy.priority == Some(0)
    });
    accepts && !matches!(flow.destination, Endpoint::External(_))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn explanations_agree_with_the_engine_and_changes_flip_its_verdict(
        snapshot in prop_oneof![generate::snapshot(Shape::Tiered, 6), generate::mixture(8)],
        semantics in semantics(),
        asked in proptest::collection::vec(any::<Index>(), 200),
        changed in proptest::collection::vec(any::<Index>(), 8),
    ) {
        let engine = Engine::compile(&snapshot, semantics.clone());
        let evaluator = Evaluator::new(&snapshot, engine.program());
        let explainer = Explainer::new(&evaluator);
        let flows = representative_flows(&snapshot);
        prop_assume!(!flows.is_empty());
        for index in asked {
            let flow = index.get(&flows);
            for (alone, explained) in explainer.judged_alone(flow) {
                prop_assert_eq!(alone, (explained.verdict, explained.reason), "{:?} {:?}", flow, explained);
                explains_the_engine(&explained)?;
            }
        }
        for index in changed {
            let flow = index.get(&flows);
            let explained = explainer.explain_flow(flow);
            explains_the_engine(&explained.egress)?;
            explains_the_engine(&explained.ingress)?;
            let Some(flip) = &explained.flip else {
                prop_assert!(explained.verdict.is_allow(), "{:?}: {:?}", flow, explained);
                let accepted = match flow.protocol {
                    Protocol::ICMP => semantics.accept_icmp,
                    Protocol::ICMPV6 => semantics.accept_icmpv6,
                    _ => false,
                };
                // Isolation alone wakes custom rules.
                let custom = snapshot.policies.values().any(|policy| policy.tier == Tier::Custom);
                let first = is_accepted_first_to_a_node(&explained, flow);
                let excused = accepted || custom || first || !is_about_policies(&explained);
                prop_assert!(excused, "{:?}: {:?}", flow, explained);
                continue;
            };
            prop_assert_ne!(flip.to, explained.verdict);
            for way in std::iter::once(&flip.changes).chain(&flip.others) {
                prop_assert!(!way.is_empty());
                let mut changed = snapshot.clone();
                for change in way {
                    prop_assert_eq!(judged(&changed, &semantics, flow), explained.verdict, "needless: {:?}", way);
                    change.applied.apply(&mut changed);
                }
                prop_assert_eq!(judged(&changed, &semantics, flow), flip.to, "{:?}: {:?}", flow, way);
            }
        }
    }
}
