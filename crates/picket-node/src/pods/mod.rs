//! Policies of secondary networks, in the network namespaces of the pods of a node.
//!
//! ```text
//! API server ──▶ source (a thread) ──▶ Known ──▶ Networks ──▶ Desired ─┐
//! container runtime ──▶ watching (threads) ──▶ Sandboxes ──────────────┴──▶ Place ──▶ table in the pod's namespace
//! ```
//!
//! Each network that pods of the node are on is judged as a cluster of its own
//! ([`Snapshot::on`](picket_cluster::Snapshot::on)), and each pod that a policy of such a network selects gets the table of
//! the documented layout, in one transaction. Sandboxes are [`Place`](sandbox::Place)s of their own: what goes wrong in one
//! is told and tried again, and changes nothing for the others. A table goes when no policy selects the pod any more,
//! whoever wrote it; while nobody knows what the pod is, since the cluster has not said so yet or has forgotten it already,
//! everything stays as it is.

mod agent;
mod blame;
mod closing;
mod compiled;
mod custom;
mod cutting;
mod denied;
mod desired;
mod drift;
mod drops;
mod held;
mod in_force;
mod known;
mod network;
mod plugin;
mod proof;
mod round;
mod sandbox;
mod status;
#[cfg(test)]
mod testing;
mod touched;
mod trace;
mod troubles;
mod watching;

use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use picket_linux::runtime::Runtime;
use picket_nftables::client::Client;
use picket_source::{Change, Health, Interest};
use smol_str::SmolStr;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use agent::Agent;
pub use custom::CustomFile;
pub use status::{PodsStatus, SandboxStatus};
use watching::{Found, Sandboxes};

use crate::serve;
use crate::source;
use crate::trace::Asked;
use crate::{AgentError, Ended, Extent, Settings};

/// The open files that a pod may take: its namespace, and sockets for its rules, their changes by others, and what is denied.
const FILES: usize = 4;

/// How many pods a node has at most, as kubelets have it by default.
const PODS: usize = 110;

/// How much may wait until it is taken in.
const WAITING: usize = 256;

/// Where the pods of a node are, and what is asked of them beside policies.
#[derive(Clone, Debug)]
pub struct PodSettings {
    /// The socket of the container runtime.
    pub endpoint: String,
    /// Where the root of the node is, seen from here; empty where they are the same.
    pub prefix: PathBuf,
    /// Custom rules, in the order in which they are judged.
    pub custom: Vec<CustomFile>,
    /// The types of the CNI plugins on whose networks policies hold. They also hold where the plugin is not known.
    pub plugins: Vec<SmolStr>,
}

/// Something to hear.
enum News {
    /// The cluster says something.
    Cluster(Result<Change, AgentError>),
    /// The runtime says which sandboxes there are.
    Sandboxes(Sandboxes),
    /// The runtime says nothing.
    Silence(String),
    /// Packets were denied.
    Denied(denied::Told),
    /// Others have changed tables.
    Drifted(drift::Drifted),
    /// Somebody asks what becomes of a connection.
    Asked(Asked<Vec<trace::Scene>>),
    /// Somebody asks the agent to end.
    End,
}

type Outbox = SyncSender<News>;

/// Enforces the policies of secondary networks in the pods of a node.
///
/// SIGTERM and SIGINT end it; the rules stay.
///
/// # Errors
/// When it cannot start, or with [`Extent::Once`] and [`Extent::DryRun`] when it cannot do what it was asked.
pub fn run(settings: &Settings, pods: &PodSettings, extent: Extent) -> Result<Ended, AgentError> {
    settings.source.settle_memory();
    let health = Health::default();
    let files = picket_linux::raise_open_files_limit();
    if files < PODS * FILES {
        tracing::warn!(
            files,
            "with no more open files than that not all pods of a full node can be served"
        );
    }
    let mut agent = Agent::new(settings, pods, &health, extent)?;
    let runtime = Runtime::at(&pods.endpoint, &pods.prefix)?;
    let (outbox, inbox) = sync_channel(WAITING);
    let answers = agent.answers(outbox.clone());
    let metrics = answers.metrics.clone();
    if extent == Extent::Forever {
        serve::serve(&settings.listen, answers)?;
        agent.listen(outbox.clone())?;
    }
    end_on_signals(outbox.clone())?;
    watching::start(runtime, metrics, outbox.clone())?;
    let interest = Interest {
        node: Some(settings.node.clone()),
        cluster_network: false,
        secondary_networks: true,
        services: false,
        discovery: settings.discover_every,
    };
    let _following = source::start(&settings.source, interest, &health, move |change| {
        // When nobody hears it the agent has ended, and the process is about to.
        let _ = outbox.send(News::Cluster(change));
    })?;
    agent.run(&inbox)
}

/// Removes the tables of policies from all pods of a node; how many there were.
///
/// # Errors
/// When the runtime does not answer; when a pod cannot be entered or the kernel refuses, after all others have been done.
pub fn clean_up(pods: &PodSettings) -> Result<usize, AgentError> {
    let runtime = Runtime::at(&pods.endpoint, &pods.prefix)?;
    let (mut removed, mut troubles) = (0, Vec::new());
    for sandbox in runtime.sandboxes()? {
        let removal = match watching::found(runtime.namespace(&sandbox)) {
            Found::Host | Found::Asked => continue,
            Found::Unknown(why) => Err(why),
            Found::Namespace(namespace) => Client::open(&namespace)
                .map_err(|error| error.to_string())
                .and_then(|mut client| sandbox::remove(&mut client).map_err(|error| error.to_string())),
        };
        match removal {
            Ok(operations) => removed += operations,
            Err(why) => troubles.push(format!("{}/{}: {why}", sandbox.namespace, sandbox.name)),
        }
    }
    if troubles.is_empty() {
        Ok(removed)
    } else {
        Err(AgentError::Pods(troubles))
    }
}

/// Ends the agent when somebody asks it to.
fn end_on_signals(outbox: Outbox) -> Result<(), AgentError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(AgentError::Start)?;
    let inside = runtime.enter();
    let mut terminate = signal(SignalKind::terminate()).map_err(AgentError::Start)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(AgentError::Start)?;
    drop(inside);
    let wait = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
        let _ = outbox.send(News::End);
    };
    let thread = thread::Builder::new().name("picket-signals".to_owned());
    thread.spawn(wait).map_err(AgentError::Start)?;
    Ok(())
}
