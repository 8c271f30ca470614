//! What becomes of a connection on a secondary network, here and now: in each pod of the node that is an end of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_analysis::directory::Party;
use picket_analysis::eval::{Evaluator, Question};
use picket_cluster::{Endpoint, Flow, Pod, Semantics, Snapshot};
use picket_dataplane::demand::Demands;
use picket_dataplane::{Crossing, Packet};
use picket_engine::Engine;
use picket_linux::NetworkNamespace;
use picket_net::Family;
use picket_nftables::client::{Client, Counters, Observed};
use picket_nftables::model::{Draft, Table};
use picket_nftables::render::documented;
use picket_nftables::render::drops::counter_name;
use picket_policy::{Direction, NetworkName, ObjectRef};
use smol_str::SmolStr;

use super::Outbox;
use crate::drops::Dropped;
use crate::trace::{
    Answering, Asked, CONNECTIONS, Trace, TraceQuestion, TracedPacket, connections, explained, opening,
    scene, traced,
};

/// What is known of two ends on one network.
pub(super) struct Scene {
    pub(super) network: NetworkName,
    /// The ends and everything that decides between them; custom rules are policies like others.
    pub(super) snapshot: Snapshot,
    pub(super) semantics: Semantics,
    /// The directions, ingress first, in which custom rules look at the addresses of the pod itself.
    pub(super) own_addresses: [bool; 2],
    /// The ends that are pods of this node.
    pub(super) here: Vec<End>,
}

/// An interface of a pod of this node.
pub(super) struct End {
    /// The pod, as in `shop/web`.
    pub(super) pod: String,
    /// What it is called on its network.
    pub(super) endpoint: ObjectRef,
    pub(super) interface: SmolStr,
    /// The other interfaces of the pod on which policies are enforced.
    pub(super) others: BTreeSet<SmolStr>,
    pub(super) namespace: Arc<NetworkNamespace>,
    /// The policies that apply to the pod; none where it needs no rules.
    pub(super) policies: Vec<ObjectRef>,
    /// The table that is to be there, if any is.
    pub(super) desired: Option<Arc<Table>>,
    /// The directions, ingress first, in which the rules may let pass less than the policies.
    pub(super) narrower: [bool; 2],
    /// Why the policies, as they are now, are not in force there, if they are not.
    pub(super) waiting: Option<String>,
}

/// Has questions answered by the one that enforces on this node.
pub(super) fn answering(node: SmolStr, outbox: Outbox) -> Answering {
    Arc::new(move |question| {
        let tell = |asked: Asked<Vec<Scene>>| {
            // When nobody hears it the agent has ended, and the process is about to.
            let _ = outbox.send(super::News::Asked(asked));
        };
        answer(&node, question, &scene(question, tell)?)
    })
}

/// # Errors
/// Why there is no answer, for who asks.
fn answer(node: &str, asked: &TraceQuestion, scenes: &[Scene]) -> Result<Trace, String> {
    let scene = meant(asked, scenes)?;
    let engine = Engine::compile(&scene.snapshot, scene.semantics.clone());
    let evaluator = Evaluator::new(&scene.snapshot, engine.program());
    let question = question(&evaluator, asked)?;
    let mut trace = explained(node, &evaluator, &question)?;
    trace.network = Some(scene.network.to_string());
    let flows: Vec<_> = Family::BOTH
        .into_iter()
        .filter_map(|family| evaluator.deciding_flow(&question, family))
        .collect();
    let mut tracked = BTreeMap::new();
    let (mut waiting, mut rules) = (Vec::new(), Vec::new());
    for end in scene.ends(&question) {
        trace.here.push(end.pod.clone());
        waiting.extend(end.waiting.as_ref().map(|why| format!("{}: {why}", end.pod)));
        let packets: Vec<_> = flows
            .iter()
            .filter_map(|flow| end.packet(flow, &scene.snapshot))
            .collect();
        match end.judge(scene, &engine, &packets) {
            Ok(judged) => trace.packets.extend(judged),
            Err(why) => rules.push(format!("{}: {why}", end.pod)),
        }
        let known = connections(&end.namespace, &packets).map_err(|error| error.to_string())?;
        tracked.extend(known.into_iter().map(|one| (one.connection.clone(), one)));
    }
    trace.here.dedup();
    trace.waiting = joined(&waiting);
    trace.rules = joined(&rules);
    // Both ends may know the same one.
    trace.connections = tracked.into_values().take(CONNECTIONS).collect();
    Ok(trace)
}

