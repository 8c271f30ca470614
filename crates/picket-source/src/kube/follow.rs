//! Following a cluster: a watch for each kind that it serves, and the kinds that come and go.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use picket_cluster::Event;
use picket_policy::{Diagnostic, NetworkName, ObjectRef};
use smol_str::SmolStr;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::Kube;
use super::backoff::Backoff;
use super::connect::{Connection, Numbered};
use super::error::KubeError;
use super::health::Health;
use super::kind::{self, Kind, Resource};
use super::listener::{Listener, Objects};
use super::watch::{News, Watch};
use crate::ObjectVersion;
use crate::live::{Live, Step};
use crate::origin::Missing;

/// The kinds that decide what policies do on every network. Workloads explain it only.
const EVERYWHERE: [&str; 2] = ["Namespace", "Pod"];

/// The kinds that decide what they do on the cluster network.
const ON_CLUSTER_NETWORK: [&str; 5] = [
    "Node",
    "NetworkPolicy",
    "ClusterNetworkPolicy",
    "AdminNetworkPolicy",
    "BaselineAdminNetworkPolicy",
];

/// The kinds that decide what they do on secondary networks.
const ON_SECONDARY_NETWORKS: [&str; 2] = ["NetworkAttachmentDefinition", "MultiNetworkPolicy"];

/// The kind that says which addresses are translated.
const SERVICE: &str = "Service";

/// What asking for the kinds is called in [`Health::kinds`].
const KINDS: &str = "/apis";

/// How many objects may wait until others have been taken in.
const WAITING: usize = 64;

/// What is to be known of a cluster.
#[derive(Clone, Debug)]
pub struct Interest {
    /// The node whose pods are kept whole, and of whose pods policies are read. Of the pods of other nodes only what
    /// policies see of peers is kept. Without one, every pod is kept whole and every policy read.
    pub node: Option<SmolStr>,
    /// Whether to know the policies of the cluster network, and the nodes. Without, no right to list them is needed.
    pub cluster_network: bool,
    /// Whether to know the policies of secondary networks, and these networks. Without, no right to list them is needed.
    pub secondary_networks: bool,
    /// Whether to know the addresses of services, as who judges packets before these are translated must. Without, no right to
    /// list them is needed.
    pub services: bool,
    /// How often to ask whether kinds came or went.
    pub discovery: Duration,
}

impl Default for Interest {
    fn default() -> Self {
        Self {
            node: None,
            cluster_network: true,
            secondary_networks: true,
            services: false,
            discovery: Duration::from_secs(60),
        }
    }
}

impl Interest {
    /// Whether objects of this kind are to be known.
    pub(crate) fn includes(&self, kind: &str) -> bool {
        EVERYWHERE.contains(&kind)
            || self.cluster_network && ON_CLUSTER_NETWORK.contains(&kind)
            || self.secondary_networks && ON_SECONDARY_NETWORKS.contains(&kind)
            || self.services && kind == SERVICE
    }
}

/// What changed in a cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Events that lead from one state to the next and are to be taken as a whole: between two of them there may be what
    /// never was.
    Events(Vec<Event>),
    /// In which version a policy has been read, also where nobody can tell what it says; `None` when it is gone, or concerns nobody
    /// here. This comes before the events in which it is so. Files have no versions.
    Version(ObjectRef, Option<ObjectVersion>),
    /// What is wrong with an object now, which is nothing when there are no diagnostics. Only what is said about other
    /// objects holds on. Its name alone says which it is: it has a uid where that is known.
    Diagnosis(ObjectRef, Vec<Diagnostic>),
    /// The type of the CNI plugin of a secondary network, as its definition names it; `None` when it has no definition any
    /// more, or nobody can tell. Of a network of which this says nothing, it is not known.
    Plugin(NetworkName, Option<SmolStr>),
    /// All changes of a kind have been told up to a version of the API server.
    Reached {
        /// The resource, as in [`Health::kinds`].
        kind: SmolStr,
        /// The `resourceVersion`.
        version: SmolStr,
    },
}

