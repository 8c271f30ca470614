//! `picket eval`: one question about one connection, or a batch of them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use picket_analysis::eval::{Answer, EndAnswer, Evaluator, Overall, batch};
use picket_net::Family;
use smol_str::SmolStr;

use crate::arguments::{FamilyArgument, Input, NetworkArgument, SemanticsArguments};
use crate::output::{self, Outcome};
use crate::{input, report};

/// Say whether one endpoint may open a connection to another, and which policies decide it
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Who opens the connection: namespace/pod, namespace/Kind/name, a node or an address
    #[arg(long, value_name = "ENDPOINT", required_unless_present = "batch")]
    from: Option<String>,

    /// To whom
    #[arg(long, value_name = "ENDPOINT", required_unless_present = "batch")]
    to: Option<String>,

    /// The destination port: N/PROTO, NAME/PROTO, icmp, icmpv6 or proto:N; a bare number or name is TCP
    #[arg(long, value_name = "PORT", required_unless_present = "batch")]
    port: Option<String>,

    /// Ask about this address family only
    #[arg(long, value_enum)]
    family: Option<FamilyArgument>,

    /// Answer each line {"from": …, "to": …, "port": …} of a file, `-` for standard input, with a line of its own
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "to", "port"])]
    batch: Option<PathBuf>,

    /// How to print the answer; a batch is always answered in JSON
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
  picket eval -f manifests/ --from shop/web --to shop/api --port 8080/tcp
  picket eval -f manifests/ --from 203.0.113.9 --to shop/web --port https -o json
  picket eval -f manifests/ --network infra/storage --from shop/web --to shop/db --port 5432
  picket eval -f manifests/ --from shop/Deployment/api --to shop/db-0 --port icmp --family ipv6
  echo '{\"from\": \"shop/web\", \"to\": \"shop/api\", \"port\": 8080}' | picket eval -f manifests/ --batch -

A node is named by its name, or as node/NAME. The address of a pod or node is that pod or node.
Policies are judged after service translation: ask about pods and their own ports, not about
Services.

Exit status: 0 allowed, 1 denied or only one address family allowed, 2 usage or input error.
A batch: 0 when every line was answered, whatever the verdicts, 2 when one was not.";

/// How to print the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// JSON; docs/schema/eval.schema.json and batch.schema.json describe it
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    input::ensure_one_stdin(&arguments.input, &arguments.batch, "batch")?;
    let loaded = input::load_network(&arguments.input, &arguments.network)?;
    if arguments.output == Format::Text || arguments.batch.is_some() {
        report::on_stderr(&loaded);
    }
    let engine = input::compile(&loaded, arguments.semantics.semantics());
    let evaluator = Evaluator::new(&loaded.snapshot, engine.program());
    let family = arguments.family.map(Family::from);
    if let Some(questions) = &arguments.batch {
        return Ok(input::ended(
            &loaded,
            answer_batch(&evaluator, family, questions)?,
        ));
    }
    let asked = |argument: &Option<String>| argument.clone().unwrap_or_default();
    let question = evaluator.question(
        &asked(&arguments.from),
        &asked(&arguments.to),
        &asked(&arguments.port),
        family,
    );
    // Whoever reads the error must see what may have led to it.
    let question = question.inspect_err(|_| {
        if arguments.output == Format::Json {
            report::on_stderr(&loaded);
        }
    })?;
    let answer = evaluator.answer(&question);
    let mut out = output::stdout();
    match arguments.output {
        Format::Text => out.write_all(text(&answer).as_bytes())?,
        Format::Json => report::json(&answer, &loaded, &mut out)?,
    }
    out.flush()?;
    Ok(input::ended(
        &loaded,
        Outcome::from_yes(answer.verdict == Overall::Allow),
    ))
}

fn answer_batch(
    evaluator: &Evaluator<'_>,
    family: Option<Family>,
    questions: &Path,
) -> anyhow::Result<Outcome> {
    let reader: Box<dyn BufRead> = if questions.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(questions).with_context(|| format!("cannot read `{}`", questions.display()))?;
        Box::new(BufReader::with_capacity(1 << 16, file))
    };
    let outcome = batch(evaluator, family, reader, output::stdout())?;
    Ok(if outcome.failed == 0 {
        Outcome::Yes
    } else {
        Outcome::Unanswered
    })
}

/// The verdict about which ends and port, as a line.
pub(super) fn title(answer: &Answer) -> String {
    let port = match (&answer.port_name, answer.port) {
        (Some(name), Some(port)) => format!(" {name} ({port})"),
        (Some(name), None) => format!(" {name}"),
        (None, Some(port)) => format!(" {port}"),
        (None, None) => String::new(),
    };
    let end = |id: &String, interface: &Option<SmolStr>| match interface {
        Some(interface) => format!("{id} ({interface})"),
        None => id.clone(),
    };
    let network = answer.network.as_ref();
    let network = network.map(|network| format!(" on network {network}"));
    format!(
        "{}: {} → {}, {}{port}{}\n",
        answer.verdict.as_str(),
        end(&answer.from, &answer.from_interface),
        end(&answer.to, &answer.to_interface),
        answer.protocol,
        network.unwrap_or_default(),
    )
}

fn text(answer: &Answer) -> String {
    let mut text = title(answer);
    if let (Some(egress), Some(ingress)) = (&answer.egress, &answer.ingress) {
        text += &ends("", egress, ingress);
    } else {
        for (name, family) in [("IPv4", &answer.families.ipv4), ("IPv6", &answer.families.ipv6)] {
            if let Some(family) = family {
                text += &format!("  {name}: {}\n", family.verdict);
                text += &ends("  ", &family.egress, &family.ingress);
            }
        }
    }
    text
}

pub(super) fn ends(indent: &str, egress: &EndAnswer, ingress: &EndAnswer) -> String {
    let mut text = String::new();
    for (name, end) in [("egress ", egress), ("ingress", ingress)] {
        // A reason is one word in JSON.
        let reason = serde_json::to_value(end.reason).ok();
        let reason = reason
            .as_ref()
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default();
        text += &format!("{indent}  {name}  {}  {reason}\n", end.verdict);
        for cause in &end.causes {
            text += &format!("{indent}    {}\n", cause.shown());
        }
        for cause in &end.audited {
            text += &format!("{indent}    audited, else denied: {}\n", cause.shown());
        }
    }
    text
}
