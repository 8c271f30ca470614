//! `picket explain`: why a connection is allowed or denied, and everything about one pod.

use std::io::Write;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use picket_analysis::directory::Party;
use picket_analysis::eval::{Evaluator, Overall};
use picket_analysis::explain::Explainer;
use picket_analysis::explain::write::{self, Style};
use picket_source::Loaded;

use crate::arguments::{FamilyArgument, Input, NetworkArgument, SemanticsArguments};
use crate::output::{self, Outcome};
use crate::{input, report};

/// Explain why a connection is allowed or denied, rule by rule, and what would change that; or everything about a pod
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Who opens the connection: namespace/pod, namespace/Kind/name, a node or an address
    #[arg(long, value_name = "ENDPOINT", required_unless_present = "pod")]
    from: Option<String>,

    /// To whom
    #[arg(long, value_name = "ENDPOINT", required_unless_present = "pod")]
    to: Option<String>,

    /// The destination port: N/PROTO, NAME/PROTO, icmp, icmpv6 or proto:N; a bare number or name is TCP
    #[arg(long, value_name = "PORT", required_unless_present = "pod")]
    port: Option<String>,

    /// Instead: every policy on a pod or workload, what it can reach, and who can reach it
    #[arg(long, value_name = "ENDPOINT", conflicts_with_all = ["from", "to", "port", "family"])]
    pod: Option<String>,

    /// Ask about this address family only
    #[arg(long, value_enum)]
    family: Option<FamilyArgument>,

    /// How to print the explanation
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    output: Format,

    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    network: NetworkArgument,

    #[command(flatten)]
    semantics: SemanticsArguments,
}

const EXAMPLES: &str = "\
Examples:
  picket explain -f manifests/ --from shop/web --to shop/db --port 5432
  picket explain -f manifests/ --from 203.0.113.9 --to shop/web --port https -o json
  picket explain -f manifests/ --pod shop/db-0
  picket explain -f manifests/ --network infra/storage --from shop/web --to shop/db --port 5432

Both ends are asked: the egress of the source and the ingress of the destination. Shown are the
policies that select the end, with the conditions by which each rule matches or does not, and
the smallest change of policies or labels after which the verdict is the other one. Every change
that is named has been tried.

Exit status: 0 allowed, 1 denied or only one address family allowed, 2 usage or input error.
With --pod: 0 answered.";

/// How to print the explanation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// JSON; docs/schema/explain.schema.json and explain-pod.schema.json describe it
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let loaded = input::load_network(&arguments.input, &arguments.network)?;
    if arguments.output == Format::Text {
        report::on_stderr(&loaded);
    }
    let engine = input::compile(&loaded, arguments.semantics.semantics());
    let evaluator = Evaluator::new(&loaded.snapshot, engine.program());
    let outcome = match &arguments.pod {
        Some(pod) => explain_pod(&evaluator, pod, arguments.output, &loaded),
        None => explain(&evaluator, arguments, &loaded),
    };
    // Whoever reads the error must see what may have led to it.
    let outcome = outcome.inspect_err(|_| {
        if arguments.output == Format::Json {
            report::on_stderr(&loaded);
        }
    })?;
    Ok(input::ended(&loaded, outcome))
}

fn explain(evaluator: &Evaluator<'_>, arguments: &Arguments, loaded: &Loaded) -> anyhow::Result<Outcome> {
    let asked = |argument: &Option<String>| argument.clone().unwrap_or_default();
    let question = evaluator.question(
        &asked(&arguments.from),
        &asked(&arguments.to),
        &asked(&arguments.port),
        arguments.family.map(Into::into),
    )?;
    let explanation = Explainer::new(evaluator).explain(&question);
    let mut out = output::stdout();
    match arguments.output {
        Format::Text => {
            out.write_all(super::eval::title(&explanation.answer).as_bytes())?;
            write::text(&explanation, style(), &mut out)?;
        }
        Format::Json => report::json(&explanation, loaded, &mut out)?,
    }
    out.flush()?;
    Ok(Outcome::from_yes(explanation.answer.verdict == Overall::Allow))
}

fn explain_pod(
    evaluator: &Evaluator<'_>,
    asked: &str,
    format: Format,
    loaded: &Loaded,
) -> anyhow::Result<Outcome> {
    let Party::Pod(pod) = evaluator
        .directory()
        .find(asked)
        .with_context(|| format!("cannot tell what `--pod {asked}` is"))?
    else {
        bail!("`{asked}` is no pod: write `namespace/pod`, or `namespace/Kind/name` for a workload");
    };
    let explanation = Explainer::new(evaluator).explain_pod(&pod);
    let mut out = output::stdout();
    match format {
        Format::Text => write::pod(&explanation, style(), &mut out)?,
        Format::Json => report::json(&explanation, loaded, &mut out)?,
    }
    out.flush()?;
    Ok(Outcome::Yes)
}

fn style() -> Style {
    Style {
        color: output::color_on_stdout(),
    }
}
