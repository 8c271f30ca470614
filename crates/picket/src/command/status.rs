//! `picket status`: what the agent of this node enforces.

mod versions;
mod vpp;

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use picket_node::{Drop, DropStatus, Finding, HostStatus, PodsStatus, Status, VppStatus, ask};
use picket_policy::name::printable;

use smol_str::format_smolstr;

use self::versions::Versions;
use super::agent::DEFAULT_SOCKET;
use crate::output::{self, Outcome};

/// Show what the agent of this node enforces, since when, and what it cannot
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The Unix socket at which the agent answers
    #[arg(long, default_value = DEFAULT_SOCKET, value_name = "PATH")]
    socket: PathBuf,

    /// How to print the answer
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    output: Format,
}

const EXAMPLES: &str = "\
Examples:
  picket status
  picket status -o json

Exit status: 0 the policies are in force, 1 not all of them are, 2 no agent answers.";

/// Of how many policies drops are shown.
const MOST: usize = 10;

/// How to print the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// JSON; docs/schema/status.schema.json describes it
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let status = ask(&arguments.socket)?;
    let mut out = output::stdout();
    match arguments.output {
        Format::Text => out.write_all(text(&status)?.as_bytes())?,
        Format::Json => output::json(&status, &mut out)?,
    }
    out.flush()?;
    let pods_are_well = status.pods.as_ref().is_none_or(PodsStatus::is_well);
    let vpp_is_well = status.vpp.values().all(VppStatus::is_well);
    let is_well = status.ready && status.host.is_well() && pods_are_well && vpp_is_well;
    Ok(Outcome::from_yes(is_well))
}

fn text(status: &Status) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    writeln!(
        text,
        "node {}, picket {}, running since {:.0}",
        status.node, status.version, status.started
    )?;
    match &status.pods {
        Some(pods) => sandboxes(pods, status.ready, &mut text)?,
        None if status.is_with("nftables") => {
            host(&status.host, status.ready || status.host.ready, &mut text)?;
        }
        None => {}
    }
    for (target, vpp) in &status.vpp {
        vpp::write(target, vpp, &mut text)?;
    }
    let silent: Vec<_> = status
        .source
        .iter()
        .filter(|(_, kind)| kind.trouble.is_some())
        .collect();
    if !silent.is_empty() {
        let source = match () {
            () if status.source.contains_key("etcd") => "etcd",
            () if status.source.contains_key("files") => "the directory of manifests",
            () => "the API server",
        };
        writeln!(
            text,
            "\n{source} does not say what it should; what was known of these holds:"
        )?;
        for (kind, health) in silent {
            let why = health.trouble.as_deref().unwrap_or_default();
            match health.heard {
                Some(heard) => writeln!(text, "  {kind}: {why} (last heard {heard:.0})")?,
                None => writeln!(text, "  {kind}: {why}")?,
            }
        }
    }
    if !status.findings.is_empty() {
        writeln!(text, "\nfindings:")?;
        for Finding {
            object,
            severity,
            code,
            field,
            message,
        } in &status.findings
        {
            let field = match field.as_str() {
                "" => String::new(),
                field => format!(" {field}:"),
            };
            // Names of fields that there are not are as somebody has written them.
            let said = printable(&format_smolstr!("{object}:{field} {message}"));
            writeln!(text, "  {severity}[{code}] {said}")?;
        }
    }
    Ok(text)
}

fn sandboxes(pods: &PodsStatus, ready: bool, text: &mut String) -> std::fmt::Result {
    let sandboxes = pods.sandboxes.iter();
    let restricted = sandboxes.filter(|sandbox| !sandbox.policies.is_empty());
    let restricted = restricted.count();
    match (ready, pods.known) {
        (true, _) => writeln!(
            text,
            "policies of secondary networks are in force: {restricted} pods restricted"
        )?,
        (false, true) => writeln!(
            text,
            "policies of secondary networks are NOT in force in all pods yet: {restricted} pods restricted"
        )?,
        (false, false) => writeln!(
            text,
            "the policies of secondary networks are not known yet; what was in force before still is"
        )?,
    }
    for trouble in pods.custom_rules.iter().chain(&pods.runtime) {
        writeln!(text, "  TROUBLE: {trouble}")?;
    }
    for note in &pods.notes {
        writeln!(text, "  note: {note}")?;
    }
    for sandbox in &pods.sandboxes {
        write!(text, "  {}", sandbox.pod)?;
        match sandbox.changed {
            Some(changed) => write!(text, ", rules changed {changed:.0}")?,
            None if sandbox.policies.is_empty() => {}
            None => write!(text, ", rules as the agent has found them")?,
        }
        if sandbox.repaired > 0 {
            write!(
                text,
                ", changed by others and repaired {} times",
                sandbox.repaired
            )?;
        }
        writeln!(text)?;
        let versions = Versions(&sandbox.policy_versions);
        for policy in &sandbox.policies {
            writeln!(text, "    {}", versions.in_force(policy))?;
        }
        if let Some(trouble) = &sandbox.trouble {
            let since = sandbox.trouble_since.map(|since| format!(" since {since:.0}"));
            let since = since.unwrap_or_default();
            writeln!(text, "    NOT all in force{since}: {trouble}")?;
        }
        for policy in &sandbox.waiting {
            writeln!(text, "      {}", versions.waiting(policy))?;
        }
        for unread in versions.others(&sandbox.waiting) {
            writeln!(text, "    NOT in force as it is: {unread}")?;
        }
        if let Some(unlogged) = &sandbox.unlogged {
            writeln!(text, "    denied connections are not logged: {unlogged}")?;
        }
    }
    let shown = pods.sandboxes.iter().flat_map(|sandbox| &sandbox.policy_versions);
    let shown: Vec<_> = shown.map(|versions| versions.policy.clone()).collect();
    for unreadable in Versions(&pods.unreadable).others(&shown) {
        writeln!(text, "  NOT in force as it is: {unreadable}")?;
    }
    dropped(&pods.dropped, text)
}

