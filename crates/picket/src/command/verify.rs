//! `picket verify`: proof that a ruleset means the policies.

mod answer;
mod live;
mod neutron;
mod vpp;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use picket_cluster::Snapshot;
use picket_dataplane::Shortfall;
use picket_dataplane::demand::Demands;
use picket_engine::Program;
use picket_nftables::custom::{self, CustomRules};
use picket_nftables::model::Table;
use picket_nftables::parse;
use picket_nftables::render::{documented, indexed};
use picket_nftables::verify::{Report, verify};
use picket_node::installed_table;
use picket_policy::{Direction, ObjectRef};
use picket_source::Loaded;
use serde::Serialize;

use crate::arguments::{CustomRuleArguments, Input, SemanticsArguments};
use crate::cloud::LiveCloudArguments;
use crate::neutron::NeutronArguments;
use crate::output::{self, Outcome};
use crate::ruleset::{Layout, Place, PlaceArguments, Target};
use crate::vpp::VppArguments;
use crate::{input, report};
use answer::{Answer, Example};
use live::LiveArguments;

/// Prove that a ruleset lets pass exactly what the policies allow, or show a packet with which it does not
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: PlaceArguments,

    /// Verify this ruleset, as `nft list ruleset` or `nft -j list ruleset` prints it, instead of the one that `render`
    /// prints; or lists of VPP as `render --target vpp-acl -o json` prints them. `-` is standard input
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    #[command(flatten)]
    live: LiveArguments,

    /// The most packets to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    limit: u16,

    /// How to print the answer
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

    #[command(flatten)]
    cloud: LiveCloudArguments,
}

const EXAMPLES: &str = "\
Examples:
  picket verify -f manifests/ --target nftables --node worker-1
  nft list ruleset | picket verify -f manifests/ --target nftables --node worker-1 --rules -
  picket verify -f manifests/ --target nftables --layout documented --pod shop/web -o json
  picket verify -f manifests/ --target vpp-acl --node worker-1
  picket verify -f manifests/ --target neutron
  picket verify --kube --target neutron --live --os-cloud prod
  picket verify --kube --target nftables --node worker-1 --live

With --live the table is that of the kernel in the network namespace of the command, and lists
and session rules of VPP are those that it has, with those of others in the same places. For Neutron
every port of a pod is judged by all groups that it has, and whatever else counts there: a port with
port security off is open. What cannot be read counts for as much, and as little, as it may let pass.

Of a listing only picket's own table is verified: `inet picket` (indexed) or
`inet multi_networkpolicy` (documented). Tables of others can drop more; they cannot let pass what
picket's table drops.

Exit status: 0 proved, 1 refuted, 2 usage or input error.";

/// How to print the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// JSON; docs/schema/verify.schema.json and verify-vpp.schema.json describe it
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    input::ensure_one_stdin(&arguments.input, &arguments.rules, "ruleset")?;
    arguments.place.allows(&arguments.custom)?;
    let mut loaded = input::load_enforced(&arguments.input)?;
    if arguments.live.live && arguments.place.target() == Target::Neutron {
        input::forget_made_up(&mut loaded.snapshot);
    }
    if arguments.output == Format::Text {
        report::on_stderr(&loaded);
    }
    let other = match arguments.place.target() {
        Target::Nftables => None,
        Target::VppAcl | Target::VppSession => Some(vpp::answer(arguments, &mut loaded)),
        Target::Neutron => Some(neutron::answer(arguments, &loaded)),
    };
    if let Some(answer) = other {
        let answer = answer.inspect_err(|_| complain(arguments, &loaded))?;
        return tell(arguments, &loaded, &answer, answer.proved, answer.text());
    }
    let custom = input::add_custom_rules(&mut loaded, &arguments.custom, arguments.place.interface())?;
    custom::check(&custom, &loaded.snapshot, &arguments.semantics.semantics())?;
    let answer = answer(arguments, &loaded, custom).inspect_err(|_| complain(arguments, &loaded))?;
    tell(arguments, &loaded, &answer, answer.proved, answer.text())
}