/// What the parts of following have to say to the one that knows the objects.
pub(super) enum Message<O> {
    /// What the watch of this number has to say.
    Watched(u64, News<O>),
    /// Which kinds of interest the cluster serves, and which of them cannot be read.
    Served(Vec<Resource>, Vec<Missing>),
    /// Which it serves is not known.
    Unknown(String),
}

impl Kube {
    /// Follows the cluster from now on: `sink` gets every change, and `health` shows how it goes.
    ///
    /// The first change is [`Event::Init`]. When every kind of interest that the cluster serves has been listed, [`Event::InitDone`]
    /// follows, and never again: from then on there are only objects that change or go. As long as one kind cannot be
    /// listed, whatever the reason, it does not come; `health` says why. A kind that the server does not name is taken for undefined
    /// only where there is no list of it either. Later a server that is away, refuses, or answers
    /// garbage changes nothing: what was known holds. A kind is only taken to be gone, with all its objects, when the
    /// server says so of its list and names it no more among its kinds.
    ///
    /// What an object says is what the reader of files makes of it ([`load_texts`](crate::load_texts)), but for what
    /// [`Interest`] leaves out: pods that have finished or are in the host's network, who owns pods, their nameless ports, and
    /// what services lead to are not there, and pods without an address have none made up. Of a policy of which nobody can
    /// tell what it selects, what it was before holds on.
    ///
    /// While `sink` takes in a change, the server waits with the next. It runs until it is dropped, in a runtime of tokio with time and I/O.
    ///
    /// # Errors
    /// When nothing says where the cluster is. That it cannot be reached is none.
    pub async fn follow(
        &self,
        interest: Interest,
        health: Health,
        sink: impl FnMut(Change),
    ) -> Result<Infallible, KubeError> {
        let live = Live::new(interest.node.clone());
        self.tell(interest, health, Objects { live, sink }).await
    }

    /// The same for anybody who listens.
    pub(crate) async fn tell(
        &self,
        interest: Interest,
        health: Health,
        listener: impl Listener,
    ) -> Result<Infallible, KubeError> {
        let connection = Connection::open(self).await?;
        let connection = Arc::new(connection);
        let (sender, receiver) = channel(WAITING);
        let mut tasks = JoinSet::new();
        tasks.spawn(discover(Arc::clone(&connection), interest, sender.clone()));
        let following = Following {
            connection,
            health,
            listener,
            sender,
            tasks,
            watched: BTreeMap::new(),
            last: 0,
            is_complete: false,
            kinds: Kinds::Unknown,
        };
        Ok(following.run(receiver).await)
    }
}

/// Asks again and again which kinds of interest there are.
async fn discover<O>(connection: Arc<Connection>, interest: Interest, news: Sender<Message<O>>) {
    let mut backoff = Backoff::default();
    loop {
        let Numbered { number, session } = connection.session().await;
        let served = kind::served(&session, |kind| interest.includes(kind.name)).await;
        let is_whole = matches!(&served, Ok((_, missing)) if missing.is_empty());
        let renewed = match is_whole {
            true => Ok(()),
            false => connection.renew(number).await,
        };
        let (message, wait) = match served {
            Ok((resources, missing)) => {
                backoff.reset();
                (Message::Served(resources, missing), interest.discovery)
            }
            Err(error) => {
                let why = renewed.err().unwrap_or(error).to_string();
                (Message::Unknown(why), backoff.next())
            }
        };
        if news.send(message).await.is_err() {
            return;
        }
        sleep(wait).await;
    }
}

struct Following<L: Listener> {
    connection: Arc<Connection>,
    health: Health,
    listener: L,
    sender: Sender<Message<L::Object>>,
    tasks: JoinSet<()>,
    watched: BTreeMap<&'static str, Watched>,
    /// The number of the last watch that began.
    last: u64,
    /// Whether everything was known once.
    is_complete: bool,
    kinds: Kinds,
}

/// What is known of the kinds that the cluster serves.
#[derive(PartialEq, Eq)]
enum Kinds {
    Unknown,
    /// Some are there and cannot be read.
    Lacking,
    Known,
}

