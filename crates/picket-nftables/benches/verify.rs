//! How long one node's ruleset takes to render and to prove: `cargo bench -p picket-nftables --bench verify`.
//!
//! Clusters of three sizes, and in each a node with 110 pods from all over it. Single-threaded; each line is the best, the
//! median and the worst of several runs.
#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark prints, and fails at once"
)]

use std::collections::BTreeSet;
use std::time::Instant;

use picket_cluster::Semantics;
use picket_dataplane::demand::Demands;
use picket_engine::Engine;
use picket_nftables::render::indexed::{self, Guard, Options};
use picket_nftables::verify::verify;
use picket_testing::synthetic::{self, Size};

const RUNS: usize = 10;

const NODE: &str = "node-0";

fn main() {
    for size in [Size::of(110, 12, 250), Size::of(1000, 110, 2500), Size::REAL] {
        measure(size);
    }
}

fn measure(size: Size) {
    let mut snapshot = synthetic::cluster(size);
    synthetic::crowd(&mut snapshot, NODE);
    let engine = Engine::compile(&snapshot, Semantics::default());
    let program = engine.program();
    program.expand();
    println!(
        "{} pods, {} policies; a node with {} pods",
        size.pods,
        size.policies,
        program.pods_on(NODE).len()
    );
    let table = repeat("render", || {
        indexed::render(program, Some(NODE)).expect("a table")
    });
    let report = repeat("verify", || {
        let demands = Demands::on_node(program, Some(NODE));
        verify(&table, &demands, "", 1).expect("the proof agrees with the interpreter")
    });
    assert!(report.is_proof(), "{:?}", report.counterexamples);
    println!("  {} sets of packets", report.cells);
    let guard = Guard {
        anti_spoof: true,
        ..Guard::default()
    };
    let options = Options {
        guard: Some(guard),
        ..Options::default()
    };
    let table = indexed::render_with(program, Some(NODE), &options).expect("a table");
    let report = repeat("anti-spoof", || {
        let demands = Demands::on_node(program, Some(NODE)).against_spoofing(BTreeSet::new());
        verify(&table, &demands, "", 1).expect("the proof agrees with the interpreter")
    });
    assert!(report.is_proof(), "{:?}", report.counterexamples);
    println!("  {} sets of packets", report.cells);
}

/// Prints the times of several runs, and gives the last result.
fn repeat<T>(name: &str, work: impl Fn() -> T) -> T {
    let mut times = Vec::new();
    let mut result = work();
    for _ in 0..RUNS {
        let start = Instant::now();
        result = work();
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let at = |index: usize| times.get(index).expect("runs");
    println!(
        "  {name:<8} {:>9.1?} {:>9.1?} {:>9.1?}",
        at(0),
        at(RUNS / 2),
        at(RUNS - 1)
    );
    result
}
