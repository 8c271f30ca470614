//! `picket diff`: what a change does to connectivity.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use picket_analysis::diff::{Counts, Diff, Version, write};
use picket_analysis::finding::Finding;
use picket_analysis::map::By;
use picket_source::{Files, Kube, Loaded, Origin, Text, overlay};

use crate::arguments::{ClusterArguments, NetworkArgument, Reading, SemanticsArguments};
use crate::git::Revisions;
use crate::output::{self, Outcome};
use crate::{input, report};

/// Show what a change adds to and removes from what may pass
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// OLD and NEW, a file or a directory of manifests each; with --git the paths to compare, by default the current
    /// directory
    #[arg(value_name = "OLD NEW", value_hint = clap::ValueHint::AnyPath)]
    paths: Vec<PathBuf>,

    /// Compare the manifests of two revisions; `OLD...NEW` begins where the two parted
    #[arg(long, conflicts_with = "kube", value_name = "OLD..NEW")]
    git: Option<String>,

    #[command(flatten)]
    cluster: ClusterArguments,

    /// With --kube: manifests to apply to the cluster, a file or a directory; `-` is standard input. May be repeated
    #[arg(short = 'f', long = "filename", requires = "kube", value_name = "PATH")]
    filenames: Vec<PathBuf>,

    /// How to print the difference
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    output: Format,

    /// Show the pods of a workload as one where they behave alike, or each pod [default: workload, with -o json: pod]
    #[arg(long, value_enum, value_name = "WHAT")]
    by: Option<ByArgument>,

    /// Fail when something was added, removed, or either
    #[arg(long, value_enum, value_name = "WHAT")]
    fail_on: Option<FailOn>,

    #[command(flatten)]
    reading: Reading,

    #[command(flatten)]
    network: NetworkArgument,

    #[command(flatten)]
    semantics: SemanticsArguments,
}

const EXAMPLES: &str = "\
Examples:
  picket diff before/ after/
  picket diff --git main..HEAD manifests/
  picket diff --git origin/main...HEAD manifests/ -o md > comment.md
  picket diff before/ after/ --fail-on added
  picket diff --kube -f policies/
  picket diff before/ after/ -o json | jq -r '.added[] | select(.to == \"shop/db\") | .from'

With --kube, OLD is the live cluster and NEW the same after `kubectl apply -f`: objects of the same
kind, namespace and name are replaced, and nothing is removed.

Addresses outside the cluster are those that are a pod's or a node's on neither side. A pod or node
that only one side has brings everything that may pass to and from it, or takes it away.

Exit status: 0 the difference is complete, 1 --fail-on is met, 2 usage or input error.";

/// How to print the difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people: by cause, one line for everything that changed alike
    #[default]
    Text,
    /// JSON; docs/schema/diff.schema.json describes it
    Json,
    /// Markdown, as a comment on the change
    Md,
}

/// How pods are shown.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ByArgument {
    /// Each pod
    Pod,
    /// The pods of a top owner as one, where they behave alike on both sides
    Workload,
}

/// When the command fails.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FailOn {
    /// Something may pass that could not before
    Added,
    /// Something may not pass any more that could before
    Removed,
    /// Either
    Any,
}

impl FailOn {
    fn is_met(self, counts: Counts) -> bool {
        match self {
            Self::Added => counts.any_added(),
            Self::Removed => counts.any_removed(),
            Self::Any => counts.any_added() || counts.any_removed(),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut sides = load(arguments)?;
    input::resolve(&mut sides, &arguments.reading)?;
    if arguments.output != Format::Json || sides.iter().any(|side| side.gap().is_some()) {
        sides.iter().for_each(report::on_stderr);
    }
    for (side, name) in sides.iter().zip(["old", "new"]) {
        if let Some(gap) = side.gap() {
            bail!("the {name} side cannot be compared: {gap}, and may hold pods or policies");
        }
    }
    if let Some(network) = &arguments.network.network {
        input::on_network(&mut sides, network)?;
    }
    let compiled = sides.each_ref().map(|side| {
        let engine = input::compile(side, arguments.semantics.semantics());
        (&side.snapshot, engine)
    });
    let [old, new] = compiled.each_ref().map(|(snapshot, engine)| Version {
        snapshot,
        program: engine.program(),
    });
    let diff = Diff::new(old, new, by(arguments));
    let mut out = output::stdout();
    match arguments.output {
        Format::Text => write::text(&diff.summary(), &mut out)?,
        Format::Md => write::markdown(&diff.summary(), &mut out)?,
        Format::Json => write::json(&diff, &diagnostics(&sides)?, &mut out)?,
    }
    out.flush()?;
    let failed = arguments
        .fail_on
        .is_some_and(|fail_on| fail_on.is_met(diff.counts()));
    Ok(Outcome::from_yes(!failed))
}

fn by(arguments: &Arguments) -> By {
    match (arguments.by, arguments.output) {
        (Some(ByArgument::Pod), _) | (None, Format::Json) => By::Pod,
        (Some(ByArgument::Workload), _) | (None, Format::Text | Format::Md) => By::Workload,
    }
}

fn diagnostics(sides: &[Loaded; 2]) -> anyhow::Result<Vec<(&'static str, String)>> {
    let all = sides.iter().flat_map(|side| &side.diagnostics);
    let findings: Vec<_> = all.map(Finding::from).collect();
    if findings.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![("diagnostics", serde_json::to_string(&findings)?)])
}

/// Reads both sides.
fn load(arguments: &Arguments) -> anyhow::Result<[Loaded; 2]> {
    let options = arguments.reading.options();
    if let Some(cluster) = arguments.cluster.origin() {
        return with_cluster(cluster, arguments);
    }
    if let Some(range) = &arguments.git {
        let [mut old, mut new] = Revisions::parse(range)?.sides(&arguments.paths)?;
        return Ok(input::load_sides(&[old.texts()?, new.texts()?], options));
    }
    let [old, new] = arguments.paths.as_slice() else {
        bail!("name two sides to compare, `picket diff OLD NEW`, or revisions with `--git OLD..NEW`");
    };
    let read = |path: &Path, name| files(&[path.to_owned()]).with_context(|| format!("the {name} side"));
    let sides = input::load_sides(&[read(old, "old")?, read(new, "new")?], options);
    for (side, name) in sides.iter().zip(["old", "new"]) {
        side.not_empty().with_context(|| format!("the {name} side"))?;
    }
    Ok(sides)
}

/// A cluster as it is, and with the manifests applied.
fn with_cluster(mut cluster: Kube, arguments: &Arguments) -> anyhow::Result<[Loaded; 2]> {
    if arguments.git.is_some() || !arguments.paths.is_empty() {
        bail!(
            "`--kube` compares the cluster with itself after `-f` is applied: name manifests with `-f` alone"
        );
    }
    let manifests = files(&arguments.filenames)?;
    let old = cluster.texts()?;
    let new = overlay(&old, &manifests);
    let mut sides = input::load_sides(&[old, new], arguments.reading.options());
    for side in &mut sides {
        side.lack(cluster.missing());
    }
    Ok(sides)
}

fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<Text>> {
    let mut files = Files {
        paths,
        stdin: &mut std::io::stdin().lock(),
    };
    Ok(files.texts()?)
}
