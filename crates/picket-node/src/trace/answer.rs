//! The answer to a question, from what is known and from the kernel.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_analysis::directory::Party;
use picket_analysis::eval::{Evaluator, Question};
use picket_analysis::explain::Explainer;
use picket_analysis::explain::write::{self, Style};
use picket_cluster::{Endpoint, Flow, Snapshot};
use picket_dataplane::demand::{Demands, Required};
use picket_dataplane::{Crossing, Outcome, Packet};
use picket_engine::Engine;
use picket_linux::{NetworkNamespace, Nfnetlink, Which};
use picket_net::Family;
use picket_nftables::client::{Client, Observed};
use picket_nftables::meaning::Interpreter;
use picket_nftables::model::{Name, Table};
use picket_nftables::render::{drops, indexed};

use super::{Scene, Trace, TraceQuestion, TracedConnection, TracedPacket, Tracer};
use crate::drops::Dropped;
use crate::status::Drop;

/// The most connections that are named.
pub(crate) const CONNECTIONS: usize = 20;

pub(super) fn answer(tracer: &Tracer, asked: &TraceQuestion, scene: &Scene) -> Result<Trace, String> {
    let engine = Engine::compile(&scene.snapshot, scene.semantics.clone());
    let evaluator = Evaluator::new(&scene.snapshot, engine.program());
    let question = evaluator.question(&asked.from, &asked.to, &asked.port, None);
    let question = question.map_err(|error| error.to_string())?;
    let mut trace = explained(&tracer.node, &evaluator, &question)?;
    trace.waiting = tracer.waiting();
    trace.here = here(&question, &tracer.node);
    if trace.here.is_empty() {
        return Ok(trace);
    }
    let flows = Family::BOTH
        .into_iter()
        .filter_map(|family| evaluator.deciding_flow(&question, family));
    let packets = flows.filter_map(|flow| packet(&flow, &scene.snapshot, &tracer.node));
    let packets: Vec<Packet> = packets.collect();
    let kernel = tracer.kernel().map_err(|error| error.to_string())?;
    match &kernel {
        Observed::Table(table) => {
            let demands = Demands::on_node(engine.program(), Some(&tracer.node));
            let dropped = tracer.drops.read().map_err(|error| error.to_string())?;
            let traced = packets
                .iter()
                .map(|packet| traced(packet, table, &demands, &dropped));
            trace.packets = traced.collect();
        }
        Observed::Absent => trace.rules = Some("the kernel has no table `inet picket`".to_owned()),
        Observed::Altered(foreign) => {
            let foreign: Vec<_> = foreign.iter().map(ToString::to_string).collect();
            trace.rules = Some(format!("others have changed the table: {}", foreign.join("; ")));
        }
    }
    trace.connections = connections(&tracer.namespace, &packets).map_err(|error| error.to_string())?;
    Ok(trace)
}

/// What the policies say, and nothing else yet.
///
/// # Errors
/// When that cannot be written.
pub(crate) fn explained(node: &str, evaluator: &Evaluator<'_>, question: &Question) -> Result<Trace, String> {
    let explanation = Explainer::new(evaluator).explain(question);
    let mut text = Vec::new();
    write::text(&explanation, Style::default(), &mut text).map_err(|error| error.to_string())?;
    Ok(Trace {
        node: node.to_owned(),
        network: None,
        here: Vec::new(),
        explanation: serde_json::to_value(&explanation).map_err(|error| error.to_string())?,
        text: String::from_utf8_lossy(&text).into_owned(),
        waiting: None,
        rules: None,
        packets: Vec::new(),
        connections: Vec::new(),
    })
}

impl Tracer {
    /// Why the policies are not in force.
    fn waiting(&self) -> Option<String> {
        let status = self.shared.lock();
        match &status.host.trouble {
            Some(trouble) => Some(trouble.why.clone()),
            None if !status.ready => Some("they are known, and not in force yet".to_owned()),
            None => None,
        }
    }

    fn kernel(&self) -> picket_linux::Result<Observed> {
        let mut client = Client::open(&self.namespace)?;
        client.read(&indexed::table_name()).map(|(_, observed)| observed)
    }
}

/// The names of the ends that are pods of a node.
fn here(question: &Question, node: &str) -> Vec<String> {
    let ends = [&question.from, &question.to].into_iter();
    let here = ends.filter(|end| match end {
        Party::Pod(pod) => pod.node.as_deref() == Some(node) && !pod.host_network,
        Party::Node { .. } | Party::External(_) => false,
    });
    here.map(Party::id).collect()
}

/// The first packet of a flow, as it meets the rules of a node.
fn packet(flow: &Flow, snapshot: &Snapshot, node: &str) -> Option<Packet> {
    let is_own = |end: &Endpoint| {
        let of_node = snapshot.node_at(end, flow.family);
        of_node.is_some_and(|of_node| of_node.name == node)
    };
    let crossing = if is_own(&flow.destination) {
        Crossing::Receive { input: "".into() }
    } else if is_own(&flow.source) {
        Crossing::Send { output: "".into() }
    } else {
        Crossing::Forward {
            input: "".into(),
            output: "".into(),
        }
    };
    opening(flow, snapshot, crossing)
}

