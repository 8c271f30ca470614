//! `picket render`: what a target would be told.

use std::io::Write;

use clap::{Args, ValueEnum};
use picket_dataplane::Shortfall;
use picket_nftables::print;
use picket_source::Loaded;
use picket_vpp::{acl, session};

use crate::arguments::{CustomRuleArguments, Input, SemanticsArguments};
use crate::output::{self, Outcome};
use crate::ruleset::{PlaceArguments, Target};
use crate::vpp::VppArguments;
use crate::{input, report};

/// Print what enforces the policies: a ruleset of nftables, or lists or rules of VPP
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

    #[command(flatten)]
    vpp: VppArguments,
}

const EXAMPLES: &str = "\
Examples:
  picket render -f manifests/ --target nftables --node worker-1 | nft -f -
  picket render -f manifests/ --target nftables --layout documented --pod shop/web
  picket render -f manifests/ --target nftables --node worker-1 -o json | nft -j -f -
  picket render -f manifests/ --target vpp-acl --node worker-1
  picket render -f manifests/ --target vpp-session --node worker-1 -o json

For nftables, what is printed loads in one transaction that creates or replaces exactly one table: `inet picket`
(indexed, on the node) or `inet multi_networkpolicy` (documented, inside the pod).

Exit status: 0 the ruleset is complete, 2 usage or input error.";

/// How to print the ruleset.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// Text: for `nft -f`, or as VPP's own command line shows it
    #[default]
    #[value(alias = "nft")]
    Text,
    /// JSON: for `nft -j -f`, or with the names of VPP's API, as docs/schema/render-vpp-acl.schema.json and render-vpp-session.schema.json describe it
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    if arguments.place.target() != Target::Nftables {
        return run_vpp(arguments);
    }
    arguments.place.allows(&arguments.custom)?;
    let mut loaded = input::load_enforced(&arguments.input)?;
    let custom = input::add_custom_rules(&mut loaded, &arguments.custom, arguments.place.interface())?;
    // Also with `-o json`: what is printed must load in nft as it is.
    report::on_stderr(&loaded);
    input::ensure_had(&loaded)?;
    let engine = input::compile(&loaded, arguments.semantics.semantics());
    let place = arguments.place.find(&loaded, engine.program(), &custom)?;
    let (table, shortfalls) = place.table(engine.program(), custom)?;
    complain(&shortfalls, &loaded);
    let text = match arguments.output {
        Format::Text => print::text(&table),
        Format::Json => print::json(&table),
    };
    write(&text)?;
    Ok(input::ended(&loaded, Outcome::Yes))
}

fn run_vpp(arguments: &Arguments) -> anyhow::Result<Outcome> {
    arguments.custom.none_for_vpp()?;
    let mut loaded = input::load_enforced(&arguments.input)?;
    report::on_stderr(&loaded);
    input::ensure_had(&loaded)?;
    let node = arguments.place.vpp_node(&loaded)?;
    arguments.vpp.add_nat_loopback(&mut loaded.snapshot)?;
    let engine = input::compile(&loaded, arguments.semantics.semantics());
    let program = engine.program();
    let text = match arguments.place.target() {
        Target::VppSession => {
            let (rules, missing) = session::render(program, node.as_deref(), &arguments.vpp.session());
            complain(&session::shortfalls(program, &missing), &loaded);
            match arguments.output {
                Format::Text => session::text(&rules),
                Format::Json => pretty(&session::json(&rules))?,
            }
        }
        Target::VppAcl | Target::Nftables => {
            let acls = acl::render(program, node.as_deref(), &arguments.vpp.acl());
            complain(&acl::shortfalls(program, node.as_deref()), &loaded);
            match arguments.output {
                Format::Text => acl::text(&acls),
                Format::Json => pretty(&acl::json(&acls))?,
            }
        }
    };
    write(&text)?;
    Ok(input::ended(&loaded, Outcome::Yes))
}

/// Says what is rendered narrower than the policies are.
fn complain(shortfalls: &[Shortfall], loaded: &Loaded) {
    let diagnostics: Vec<_> = shortfalls.iter().map(Shortfall::diagnostic).collect();
    report::these_on_stderr(&diagnostics, loaded);
}

fn pretty(value: &serde_json::Value) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)?)
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = output::stdout();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        writeln!(out)?;
    }
    Ok(out.flush()?)
}
