//! How long the proof of one node's ruleset takes: `cargo bench -p picket-nftables --bench verify`.
//!
//! A cluster of 5,413 pods and 13,678 policies, and its node with the most pods. Single-threaded; each line is the best and
//! the worst of several runs.
#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark prints, and fails at once"
)]

use std::time::Instant;

use picket_cluster::Semantics;
use picket_dataplane::demand::Demands;
use picket_engine::Engine;
use picket_nftables::render::indexed;
use picket_nftables::verify::verify;
use picket_testing::synthetic::{self, Size};

const RUNS: usize = 10;

fn main() {
    let snapshot = synthetic::cluster(Size::REAL);
    let engine = Engine::compile(&snapshot, Semantics::default());
    let program = engine.program();
    program.expand();
    let node = program
        .nodes()
        .map(|node| node.name.clone())
        .max_by_key(|name| program.pods_on(name).len())
        .expect("a node");
    println!(
        "{} pods, {} policies; node {node} with {} pods",
        Size::REAL.pods,
        Size::REAL.policies,
        program.pods_on(&node).len()
    );
    let table = indexed::render(program, Some(&node)).expect("a table");
    let mut times = Vec::new();
    let mut cells = 0;
    for _ in 0..RUNS {
        let start = Instant::now();
        let demands = Demands::on_node(program, Some(&node));
        let report = verify(&table, &demands, "", 1).expect("the proof agrees with the interpreter");
        times.push(start.elapsed());
        assert!(report.is_proof(), "{:?}", report.counterexamples);
        cells = report.cells;
    }
    println!(
        "verify, {cells} sets of packets: {:?} to {:?}",
        times.iter().min().expect("runs"),
        times.iter().max().expect("runs")
    );
}