/// A kind that is watched.
struct Watched {
    kind: &'static Kind,
    version: &'static str,
    number: u64,
    task: AbortHandle,
    /// Whether there has been a complete list.
    is_listed: bool,
    /// Whether the server said, the last time that it was asked, that there is no such list.
    is_absent: bool,
}

impl<L: Listener> Following<L> {
    async fn run(mut self, mut news: Receiver<Message<L::Object>>) -> Infallible {
        self.listener.begin();
        loop {
            // INVARIANT: this holds a sender, so that there is always one.
            let Some(message) = news.recv().await else {
                continue;
            };
            match message {
                Message::Watched(number, news) => self.hear(number, news),
                Message::Served(resources, missing) => self.serve(resources, missing),
                Message::Unknown(why) => self.health.note(KINDS, |health| health.failed(why)),
            }
            self.complete();
        }
    }

    /// Says once that everything is known.
    fn complete(&mut self) {
        let all = self.kinds == Kinds::Known && self.watched.values().all(|watched| watched.is_listed);
        if all && !self.is_complete {
            self.is_complete = true;
            self.listener.complete();
        }
    }

    /// Takes in what a watch says.
    fn hear(&mut self, number: u64, news: News<L::Object>) {
        // One that was ended may have said something before.
        let Some(watched) = self.watched.values_mut().find(|watched| watched.number == number) else {
            return;
        };
        let kind = watched.kind;
        let step = match news {
            News::Answered => {
                watched.is_absent = false;
                self.health.note(&kind.full_name(), |health| health.answered());
                return;
            }
            News::Failed { why, is_absent } => {
                watched.is_absent = is_absent;
                self.health.note(&kind.full_name(), |health| health.failed(why));
                return;
            }
            News::Reached(version) => return self.listener.reached(kind, version),
            News::Step(step) => step,
        };
        let is_end = matches!(step, Step::End);
        watched.is_listed |= is_end;
        self.health.note(&kind.full_name(), |health| {
            health.answered();
            health.complete |= is_end;
            health.lists += u64::from(is_end);
            health.objects += u64::from(!is_end);
        });
        self.listener.step(kind, step);
    }

    /// Watches what the cluster serves, and no longer what is gone.
    fn serve(&mut self, resources: Vec<Resource>, missing: Vec<Missing>) {
        let gone: Vec<_> = self
            .watched
            .values()
            .filter(|watched| watched.is_absent && missing.is_empty())
            .map(|watched| watched.kind)
            .filter(|kind| !resources.iter().any(|resource| resource.kind.name == kind.name))
            .collect();
        for kind in gone {
            if let Some(watched) = self.watched.remove(kind.name) {
                watched.task.abort();
            }
            self.health.forget(&kind.full_name());
            self.listener.step(kind, Step::Gone);
        }
        for resource in resources {
            let name = resource.kind.name;
            let watched = self.watched.get(name).map(|watched| watched.version);
            if watched != Some(resource.version) {
                self.watch(resource);
            }
        }
        self.kinds = if missing.is_empty() {
            Kinds::Known
        } else {
            Kinds::Lacking
        };
        self.health.note(KINDS, |health| match missing.first() {
            Some(Missing { what, why }) => health.failed(format!("`{what}` cannot be read: {why}")),
            None => {
                health.answered();
                health.complete = true;
            }
        });
    }

    /// Watches a kind, instead of another version of it if there was one.
    fn watch(&mut self, resource: Resource) {
        while self.tasks.try_join_next().is_some() {}
        self.last += 1;
        let (number, sender) = (self.last, self.sender.clone());
        let watch = Watch {
            resource,
            number,
            connection: Arc::clone(&self.connection),
            news: sender,
        };
        let task = self.tasks.spawn(watch.run());
        let watched = Watched {
            kind: resource.kind,
            version: resource.version,
            number,
            task,
            is_listed: false,
            is_absent: false,
        };
        self.health.note(&resource.kind.full_name(), |_| {});
        if let Some(other) = self.watched.insert(resource.kind.name, watched) {
            other.task.abort();
        }
    }
}

#[cfg(test)]
mod tests;
