//! Sandboxes of a container runtime: the network namespaces of pods.
//!
//! A runtime (containerd, CRI-O) says over the Container Runtime Interface which sandboxes there are and where their
//! namespaces are to be found. Here and not in a crate of its own, since what is found is opened by means of this crate.
//! What it says is not trusted further than that: a namespace is opened, held, and only then checked. It must not be the
//! node's, no other sandbox may have the same, and the runtime, asked again while the namespace is held, must still say
//! that the sandbox is ready and where it said before. A number of a process that was given anew is noticed by this.
//!
//! Calls block the thread that makes them, and end after ten seconds; other threads can call meanwhile. Connections that break are
//! made again with the next call. Events are taken as they come, by a thread of its own.

mod call;
mod error;
mod follow;
mod message;
mod open;
mod place;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::NetworkNamespace;
use call::Caller;
pub use error::{Problem, RuntimeError};
pub use follow::{Follower, Learned};
use message::{
    ListPodSandboxRequest, ListPodSandboxResponse, NODE, PodSandbox, PodSandboxFilter, PodSandboxMetadata,
    PodSandboxStateValue, PodSandboxStatusRequest, PodSandboxStatusResponse, READY,
};
pub use place::{Place, Said};

/// The most characters of an id. Runtimes have 64 hexadecimal digits.
const LONGEST_ID: usize = 128;

/// The name of a sandbox at its runtime: letters, digits, `.`, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SandboxId(Arc<str>);

/// The sandbox of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sandbox {
    /// Its name.
    pub id: SandboxId,
    /// The `uid` of the pod. Of static pods, the one that the kubelet has for it: the API's
    /// `kubernetes.io/config.hash`.
    pub pod_uid: String,
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub name: String,
    /// When it was made, in nanoseconds since 1970.
    pub created: i64,
}

/// A container runtime of a node.
pub struct Runtime {
    caller: Caller,
    prefix: PathBuf,
    known: Mutex<Known>,
}

/// Whose namespaces are known.
struct Known {
    /// The namespaces that are no sandbox's: that of the node, and that of this process.
    node: Vec<NetworkNamespace>,
    /// Whether that of the node is among them.
    knows_node: bool,
    held: BTreeMap<SandboxId, NetworkNamespace>,
}

