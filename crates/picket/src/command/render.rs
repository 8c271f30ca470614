//! `picket render`: what a target would be told.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use picket_analysis::directory::{Directory, Party, nearest};
use picket_engine::{Engine, Program};
use picket_nftables::custom::CustomRules;
use picket_nftables::model::{InterfaceName, Table};
use picket_nftables::print;
use picket_nftables::render::documented::{self, PodView};
use picket_nftables::render::indexed;
use picket_policy::Diagnostic;
use picket_source::Loaded;

use crate::arguments::{CustomRuleArguments, Input, SemanticsArguments};
use crate::output::{self, Outcome};
use crate::{input, report};

/// Print the ruleset that enforces the policies
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What enforces the policies
    #[arg(long, value_enum)]
    target: Target,

    /// How the ruleset is laid out
    #[arg(long, value_enum, default_value_t)]
    layout: Layout,

    /// The node whose pods are policed, for the indexed layout; needed when there are several
    #[arg(long, value_name = "NAME", conflicts_with = "pod")]
    node: Option<String>,

    /// The pod in whose network namespace the ruleset is loaded, for the documented layout
    #[arg(long, value_name = "NS/POD", required_if_eq("layout", "documented"))]
    pod: Option<String>,

    /// The interface of the pod on the cluster network, for the documented layout
    #[arg(long, value_name = "NAME", default_value = "eth0")]
    interface: String,

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

/// What enforces the policies.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Target {
    /// nftables, the packet filter of Linux
    Nftables,
}

/// How the ruleset is laid out.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Layout {
    /// For a node: constant work per new connection, however many policies there are
    #[default]
    Indexed,
    /// For a pod's own network namespace: one chain per policy, as multi-networkpolicy documents it
    Documented,
}

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
    let Target::Nftables = arguments.target;
    if arguments.pod.is_none() && !arguments.custom.files().is_empty() {
        bail!("custom rules belong to `--layout documented`: the indexed layout has no place for them");
    }
    let mut loaded = input::load(&arguments.input)?;
    let custom = input::add_custom_rules(&mut loaded, &arguments.custom)?;
    // Also with `-o json`: what is printed must load in nft as it is.
    report::on_stderr(&loaded);
    let engine = input::compile(&loaded, arguments.semantics.semantics());
    let (table, diagnostics) = match arguments.layout {
        Layout::Indexed => (on_node(arguments, &loaded, engine.program())?, Vec::new()),
        Layout::Documented => in_pod(arguments, &loaded, engine.program(), custom)?,
    };
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

fn on_node(arguments: &Arguments, loaded: &Loaded, program: &Program) -> anyhow::Result<Table> {
    if arguments.pod.is_some() {
        bail!("`--pod` is for `--layout documented`: the indexed layout is loaded on a node, write `--node`");
    }
    let nodes = &loaded.snapshot.nodes;
    let names = || nodes.keys().map(|name| name.to_string());
    let node = match &arguments.node {
        Some(name) if nodes.contains_key(name.as_str()) => Some(name.as_str()),
        Some(name) => {
            let (near, _) = nearest(name, names(), 3);
            let near = if near.is_empty() {
                "the input has no nodes: leave `--node` out".to_owned()
            } else {
                format!("did you mean `{}`?", near.join("` or `"))
            };
            bail!("no node is called `{name}`; {near}");
        }
        None if nodes.len() > 1 => {
            let some: Vec<_> = names().take(3).collect();
            bail!(
                "the input has {} nodes: name one with `--node`, such as `{}`",
                nodes.len(),
                some.join("` or `")
            );
        }
        None => nodes.keys().next().map(|name| name.as_str()),
    };
    // A single node runs every pod, also those that nobody has placed yet.
    let node = arguments.node.as_ref().and(node);
    Ok(indexed::render(program, node)?)
}

fn in_pod(
    arguments: &Arguments,
    loaded: &Loaded,
    program: &Program,
    custom: Vec<CustomRules>,
) -> anyhow::Result<(Table, Vec<Diagnostic>)> {
    let asked = arguments.pod.as_deref().unwrap_or_default();
    let directory = Directory::new(&loaded.snapshot);
    let Party::Pod(pod) = directory.find(asked).context("pod")? else {
        bail!("`{asked}` is no pod: write `namespace/pod`, or `namespace/Kind/name` for a workload");
    };
    let interface = InterfaceName::new(&arguments.interface)
        .with_context(|| format!("`{}` cannot be the name of an interface", arguments.interface))?;
    let mut view = PodView::of(program, &pod.object, &interface)
        .with_context(|| format!("nothing is known of pod `{asked}`"))?;
    let semantics = program.semantics();
    let networks: BTreeSet<_> = pod.attachments.iter().map(|own| &own.network).collect();
    for network in networks {
        let engine = Engine::compile(&loaded.snapshot.on(network), semantics.clone());
        let attached = view.attach(engine.program());
        attached.map_err(|name| anyhow!("`{name}` cannot be the name of an interface"))?;
    }
    if pod
        .attachments
        .iter()
        .any(|own| own.interface == interface.as_str())
    {
        bail!(
            "`{interface}` is an interface of pod `{asked}` on a secondary network: name another with `--interface`"
        );
    }
    let options = documented::Options {
        accept_icmp: semantics.accept_icmp,
        accept_icmpv6: semantics.accept_icmpv6,
        custom,
    };
    let (table, shortfalls) = documented::render(&view, &options)?;
    Ok((
        table,
        shortfalls
            .iter()
            .map(|shortfall| shortfall.diagnostic())
            .collect(),
    ))
}
