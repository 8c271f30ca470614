//! What `picket verify` prints.

use std::net::IpAddr;

use picket_analysis::directory::{Directory, Party};
use picket_analysis::eval::EndAnswer;
use picket_cluster::{Endpoint, Flow};
use picket_dataplane::demand::{Demands, Required, Why};
use picket_dataplane::{Crossing, Outcome, Packet, State};
use picket_engine::Program;
use picket_net::Protocol;
use picket_nftables::verify::Counterexample;
use picket_policy::ObjectRef;
use serde::Serialize;

use crate::command::eval;

/// The answer; its JSON form is described in `docs/schema/verify.schema.json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) proved: bool,
    pub(super) table: String,
    pub(super) layout: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<String>,
    /// Sets of packets that were told apart.
    pub(super) cells: usize,
    pub(super) counterexamples: Vec<Example>,
    /// Whether there may be more counter-examples.
    pub(super) stopped: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
}

/// One packet that is treated wrongly.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Example {
    packet: PacketAnswer,
    /// `accept` or `drop`.
    required: &'static str,
    why: &'static str,
    egress: EndAnswer,
    ingress: EndAnswer,
    rules: RulesAnswer,
}

/// The packet.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PacketAnswer {
    crossing: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    source: IpAddr,
    destination: IpAddr,
    from: String,
    to: String,
    protocol: String,
    port: Option<u16>,
    icmp_type: Option<u8>,
    tcp_flags: Option<u8>,
    state: &'static str,
    priority: u32,
    mark: u32,
    connection_mark: u32,
    reverse_path: bool,
}

/// What the rules do.
#[derive(Debug, Serialize)]
struct RulesAnswer {
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counter: Option<String>,
}

impl Example {
    /// Within `pod`, it is the pod that receives and sends, whatever address a packet has for it.
    pub(super) fn new(
        found: Counterexample,
        directory: &Directory<'_>,
        program: &Program,
        demands: &Demands<'_>,
        pod: Option<&ObjectRef>,
    ) -> Self {
        let packet = &found.packet;
        let end = |address: IpAddr| match directory.find(&address.to_string()) {
            Ok(Party::Pod(pod)) => (pod.id(), Endpoint::Pod(pod.object.clone())),
            Ok(Party::Node { name, .. }) => (name.to_string(), Endpoint::Node { name, address }),
            Ok(Party::External(_)) | Err(_) => (address.to_string(), Endpoint::External(address)),
        };
        let (from, mut source) = end(packet.source);
        let (to, mut destination) = end(packet.destination);
        match (&packet.crossing, pod) {
            (Crossing::Receive { .. }, Some(pod)) => destination = Endpoint::Pod(pod.clone()),
            (Crossing::Send { .. }, Some(pod)) => source = Endpoint::Pod(pod.clone()),
            _ => {}
        }
        let judgement = program.judge(&Flow {
            source,
            destination,
            family: packet.family(),
            protocol: packet.protocol,
            port: packet
                .port
                .filter(|_| packet.protocol.has_ports())
                .unwrap_or_default(),
        });
        let rules = match &found.passage.outcome {
            Outcome::Accept => RulesAnswer {
                verdict: "accept",
                place: None,
                counter: None,
            },
            Outcome::Drop { place, counter } => RulesAnswer {
                verdict: "drop",
                place: Some(place.clone()),
                counter: counter.as_ref().map(ToString::to_string),
            },
        };
        Self {
            why: why(demands.why(packet)),
            packet: PacketAnswer::new(packet, from, to),
            required: match found.required {
                Required::Accept => "accept",
                Required::Drop => "drop",
                Required::Either => "either",
            },
            egress: EndAnswer::from(&judgement.egress),
            ingress: EndAnswer::from(&judgement.ingress),
            rules,
        }
    }
}

fn why(why: Why) -> &'static str {
    match why {
        Why::KnownConnection => "it belongs to a known connection",
        Why::NecessaryIcmpv6 => "IPv6 does not work without it",
        Why::Spoofed => "it comes from outside with the pod's own address",
        Why::NoWayBack => "the way back to its source does not lead through the interface it arrived on",
        Why::NotJudged => "no policy is about such packets",
        Why::SamePod => "a pod reaches itself",
        Why::MidStream => "it begins no connection and belongs to none that is known",
        Why::OwnNode => "it is between the pod and its own node",
        Why::Policies => "the policies at both ends say so",
    }
}

