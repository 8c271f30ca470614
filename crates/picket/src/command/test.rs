//! `picket test`: assertions about connectivity.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use picket_analysis::assertion::{Assertion, Outcome as Fared, parse, record, run as judge, write};
use picket_policy::{NetworkName, Severity};
use picket_source::Loaded;

use crate::arguments::{Input, NetworkArgument, SemanticsArguments};
use crate::output::{self, Outcome};
use crate::{input, report};

/// Test assertions about what may pass and what may not
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Files of assertions, or directories of them; `-` is standard input
    #[arg(required_unless_present = "record", value_name = "TESTS", value_hint = clap::ValueHint::AnyPath)]
    tests: Vec<PathBuf>,

    /// How to print the results
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    output: Format,

    /// Write the results as JUnit XML to a file, too
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Test nothing, but print what is allowed now as a file of assertions, all of which hold
    #[arg(long, conflicts_with_all = ["tests", "output", "junit"])]
    record: bool,

    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    network: NetworkArgument,

    #[command(flatten)]
    semantics: SemanticsArguments,
}

const EXAMPLES: &str = "\
Examples:
  picket test -f manifests/ tests.yaml
  picket test -f manifests/ tests/ --junit results.xml
  picket test -f manifests/ tests.yaml -o tap
  picket test -f manifests/ --record > baseline.yaml

A file of assertions:
  apiVersion: picket.dev/v1
  kind: ConnectivityTest
  tests:
  - name: web reaches the API
    allow: every
    from: shop/Deployment/web
    to: shop/Deployment/api
    ports: 8080
  - name: only the API reaches the database
    allow: exactly
    from: shop/Deployment/api
    to: {podSelector: {matchLabels: {app: db}}}
    ports: 5432
  - name: nothing of staging gets to the database, over however many steps
    reach: never
    from: staging/*
    to: {podSelector: {matchLabels: {app: db}}}

docs/test.md describes all of it, and docs/schema/connectivity-test.schema.json tells editors.

Exit status: 0 every assertion holds, 1 one does not, 2 usage or input error.";

/// How to print the results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people: each assertion, with connections that show why one fails
    #[default]
    Text,
    /// JSON; docs/schema/test.schema.json describes it
    Json,
    /// JUnit XML
    Junit,
    /// The Test Anything Protocol
    Tap,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    input::ensure_one_stdin(&arguments.input, &arguments.tests, "tests")?;
    let loaded = input::load_network(&arguments.input, &arguments.network)?;
    let is_json = arguments.output == Format::Json && !arguments.record;
    if !is_json {
        report::on_stderr(&loaded);
    }
    input::ensure_whole(&loaded)?;
    if arguments.record {
        return print_record(arguments, &loaded);
    }
    let (assertions, tests) = read(arguments)?;
    let outcomes =
        judge(&loaded.snapshot, &arguments.semantics.semantics(), &assertions).map_err(|problems| {
            report::these_on_stderr(&problems, &tests);
            anyhow::anyhow!("nothing was tested: mend the assertions first")
        })?;
    let judged: Vec<_> = assertions.iter().zip(&outcomes).collect();
    if let Some(path) = &arguments.junit {
        let written = File::create(path).and_then(|file| {
            let mut file = BufWriter::new(file);
            write::junit(&judged, &mut file)?;
            file.flush()
        });
        written.with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    let mut out = output::stdout();
    match arguments.output {
        Format::Text => write::text(&judged, &mut out)?,
        Format::Json => {
            let findings = report::findings(&loaded);
            write::json(&judged, &findings, &mut out)?;
        }
        Format::Junit => write::junit(&judged, &mut out)?,
        Format::Tap => write::tap(&judged, &mut out)?,
    }
    out.flush()?;
    Ok(Outcome::from_yes(outcomes.iter().all(Fared::holds)))
}

fn print_record(arguments: &Arguments, loaded: &Loaded) -> anyhow::Result<Outcome> {
    if loaded.snapshot.live_pods().next().is_none() {
        bail!("there is nothing to record: the input has no pods");
    }
    let network = arguments.network.network.as_ref();
    let network = network.and_then(|network| NetworkName::parse(network, "default"));
    let text = record(
        &loaded.snapshot,
        &arguments.semantics.semantics(),
        network.as_ref(),
    );
    let mut out = output::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(Outcome::Yes)
}

/// The assertions of all files, and their texts for diagnostics.
fn read(arguments: &Arguments) -> anyhow::Result<(Vec<Assertion>, Loaded)> {
    let paths = &arguments.tests;
    let mut tests = Loaded::default();
    let mut assertions = Vec::new();
    for text in picket_source::read(paths, &mut io::stdin().lock())? {
        let (manifests, problems) = picket_policy::read(&text.name, &text.bytes);
        let content = String::from_utf8_lossy(&text.bytes);
        tests.sources.insert(Arc::clone(&text.name), Arc::from(content));
        tests.diagnostics.extend(problems);
        for manifest in &manifests {
            let (found, problems) = parse(manifest);
            assertions.extend(found);
            tests.diagnostics.extend(problems);
        }
    }
    report::on_stderr(&tests);
    if tests
        .diagnostics
        .iter()
        .any(|found| found.severity == Severity::Error)
    {
        bail!("nothing was tested: mend the assertions first");
    }
    if assertions.is_empty() {
        let names: Vec<_> = paths
            .iter()
            .map(|path| format!("`{}`", Path::display(path)))
            .collect();
        bail!(
            "{} holds no assertion: a test of nothing would always hold",
            names.join(", ")
        );
    }
    if arguments.network.network.is_some()
        && let Some(other) = assertions.iter().find(|assertion| assertion.network.is_some())
    {
        bail!(
            "{}: `{}` names its network itself, so `--network` cannot choose another: leave one of them out",
            other.position,
            other.name
        );
    }
    Ok((assertions, tests))
}
