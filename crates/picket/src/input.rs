//! Reading manifests.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use picket_cluster::{Addresses, Attachment, Semantics, Snapshot};
use picket_engine::Engine;
use picket_nftables::custom::{self, CustomRules};
use picket_policy::{NetworkName, Source, V1beta1};
use picket_source::{Files, Loaded, Options, Text};

use crate::arguments::{CustomRuleArguments, Input, NetworkArgument, Reading};
use crate::output::Outcome;
use crate::report;

/// Reads everything that `input` names.
pub(crate) fn load(input: &Input) -> anyhow::Result<Loaded> {
    let options = input.reading.options();
    let mut loaded = match input.cluster.origin() {
        Some(cluster) => picket_source::load(cluster, options)?,
        None => {
            let files = Files {
                paths: &input.paths,
                stdin: &mut io::stdin().lock(),
            };
            picket_source::load(files, options)?
        }
    };
    resolve(std::slice::from_mut(&mut loaded), &input.reading)?;
    Ok(loaded)
}

/// The same for what enforces policies. Pods of a live cluster that have no address yet get none that is made up: no packet is
/// theirs, and what is installed says nothing about them.
pub(crate) fn load_enforced(input: &Input) -> anyhow::Result<Loaded> {
    let mut loaded = load(input)?;
    if input.cluster.kube {
        forget_made_up(&mut loaded.snapshot);
    }
    Ok(loaded)
}

/// Takes away the addresses that were made up for pods that have none.
pub(crate) fn forget_made_up(cluster: &mut Snapshot) {
    for pod in cluster.pods.values_mut() {
        let is_made_up = |own: &Attachment| own.synthetic;
        if !pod.synthetic && !pod.attachments.iter().any(is_made_up) {
            continue;
        }
        let pod = Arc::make_mut(pod);
        if pod.synthetic {
            pod.addresses = Addresses::default();
        }
        for own in pod.attachments.iter_mut().filter(|own| own.synthetic) {
            own.addresses = Addresses::default();
        }
    }
}

/// Gives domain names their addresses.
///
/// # Errors
/// When the file of addresses cannot be read.
pub(crate) fn resolve(loaded: &mut [Loaded], reading: &Reading) -> anyhow::Result<()> {
    let hosts = reading
        .dns
        .as_deref()
        .map(picket_source::read_hosts)
        .transpose()?;
    loaded
        .iter_mut()
        .for_each(|loaded| loaded.resolve(hosts.as_ref()));
    Ok(())
}

/// Reads both sides of a comparison in one dialect: as the v1beta1 proposal has it if a namespace of either does.
pub(crate) fn load_sides(texts: &[Vec<Text>; 2], options: Options) -> [Loaded; 2] {
    let sides = texts
        .each_ref()
        .map(|texts| picket_source::load_texts(texts, options));
    let [old, new] = sides.each_ref().map(|side| side.v1beta1);
    if old == new {
        return sides;
    }
    let options = Options {
        v1beta1: V1beta1::Proposal,
        ..options
    };
    texts
        .each_ref()
        .map(|texts| picket_source::load_texts(texts, options))
}

/// Reads everything that `input` names and reports what is wrong with it, for commands that build something from it.
///
/// # Errors
/// Also when not everything is known: what cannot be parsed or read may be the policy that matters.
pub(crate) fn load_whole(input: &Input) -> anyhow::Result<Loaded> {
    let loaded = load(input)?;
    report::on_stderr(&loaded);
    ensure_whole(&loaded)?;
    Ok(loaded)
}

/// Fails when not everything is known: what cannot be parsed or read may be the policy that matters.
pub(crate) fn ensure_whole(loaded: &Loaded) -> anyhow::Result<()> {
    if let Some(file) = loaded.unparsable.first() {
        bail!("`{file}` cannot be parsed, and may hold pods or policies: mend it first");
    }
    ensure_had(loaded)
}

/// Fails when a cluster would not tell everything: what is made from the rest could be in force before anyone sees why it is
/// too wide.
pub(crate) fn ensure_had(loaded: &Loaded) -> anyhow::Result<()> {
    match loaded.missing.first() {
        Some(missing) => bail!(
            "not all of the cluster is known: `{}` cannot be read",
            missing.what
        ),
        None => Ok(()),
    }
}