/// Whoever reads an error must see what may have led to it.
fn complain(arguments: &Arguments, loaded: &Loaded) {
    if arguments.output == Format::Json {
        report::on_stderr(loaded);
    }
}

fn tell(
    arguments: &Arguments,
    loaded: &Loaded,
    answer: &impl Serialize,
    proved: bool,
    text: String,
) -> anyhow::Result<Outcome> {
    let mut out = output::stdout();
    match arguments.output {
        Format::Text => out.write_all(text.as_bytes())?,
        Format::Json => report::json(answer, loaded, &mut out)?,
    }
    out.flush()?;
    Ok(input::ended(loaded, Outcome::from_yes(proved)))
}

fn answer(arguments: &Arguments, loaded: &Loaded, custom: Vec<CustomRules>) -> anyhow::Result<Answer> {
    let engine = input::compile(loaded, arguments.semantics.semantics());
    let program = engine.program();
    let place = arguments.place.find(loaded, program, &custom)?;
    let own_addresses = custom::own_addresses(&custom);
    let (rendered, shortfalls) = place.table(program, custom)?;
    let (name, layout) = match arguments.place.layout() {
        Layout::Indexed => (indexed::table_name(), "indexed"),
        Layout::Documented => (documented::table_name(), "documented"),
    };
    let mut notes = Vec::new();
    let table = match &arguments.rules {
        Some(path) => listed(path, name.as_str(), &mut notes)?,
        None if arguments.live.live => installed_table(&name)?,
        None => rendered,
    };
    let mut answer = Answer {
        proved: true,
        table: format!("inet {name}"),
        layout,
        node: None,
        pod: None,
        cells: 0,
        counterexamples: Vec::new(),
        stopped: false,
        notes: Vec::new(),
    };
    notes.extend(reservations(&shortfalls, own_addresses));
    let limit = usize::from(arguments.limit);
    match &place {
        Place::Node(node) => {
            answer.node = node.clone();
            let demands = Demands::on_node(program, node.as_deref());
            let report = verify(&table, &demands, "", limit)?;
            answer.add(report, &loaded.snapshot, program, &demands, None);
        }
        Place::Pod(pod) => {
            answer.pod = Some(pod.pod.id());
            let narrower = Direction::BOTH.map(|side| shortfalls.iter().any(|one| one.direction == side));
            for (interface, snapshot, program, endpoint) in interfaces(pod, &loaded.snapshot, program) {
                if answer.stopped {
                    break;
                }
                if !is_known(snapshot, endpoint) {
                    notes.push(format!(
                        "the pod has no address on `{interface}` yet: nothing is demanded there"
                    ));
                    continue;
                }
                let others = pod.pod.attachments.iter().map(|own| own.interface.clone());
                let mut others: BTreeSet<_> = others.chain([pod.interface.as_str().into()]).collect();
                others.remove(interface.as_str());
                let mut demands = Demands::in_pod(program, endpoint, &interface, others, narrower)
                    .with_context(|| format!("nothing is known of pod `{}`", pod.pod.id()))?
                    .about_own_addresses(own_addresses);
                if documented::refuses_mid_stream(&table) {
                    demands = demands.without_mid_stream();
                }
                let left = limit.saturating_sub(answer.counterexamples.len());
                let report = verify(&table, &demands, &interface, left)?;
                answer.add(report, snapshot, program, &demands, Some(endpoint));
            }
        }
    }
    answer.notes = notes;
    Ok(answer)
}

