//! Verdicts against the reference, packet by packet.

use std::sync::Arc;

use picket_cluster::{Flow, Semantics, Snapshot};
use picket_policy::Direction;
use picket_testing::flows;
use picket_testing::generate::{Shape, snapshot as random};
use proptest::prelude::*;

use super::super::{record, run};
use super::asked::asked;
use super::brute::{Brute, add_twins};
use super::sound;

/// Whether every packet is judged alike in both, also between two pods of one workload.
fn same_connectivity(one: &Snapshot, other: &Snapshot) -> bool {
    let [one, other] = [one, other].map(|cluster| {
        let mut cluster = cluster.clone();
        add_twins(&mut cluster);
        cluster
    });
    let both = |cluster: &Snapshot| flows::representative_flows(cluster);
    let judge = |cluster: &Snapshot, flow: &Flow| {
        picket_reference::judge(cluster, &Semantics::default(), flow).verdict()
    };
    // A node's own pods and traffic between nodes are nobody's to change, so they are the same anyway.
    both(&one)
        .iter()
        .chain(&both(&other))
        .all(|flow| judge(&one, flow) == judge(&other, flow))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn verdicts_are_those_of_the_reference(
        cluster in random(Shape::Custom, 4),
        all in proptest::collection::vec(asked(), 12),
        pods_match in any::<bool>(),
        accept_icmp in any::<bool>(),
    ) {
        let semantics = Semantics { ipblock_matches_pods: pods_match, accept_icmp, ..Semantics::default() };
        let brute = Brute::new(&cluster, &semantics);
        let mut hold = String::from("tests:\n");
        for asked in all {
            let text = asked.yaml();
            let outcome = run(&cluster, &semantics, &sound(&text));
            prop_assert_eq!(outcome.is_err(), asked.is_refused(&brute), "{}\n{:?}", text, outcome);
            let Ok(outcomes) = outcome else { continue };
            prop_assert_eq!(outcomes[0].holds(), asked.holds(&brute), "{}\n{:#?}", text, outcomes);
            if outcomes[0].holds() {
                hold += text.strip_prefix("tests:\n").unwrap();
            }
            let failures = &outcomes[0].failures;
            prop_assert_eq!(failures.is_empty(), outcomes[0].holds());
            for failure in failures {
                prop_assert!(!failure.steps.is_empty());
                for step in &failure.steps {
                    let allowed = step.verdict == crate::eval::Overall::Allow;
                    prop_assert_eq!(allowed, !failure.expected, "{}\n{:?}", text, step);
                }
                let links = failure.steps.windows(2);
                prop_assert!(links.into_iter().all(|steps| steps[0].to == steps[1].from));
            }
        }
        // What holds at once is no contradiction.
        if hold.lines().count() > 1 {
            let together = run(&cluster, &semantics, &sound(&hold));
            let all = together.as_ref().is_ok_and(|all| all.iter().all(super::super::Outcome::holds));
            prop_assert!(all, "{}\n{:?}", hold, together);
        }
    }

    #[test]
    fn what_is_recorded_holds_until_connectivity_changes(
        cluster in random(Shape::Custom, 4),
        which in any::<prop::sample::Index>(),
    ) {
        let semantics = Semantics::default();
        let text = record(&cluster, &semantics, None);
        let recorded = sound(&text);
        let holds = |cluster: &Snapshot| {
            let outcomes = run(cluster, &semantics, &recorded);
            outcomes.map(|outcomes| outcomes.iter().all(super::super::Outcome::holds))
        };
        prop_assert_eq!(holds(&cluster), Ok(true), "{}", text);
        prop_assert_eq!(&text, &record(&cluster, &semantics, None));
        let Some(changed) = without_a_rule(&cluster, which) else { return Ok(()) };
        prop_assert_eq!(holds(&changed), Ok(same_connectivity(&cluster, &changed)), "{}", text);
    }
}

/// The cluster without one of its rules; `None` when it has none.
fn without_a_rule(cluster: &Snapshot, which: prop::sample::Index) -> Option<Snapshot> {
    let rules: Vec<_> = cluster
        .policies
        .iter()
        .flat_map(|(object, policy)| {
            Direction::BOTH.into_iter().flat_map(move |direction| {
                let count = policy.side(direction).rules.len();
                (0..count).map(move |at| (object.clone(), direction, at))
            })
        })
        .collect();
    if rules.is_empty() {
        return None;
    }
    let (object, direction, at) = which.get(&rules);
    let mut changed = cluster.clone();
    let mut policy = (*changed.policies[object]).clone();
    let side = match direction {
        Direction::Ingress => &mut policy.ingress,
        Direction::Egress => &mut policy.egress,
    };
    side.rules.remove(*at);
    changed.policies.insert(object.clone(), Arc::new(policy));
    Some(changed)
}
