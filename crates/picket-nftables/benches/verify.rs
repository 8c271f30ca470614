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

use picket_cluster::{Object, Semantics};
use picket_dataplane::demand::Demands;
use picket_engine::Engine;
use picket_net::Protocol;
use picket_nftables::render::indexed::{self, Guard, Options};
use picket_nftables::verify::verify;
use picket_policy::Direction;
use picket_testing::build::{self, accept, admin_policy, pod, pods_in};
use picket_testing::synthetic::{self, Size};

const RUNS: usize = 10;

const NODE: &str = "node-0";

fn main() {
    for size in [Size::of(110, 12, 250), Size::of(1000, 110, 2500), Size::REAL] {
        measure(size);
    }
    for rules in [25, 50, 100] {
        many_ports(rules);
    }
}

/// A policy of administrators with rules of a hundred ports each, no two of them neighbours.
fn many_ports(rules: u16) {
    let rule = |rule: u16| {
        let ports = (0..100).map(|index| 1 + 2 * (100 * rule + index));
        let from = accept().peer(pods_in("z", ""));
        ports.fold(from, |rule, port| rule.port(Protocol::TCP, port))
    };
    let policy = admin_policy("admin", 1).selects("own=yes");
    let policy = (0..rules)
        .map(rule)
        .fold(policy, |policy, rule| policy.ingress(rule));
    let isolate = build::policy("x/isolate").isolates(Direction::Ingress);
    let own = pod("x/a").label("own", "yes").on(NODE).ip("10.0.0.1");
    let objects: [Object; 4] = [
        policy.into(),
        isolate.into(),
        own.into(),
        pod("z/a").on("elsewhere").ip("10.0.1.1").into(),
    ];
    let engine = Engine::compile(&objects.into_iter().collect(), Semantics::default());
    let program = engine.program();
    let table = indexed::render(program, Some(NODE)).expect("a table");
    println!("a policy of administrators with {rules} rules, each of 100 ports");
    let report = repeat("verify", || {
        let demands = Demands::on_node(program, Some(NODE));
        verify(&table, &demands, "", 1).expect("the proof agrees with the interpreter")
    });
    assert!(report.is_proof(), "{:?}", report.counterexamples);
    println!("  {} sets of packets", report.cells);
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
