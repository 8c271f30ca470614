//! Committed cases with real packets, in both layouts: blocks, ports, protocols, and clusters that change.

#![expect(clippy::expect_used, reason = "a test that cannot set itself up fails")]

use std::collections::BTreeSet;
use std::time::Duration;

use picket_cluster::{Flow, Semantics};
use picket_lab::{Cell, Grid, Host, Lab, Layout, Progress, Shape, compile};
use picket_testing::cases::{Case, Step, committed};

/// The files whose cases are tried; a lab for each case and layout takes a second.
const FILES: [&str; 5] = ["blocks.md", "ports.md", "sctp.md", "udp.md", "updates.md"];

const LAYOUTS: [Layout; 2] = [Layout::Indexed, Layout::Documented];

fn shape() -> Shape {
    Shape {
        nodes: 2,
        outside: BTreeSet::new(),
        timeout: Duration::from_millis(600),
    }
}

/// The cell of the probe that is `flow`.
fn cell<'a>(grid: &'a Grid, hosts: &[Host], flow: &Flow) -> Option<&'a Cell> {
    grid.cells()
        .iter()
        .find(|cell| cell.probe.flow(hosts).as_ref() == Some(flow))
}

/// Checks one step on a lab that stands for it; gives the number of verdicts seen.
fn check(lab: &mut Lab, step: &Step, layout: Layout) -> usize {
    let grid = lab
        .probe(lab.timeout(), &Progress::hidden())
        .expect("a lab that probes");
    assert_eq!(
        grid.differences().count(),
        0,
        "{layout:?}, {}\n{}",
        step.title,
        grid.to_text(false)
    );
    let topology = lab.topology();
    let mut seen = 0;
    for expectation in &step.expectations {
        for flow in expectation.flows(&topology.snapshot) {
            // Ports that neither a policy nor a container names are not probed.
            let Some(cell) = cell(&grid, &topology.hosts, &flow) else {
                continue;
            };
            let position = &expectation.position;
            assert_eq!(
                cell.seen.verdict(),
                Some(expectation.verdict),
                "{layout:?}, {position}: {flow:?}"
            );
            seen += 1;
        }
    }
    seen
}

/// Plays one case: the first step is built, every other one is applied to what stands.
fn play(case: &Case, layout: Layout) -> usize {
    let mut steps = case.steps.iter();
    let first = steps.next().expect("a case with a step");
    let compile = compile(layout, &Semantics::default());
    let mut lab = Lab::up(&first.snapshot(), shape(), &[], compile, &Progress::hidden()).expect("a lab");
    let mut seen = check(&mut lab, first, layout);
    for step in steps {
        lab.apply(&step.snapshot(), &Progress::hidden())
            .expect("a lab that changes");
        seen += check(&mut lab, step, layout);
    }
    seen
}

#[test]
fn real_packets_obey_the_cases() {
    let cases = committed().expect("the cases of the project");
    let of = |file: &str| -> Vec<&Case> {
        let folder_and_file = format!("k8s-e2e/{file}");
        cases
            .iter()
            .filter(|case| case.position.file.ends_with(&folder_and_file))
            .collect()
    };
    let seen: Vec<usize> = std::thread::scope(|scope| {
        let tries = FILES
            .iter()
            .flat_map(|file| LAYOUTS.map(|layout| (of(file), layout)));
        let tries: Vec<_> = tries
            .map(|(cases, layout)| scope.spawn(move || cases.iter().map(|case| play(case, layout)).sum()))
            .collect();
        tries
            .into_iter()
            .map(|one| one.join().expect("packets that obey"))
            .collect()
    });
    assert!(seen.iter().all(|&verdicts| verdicts > 10), "{seen:?}");
}
