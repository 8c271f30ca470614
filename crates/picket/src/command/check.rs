//! `picket check`: what is wrong with manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use anyhow::bail;
use clap::{Args, ValueEnum};
use picket_analysis::finding::Finding;
use picket_analysis::lint;
use picket_policy::{Code, Diagnostic, Severity};
use picket_source::Loaded;
use serde::Serialize;
use smol_str::SmolStr;

use crate::arguments::Input;
use crate::output::{self, Outcome};
use crate::{fix, input, report, sarif};

/// Validate manifests: what cannot be read as written, what the API server would refuse, and what was probably not meant
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// How to print what is found
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    output: Format,

    /// Fail on warnings too
    #[arg(long)]
    deny_warnings: bool,

    /// Leave out a lint, as in `--ignore L009`; several are separated by commas
    #[arg(long, value_name = "LINT", value_delimiter = ',', value_parser = lint_code)]
    ignore: Vec<Code>,

    /// Write the fixes that are certain into the files, and check them again. Standard input stays as it is
    #[arg(long, conflicts_with = "kube")]
    fix: bool,

    /// With `--fix`: change nothing, and print what would change as a diff
    #[arg(long, requires = "fix")]
    dry_run: bool,

    #[command(flatten)]
    input: Input,
}

fn lint_code(text: &str) -> Result<Code, String> {
    lint::code(text).ok_or_else(|| "no lint has this code; docs/lints lists them".to_owned())
}

const EXAMPLES: &str = "\
Examples:
  picket check -f manifests/
  kubectl get -A -o yaml networkpolicies,pods,namespaces | picket check -f -
  picket check -f manifests/ --ignore L009
  picket check -f manifests/ --fix --dry-run
  picket check -f manifests/ --deny-warnings -o sarif > picket.sarif

Exit status: 0 nothing is wrong, 1 something is, 2 the input cannot be read.";

/// How to print what is found.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// For people, with the source lines
    #[default]
    Text,
    /// JSON; docs/schema/diagnostics.schema.json describes it
    Json,
    /// SARIF 2.1.0, for code hosts and editors
    Sarif,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut loaded = read(arguments)?;
    if arguments.fix && arguments.dry_run {
        return show_fixes(&loaded);
    }
    if arguments.fix {
        loaded = make_fixes(arguments, loaded)?;
    }
    let summary = Summary::of(&loaded, arguments.input.cluster.kube);
    let mut out = output::stdout();
    match arguments.output {
        Format::Text => {
            let renderer = report::renderer(output::color_on_stdout());
            for diagnostic in &loaded.diagnostics {
                out.write_all(report::text(diagnostic, &loaded, &renderer).as_bytes())?;
            }
            writeln!(out, "{}", summary.text())?;
        }
        Format::Json => {
            let diagnostics = report::findings(&loaded);
            let report = Report {
                diagnostics,
                summary: &summary,
            };
            output::json(&report, &mut out)?;
        }
        Format::Sarif => output::json(&sarif::log(&loaded.diagnostics), &mut out)?,
    }
    out.flush()?;
    let clean = summary.errors == 0 && !(arguments.deny_warnings && summary.warnings > 0);
    Ok(input::ended(&loaded, Outcome::from_yes(clean)))
}

/// Everything that is read and what is wrong with it.
fn read(arguments: &Arguments) -> anyhow::Result<Loaded> {
    let mut loaded = input::load(&arguments.input)?;
    let found = lints(arguments, &loaded);
    loaded.add(found);
    Ok(loaded)
}

/// Prints what `--fix` would change.
fn show_fixes(loaded: &Loaded) -> anyhow::Result<Outcome> {
    let (files, made) = fix::fixed(loaded);
    let mut out = output::stdout();
    for file in &files {
        out.write_all(file.diff().as_bytes())?;
    }
    out.flush()?;
    output::to_stderr(&format!(
        "{} would be made in {}\n",
        counted(made, "fix"),
        counted(files.len(), "file")
    ));
    Ok(input::ended(loaded, Outcome::from_yes(files.is_empty())))
}

/// Makes the fixes that are certain, and reads the files again.
fn make_fixes(arguments: &Arguments, loaded: Loaded) -> anyhow::Result<Loaded> {
    if arguments.input.paths.iter().any(|path| path.as_os_str() == "-") {
        bail!("`--fix` cannot write to standard input: name the files with `-f`");
    }
    let (files, made) = fix::fixed(&loaded);
    for file in &files {
        file.write()?;
    }
    output::to_stderr(&format!(
        "made {} in {}\n",
        counted(made, "fix"),
        counted(files.len(), "file")
    ));
    if files.is_empty() {
        return Ok(loaded);
    }
    drop(files);
    read(arguments)
}

/// What the lints find in policies that validation finds no error in.
fn lints(arguments: &Arguments, loaded: &Loaded) -> Vec<Diagnostic> {
    let errors = loaded.diagnostics.iter();
    let errors = errors.filter(|found| found.severity == Severity::Error);
    let broken: BTreeSet<_> = errors.filter_map(|found| found.object.clone()).collect();
    lint::check(&lint::Input {
        snapshot: &loaded.snapshot,
        v1beta1: loaded.v1beta1,
        sources: &loaded.sources,
        broken: &broken,
        ignored: &arguments.ignore.iter().copied().collect(),
    })
}

/// The whole answer as JSON.
#[derive(Serialize)]
struct Report<'a> {
    diagnostics: Vec<Finding>,
    summary: &'a Summary,
}

/// What was read.
#[derive(Serialize)]
struct Summary {
    /// Whether the objects are those of a cluster and in no files; each counts as one all the same.
    #[serde(skip)]
    live: bool,
    files: usize,
    /// By kind.
    objects: BTreeMap<String, usize>,
    /// Objects that say nothing about connectivity, by kind.
    ignored: BTreeMap<String, usize>,
    errors: usize,
    warnings: usize,
}

impl Summary {
    fn of(loaded: &Loaded, live: bool) -> Self {
        let severe = |severity| {
            let is_it = |diagnostic: &&Diagnostic| diagnostic.severity == severity;
            loaded.diagnostics.iter().filter(is_it).count()
        };
        let counts = |counts: &BTreeMap<SmolStr, usize>| {
            let counts = counts.iter().map(|(kind, count)| (kind.to_string(), *count));
            counts.collect()
        };
        Self {
            live,
            files: loaded.files.len(),
            objects: counts(&loaded.objects),
            ignored: counts(&loaded.ignored),
            errors: severe(Severity::Error),
            warnings: severe(Severity::Warning),
        }
    }

    fn text(&self) -> String {
        let listed = |counts: &BTreeMap<String, usize>| {
            let parts: Vec<_> = counts
                .iter()
                .map(|(kind, count)| format!("{count} {kind}"))
                .collect();
            parts.join(", ")
        };
        let place = match self.live {
            true => "the cluster".to_owned(),
            false => counted(self.files, "file"),
        };
        let mut text = format!("{place}: {}", listed(&self.objects));
        if self.objects.is_empty() {
            text += "no object that says anything about connectivity";
        }
        if !self.ignored.is_empty() {
            text += &format!("; ignored: {}", listed(&self.ignored));
        }
        format!(
            "{text}\n{}, {}",
            counted(self.errors, "error"),
            counted(self.warnings, "warning")
        )
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = match count {
        1 => "",
        _ if what.ends_with('x') => "es",
        _ => "s",
    };
    format!("{count} {what}{plural}")
}
