//! Every step of every committed case: the engine and the meanings of both layouts give the verdicts it states, but for
//! what the layout inside pods cannot express, for which it is narrower and says so.

use picket_cluster::{Endpoint, Flow, Semantics, Snapshot, Verdict};
use picket_engine::Engine;
use picket_nftables::meaning::Interpreter;
use picket_policy::{Direction, Tier};
use picket_testing::cases::{Step, committed};

use crate::indexed::meaning::Cluster;
use crate::reference;

/// What everything that picket compiles policies to says of one flow.
struct Compiled<'a> {
    snapshot: &'a Snapshot,
    engine: Engine,
    indexed: Cluster<'a>,
    documented: reference::Tables,
}

impl<'a> Compiled<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let semantics = Semantics::default();
        Self {
            snapshot,
            engine: Engine::compile(snapshot, semantics.clone()),
            indexed: Cluster::new(snapshot, &semantics),
            documented: reference::tables(snapshot, &semantics),
        }
    }

    /// The verdicts of the engine and of the nodes' tables.
    fn verdicts(&self, flow: &Flow) -> [Verdict; 2] {
        let packets = self
            .indexed
            .packets(flow)
            .expect("pods without a node run anywhere");
        [
            self.engine.program().judge(flow).verdict(),
            Verdict::from_allowed(self.indexed.passes(&packets, 0).is_some()),
        ]
    }

    /// The verdict of the tables inside the pods, and whether one of them is said to mean less than the policies.
    fn inside(&self, flow: &Flow) -> (Verdict, bool) {
        let (egress, narrower) = self.inside_one(Direction::Egress, flow);
        let (ingress, also_narrower) = self.inside_one(Direction::Ingress, flow);
        (egress.and(ingress), narrower || also_narrower)
    }

    /// What the table inside the pod at one end says, and whether it is said to mean less than the policies.
    fn inside_one(&self, direction: Direction, flow: &Flow) -> (Verdict, bool) {
        let end = match direction {
            Direction::Egress => &flow.source,
            Direction::Ingress => &flow.destination,
        };
        let table = match end {
            Endpoint::Pod(pod) => self.documented.get(pod),
            Endpoint::Node { .. } | Endpoint::External(_) => None,
        };
        let Some((table, narrower)) = table else {
            return (Verdict::Allow, false);
        };
        let packet = reference::packet(self.snapshot, flow, direction);
        let accepts = Interpreter::new(table).pass(&packet).outcome.is_accept();
        (Verdict::from_allowed(accepts), *narrower)
    }
}

/// How many flows were judged, and for how many the layout inside pods was narrower.
#[derive(Default)]
struct Judged {
    all: usize,
    narrower: usize,
}

/// Checks one step. The layout inside pods has no form for the tiers Admin and Baseline: for a pod that a policy of
/// theirs selects it says so, and then it may deny what the case allows, but not the other way round.
fn check(step: &Step, judged: &mut Judged) {
    let snapshot = step.snapshot();
    let tiered = snapshot
        .policies
        .values()
        .any(|policy| policy.tier != Tier::NetworkPolicy);
    let compiled = Compiled::new(&snapshot);
    for expectation in &step.expectations {
        for flow in expectation.flows(&snapshot) {
            let at = &expectation.position;
            let expected = expectation.verdict;
            assert_eq!(compiled.verdicts(&flow), [expected; 2], "{at}: {flow:?}");
            let (inside, narrower) = compiled.inside(&flow);
            assert!(tiered || !narrower, "{at}: every NetworkPolicy has a form");
            if narrower && expected.is_allow() && !inside.is_allow() {
                judged.narrower += 1;
            } else {
                assert_eq!(inside, expected, "{at}: inside pods, {flow:?}");
            }
            judged.all += 1;
        }
    }
}

#[test]
fn the_engine_and_both_layouts_give_every_verdict_of_every_case() {
    let cases = committed().expect("the cases of the project");
    let mut judged = Judged::default();
    for step in cases.iter().flat_map(|case| &case.steps) {
        check(step, &mut judged);
    }
    assert!(judged.all > 26_000, "{}", judged.all);
    assert!(
        judged.narrower > 0 && judged.narrower < 1000,
        "{}",
        judged.narrower
    );
}
