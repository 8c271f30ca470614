//! `picket trace`: what becomes of a connection on this node, here and now.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use picket_node::{Trace, TraceQuestion, TracedPacket, trace};

use super::agent::DEFAULT_SOCKET;
use crate::output::{self, Outcome};

/// Say what becomes of a connection on this node: what the policies say and why, what the kernel does, and what is tracked
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Who opens the connection: namespace/pod, a node or an address
    from: String,

    /// To whom; one of the two is a pod of this node
    to: String,

    /// The destination port: N/PROTO, NAME/PROTO, icmp, icmpv6 or proto:N; a bare number or name is TCP
    port: String,

    /// The secondary network that is meant, where the agent enforces policies of these and both ends are on more than one
    #[arg(long, value_name = "NAMESPACE/NAME")]
    network: Option<String>,

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
  picket trace shop/web-0 shop/db-0 5432
  picket trace 203.0.113.9 shop/web-0 https -o json
  picket trace shop/web-0 shop/db-0 5432 --network infra/storage

The rules are read from the kernel. What policies say about the pods of other nodes is known there:
ask the agents of both.

Exit status: 0 the kernel does what the policies say, 1 it does not or policies wait to be in force,
2 there is no answer.";

/// How to print the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// JSON; docs/schema/trace.schema.json describes it
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let question = TraceQuestion {
        from: arguments.from.clone(),
        to: arguments.to.clone(),
        port: arguments.port.clone(),
        network: arguments.network.clone(),
    };
    let traced = trace(&arguments.socket, &question)?;
    let mut out = output::stdout();
    match arguments.output {
        Format::Text => out.write_all(text(&traced)?.as_bytes())?,
        Format::Json => output::json(&traced, &mut out)?,
    }
    out.flush()?;
    Ok(Outcome::from_yes(traced.agrees() && traced.waiting.is_none()))
}

/// Where a packet meets which rules.
fn path(packet: &TracedPacket) -> String {
    match (&packet.pod, &packet.interface) {
        (Some(pod), Some(interface)) => format!("{} of {interface} in {pod}", packet.path),
        _ => packet.path.clone(),
    }
}

fn text(trace: &Trace) -> Result<String, std::fmt::Error> {
    let mut text = trace.text.trim_start().to_owned();
    match &trace.network {
        Some(network) => writeln!(text, "\nnode {}, network {network}:", trace.node)?,
        None => writeln!(text, "\nnode {}:", trace.node)?,
    }
    match trace.here.as_slice() {
        [] => writeln!(
            text,
            "  neither end is a pod of this node: its rules are not about them"
        )?,
        [one] => writeln!(
            text,
            "  of the two ends {one} is here: the rules judge it, and other nodes the other"
        )?,
        _ => writeln!(text, "  both ends are here: the rules judge both")?,
    }
    if let Some(why) = &trace.waiting {
        writeln!(text, "  the policies are NOT in force: {why}")?;
    }
    if let Some(why) = &trace.rules {
        writeln!(text, "  the rules cannot be judged: {why}")?;
    }
    for packet in &trace.packets {
        let agrees = if packet.agrees {
            "as they say"
        } else {
            "which is WRONG"
        };
        writeln!(
            text,
            "  {} → {} ({}): the policies say {}, the kernel does {}, {agrees}",
            packet.source,
            packet.destination,
            path(packet),
            packet.policies,
            packet.kernel
        )?;
        if let Some(place) = &packet.place {
            writeln!(text, "    dropped by {place}")?;
        }
        for counter in &packet.counters {
            writeln!(
                text,
                "    counted for {}, {}: {} until now",
                counter.policy, counter.direction, counter.packets
            )?;
        }
    }
    if !trace.connections.is_empty() {
        writeln!(text, "\nconnections between the two ends now:")?;
    }
    for connection in &trace.connections {
        let answered = if connection.answered { "" } else { ", not answered" };
        writeln!(text, "  {}{answered}", connection.connection)?;
    }
    Ok(text)
}
