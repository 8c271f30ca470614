//! What is demanded between sets of ends is what is demanded of each pair, none left out.

use std::collections::BTreeSet;

use picket_cluster::{Semantics, Snapshot};
use picket_dataplane::demand::{Demands, End, Ends};
use picket_dataplane::{Crossing, State};
use picket_engine::Engine;
use picket_net::BitSet;
use picket_testing::generate::{Shape, semantics, snapshot};
use proptest::prelude::*;

use super::nodes;

/// Takes every so many, from a bit pattern.
fn some(ends: &[End], pattern: u64) -> BitSet {
    let numbers = (0_u32..).take(ends.len());
    numbers
        .filter(|number| pattern >> (number % 61) & 1 == 1)
        .collect()
}

fn check(snapshot: &Snapshot, semantics: &Semantics, [from, to]: [u64; 2]) {
    let engine = Engine::compile(snapshot, semantics.clone());
    for node in nodes(snapshot) {
        let demands = Demands::on_node(engine.program(), node.as_deref());
        let different: BTreeSet<End> = demands.ends().map(|(_, end)| end).collect();
        let all: Vec<End> = different.into_iter().collect();
        let mut ends = Ends::new(&demands, &all);
        let (sources, destinations) = (some(&all, from), some(&all, to));
        for crossing in [
            Crossing::Send {
                output: "eth0".into(),
            },
            Crossing::Receive { input: "eth0".into() },
            Crossing::Forward {
                input: "eth0".into(),
                output: "eth1".into(),
            },
        ] {
            let of = |from: u32, to: u32| {
                let (from, to) = (&all[from as usize], &all[to as usize]);
                demands.demand(&crossing, from, to, State::New)
            };
            let found = ends.between(&crossing, &sources, &destinations);
            for &(demand, from, to) in &found {
                assert!(sources.contains(from) && destinations.contains(to));
                assert_eq!(demand, of(from, to));
            }
            let found: BTreeSet<_> = found.into_iter().map(|(demand, ..)| demand).collect();
            let pairs = sources
                .iter()
                .flat_map(|from| destinations.iter().map(move |to| (from, to)));
            let expected: BTreeSet<_> = pairs.map(|(from, to)| of(from, to)).collect();
            assert_eq!(found, expected, "{crossing:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_demand_of_a_pair_is_left_out(
        cluster in prop_oneof![
            snapshot(Shape::V1, 6),
            snapshot(Shape::Tiered, 5),
            snapshot(Shape::Dialects, 6),
        ],
        semantics in semantics(),
        some: [u64; 2],
    ) {
        check(&cluster, &semantics, some);
        check(&cluster, &semantics, [u64::MAX; 2]);
    }
}
