//! New connections per second through one router namespace: no policy, the indexed layout in the router, and the
//! documented layout in the server, side by side in one run.
//!
//! `cargo bench -p picket-nftables --bench connections [-- ROUNDS]`; needs root, `nft`, and about two minutes, most of
//! which the kernel takes to load the documented layout of 10,000 policies.
#![expect(clippy::print_stdout, reason = "a benchmark reports on standard output")]

mod load;
mod rulesets;
mod topology;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use load::Measured;
use topology::{Topology, load_ruleset};

/// How long each case is measured in each round.
const SLICE: Duration = Duration::from_secs(1);

/// How many policies select the server.
const POLICIES: [u32; 3] = [100, 1_000, 10_000];

/// One line of the result.
struct Case {
    name: String,
    server: u8,
    /// What the router holds while this is measured.
    router: String,
    /// One measurement for each round.
    measured: Vec<Measured>,
}

impl Case {
    fn new(name: impl Into<String>, server: u8, router: String) -> Self {
        Self {
            name: name.into(),
            server,
            router,
            measured: Vec::new(),
        }
    }

    /// The lowest, the median and the highest of what `field` picks.
    fn spread(&self, field: impl Fn(&Measured) -> f64) -> [f64; 3] {
        let mut values: Vec<f64> = self.measured.iter().map(field).collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        [at(0), at(values.len() / 2), at(values.len().saturating_sub(1))]
    }
}

fn main() -> Result<()> {
    // Cargo passes `--bench`.
    let rounds = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(7);
    // One server without a table, for the router's tables, and one for each table of a server.
    let servers = (0..).take(1 + POLICIES.len());
    let topology = Topology::new(servers)?;
    let mut cases = vec![
        Case::new("nothing", 0, String::new()),
        Case::new("connection tracking only", 0, rulesets::TRACKING.to_owned()),
    ];
    for count in [0].into_iter().chain(POLICIES) {
        let ruleset = rulesets::indexed(count, topology::server(0), false)?;
        cases.push(Case::new(format!("indexed, {count} policies"), 0, ruleset));
    }
    for count in [0].into_iter().chain(POLICIES) {
        let ruleset = rulesets::indexed(count, topology::server(0), true)?;
        cases.push(Case::new(format!("anti-spoof, {count} policies"), 0, ruleset));
    }
    for (server, count) in (1..).zip(POLICIES) {
        let ruleset = rulesets::documented(count, topology::server(server))?;
        if let Some(namespace) = topology.servers.get(usize::from(server)) {
            let begin = Instant::now();
            load_ruleset(namespace, &ruleset)?;
            println!("documented, {count} policies: loaded in {:.1?}", begin.elapsed());
        }
        cases.push(Case::new(
            format!("documented, {count} policies"),
            server,
            String::new(),
        ));
    }
    for _ in 0..rounds {
        for case in &mut cases {
            load_ruleset(&topology.router, &case.router)?;
            let measured = topology.measure(case.server, SLICE)?;
            ensure!(
                measured.failed == 0,
                "{}: {} connections failed",
                case.name,
                measured.failed
            );
            case.measured.push(measured);
        }
    }
    report(&cases);
    Ok(())
}

fn report(cases: &[Case]) {
    println!("new connections: lowest, median, highest");
    println!("{:<28} {:>23} {:>31}", "", "per second", "per processor second");
    for case in cases {
        let [low, median, high] = case.spread(|measured| measured.rate);
        let [low_cpu, median_cpu, high_cpu] = case.spread(|measured| measured.per_processor_second);
        println!(
            "{:<28} {low:>9.0} {median:>9.0} {high:>9.0}   {low_cpu:>9.0} {median_cpu:>9.0} {high_cpu:>9.0}",
            case.name
        );
    }
}
