//! What becomes of a connection, here and now: what the policies say, and what the kernel does.
//!
//! Whoever asks waits in a thread of its own ([`Tracer`]). The one that enforces only hands over what it knows of the two ends
//! ([`mod@scene`]); working the answer out ([`mod@answer`]) does not keep it.

mod answer;
mod scene;

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use picket_linux::NetworkNamespace;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::drops::Drops;
use crate::inbox::{News, Outbox};
use crate::status::{Drop, Shared};
pub(crate) use answer::{CONNECTIONS, connections, explained, opening, traced};
pub(crate) use scene::Scene;

/// How long the one that enforces may be busy with something else.
const PATIENCE: Duration = Duration::from_secs(20);

/// May `from` open a connection to `to`? In the words of `picket explain`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TraceQuestion {
    /// Who opens it.
    pub from: String,
    /// To whom.
    pub to: String,
    /// The destination port.
    pub port: String,
    /// The secondary network that is meant, as in `shop/net`, where the agent enforces policies of these and more than one
    /// may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
}

/// What becomes of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// The node that answers.
    pub node: String,
    /// The secondary network that it is about, as in `shop/net`; `None` for the cluster network.
    #[serde(default)]
    pub network: Option<String>,
    /// Which of the two ends are pods of this node. What the policies of other namespaces say about other pods is known to
    /// their nodes alone.
    pub here: Vec<String>,
    /// What `picket explain -o json` says.
    pub explanation: Value,
    /// What `picket explain` says.
    pub text: String,
    /// Why the policies, as they are now, are not in force yet, if they are not.
    pub waiting: Option<String>,
    /// Why what the kernel does is not told, if it is not: there is no table, or others have changed it.
    pub rules: Option<String>,
    /// The first packet of the connection, in each family that both ends have; none where neither is here. On a secondary network
    /// each end that is here judges it, in its own namespace.
    pub packets: Vec<TracedPacket>,
    /// What connection tracking knows between the two ends now.
    pub connections: Vec<TracedConnection>,
}

impl Trace {
    /// Whether the kernel does what the policies say with every packet.
    pub fn agrees(&self) -> bool {
        self.rules.is_none() && self.packets.iter().all(|packet| packet.agrees)
    }
}

/// What becomes of a packet at this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TracedPacket {
    /// Where it comes from.
    pub source: String,
    /// Where it goes, after translation.
    pub destination: String,
    /// The pod whose rules judge it; `None` for those of the node.
    #[serde(default)]
    pub pod: Option<String>,
    /// The interface of that pod by which it comes or goes.
    #[serde(default)]
    pub interface: Option<String>,
    /// `forward`, or where the node itself, or the pod, is an end `output` and `input`.
    pub path: String,
    /// What the policies say about the ends that are here: `accept`, `drop`, or `either` where they say nothing.
    pub policies: String,
    /// What the rules in the kernel do: `accept` or `drop`.
    pub kernel: String,
    /// Whether that is the same.
    pub agrees: bool,
    /// The rule that drops it, if one does.
    pub place: Option<String>,
    /// The counters that count it then, and what they have counted until now.
    pub counters: Vec<Drop>,
}

/// A connection that the kernel tracks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TracedConnection {
    /// Its ends.
    pub connection: String,
    /// Whether the other end has answered.
    pub answered: bool,
}

/// A question that the one that enforces is to hand over the scene of.
pub(crate) struct Asked<S = Scene> {
    pub(crate) question: TraceQuestion,
    pub(crate) reply: SyncSender<Option<S>>,
}

/// Answers a question, or says why there is no answer.
pub(crate) type Answering = Arc<dyn Fn(&TraceQuestion) -> Result<Trace, String> + Send + Sync>;

/// What the one that enforces knows of the ends that a question is about. `tell` hands the question over; this waits.
///
/// # Errors
/// Why nothing is known, for who asks.
pub(crate) fn scene<S>(question: &TraceQuestion, tell: impl FnOnce(Asked<S>)) -> Result<S, String> {
    let (reply, scene) = sync_channel(1);
    tell(Asked {
        question: question.clone(),
        reply,
    });
    let scene = scene.recv_timeout(PATIENCE);
    let scene = scene.map_err(|_| format!("the agent was busy for {} s", PATIENCE.as_secs()))?;
    scene.ok_or_else(|| "the cluster is not known yet".to_owned())
}

/// Answers questions.
#[derive(Clone)]
pub(crate) struct Tracer {
    node: String,
    namespace: Arc<NetworkNamespace>,
    outbox: Outbox,
    drops: Drops,
    shared: Shared,
}

impl Tracer {
    pub(crate) fn new(
        namespace: &NetworkNamespace,
        outbox: Outbox,
        drops: Drops,
        shared: Shared,
    ) -> picket_linux::Result<Self> {
        let node = shared.lock().node.clone();
        Ok(Self {
            node,
            namespace: Arc::new(namespace.duplicate()?),
            outbox,
            drops,
            shared,
        })
    }

    /// The answer; it waits for the one that enforces.
    ///
    /// # Errors
    /// Why there is none, for who asks.
    pub(crate) fn answer(&self, question: &TraceQuestion) -> Result<Trace, String> {
        if question.network.is_some() {
            return Err(
                "this agent enforces policies of the cluster network, and knows of no other".to_owned(),
            );
        }
        let scene = scene(question, |asked| self.outbox.tell(News::Asked(asked)))?;
        answer::answer(self, question, &scene)
    }
}