fn joined(parts: &[String]) -> Option<String> {
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn question(evaluator: &Evaluator<'_>, asked: &TraceQuestion) -> Result<Question, String> {
    let question = evaluator.question(&asked.from, &asked.to, &asked.port, None);
    question.map_err(|error| error.to_string())
}

/// The network that a question is about: that on which both ends are pods rather than any addresses, and one of them is here.
///
/// # Errors
/// Where there is none, or more than one.
fn meant<'s>(asked: &TraceQuestion, scenes: &'s [Scene]) -> Result<&'s Scene, String> {
    let (mut found, mut best, mut error) = (Vec::new(), 0, None);
    for scene in scenes {
        let engine = Engine::compile(&scene.snapshot, scene.semantics.clone());
        let evaluator = Evaluator::new(&scene.snapshot, engine.program());
        let question = match question(&evaluator, asked) {
            Ok(question) => question,
            Err(why) => {
                error = error.or(Some(why));
                continue;
            }
        };
        let ends = [&question.from, &question.to].into_iter();
        let pods = ends.filter(|end| matches!(end, Party::Pod(_))).count();
        let rank = pods + 2 * usize::from(scene.ends(&question).next().is_some());
        if rank > best {
            found.clear();
        }
        best = best.max(rank);
        if rank == best {
            found.push(scene);
        }
    }
    match found.as_slice() {
        [scene] => Ok(scene),
        [] => Err(error.unwrap_or_else(|| match &asked.network {
            Some(network) => format!(
                "this agent enforces no policies on a network `{}`",
                network.escape_debug()
            ),
            None => "this agent enforces no policies on any network now".to_owned(),
        })),
        several => {
            let names: Vec<_> = several
                .iter()
                .map(|scene| format!("`{}`", scene.network))
                .collect();
            Err(format!(
                "that may be about the networks {}: say which with `--network`",
                names.join(", ")
            ))
        }
    }
}

impl Scene {
    /// The ends of a question that are here, the one that opens the connection first.
    fn ends<'s>(&'s self, question: &'s Question) -> impl Iterator<Item = &'s End> {
        let parties = [&question.from, &question.to].into_iter();
        parties.flat_map(|party| {
            let here = self.here.iter();
            here.filter(move |end| matches!(party, Party::Pod(pod) if pod.object == end.endpoint))
        })
    }
}

impl End {
    /// The first packet of a flow, as it meets the rules of this pod; `None` where none of them sees it.
    fn packet(&self, flow: &Flow, snapshot: &Snapshot) -> Option<Packet> {
        let pod = |end: &Endpoint| -> Option<&Pod> {
            match end {
                Endpoint::Pod(object) => snapshot.pods.get(object).map(AsRef::as_ref),
                Endpoint::Node { .. } | Endpoint::External(_) => None,
            }
        };
        let (source, destination) = (pod(&flow.source), pod(&flow.destination));
        // What a pod sends to itself goes by `lo`.
        if source
            .zip(destination)
            .is_some_and(|(one, other)| one.is_same_pod(other))
        {
            return None;
        }
        let interface = self.interface.clone();
        let crossing = match source {
            Some(pod) if pod.object == self.endpoint => Crossing::Send { output: interface },
            _ => Crossing::Receive { input: interface },
        };
        opening(flow, snapshot, crossing)
    }

    /// What becomes of packets by the rules in the namespace of this pod.
    ///
    /// # Errors
    /// Why nobody can tell.
    fn judge(&self, scene: &Scene, engine: &Engine, packets: &[Packet]) -> Result<Vec<TracedPacket>, String> {
        let table = self.table()?;
        let demands = Demands::in_pod(
            engine.program(),
            &self.endpoint,
            &self.interface,
            self.others.clone(),
            self.narrower,
        );
        let demands = demands
            .ok_or("it is not known")?
            .about_own_addresses(scene.own_addresses);
        let dropped = self.dropped().map_err(|error| error.to_string())?;
        let traced = packets.iter().map(|packet| TracedPacket {
            pod: Some(self.pod.clone()),
            interface: Some(self.interface.to_string()),
            ..traced(packet, &table, &demands, &dropped)
        });
        Ok(traced.collect())
    }

    /// The rules that the kernel has there; without any it lets everything pass. No more is read than about what is desired:
    /// who may change rules in the pod may have put there as much as they like.
    fn table(&self) -> Result<Table, String> {
        let name = documented::table_name();
        let nothing = Draft::new(name.clone()).check();
        let nothing = nothing.map_err(|error| error.to_string())?;
        let desired = self.desired.as_deref().unwrap_or(&nothing);
        let read = Client::open(&self.namespace).and_then(|client| client.wary().observe(desired));
        match read.map_err(|error| error.to_string())? {
            Observed::Table(table) => Ok(table),
            Observed::Absent if self.policies.is_empty() => Ok(nothing),
            Observed::Absent => Err(format!("the kernel has no table `inet {name}`")),
            Observed::Altered(foreign) => {
                let foreign: Vec<_> = foreign.iter().map(ToString::to_string).collect();
                Err(format!("others have changed the table: {}", foreign.join("; ")))
            }
        }
    }

    /// What its counters say.
    fn dropped(&self) -> picket_linux::Result<Dropped> {
        let names = self.policies.iter().flat_map(|policy| {
            let name = |direction| counter_name(policy, direction);
            Direction::BOTH.map(name)
        });
        let counted = Counters::open(&self.namespace, documented::table_name())?.packets_of(names)?;
        let of_policy = |policy: &ObjectRef| {
            Direction::BOTH.map(|direction| {
                let packets = *counted.get(&counter_name(policy, direction))?;
                Some((policy.clone(), direction, packets))
            })
        };
        Ok(Dropped {
            by_policy: self.policies.iter().flat_map(of_policy).flatten().collect(),
            ..Dropped::default()
        })
    }
}
