//! What lints call superfluous changes nothing when it goes, in random clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_cluster::{Semantics, Snapshot};
use picket_engine::{Engine, equivalent};
use picket_net::Prefix;
use picket_policy::{Direction, List, Networks, Peer, Policy, Requirement, Rule, Tier, V1beta1};
use picket_testing::generate::{Shape, snapshot};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::lint::{Input, check};

fn clusters() -> impl Strategy<Value = Snapshot> {
    prop_oneof![snapshot(Shape::Tiered, 5), snapshot(Shape::Dialects, 7)]
}

/// Adds to every policy a copy that is about fewer pods or networks, or has fewer rules, or some of them
/// twice, does not isolate, or has exceptions in its blocks.
fn with_copies(mut snapshot: Snapshot, choices: &[u8]) -> Snapshot {
    let policies: Vec<_> = snapshot.policies.values().cloned().collect();
    for (policy, choice) in policies.iter().zip(choices) {
        let mut copy = Policy::clone(policy);
        copy.object.name = format!("{}-{choice}", copy.object.name).into();
        if choice & 1 != 0 {
            let own = copy.subject.pods.requirements().iter().cloned();
            copy.subject.pods = own.chain([Requirement::Exists("app".into())]).collect();
        }
        for (side, bit) in [(&mut copy.ingress, 2), (&mut copy.egress, 4)] {
            if choice & bit != 0 {
                side.rules.truncate(1);
            } else if let Some(mut first) = side.rules.first().cloned() {
                first.index = 100;
                side.rules.push(first);
            }
            if choice & 16 != 0 {
                side.isolates = false;
            }
            if let (Some(first), true) = (side.rules.first_mut(), choice & 32 != 0) {
                pierce(first);
            }
        }
        if let (Networks::Attached(networks), 0) = (&mut copy.networks, choice & 8) {
            networks.truncate(1);
        }
        snapshot.policies.insert(copy.object.clone(), Arc::new(copy));
    }
    snapshot
}

/// Takes the first address out of every block.
fn pierce(rule: &mut Rule) {
    if let List::Items(peers) = &mut rule.peers {
        for peer in peers {
            if let Peer::Block(block) = peer {
                let first = Prefix::host(block.prefix.first());
                if first != block.prefix && !block.except.iter().any(|except| except.contains_prefix(&first))
                {
                    block.except.insert(0, first);
                }
            }
        }
    }
}

/// The snapshot without what the lints call superfluous, and how many findings that are of each lint.
fn without_superfluous(snapshot: &Snapshot) -> (Snapshot, [usize; 2]) {
    let found = check(&Input {
        snapshot,
        v1beta1: V1beta1::V1,
        sources: &BTreeMap::new(),
        broken: &BTreeSet::new(),
        ignored: &BTreeSet::new(),
    });
    let (mut less, mut counts) = (snapshot.clone(), [0, 0]);
    for finding in found {
        let object = finding.object.unwrap();
        match finding.code.0 {
            "L011" => {
                counts[1] += 1;
                less.policies.remove(&object);
            }
            "L010" => {
                counts[0] += 1;
                let policy = Arc::make_mut(less.policies.get_mut(&object).unwrap());
                for (side, direction) in [
                    (&mut policy.ingress, Direction::Ingress),
                    (&mut policy.egress, Direction::Egress),
                ] {
                    let field = |index| format!("spec.{direction}[{index}]");
                    side.rules.retain(|rule| finding.field != field(rule.index));
                }
            }
            _ => {}
        }
    }
    (less, counts)
}

/// Whether two clusters are judged alike on the cluster network and on every other.
fn same(one: &Snapshot, other: &Snapshot, semantics: &Semantics) -> bool {
    let alike = |one: &Snapshot, other: &Snapshot| {
        let [one, other] = [one, other].map(|snapshot| Engine::compile(snapshot, semantics.clone()));
        equivalent(one.program(), other.program())
    };
    let networks = one.known_networks();
    alike(one, other)
        && networks
            .iter()
            .all(|network| alike(&one.on(network), &other.on(network)))
}

#[test]
fn what_is_superfluous_can_go_and_no_verdict_changes() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config {
        cases: 512,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let totals = std::cell::RefCell::new([0, 0]);
    let choices = proptest::collection::vec(any::<u8>(), 8);
    let input = (clusters(), choices, any::<bool>());
    let result = runner.run(&input, |(snapshot, choices, ipblock_matches_pods)| {
        let semantics = Semantics {
            ipblock_matches_pods,
            ..Semantics::default()
        };
        let snapshot = with_copies(snapshot, &choices);
        let (less, counts) = without_superfluous(&snapshot);
        let mut totals = totals.borrow_mut();
        *totals = [totals[0] + counts[0], totals[1] + counts[1]];
        prop_assert!(same(&snapshot, &less, &semantics), "{counts:?}");
        Ok(())
    });
    result.unwrap();
    let [rules, policies] = totals.into_inner();
    assert!(
        rules > 20 && policies > 20,
        "{rules} rules and {policies} policies were found at all"
    );
}

#[test]
fn policies_of_the_tiers_are_never_called_redundant() {
    let mut runner = TestRunner::deterministic();
    let input = (clusters(), proptest::collection::vec(any::<u8>(), 8));
    let result = runner.run(&input, |(snapshot, choices)| {
        let snapshot = with_copies(snapshot, &choices);
        let (less, _) = without_superfluous(&snapshot);
        let tiered = |snapshot: &Snapshot| {
            let policies = snapshot.policies.values();
            policies
                .filter(|policy| policy.tier != Tier::NetworkPolicy)
                .count()
        };
        prop_assert_eq!(tiered(&snapshot), tiered(&less));
        Ok(())
    });
    result.unwrap();
}
