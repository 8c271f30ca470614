//! The thread that asks the container runtime.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use picket_linux::NetworkNamespace;
use picket_linux::runtime::{Follower, Learned, Problem, Runtime, RuntimeError, Sandbox, SandboxId};

use super::{News, Outbox};
use crate::AgentError;
use crate::metrics::Metrics;

/// When to try again what the runtime did not say well enough.
const RETRY: Duration = Duration::from_secs(1);

/// How long to wait otherwise for what may never come.
const LONG: Duration = Duration::from_secs(3600);

/// The sandboxes that are ready.
pub(super) type Sandboxes = Vec<(Sandbox, Found)>;

/// What is known of where the pod of a sandbox has its network.
#[derive(Clone, Debug)]
pub(super) enum Found {
    /// Its namespace.
    Namespace(Arc<NetworkNamespace>),
    /// The pod is in the network of its node, where no policy selects it.
    Host,
    /// Why it is not known.
    Unknown(String),
}

/// Tells in a thread of its own, which ends with the process, which sandboxes there are and where.
pub(super) fn start(runtime: Runtime, metrics: Metrics, outbox: Outbox) -> Result<(), AgentError> {
    let watching = Watching {
        runtime,
        found: BTreeMap::new(),
        metrics,
    };
    thread::Builder::new()
        .name("picket-runtime".to_owned())
        .spawn(move || watching.run(&outbox))
        .map_err(AgentError::Start)?;
    Ok(())
}

struct Watching {
    runtime: Runtime,
    found: BTreeMap<SandboxId, Found>,
    metrics: Metrics,
}

impl Watching {
    fn run(mut self, outbox: &Outbox) {
        let mut follower = Follower::default();
        loop {
            let is_unknown = |found: &Found| matches!(found, Found::Unknown(_));
            let patience = if self.found.values().any(is_unknown) {
                RETRY
            } else {
                LONG
            };
            let news = match follower.next(&mut self.runtime, patience) {
                Ok(sandboxes) => News::Sandboxes(self.find(sandboxes, follower.learned())),
                Err(error) => News::Silence(error.to_string()),
            };
            if outbox.send(news).is_err() {
                return;
            }
        }
    }

    /// Finds the namespaces of sandboxes that are new, and of those where it did not succeed before.
    fn find(&mut self, sandboxes: Vec<Sandbox>, learned: Learned) -> Sandboxes {
        let mut before = std::mem::take(&mut self.found);
        let mut all = Vec::new();
        for sandbox in sandboxes {
            let known = before.remove(&sandbox.id);
            if known.is_none() {
                self.metrics.found_by(learned);
            }
            let found = match known {
                Some(found @ (Found::Namespace(_) | Found::Host)) => found,
                Some(Found::Unknown(_)) | None => found(self.runtime.namespace(&sandbox)),
            };
            self.found.insert(sandbox.id.clone(), found.clone());
            all.push((sandbox, found));
        }
        all
    }
}

pub(super) fn found(namespace: Result<NetworkNamespace, RuntimeError>) -> Found {
    match namespace {
        Ok(namespace) => Found::Namespace(Arc::new(namespace)),
        Err(RuntimeError::Sandbox {
            problem: Problem::Host,
            ..
        }) => Found::Host,
        Err(error) => Found::Unknown(error.to_string()),
    }
}
