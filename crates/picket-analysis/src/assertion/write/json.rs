//! JSON for programs.

use std::io::{self, Write};

use serde::Serialize;

use super::{Judged, failed};
use crate::eval::Answer;
use crate::finding::Finding;

#[derive(Serialize)]
struct Report<'a> {
    passed: usize,
    failed: usize,
    tests: Vec<Test<'a>>,
    #[serde(skip_serializing_if = "<[Finding]>::is_empty")]
    diagnostics: &'a [Finding],
}

#[derive(Serialize)]
struct Test<'a> {
    name: &'a str,
    file: &'a str,
    line: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<String>,
    holds: bool,
    sources: usize,
    destinations: usize,
    failed: usize,
    failures: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    expected: &'static str,
    steps: &'a [Answer],
}

/// The JSON of `docs/schema/test.schema.json`, with what is wrong with the manifests.
///
/// # Errors
/// When writing fails.
pub fn json(judged: &[Judged<'_>], diagnostics: &[Finding], out: &mut impl Write) -> io::Result<()> {
    let tests = judged.iter().map(|(assertion, outcome)| Test {
        name: &assertion.name,
        file: &assertion.position.file,
        line: assertion.position.line,
        network: assertion.network.as_ref().map(|(network, _)| network.to_string()),
        holds: outcome.holds(),
        sources: outcome.sources,
        destinations: outcome.destinations,
        failed: outcome.failed,
        failures: outcome
            .failures
            .iter()
            .map(|failure| Shown {
                expected: if failure.expected { "allow" } else { "deny" },
                steps: &failure.steps,
            })
            .collect(),
    });
    let failed = failed(judged);
    let report = Report {
        passed: judged.len() - failed,
        failed,
        tests: tests.collect(),
        diagnostics,
    };
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)
}
