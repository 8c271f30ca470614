//! `picket render`: what a target would be told.

use std::io::Write;

use clap::{Args, ValueEnum};
use picket_nftables::print;

use crate::arguments::{CustomRuleArguments, Input, SemanticsArguments};
use crate::output::{self, Outcome};
use crate::ruleset::PlaceArguments;
use crate::{input, report};

/// Print the ruleset that enforces the policies
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: PlaceArguments,

    /// How to print the ruleset
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
    semantics: SemanticsArguments,

    #[command(flatten)]
    custom: CustomRuleArguments,
}

const EXAMPLES: &str = "\
Examples:
  picket render -f manifests/ --target nftables --node worker-1 | nft -f -
  picket render -f manifests/ --target nftables --layout documented --pod shop/web
  picket render -f manifests/ --target nftables --node worker-1 -o json | nft -j -f -

What is printed loads in one transaction that creates or replaces exactly one table: `inet picket`
(indexed, on the node) or `inet multi_networkpolicy` (documented, inside the pod).

Exit status: 0 the ruleset is complete, 2 usage or input error.";

/// How to print the ruleset.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// Text for `nft -f`
    #[default]
    Nft,
    /// JSON for `nft -j -f`
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    arguments.place.allows(&arguments.custom)?;
    let mut loaded = input::load(&arguments.input)?;
    let custom = input::add_custom_rules(&mut loaded, &arguments.custom, arguments.place.interface())?;
    // Also with `-o json`: what is printed must load in nft as it is.
    report::on_stderr(&loaded);
    input::ensure_had(&loaded)?;
    let engine = input::compile(&loaded, arguments.semantics.semantics());
    let place = arguments.place.find(&loaded, engine.program(), &custom)?;
    let (table, shortfalls) = place.table(engine.program(), custom)?;
    let diagnostics: Vec<_> = shortfalls
        .iter()
        .map(|shortfall| shortfall.diagnostic())
        .collect();
    report::these_on_stderr(&diagnostics, &loaded);
    let mut out = output::stdout();
    let text = match arguments.output {
        Format::Nft => print::text(&table),
        Format::Json => print::json(&table),
    };
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        writeln!(out)?;
    }
    out.flush()?;
    Ok(input::ended(&loaded, Outcome::Yes))
}
