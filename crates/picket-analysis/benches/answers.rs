//! Measures what people wait for once manifests are read: `cargo bench -p picket-analysis --bench answers`.
//!
//! The whole connectivity map of a real cluster's shape, explanations there, and a batch of 100,000 questions about 1,000 pods.
//! Single-threaded; each line is the best and the worst of several runs.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and fails at once"
)]

use std::fmt::Write;
use std::io;
use std::time::{Duration, Instant};

use picket_analysis::diff::{self, Diff, Version};
use picket_analysis::eval::{Evaluator, batch};
use picket_analysis::explain::Explainer;
use picket_analysis::map::{By, Map, write};
use picket_cluster::{Semantics, Snapshot};
use picket_engine::Engine;
use picket_testing::synthetic::{self, Size};

const RUNS: usize = 5;

fn main() {
    let Size {
        pods,
        namespaces,
        policies,
        ..
    } = Size::REAL;
    println!("{pods} pods, {namespaces} namespaces, {policies} policies");
    let snapshot = synthetic::cluster(Size::REAL);
    let compiled = || Engine::compile(&snapshot, Semantics::default());
    measure("compile and map, as classes in memory", || {
        let engine = compiled();
        Map::new(&snapshot, engine.program(), By::Pod).endpoints().len()
    });
    for (name, by) in [("workload", By::Workload), ("pod", By::Pod)] {
        let text = format!("compile, map and write --by {name} -o json");
        measure(&text, || {
            let engine = compiled();
            let mut bytes = Count(0);
            write::json(&Map::new(&snapshot, engine.program(), by), &[], &mut bytes).unwrap();
            bytes.0
        });
    }
    explanations(&snapshot);
    difference(&snapshot);
    questions();
}

fn explanations(snapshot: &Snapshot) {
    const COUNT: usize = 1000;
    let engine = Engine::compile(snapshot, Semantics::default());
    let evaluator = Evaluator::new(snapshot, engine.program());
    let explainer = Explainer::new(&evaluator);
    let ids: Vec<String> = snapshot.live_pods().map(|pod| pod.id()).collect();
    let questions: Vec<_> = (0..COUNT)
        .map(|at| {
            let end = |step: usize| ids.get(at * step % ids.len()).unwrap();
            evaluator.question(end(7919), end(104_729), "8080", None).unwrap()
        })
        .collect();
    measure("explain, 1,000 times", || {
        let explained = questions.iter().map(|question| explainer.explain(question));
        explained
            .filter(|explained| explained.explained.ipv4.is_some())
            .count()
    });
}

/// What one policy less changes.
fn difference(snapshot: &Snapshot) {
    let mut changed = snapshot.clone();
    let policy = changed.policies.keys().nth(changed.policies.len() / 2);
    let policy = policy.unwrap().clone();
    changed.policies.remove(&policy);
    let engines = [snapshot, &changed].map(|snapshot| Engine::compile(snapshot, Semantics::default()));
    let compare = |engines: &[Engine; 2], snapshots: [&Snapshot; 2], by| {
        let ([old, new], [before, after]) = (engines, snapshots);
        let [old, new] = [(old, before), (new, after)].map(|(engine, snapshot)| Version {
            snapshot,
            program: engine.program(),
        });
        let mut bytes = Count(0);
        diff::write::text(&Diff::new(old, new, by).summary(), &mut bytes).unwrap();
        bytes.0
    };
    measure("diff --by workload of one policy less, compiled", || {
        compare(&engines, [snapshot, &changed], By::Workload)
    });
    measure("compile both and diff --by workload", || {
        let engines = [snapshot, &changed].map(|snapshot| Engine::compile(snapshot, Semantics::default()));
        compare(&engines, [snapshot, &changed], By::Workload)
    });
    let twin = Engine::compile(snapshot, Semantics::default());
    let engines = [Engine::compile(snapshot, Semantics::default()), twin];
    measure("diff of what is equal, compiled", || {
        compare(&engines, [snapshot, snapshot], By::Workload)
    });
}

fn questions() {
    let size = Size {
        pods: 1000,
        namespaces: 100,
        policies: 2500,
        seed: 1,
    };
    let snapshot = synthetic::cluster(size);
    let engine = Engine::compile(&snapshot, Semantics::default());
    let lines = lines(&snapshot, 100_000);
    println!("\n1,000 pods, 100 namespaces, 2,500 policies");
    measure("eval --batch of 100,000 questions", || {
        let mut bytes = Count(0);
        let evaluator = Evaluator::new(&snapshot, engine.program());
        assert_eq!(
            batch(&evaluator, None, lines.as_bytes(), &mut bytes)
                .unwrap()
                .failed,
            0
        );
        bytes.0
    });
}

/// Questions about pairs of pods that follow no order.
fn lines(snapshot: &Snapshot, count: usize) -> String {
    let ids: Vec<String> = snapshot.live_pods().map(|pod| pod.id()).collect();
    let ports = ["80/tcp", "8080", "http", "53/udp", "5432", "icmp", "50051/tcp"];
    let mut text = String::new();
    for at in 0..count {
        let (from, to) = (
            ids.get(at * 7919 % ids.len()).unwrap(),
            ids.get(at * 104_729 / 7 % ids.len()).unwrap(),
        );
        // A name that a pod does not have is a question too: its answer is a deny.
        let port = ports.get(at % ports.len()).unwrap();
        writeln!(text, r#"{{"from":"{from}","to":"{to}","port":"{port}"}}"#).unwrap();
    }
    text
}

/// Counts what is written.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints the times of several runs, and what `work` counts: endpoints or bytes.
fn measure(name: &str, work: impl Fn() -> usize) {
    let mut counted = 0;
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        counted = work();
        times.push(start.elapsed());
    }
    times.sort();
    let (best, worst) = (times.first().unwrap(), times.last().unwrap());
    println!("  {name:<44} {best:>9.1?} to {worst:>9.1?}   {counted} endpoints or bytes");
}