/// What is not proved: what the layout cannot say, and what is not judged because custom rules look at own addresses
/// (ingress first).
fn reservations(shortfalls: &[Shortfall], own_addresses: [bool; 2]) -> Vec<String> {
    let narrower = shortfalls.iter().map(|shortfall| {
        format!(
            "{}: {}; in this direction ({}) it is only proved that nothing more passes than the policies allow",
            shortfall.policy, shortfall.what, shortfall.direction
        )
    });
    let own = Direction::BOTH
        .iter()
        .zip(own_addresses)
        .filter(|(_, looked_at)| *looked_at);
    let own = own.map(|(direction, _)| {
        format!(
            "custom rules look at the pod's own address in {direction}: packets with another address at this end are \
             not judged there"
        )
    });
    narrower.chain(own).collect()
}

/// An interface, the cluster and its program as the network there sees them, and the pod's object there.
type InterfaceView<'a> = (String, &'a Snapshot, &'a Program, &'a ObjectRef);

fn interfaces<'a>(
    place: &'a crate::ruleset::PodPlace,
    snapshot: &'a Snapshot,
    program: &'a Program,
) -> Vec<InterfaceView<'a>> {
    let cluster = (
        place.interface.as_str().to_owned(),
        snapshot,
        program,
        &place.pod.object,
    );
    let secondary = place.networks.iter().flat_map(|(network, snapshot, engine)| {
        let own = snapshot.pods.values().filter_map(|pod| {
            let interface = pod.interface.as_ref()?;
            (*pod.whole() == place.pod.object && interface.network == *network).then(|| {
                (
                    interface.name.to_string(),
                    snapshot,
                    engine.program(),
                    &pod.object,
                )
            })
        });
        own.collect::<Vec<_>>()
    });
    std::iter::once(cluster).chain(secondary).collect()
}

/// Whether something can be demanded of a pod: it has an address, or is none of the cluster.
fn is_known(snapshot: &Snapshot, endpoint: &ObjectRef) -> bool {
    let pod = snapshot.pods.get(endpoint);
    pod.is_none_or(|pod| !pod.addresses.is_empty())
}

/// What a file, or with `-` standard input, holds; and what to call it.
fn text_of(path: &Path) -> anyhow::Result<(String, String)> {
    let title = if path.as_os_str() == "-" {
        "standard input".to_owned()
    } else {
        format!("`{}`", path.display())
    };
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        io::stdin().lock().read_to_end(&mut bytes)?;
    } else {
        bytes = fs::read(path).with_context(|| format!("cannot read {title}"))?;
    }
    let text = String::from_utf8(bytes).with_context(|| format!("the ruleset in {title} is no text"))?;
    Ok((title, text))
}

/// Our table of a listing; says what else there is that may look at the same packets.
fn listed(path: &Path, name: &str, notes: &mut Vec<String>) -> anyhow::Result<Table> {
    let (title, text) = text_of(path)?;
    let listing =
        parse::listing(&text, name).with_context(|| format!("the ruleset in {title} cannot be verified"))?;
    for other in &listing.others {
        let hooks = if other.hooks.is_empty() {
            "no hook".to_owned()
        } else {
            format!("hook {}", other.hooks.join(", "))
        };
        notes.push(format!(
            "table {} {} ({hooks}) is set aside: it may drop more, and cannot let pass what `inet {name}` drops",
            other.family, other.name
        ));
    }
    listing.table.with_context(|| {
        let others: Vec<_> = listing
            .others
            .iter()
            .map(|other| format!("`{} {}`", other.family, other.name))
            .collect();
        let others = if others.is_empty() {
            "there is no other".to_owned()
        } else {
            format!("there are {}", others.join(", "))
        };
        format!("there is no table `inet {name}` in {title}; {others}")
    })
}

impl Answer {
    fn add(
        &mut self,
        report: Report,
        snapshot: &Snapshot,
        program: &Program,
        demands: &Demands<'_>,
        pod: Option<&ObjectRef>,
    ) {
        self.proved &= report.is_proof();
        self.cells += report.cells;
        self.stopped |= report.stopped;
        let directory = picket_analysis::directory::Directory::new(snapshot);
        let examples = report.counterexamples.into_iter();
        self.counterexamples
            .extend(examples.map(|found| Example::new(found, &directory, program, demands, pod)));
    }
}