/// What was dropped, and why, and what would have been.
fn dropped(dropped: &DropStatus, text: &mut String) -> std::fmt::Result {
    if !dropped.drops.is_empty() {
        writeln!(text, "\ndropped packets, by the policies that may be why:")?;
    }
    counted(dropped.drops.iter().take(MOST), text)?;
    if dropped.drops.len() > MOST {
        let more = dropped.drops.len() - MOST;
        writeln!(text, "  and {more} more: `picket status -o json`")?;
    }
    for (packets, what) in [
        (dropped.dropped_mid_stream, "TCP packets of no known connection"),
        (
            dropped.dropped_spoofed,
            "packets whose source cannot be where they came from",
        ),
    ] {
        if packets > 0 {
            writeln!(text, "\n{packets} {what} were dropped")?;
        }
    }
    if !dropped.audited.is_empty() {
        let title = "only audited, with how many packets would have been dropped:";
        writeln!(text, "\n{title}")?;
    }
    counted(dropped.audited.iter(), text)
}

fn counted<'d>(drops: impl Iterator<Item = &'d Drop>, text: &mut String) -> std::fmt::Result {
    for drop in drops {
        let Drop {
            packets,
            policy,
            direction,
        } = drop;
        writeln!(text, "  {packets:>10}  {policy}, {direction}")?;
    }
    Ok(())
}

/// Whether the policies are in force, and what is instead of them.
fn headline(host: &HostStatus, ready: bool, text: &mut String) -> std::fmt::Result {
    if ready {
        return writeln!(
            text,
            "policies of the cluster network are in force: {} of {} pods restricted, by {} policies",
            host.pods.restricted,
            host.pods.all,
            host.policies.len()
        );
    }
    let instead = match (host.closed, host.shuts_out_unknown) {
        (true, _) => "nothing new is forwarded: the policies are not known yet",
        (false, true) => {
            "the policies are not known yet; what was in force before still is, and pods that it does not know begin nothing"
        }
        (false, false) => "the policies are not known yet; what was in force before still is",
    };
    writeln!(text, "{instead}")
}

fn host(host: &HostStatus, ready: bool, text: &mut String) -> std::fmt::Result {
    headline(host, ready, text)?;
    if ready || host.changed.is_some() {
        match host.changed {
            Some(changed) => write!(text, "  rules changed {changed:.0}")?,
            None => write!(text, "  rules as the agent has found them")?,
        }
        match host.current {
            Some(current) => writeln!(text, ", last what the policies say {current:.0}")?,
            None => writeln!(text, ", never yet what all policies say")?,
        }
    }
    if let Some(proof) = &host.proof {
        let outcome = if proof.proved { "proved" } else { "REFUTED" };
        writeln!(
            text,
            "  {outcome} {:.0}, in {} ms",
            proof.when, proof.milliseconds
        )?;
    }
    if host.repaired > 0 {
        writeln!(text, "  changed by others and repaired {} times", host.repaired)?;
    }
    for note in &host.notes {
        writeln!(text, "  TROUBLE: {note}")?;
    }
    let versions = Versions(&host.policy_versions);
    for policy in &host.policies {
        writeln!(text, "  {}", versions.in_force(policy))?;
    }
    dropped(&host.dropped, text)?;
    if let Some(trouble) = &host.trouble {
        writeln!(text, "\nNOT in force since {:.0}: {}", trouble.since, trouble.why)?;
        for policy in &trouble.waiting {
            writeln!(text, "  {}", versions.waiting(policy))?;
        }
    }
    let waiting = host.trouble.as_ref().map(|trouble| trouble.waiting.as_slice());
    let others = versions.others(waiting.unwrap_or_default());
    if !others.is_empty() {
        writeln!(text, "\nNOT in force as they are:")?;
    }
    for policy in others {
        writeln!(text, "  {policy}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn findings_name_their_object_and_field() {
        let of = |field: &str| json!({"object": "NetworkPolicy x/a", "severity": "error", "code": "P104", "field": field, "message": "no"});
        let status = json!({
            "version": "0.1.0", "node": "n", "started": "2026-01-01T00:00:00Z", "ready": true, "source": {},
            "host": HostStatus::default(),
            "findings": [of("spec.ingress[0]"), of("spec.a\nb"), of("")],
        });
        let status: Status = serde_json::from_value(status).unwrap();
        let text = text(&status).unwrap();
        let (_, findings) = text.split_once("findings:\n").unwrap();
        assert_eq!(
            findings,
            "  error[P104] NetworkPolicy x/a: spec.ingress[0]: no\n\
             \x20 error[P104] NetworkPolicy x/a: spec.a\u{fffd}b: no\n\
             \x20 error[P104] NetworkPolicy x/a: no\n"
        );
    }
}
