//! How long rulesets take to render and to prove: `cargo bench -p picket-nftables --bench verify`.
//!
//! Clusters of three sizes, and in each a node with 110 pods from all over it; then tables within pods, all of those of a node one
//! after the other. Single-threaded; each line is the best, the median and the worst of several runs.
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
use picket_nftables::model::InterfaceName;
use picket_nftables::render::documented::{self, OtherEnds, PodView};
use picket_nftables::render::indexed::{self, Guard, Options};
use picket_nftables::verify::verify;
use picket_policy::{Direction, ObjectRef};
use picket_testing::build::{self, accept, admin_policy, pod, pods_in};
use picket_testing::synthetic::{self, Size};

const RUNS: usize = 10;

const NODE: &str = "node-0";

/// Within pods.
const INTERFACE: &str = "net1";

/// How many pods one policy admits its peers to.
const GROUP: usize = 10;

fn main() {
    for size in [Size::of(110, 12, 250), Size::of(1000, 110, 2500), Size::REAL] {
        measure(size);
    }
    for rules in [25, 50, 100] {
        many_ports(rules);
    }
    within(110, 100, 0);
    within(1, 10_000, 0);
    within(1, 100, 100_000);
}

/// Pods of a node in groups of ten, each with a policy that admits so many peers, and all with one that isolates them; and so many pods of
/// which no policy knows.
fn within(pods: usize, peers: usize, others: usize) {
    let own = |at: usize| format!("bench/own-{at}");
    let groups = pods.div_ceil(GROUP);
    let all = build::policy("bench/isolate")
        .selects("own=yes")
        .isolates(Direction::Ingress);
    let group = |group: usize| {
        let rule = accept()
            .peer(pods_in("bench", &format!("peer={group}")))
            .port(Protocol::TCP, 5555);
        let admit = build::policy(&format!("bench/group-{group}")).selects(&format!("group={group}"));
        Object::from(admit.ingress(rule))
    };
    let own_pods = (0..pods).map(|at| {
        let pod = pod(&own(at))
            .label("own", "yes")
            .label("group", &(at / GROUP).to_string());
        Object::from(pod.on(NODE).ip(&address(0, at)))
    });
    let peer_pods = (0..groups * peers).map(|at| {
        let pod = pod(&format!("bench/peer-{at}")).label("peer", &(at / peers).to_string());
        Object::from(pod.ip(&address(1, at)))
    });
    let other_pods =
        (0..others).map(|at| Object::from(pod(&format!("bench/other-{at}")).ip(&address(4, at))));
    let objects = own_pods.chain(peer_pods).chain(other_pods);
    let objects = objects.chain((0..groups).map(group)).chain([all.into()]);
    let engine = Engine::compile(&objects.collect(), Semantics::default());
    let program = engine.program();
    println!("{pods} pods, {peers} peers of each, and {others} others: tables within pods");
    let (ends, interface) = (
        OtherEnds::default(),
        InterfaceName::new(INTERFACE).expect("a name"),
    );
    let objects: Vec<_> = (0..pods)
        .map(|at| ObjectRef::new("Pod", "bench", &format!("own-{at}")))
        .collect();
    let tables = repeat("render", || {
        let table = |pod| {
            let view = PodView::of(program, &ends, pod, &interface).expect("a pod");
            let (table, shortfalls) =
                documented::render(&view, &documented::Options::default()).expect("a table");
            assert!(shortfalls.is_empty(), "{shortfalls:?}");
            table
        };
        objects.iter().map(table).collect::<Vec<_>>()
    });
    let cells = repeat("verify", || {
        let cells = objects.iter().zip(&tables).map(|(pod, table)| {
            let demands = Demands::in_pod(program, pod, INTERFACE, BTreeSet::new(), [false; 2]);
            let report = verify(table, &demands.expect("a pod"), INTERFACE, 1)
                .expect("the proof agrees with the interpreter");
            assert!(report.is_proof(), "{:?}", report.counterexamples);
            report.cells
        });
        cells.sum::<usize>()
    });
    println!("  {cells} sets of packets");
}

/// An address in some /14 of 10.0.0.0/8, the one with this number.
fn address(of: usize, number: usize) -> String {
    format!(
        "10.{}.{}.{}",
        4 * of + number / 62_500,
        number / 250 % 250,
        number % 250 + 1
    )
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
