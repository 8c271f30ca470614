//! Every step of every committed case: the engine and the meanings of both layouts give the verdicts it states.

use picket_cluster::{Endpoint, Flow, Semantics, Snapshot, Verdict};
use picket_engine::Engine;
use picket_nftables::meaning::Interpreter;
use picket_policy::Direction;
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

    /// The verdicts of the engine, of the nodes' tables, and of the tables inside the pods.
    fn verdicts(&self, flow: &Flow) -> [Verdict; 3] {
        let packets = self
            .indexed
            .packets(flow)
            .expect("pods without a node run anywhere");
        [
            self.engine.program().judge(flow).verdict(),
            Verdict::from_allowed(self.indexed.passes(&packets, 0)),
            self.inside(Direction::Egress, flow)
                .and(self.inside(Direction::Ingress, flow)),
        ]
    }

    /// What the table inside the pod at one end says.
    fn inside(&self, direction: Direction, flow: &Flow) -> Verdict {
        let end = match direction {
            Direction::Egress => &flow.source,
            Direction::Ingress => &flow.destination,
        };
        let table = match end {
            Endpoint::Pod(pod) => self.documented.get(pod),
            Endpoint::Node { .. } | Endpoint::External(_) => None,
        };
        let accepts = table.is_none_or(|(table, _)| {
            let packet = reference::packet(self.snapshot, flow, direction);
            Interpreter::new(table).pass(&packet).outcome.is_accept()
        });
        Verdict::from_allowed(accepts)
    }
}

/// Checks one step; gives the number of flows that were judged.
fn check(step: &Step) -> usize {
    let snapshot = step.snapshot();
    let compiled = Compiled::new(&snapshot);
    let mut judged = 0;
    for expectation in &step.expectations {
        for flow in expectation.flows(&snapshot) {
            let expected = [expectation.verdict; 3];
            assert_eq!(
                compiled.verdicts(&flow),
                expected,
                "{}: {flow:?}",
                expectation.position
            );
            judged += 1;
        }
    }
    judged
}

#[test]
fn the_engine_and_both_layouts_give_every_verdict_of_every_case() {
    let cases = committed().expect("the cases of the project");
    let judged: usize = cases.iter().flat_map(|case| &case.steps).map(check).sum();
    assert!(judged > 25_000, "{judged}");
}