impl PacketAnswer {
    fn new(packet: &Packet, from: String, to: String) -> Self {
        Self {
            crossing: match packet.crossing {
                Crossing::Receive { .. } => "receive",
                Crossing::Send { .. } => "send",
                Crossing::Relay { .. } => "relay",
                Crossing::Forward { .. } => "forward",
            },
            input: packet.crossing.input().map(ToString::to_string),
            output: packet.crossing.output().map(ToString::to_string),
            source: packet.source,
            destination: packet.destination,
            from,
            to,
            protocol: protocol(packet.protocol),
            port: packet.port,
            icmp_type: packet.icmp_type,
            tcp_flags: packet.tcp_flags,
            state: match packet.state {
                State::New => "new",
                State::Established => "established",
                State::Related => "related",
                State::Invalid => "invalid",
                State::Untracked => "untracked",
            },
            priority: packet.priority,
            mark: packet.mark,
            connection_mark: packet.connection_mark,
            reverse_path: packet.reverse_path,
        }
    }

    fn text(&self) -> String {
        let end = |name: &str, address: IpAddr| {
            if name == address.to_string() {
                name.to_owned()
            } else {
                format!("{name} ({address})")
            }
        };
        let mut text = format!(
            "{} {} → {}, {}",
            self.state,
            end(&self.from, self.source),
            end(&self.to, self.destination),
            self.protocol
        );
        let with_ports = matches!(self.protocol.as_str(), "TCP" | "UDP" | "SCTP");
        match (self.port, self.icmp_type) {
            (Some(port), None) if with_ports => text += &format!(" port {port}"),
            (None, None) if with_ports => text += " too short for a port",
            (_, Some(kind)) => text += &format!(" type {kind}"),
            _ => {}
        }
        text += match self.crossing {
            "receive" => ", received",
            "send" => ", sent",
            _ => ", forwarded",
        };
        for (what, name) in [(" on", &self.input), (" through", &self.output)] {
            if let Some(name) = name.as_ref().filter(|name| !name.is_empty()) {
                text += &format!("{what} {name}");
            }
        }
        for (what, value) in [
            ("priority", self.priority),
            ("mark", self.mark),
            ("connection mark", self.connection_mark),
        ] {
            if value != 0 {
                text += &format!(", {what} {value:#x}");
            }
        }
        if let Some(flags) = self.tcp_flags.filter(|&flags| flags != 2) {
            text += &format!(", TCP flags {flags:#x}");
        }
        if !self.reverse_path {
            text += ", the route back leads elsewhere";
        }
        text
    }
}

pub(super) fn protocol(protocol: Protocol) -> String {
    match protocol {
        Protocol::TCP => "TCP".to_owned(),
        Protocol::UDP => "UDP".to_owned(),
        Protocol::SCTP => "SCTP".to_owned(),
        Protocol::ICMP => "ICMP".to_owned(),
        Protocol::ICMPV6 => "ICMPv6".to_owned(),
        other => format!("proto:{}", other.number()),
    }
}

impl Answer {
    /// For people.
    pub(super) fn text(&self) -> String {
        let place = match (&self.node, &self.pod) {
            (Some(node), _) => format!(" of node {node}"),
            (_, Some(pod)) => format!(" of pod {pod}"),
            (None, None) => String::new(),
        };
        let mut text = if self.proved {
            format!(
                "proved: table {}{place} means what the policies say ({} sets of packets)\n",
                self.table, self.cells
            )
        } else {
            format!(
                "refuted: table {}{place} does not mean what the policies say\n",
                self.table
            )
        };
        for example in &self.counterexamples {
            text += &example.text();
        }
        if self.stopped {
            text += "\nThere may be more; --limit shows more of them.\n";
        }
        for note in &self.notes {
            text += &format!("note: {note}\n");
        }
        text
    }
}

impl Example {
    fn text(&self) -> String {
        let must = if self.required == "accept" {
            "must pass"
        } else {
            "must not pass"
        };
        let mut text = format!("\n{}\n  {must}: {}\n", self.packet.text(), self.why);
        text += &eval::ends("  ", &self.egress, &self.ingress);
        text += "  rules: ";
        text += match &self.rules.place {
            Some(place) => place,
            None => "nothing drops it",
        };
        if self.rules.place.is_some() {
            text += " drops it";
        }
        text += "\n";
        text
    }
}
