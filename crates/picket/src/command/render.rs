//! `picket render`: what a target would be told.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::bail;
use clap::{Args, ValueEnum};
use picket_dataplane::Shortfall;

use picket_neutron::Options;
use picket_neutron::plan::Ids;
use picket_nftables::print;
use picket_policy::{Node, ObjectRef, Value as Written};
use picket_source::Loaded;
use picket_vpp::{acl, session};
use serde_json::Value;
use smol_str::SmolStr;

use crate::arguments::{CustomRuleArguments, Input, SemanticsArguments};
use crate::cloud::LiveCloudArguments;
use crate::neutron::NeutronArguments;
use crate::output::{self, Outcome};
use crate::ruleset::{PlaceArguments, Target};
use crate::vpp::VppArguments;
use crate::{input, report};

/// Print what enforces the policies: a ruleset of nftables, lists or rules of VPP, or security groups of Neutron
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

    #[command(flatten)]
    neutron: NeutronArguments,

    /// Show the ids that Neutron has given to groups and rules, with `--target neutron -o kuryrnetpolicy`; what it does not have
    /// has the id `null`
    #[arg(long, help_heading = "Options of Neutron")]
    live: bool,

    #[command(flatten)]
    cloud: LiveCloudArguments,
}

const EXAMPLES: &str = "\
Examples:
  picket render -f manifests/ --target nftables --node worker-1 | nft -f -
  picket render -f manifests/ --target nftables --layout documented --pod shop/web
  picket render -f manifests/ --target nftables --node worker-1 -o json | nft -j -f -
  picket render -f manifests/ --target vpp-acl --node worker-1
  picket render -f manifests/ --target vpp-session --node worker-1 -o json
  picket render -f manifests/ --target neutron -o table
  picket render -f manifests/ --target neutron -o kuryrnetpolicy
  picket render --kube --target neutron -o kuryrnetpolicy --live --os-cloud prod

For nftables, what is printed loads in one transaction that creates or replaces exactly one table: `inet picket`
(indexed, on the node) or `inet multi_networkpolicy` (documented, inside the pod).

Exit status: 0 the ruleset is complete, 2 usage or input error.";

/// How to print the ruleset.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// Text: for `nft -f`, as VPP's own command line shows it, or a table of groups
    #[default]
    #[value(alias = "nft", alias = "table")]
    Text,
    /// JSON: for `nft -j -f`, or with the names of the API of VPP or Neutron, as docs/schema/render-vpp-acl.schema.json, render-vpp-session.schema.json and
    /// render-neutron.schema.json describe it
    Json,
    /// YAML of the same: for Neutron
    Yaml,
    /// NetworkPolicies as Kuryr's document writes them, to be read: for Neutron
    Kuryrnetpolicy,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    match arguments.place.target() {
        Target::Nftables => {}
        Target::VppAcl | Target::VppSession => return run_vpp(arguments),
        Target::Neutron => return run_neutron(arguments),
    }
    arguments.ensure_printable()?;
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
        Format::Text | Format::Yaml | Format::Kuryrnetpolicy => print::text(&table),
        Format::Json => print::json(&table),
    };
    write(&text)?;
    Ok(input::ended(&loaded, Outcome::Yes))
}

impl Arguments {
    /// Fails when something is asked for that only another target has.
    fn ensure_printable(&self) -> anyhow::Result<()> {
        match self.output {
            Format::Yaml | Format::Kuryrnetpolicy => {
                bail!("`-o yaml` and `-o kuryrnetpolicy` are for `--target neutron`")
            }
            Format::Text | Format::Json => self.ensure_offline(),
        }
    }

    /// Fails when it is asked what there is, where nothing that is printed depends on that.
    fn ensure_offline(&self) -> anyhow::Result<()> {
        match self.live {
            true => bail!("`--live` is for `--target neutron -o kuryrnetpolicy`"),
            false => Ok(()),
        }
    }
}

