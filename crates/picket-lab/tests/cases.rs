//! Committed cases with real packets, in both layouts: blocks, ports, protocols, secondary networks, what a cluster
//! denies by default, and clusters that change.

#![expect(clippy::expect_used, reason = "a test that cannot set itself up fails")]

use std::collections::BTreeSet;
use std::time::Duration;

use picket_cluster::{Flow, Semantics};
use picket_lab::{Cell, Expectation, Grid, Host, Lab, Layout, Progress, Shape, compile, parse_expectations};
use picket_net::parse_address;
use picket_policy::NetworkName;
use picket_testing::cases::{Case, Port, Step, committed};

/// The files whose cases are tried; a lab for each case and layout takes a second.
const FILES: [&str; 10] = [
    "k8s-e2e/blocks.md",
    "k8s-e2e/ports.md",
    "k8s-e2e/sctp.md",
    "k8s-e2e/udp.md",
    "k8s-e2e/updates.md",
    "networks/defects.md",
    "networks/namespaces.md",
    "networks/one-network.md",
    "networks/two-networks.md",
    "v1beta1/cluster-default.md",
];

const LAYOUTS: [Layout; 2] = [Layout::Indexed, Layout::Documented];

fn shape(case: &Case) -> Shape {
    let outside = case.steps.iter().flat_map(|step| {
        let ends = step
            .expectations
            .iter()
            .flat_map(|expectation| [&expectation.source, &expectation.destination]);
        ends.filter_map(|end| Some((step.network.clone(), parse_address(end)?)))
    });
    Shape {
        nodes: 2,
        outside: outside.collect(),
        timeout: Duration::from_millis(600),
    }
}

/// Lines that name every port that the case speaks of, so that it is probed.
fn ports(case: &Case) -> Vec<Expectation> {
    let probes = case.steps.iter().flat_map(|step| &step.expectations);
    let lines =
        probes.filter_map(
            |expectation| match (&expectation.probe.protocol, &expectation.probe.port) {
                (protocol, Port::Number(port)) => Some(format!("allow * -> * {port}/{protocol}\n")),
                (_, Port::Named(_) | Port::None) => None,
            },
        );
    let lines: BTreeSet<String> = lines.collect();
    parse_expectations(&lines.into_iter().collect::<String>()).expect("lines")
}

/// The cell of the probe on `network` that is `flow`.
fn cell<'a>(grid: &'a Grid, hosts: &[Host], network: Option<&NetworkName>, flow: &Flow) -> Option<&'a Cell> {
    grid.cells()
        .iter()
        .find(|cell| cell.probe.network(hosts) == network && cell.probe.flow(hosts).as_ref() == Some(flow))
}

/// Checks one step on a lab that stands for it; gives the number of verdicts seen.
fn check(lab: &mut Lab, step: &Step, layout: Layout) -> usize {
    let grid = lab
        .probe(None, lab.timeout(), &Progress::hidden())
        .expect("a lab that probes");
    assert_eq!(
        grid.differences().count(),
        0,
        "{layout:?}, {}\n{}",
        step.title,
        grid.to_text(false)
    );
    let topology = lab.topology();
    let wire = step.network.as_ref().map(|network| topology.wire(network));
    let network = wire.as_ref();
    let snapshot = topology.on(network);
    let mut seen = 0;
    for expectation in &step.expectations {
        for flow in expectation.flows(&snapshot) {
            // Ports that neither a policy nor a container names are not probed.
            let Some(cell) = cell(&grid, &topology.hosts, network, &flow) else {
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
    let compile = compile(layout, &Semantics::default(), &[]);
    let mut lab = Lab::up(
        &first.cluster(),
        shape(case),
        &ports(case),
        compile,
        &Progress::hidden(),
    )
    .expect("a lab");
    let mut seen = check(&mut lab, first, layout);
    for step in steps {
        lab.apply(&step.cluster(), &Progress::hidden())
            .expect("a lab that changes");
        seen += check(&mut lab, step, layout);
    }
    seen
}

#[test]
fn real_packets_obey_the_cases() {
    let cases = committed().expect("the cases of the project");
    let of = |file: &str| -> Vec<&Case> {
        cases
            .iter()
            .filter(|case| case.position.file.ends_with(file))
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