impl Runtime {
    /// The runtime whose socket is at `endpoint`, a path with or without `unix://`. With a `prefix`, that and every other
    /// path of the node is looked for below it, as in `/host`. Whether somebody answers shows with the first call.
    ///
    /// # Errors
    /// [`RuntimeError::Endpoint`] and [`RuntimeError::Start`].
    pub fn at(endpoint: &str, prefix: &Path) -> Result<Self, RuntimeError> {
        let caller = Caller::new(endpoint, prefix)?;
        let node = open::of_node(prefix).ok();
        Ok(Self {
            caller,
            prefix: prefix.to_owned(),
            known: Mutex::new(Known {
                // Who sees everything of the node where it is, is there, and may not be let to look at other processes.
                knows_node: node.is_some() || prefix.as_os_str().is_empty(),
                node: node.into_iter().chain(NetworkNamespace::current().ok()).collect(),
                held: BTreeMap::new(),
            }),
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sandboxes that are ready, sorted. Sandboxes of no pod, or without a usable name, are passed over.
    ///
    /// # Errors
    /// [`RuntimeError::Call`].
    pub fn sandboxes(&self) -> Result<Vec<Sandbox>, RuntimeError> {
        let state = PodSandboxStateValue { state: READY };
        let filter = PodSandboxFilter { state: Some(state) };
        let question = ListPodSandboxRequest { filter: Some(filter) };
        let answer: ListPodSandboxResponse = self.caller.ask("ListPodSandbox", question)?;
        let mut sandboxes: Vec<_> = answer.items.into_iter().filter_map(Sandbox::read).collect();
        sandboxes.sort();
        self.known()
            .held
            .retain(|id, _| sandboxes.binary_search_by(|sandbox| sandbox.id.cmp(id)).is_ok());
        Ok(sandboxes)
    }

    /// The network namespace of a sandbox, which is held from then on until the sandbox is not in a list any more.
    ///
    /// # Errors
    /// [`RuntimeError::Call`], and [`RuntimeError::Sandbox`] when there is none that one may enter: the runtime does not
    /// say where it is, or names that of the node, of another sandbox or of another process.
    pub fn namespace(&self, sandbox: &Sandbox) -> Result<NetworkNamespace, RuntimeError> {
        let before = self.place(sandbox)?;
        let problem = |problem| RuntimeError::Sandbox {
            sandbox: sandbox.id.clone(),
            problem,
        };
        let namespace = open::open(&sandbox.id, &before, &self.prefix).map_err(problem)?;
        // What was opened is held: if it is still what the runtime means, it was so when it was opened.
        if self.place(sandbox)? != before {
            return Err(problem(Problem::NotReady));
        }
        let mut known = self.known();
        known
            .hold(&sandbox.id, &namespace, &self.prefix)
            .map_err(problem)?;
        Ok(namespace)
    }

    /// Where the runtime says that the namespace of a sandbox is that is ready and still of the same pod.
    fn place(&self, sandbox: &Sandbox) -> Result<Place, RuntimeError> {
        let question = PodSandboxStatusRequest {
            pod_sandbox_id: sandbox.id.to_string(),
            verbose: true,
        };
        let answer: PodSandboxStatusResponse = self.caller.ask("PodSandboxStatus", question)?;
        read(sandbox, answer).map_err(|problem| RuntimeError::Sandbox {
            sandbox: sandbox.id.clone(),
            problem,
        })
    }
}

impl Known {
    /// Holds the namespace of a sandbox from now on, if it is neither the node's nor that of another sandbox. CRI-O names a path
    /// for the node's too.
    fn hold(
        &mut self,
        sandbox: &SandboxId,
        namespace: &NetworkNamespace,
        prefix: &Path,
    ) -> Result<(), Problem> {
        let identity = open::identity(namespace)?;
        if !self.knows_node {
            self.node.push(open::of_node(prefix)?);
            self.knows_node = true;
        }
        for node in &self.node {
            if open::identity(node)? == identity {
                return Err(Problem::Host);
            }
        }
        for (other, held) in &self.held {
            if other != sandbox && open::identity(held)? == identity {
                return Err(Problem::Shared(other.clone()));
            }
        }
        let held = namespace.duplicate();
        let held = held.map_err(|error| Problem::Unknown(error.to_string()))?;
        self.held.insert(sandbox.clone(), held);
        Ok(())
    }
}

/// What a status says of where the namespace of a sandbox is.
fn read(sandbox: &Sandbox, answer: PodSandboxStatusResponse) -> Result<Place, Problem> {
    let status = answer.status.ok_or(Problem::NotReady)?;
    if status.state != READY || status.id != sandbox.id.as_str() {
        return Err(Problem::NotReady);
    }
    let of_same_pod = |metadata: &PodSandboxMetadata| metadata.uid == sandbox.pod_uid;
    if !status.metadata.as_ref().is_some_and(of_same_pod) {
        return Err(Problem::OtherPod);
    }
    if status.network() == Some(NODE) {
        return Err(Problem::Host);
    }
    let info = answer.info.get("info");
    let info = info.ok_or_else(|| Problem::Unknown("there is no `info`".to_owned()))?;
    match Said::read(info).map_err(Problem::Unknown)? {
        Said::At(place) => Ok(place),
        Said::Host => Err(Problem::Host),
    }
}

impl Sandbox {
    fn read(item: PodSandbox) -> Option<Self> {
        let PodSandboxMetadata { name, uid, namespace } = item.metadata?;
        let is_whole = ![&name, &uid, &namespace].iter().any(|text| text.is_empty());
        (is_whole && item.state == READY).then_some(())?;
        Some(Self {
            id: SandboxId::read(&item.id)?,
            pod_uid: uid,
            namespace,
            name,
            created: item.created_at,
        })
    }
}

impl SandboxId {
    /// The name that a text is; `None` where it is none that a runtime gives.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_id = (8..=LONGEST_ID).contains(&text.len()) && text.bytes().all(is_usual);
        is_id.then(|| Self(text.into()))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
