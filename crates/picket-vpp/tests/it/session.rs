//! Rules of the session layer mean what the reference says, in whatever order they are added.

use picket_cluster::{Semantics, Snapshot};
use picket_engine::Engine;
use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, semantics, snapshot};
use picket_vpp::session::verify::verify;
use picket_vpp::session::{Options, text};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::sessions::Sessions;

fn check(
    snapshot: &Snapshot,
    semantics: &Semantics,
    options: &Options,
    seed: u64,
) -> Result<(), TestCaseError> {
    let engine = Engine::compile(snapshot, semantics.clone());
    let sessions = Sessions::of(snapshot, engine.program(), options, seed);
    for (node, layer) in &sessions.layers {
        let report = verify(
            &layer.rules,
            engine.program(),
            node.as_deref(),
            &layer.narrower,
            3,
        );
        prop_assert!(
            report.is_proof(),
            "{node:?}: {:?}\n{}",
            report.counterexamples,
            text(&layer.rules)
        );
    }
    for flow in representative_flows(snapshot) {
        let Some(outcome) = sessions.judge(&flow) else {
            continue;
        };
        let allowed = picket_reference::judge(snapshot, semantics, &flow)
            .verdict()
            .is_allow();
        prop_assert!(
            outcome.passes == allowed || outcome.narrower && !outcome.passes,
            "{outcome:?}: {flow:?}\n{}",
            sessions.text()
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rules_mean_what_the_specification_says(
        snapshot in snapshot(Shape::Dialects, 5),
        semantics in semantics(),
        seed in prop_oneof![Just(0), any::<u64>()],
    ) {
        // Adding to a tree takes VPP, and this, a time that grows with the square of the rules.
        check(&snapshot, &semantics, &Options { most_rules: 600 }, seed)?;
    }

    #[test]
    fn less_is_allowed_where_there_may_be_no_more_rules(
        snapshot in snapshot(Shape::Dialects, 5),
        most_rules in 0..40usize,
        seed: u64,
    ) {
        check(&snapshot, &Semantics::default(), &Options { most_rules }, seed)?;
    }
}
