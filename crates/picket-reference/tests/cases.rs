//! The committed cases hold for the reference.

use picket_cluster::Semantics;
use picket_reference::judge;
use picket_testing::cases::committed;

#[test]
fn the_reference_gives_every_verdict_of_every_case() {
    let semantics = Semantics::default();
    let mut judged = 0;
    for case in committed().unwrap() {
        for step in &case.steps {
            let snapshot = step.snapshot();
            for expectation in &step.expectations {
                let flows = expectation.flows(&snapshot);
                assert!(!flows.is_empty(), "{}: nothing to judge", expectation.position);
                for flow in flows {
                    let judgement = judge(&snapshot, &semantics, &flow);
                    judged += 1;
                    assert_eq!(
                        judgement.verdict(),
                        expectation.verdict,
                        "{}: {flow:?}\n{judgement:?}",
                        expectation.position
                    );
                }
            }
        }
    }
    assert!(judged > 25_000, "{judged}");
}
