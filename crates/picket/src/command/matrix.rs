//! `picket matrix`: who can talk to whom.

use std::io::Write;

use clap::{Args, ValueEnum};
use picket_analysis::eval::Evaluator;
use picket_analysis::map::{By, Map, write};

use crate::arguments::{Input, NetworkArgument, SemanticsArguments};
use crate::output::{self, Outcome};
use crate::{input, report};

/// Show who may talk to whom: pods, workloads, nodes, and the rest of the address space
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// How to print the map
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    output: Format,

    /// Show each pod, or the pods of a workload as one endpoint where they behave alike
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    by: ByArgument,

    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    network: NetworkArgument,

    #[command(flatten)]
    semantics: SemanticsArguments,
}

const EXAMPLES: &str = "\
Examples:
  picket matrix -f manifests/
  picket matrix -f manifests/ --by workload -o html > map.html
  picket matrix -f manifests/ -o json | jq -r '.connections[] | select(.to == \"shop/db\") | .from'
  picket matrix -f manifests/ --by workload -o svg > map.svg
  picket matrix -f manifests/ --by workload -o dot | dot -Tsvg > graph.svg

The table shows endpoints that behave alike as one group, the page and the picture show them by
namespace and workload, and the other formats list every connection. Addresses outside the cluster are cut into the fewest ranges that policies tell apart.

Exit status: 0 the map is complete, 2 usage or input error.";

/// How to print the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people: groups of endpoints that behave alike, and a grid
    #[default]
    Table,
    /// JSON; docs/schema/matrix.schema.json describes it
    Json,
    /// Comma-separated values, one connection per line
    Csv,
    /// A Markdown table, one connection per line
    Md,
    /// A graph for Graphviz
    Dot,
    /// One self-contained page to look around in: matrix, graph, and why
    Html,
    /// The matrix as a picture
    Svg,
}

/// How pods are shown.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ByArgument {
    /// Each pod
    #[default]
    Pod,
    /// The pods of a top owner as one, where they behave alike
    Workload,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let loaded = input::load_network(&arguments.input, &arguments.network)?;
    if arguments.output != Format::Json {
        report::on_stderr(&loaded);
    }
    let engine = input::compile(&loaded, arguments.semantics.semantics());
    let by = match arguments.by {
        ByArgument::Pod => By::Pod,
        ByArgument::Workload => By::Workload,
    };
    let map = Map::new(&loaded.snapshot, engine.program(), by);
    let mut out = output::stdout();
    match arguments.output {
        Format::Table => write::table(&map, &mut out)?,
        Format::Json => {
            let findings = report::findings(&loaded);
            let extra = if findings.is_empty() {
                Vec::new()
            } else {
                vec![("diagnostics", serde_json::to_string(&findings)?)]
            };
            write::json(&map, &extra, &mut out)?;
        }
        Format::Csv => write::csv(&map, &mut out)?,
        Format::Md => write::markdown(&map, &mut out)?,
        Format::Dot => write::dot(&map, &mut out)?,
        Format::Svg => write::svg(&map, &mut out)?,
        Format::Html => {
            let evaluator = Evaluator::new(&loaded.snapshot, engine.program());
            write::html(&map, &evaluator, &mut out)?;
        }
    }
    out.flush()?;
    Ok(input::ended(&loaded, Outcome::Yes))
}