fn run_neutron(arguments: &Arguments) -> anyhow::Result<Outcome> {
    arguments.custom.none_for_others()?;
    arguments.place.none_for_neutron()?;
    if !matches!(arguments.output, Format::Kuryrnetpolicy) {
        arguments.ensure_offline()?;
    }
    let mut loaded = input::load_enforced(&arguments.input)?;
    if arguments.live {
        input::forget_made_up(&mut loaded.snapshot);
    }
    report::on_stderr(&loaded);
    input::ensure_had(&loaded)?;
    let engine = input::compile(&loaded, arguments.semantics.semantics());
    let written = policies(&loaded);
    let options = Options {
        uids: written
            .iter()
            .filter_map(|(policy, (uid, _))| Some((policy.clone(), uid.clone()?)))
            .collect(),
        ..arguments.neutron.options()
    };
    let neutron = match arguments.live {
        true => Some(arguments.cloud.cloud.read(&options.cluster)?),
        false => None,
    };
    let options = match &neutron {
        Some(neutron) => neutron.options(&options),
        None => options,
    };
    let rendered = picket_neutron::render(engine.program(), &options);
    let objects = &rendered.objects;
    complain(&rendered.shortfalls, &loaded);
    let text = match arguments.output {
        Format::Text => picket_neutron::table(objects),
        Format::Json => pretty(&picket_neutron::json(objects))?,
        Format::Yaml => picket_neutron::yaml(objects),
        Format::Kuryrnetpolicy => {
            let specs = written.into_iter().map(|(policy, (_, spec))| (policy, spec));
            let ids = neutron
                .as_ref()
                .map(|neutron| Ids::of(neutron.installed(), objects, &options.cluster));
            let views = picket_neutron::kuryr_net_policies(&rendered, &specs.collect(), ids.as_ref());
            let documents: Vec<_> = views.iter().map(picket_neutron::yaml_of).collect();
            documents.join("---\n")
        }
    };
    write(&text)?;
    Ok(input::ended(&loaded, Outcome::Yes))
}

/// The uids and the specs of NetworkPolicies as they were written; of several with one name those of the first.
fn policies(loaded: &Loaded) -> BTreeMap<ObjectRef, (Option<SmolStr>, Value)> {
    let mut found = BTreeMap::new();
    for (file, text) in &loaded.sources {
        let (manifests, _) = picket_policy::read(file, text.as_bytes());
        for manifest in manifests
            .iter()
            .filter(|manifest| manifest.kind() == "NetworkPolicy")
        {
            let text = |key: &str| {
                let metadata = manifest.root().get("metadata");
                metadata.and_then(|metadata| metadata.get(key)?.as_str().cloned())
            };
            let (Some(name), Some(spec)) = (text("name"), manifest.root().get("spec")) else {
                continue;
            };
            let namespace = text("namespace").unwrap_or_else(|| "default".into());
            let object = ObjectRef::new("NetworkPolicy", &namespace, &name);
            found
                .entry(object)
                .or_insert_with(|| (text("uid"), written(spec)));
        }
    }
    found
}

/// What was written, as JSON. What could not be read is `null`.
fn written(node: &Node) -> Value {
    match &node.value {
        Written::Null | Written::Unreadable => Value::Null,
        Written::Boolean(value) => Value::from(*value),
        Written::Integer(value) => Value::from(*value),
        Written::Float(value) => Value::from(*value),
        Written::String(text) => Value::from(text.as_str()),
        Written::Sequence(items) => items.iter().map(written).collect(),
        Written::Mapping(entries) => {
            let fields = entries.iter();
            fields
                .map(|entry| (entry.key.to_string(), written(&entry.value)))
                .collect()
        }
    }
}

fn run_vpp(arguments: &Arguments) -> anyhow::Result<Outcome> {
    arguments.ensure_printable()?;
    arguments.custom.none_for_others()?;
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
                Format::Text | Format::Yaml | Format::Kuryrnetpolicy => session::text(&rules),
                Format::Json => pretty(&session::json(&rules))?,
            }
        }
        Target::VppAcl | Target::Nftables | Target::Neutron => {
            let acls = acl::render(program, node.as_deref(), &arguments.vpp.acl(program)?);
            complain(&acl::shortfalls(program, node.as_deref()), &loaded);
            match arguments.output {
                Format::Text | Format::Yaml | Format::Kuryrnetpolicy => acl::text(&acls),
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

fn pretty(value: &Value) -> anyhow::Result<String> {
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