/// The first packet of a flow where it crosses some rules; `None` where an end has no address of its family.
pub(crate) fn opening(flow: &Flow, snapshot: &Snapshot, crossing: Crossing) -> Option<Packet> {
    let address = |end: &Endpoint| -> Option<IpAddr> {
        match end {
            Endpoint::Pod(object) => snapshot.pods.get(object)?.addresses.of(flow.family),
            Endpoint::Node { address, .. } | Endpoint::External(address) => Some(*address),
        }
    };
    let (source, destination) = (address(&flow.source)?, address(&flow.destination)?);
    Some(Packet::opening(
        crossing,
        source,
        destination,
        flow.protocol,
        flow.port,
    ))
}

/// What becomes of a packet by a table and by what is demanded, with what the counters that count it say.
pub(crate) fn traced(
    packet: &Packet,
    table: &Table,
    demands: &Demands<'_>,
    dropped: &Dropped,
) -> TracedPacket {
    let passage = Interpreter::new(table).pass(packet);
    let required = demands.required(packet);
    let counted = |name: Name| {
        let mut counters = dropped.by_policy.iter();
        // By its name in either layout.
        let found = counters.find(|(policy, direction, _)| {
            let names = [indexed::counter_name, drops::counter_name];
            names.into_iter().any(|named| named(policy, *direction) == name)
        });
        found.cloned().map(Drop::from)
    };
    let place = match &passage.outcome {
        Outcome::Accept => None,
        Outcome::Drop { place, .. } => Some(place.clone()),
    };
    TracedPacket {
        source: packet.source.to_string(),
        destination: packet.destination.to_string(),
        pod: None,
        interface: None,
        path: match packet.crossing {
            Crossing::Receive { .. } => "input",
            Crossing::Forward { .. } => "forward",
            Crossing::Send { .. } | Crossing::Relay { .. } => "output",
        }
        .to_owned(),
        policies: match required {
            Required::Accept => "accept",
            Required::Drop => "drop",
            Required::Either => "either",
        }
        .to_owned(),
        kernel: if place.is_none() { "accept" } else { "drop" }.to_owned(),
        agrees: required.is_met_by(&passage.outcome),
        place,
        counters: passage.counted.into_iter().filter_map(counted).collect(),
    }
}

/// What connection tracking knows between the ends of some packets, whichever of them began it.
pub(crate) fn connections(
    namespace: &NetworkNamespace,
    packets: &[Packet],
) -> picket_linux::Result<Vec<TracedConnection>> {
    let mut tracked = Nfnetlink::open(namespace)?;
    let mut found = BTreeSet::new();
    for packet in packets {
        let ends = [packet.source, packet.destination];
        for [one, other] in [ends, [packet.destination, packet.source]] {
            tracked.connections(Which::From(one), |connection| {
                if connection.reply.source == other {
                    found.insert(*connection);
                }
            })?;
        }
    }
    let found = found.into_iter().take(CONNECTIONS);
    let traced = found.map(|connection| TracedConnection {
        connection: connection.to_string(),
        answered: connection.is_answered(),
    });
    Ok(traced.collect())
}

#[cfg(test)]
mod tests {
    use picket_cluster::Semantics;
    use picket_policy::{Direction, ObjectRef};
    use picket_testing::build::{node, pod, policy};
    use picket_testing::snapshot;

    use super::*;

    #[test]
    fn what_the_kernel_does_is_held_against_the_policies() {
        let snapshot = snapshot![
            node("n").ip("192.0.2.1"),
            pod("x/a").ip("10.0.0.1").on("n"),
            pod("x/b").label("app", "b").ip("10.0.0.2").on("n"),
            policy("x/deny").selects("app=b").isolates(Direction::Ingress),
        ];
        let engine = Engine::compile(&snapshot, Semantics::default());
        let evaluator = Evaluator::new(&snapshot, engine.program());
        let demands = Demands::on_node(engine.program(), Some("n"));
        let right = indexed::render(engine.program(), Some("n")).unwrap();
        let open = Engine::compile(&Snapshot::default(), Semantics::default());
        let open = indexed::render(open.program(), Some("n")).unwrap();
        let dropped = Dropped {
            by_policy: vec![(
                ObjectRef::new("NetworkPolicy", "x", "deny"),
                Direction::Ingress,
                3,
            )],
            ..Dropped::default()
        };
        for (from, table, path, policies, kernel, agrees, counted) in [
            ("x/a", &right, "forward", "drop", "drop", true, 1),
            ("x/a", &open, "forward", "drop", "accept", false, 0),
            ("n", &right, "output", "accept", "accept", true, 0),
        ] {
            let question = evaluator.question(from, "x/b", "80", None).unwrap();
            let flow = evaluator.deciding_flow(&question, Family::Ipv4).unwrap();
            let packet = packet(&flow, &snapshot, "n").unwrap();
            let traced = traced(&packet, table, &demands, &dropped);
            assert_eq!(
                (
                    traced.path.as_str(),
                    traced.policies.as_str(),
                    traced.kernel.as_str()
                ),
                (path, policies, kernel),
                "{from}: {traced:?}"
            );
            assert_eq!(
                (traced.agrees, traced.counters.len()),
                (agrees, counted),
                "{traced:?}"
            );
            assert_eq!(traced.place.is_some(), kernel == "drop");
        }
    }
}