/// Fails when both the manifests and one of `others`, which is called `what`, are standard input.
pub(crate) fn ensure_one_stdin<'a>(
    input: &Input,
    others: impl IntoIterator<Item = &'a PathBuf>,
    what: &str,
) -> anyhow::Result<()> {
    let is_stdin = |path: &PathBuf| path.as_os_str() == "-";
    if input.paths.iter().any(is_stdin) && others.into_iter().any(is_stdin) {
        bail!(
            "standard input (`-`) cannot hold both the manifests and the {what}: give one of them as a file"
        );
    }
    Ok(())
}

/// Reads everything that `input` names, and looks at one network of it.
///
/// # Errors
/// Also when the network is none of the input's.
pub(crate) fn load_network(input: &Input, network: &NetworkArgument) -> anyhow::Result<Loaded> {
    let mut loaded = load(input)?;
    if let Some(network) = &network.network {
        loaded.snapshot = loaded
            .snapshot
            .on(&find_network(&loaded.snapshot, network).inspect_err(|_| report::on_stderr(&loaded))?);
    }
    Ok(loaded)
}

/// Looks at one network of both sides of a comparison.
///
/// # Errors
/// When neither side has the network.
pub(crate) fn on_network(sides: &mut [Loaded; 2], network: &str) -> anyhow::Result<()> {
    let [old, new] = sides.each_ref().map(|side| find_network(&side.snapshot, network));
    let found = old.or(new)?;
    for side in sides {
        side.snapshot = side.snapshot.on(&found);
    }
    Ok(())
}

/// The network that `text` names, in the namespace `default` when it names none.
fn find_network(snapshot: &Snapshot, text: &str) -> anyhow::Result<NetworkName> {
    let known = snapshot.known_networks();
    let network = NetworkName::parse(text, "default")
        .with_context(|| format!("`{text}` is no network: write `namespace/name`"))?;
    if known.contains(&network) {
        return Ok(network);
    }
    let names: Vec<_> = known.iter().map(|known| format!("`{known}`")).collect();
    match names.len() {
        0 => bail!("there is no network `{network}`: nothing in the input is on a secondary network"),
        _ => bail!("there is no network `{network}`; there are {}", names.join(", ")),
    }
}

/// Reads files of custom rules, and adds what they say to what was read; `interface` is that of pods on the cluster
/// network.
///
/// # Errors
/// As [`read_custom_rules`].
pub(crate) fn add_custom_rules(
    loaded: &mut Loaded,
    arguments: &CustomRuleArguments,
    interface: &str,
) -> anyhow::Result<Vec<CustomRules>> {
    let rules = read_custom_rules(loaded, arguments)?;
    custom::add(&rules, &mut loaded.snapshot, interface);
    Ok(rules)
}

/// Reads files of custom rules.
///
/// # Errors
/// When a file cannot be read, or one of its lines is no rule, which is reported: an answer without the file would be
/// about other rules.
pub(crate) fn read_custom_rules(
    loaded: &mut Loaded,
    arguments: &CustomRuleArguments,
) -> anyhow::Result<Vec<CustomRules>> {
    let mut all = Vec::new();
    for (path, direction, family) in arguments.files() {
        let name: Arc<str> = path.display().to_string().into();
        let bytes = std::fs::read(path).with_context(|| format!("cannot read `{name}`"))?;
        let source = Source::decode(&name, &bytes).map_err(|_| anyhow!("`{name}` is no text in UTF-8"))?;
        loaded.sources.insert(Arc::clone(&name), source.shared_text());
        let rules = CustomRules::read(&source, direction, family).map_err(|problems| {
            report::these_on_stderr(&problems, loaded);
            // A lab in the background reads them too, and has only this line to answer with.
            let first = problems.first().map(|first| match first.labels.first() {
                Some(label) => format!(": line {}: {}", label.span.line, first.message),
                None => format!(": {}", first.message),
            });
            anyhow!("`{name}` is no file of custom rules{}", first.unwrap_or_default())
        })?;
        all.push(rules);
    }
    Ok(all)
}

/// Compiles what was read.
pub(crate) fn compile(loaded: &Loaded, semantics: Semantics) -> Engine {
    Engine::compile(&loaded.snapshot, semantics)
}

/// How a command ends that answered from what was read: what cannot be parsed or read may be anything, so that no answer
/// is more than an answer about the rest.
pub(crate) fn ended(loaded: &Loaded, outcome: Outcome) -> Outcome {
    if loaded.gap().is_none() {
        outcome
    } else {
        Outcome::Unanswered
    }
}
