//! Keeps a Lease, in a thread of its own: what the controller does never keeps it from renewing.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jiff::Timestamp;
use picket_source::{Answered, ApiServer, Kube};
use serde_json::json;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::Lease;
use super::elector::{Attempt, Elector, Write};
use super::record::Record;
use crate::ControllerError;
use crate::backoff::Jitter;
use crate::clock::Clock;

/// How many times a Lease is renewed in its length, where nothing goes wrong.
const RENEWALS: u32 = 4;

/// In how many parts of its length to try again what went wrong.
const ATTEMPTS: u32 = 12;

/// Which Lease, and how it is kept.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// The cluster that it is in.
    pub kube: Kube,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How long it is: so long after a leader was last heard of another takes over.
    pub length: Duration,
}

impl LeaseSettings {
    fn list(&self) -> String {
        let namespace = &self.namespace;
        format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
    }

    /// The Lease by itself.
    fn path(&self) -> String {
        format!("{}/{}", self.list(), self.name)
    }
}

/// What keeps a Lease.
pub(crate) struct Keeper {
    stop: Arc<Notify>,
    thread: JoinHandle<()>,
}

impl Keeper {
    /// Tries from now on to have the Lease: `lease` shows whether it is so.
    pub(crate) fn start(
        settings: &LeaseSettings,
        identity: &str,
        clock: Clock,
        lease: &Lease,
    ) -> Result<Self, ControllerError> {
        let stop = Arc::new(Notify::new());
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ControllerError::Start)?;
        let mut settings = settings.clone();
        // Several requests have to fit into a Lease.
        settings.kube.timeout = settings.kube.timeout.min(settings.length / RENEWALS / 2);
        let server = runtime.block_on(ApiServer::open(&settings.kube))?;
        let keeping = Keeping {
            elector: Elector::new(identity, settings.length),
            jitter: Jitter::of(identity),
            identity: identity.to_owned(),
            settings,
            server,
            clock,
            lease: lease.clone(),
        };
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("picket-lease".to_owned());
        let thread = thread.spawn(move || runtime.block_on(keeping.run(&stopped)));
        Ok(Self {
            stop,
            thread: thread.map_err(ControllerError::Start)?,
        })
    }

    /// Gives the Lease back, after which another may begin at once: no call may be under way, and none begins any more.
    pub(crate) fn release(self) {
        self.stop.notify_one();
        // A thread that has panicked has nothing to give back.
        let _ = self.thread.join();
    }
}

struct Keeping {
    elector: Elector,
    jitter: Jitter,
    identity: String,
    settings: LeaseSettings,
    server: ApiServer,
    clock: Clock,
    lease: Lease,
}

impl Keeping {
    async fn run(mut self, stop: &Notify) {
        loop {
            let wait = self.turn().await;
            tokio::select! {
                () = sleep(wait) => {}
                () = stop.notified() => break,
            }
        }
        self.release().await;
    }

    /// Looks after the Lease once; how long to wait until the next time.
    async fn turn(&mut self) -> Duration {
        let length = self.settings.length;
        let led = self.elector.holds(self.clock.now());
        let waiting = match self.look_after().await {
            Ok(waiting) => {
                if self.lease.trouble().is_some() {
                    tracing::info!("the API server says again whose the Lease is");
                }
                self.lease.is_troubled(None);
                waiting
            }
            Err(error) => {
                let why = error.to_string();
                if self.lease.trouble().as_ref() != Some(&why) {
                    tracing::warn!(
                        why,
                        "it is not known whose the Lease is; nothing begins that would outlast it"
                    );
                }
                self.lease.is_troubled(Some(why));
                Some(length / ATTEMPTS)
            }
        };
        if led && !self.elector.holds(self.clock.now()) {
            tracing::warn!("does not lead any more");
        }
        let usual = length / RENEWALS;
        // Those that wait for the same moment come one after the other.
        self.jitter
            .lengthen(waiting.map_or(usual, |waiting| waiting.min(usual)))
    }

    /// Renews the Lease, takes it, or sees that it is another's; then how long it still is, at most.
    async fn look_after(&mut self) -> Result<Option<Duration>, ControllerError> {
        if let Some(write) = self.elector.renewal(self.clock.now(), &time())
            && self.replace(write).await?
        {
            return Ok(None);
        }
        let found = match self.server.get(&self.settings.path()).await? {
            Ok(found) => Some(found),
            Err(refused) if refused.code == 404 => None,
            Err(refused) => return Err(ControllerError::Lease(refused)),
        };
        let attempt = self.elector.attempt(self.clock.now(), found.as_ref(), &time());
        match attempt {
            Attempt::Wait(until) => {
                let holder = found.as_ref().map(|found| Record::of(found).holder());
                if self.lease.leader().as_deref() != holder {
                    tracing::info!(
                        leader = holder,
                        "another leads; this one takes over when that ends"
                    );
                }
                self.lease.is_of(holder);
                Ok(Some(until))
            }
            Attempt::Replace(write) => {
                self.replace(write).await?;
                Ok(None)
            }
            Attempt::Create(mut write) => {
                if let Some(object) = write.object.as_object_mut() {
                    let (name, namespace) = (&self.settings.name, &self.settings.namespace);
                    object.insert(
                        "metadata".to_owned(),
                        json!({"name": name, "namespace": namespace}),
                    );
                }
                let sent = self.clock.now();
                let answer = self.server.create(&self.settings.list(), &write.object).await;
                self.taken(sent, &write, answer)?;
                Ok(None)
            }
        }
    }

    async fn replace(&mut self, write: Write) -> Result<bool, ControllerError> {
        let sent = self.clock.now();
        let answer = self.server.replace(&self.settings.path(), &write.object).await;
        self.taken(sent, &write, answer)
    }

    /// Whether the API server took a write. One that it did not because the Lease is another by now is no failure.
    fn taken(&mut self, sent: Duration, write: &Write, answer: Answered) -> Result<bool, ControllerError> {
        match answer? {
            Ok(object) => {
                let term = self.elector.written(sent, write, object);
                if let Some(beginning) = term.begins {
                    tracing::info!(identity = self.identity, term = term.number, ?beginning, "leads");
                }
                self.lease.is_mine(&self.identity, term);
                Ok(true)
            }
            Err(refused) if matches!(refused.code, 404 | 409) => Ok(false),
            Err(refused) => Err(ControllerError::Lease(refused)),
        }
    }

    async fn release(&mut self) {
        self.lease.is_of(None);
        let Some(object) = self.elector.release(&time()) else {
            return;
        };
        let why = match self.server.replace(&self.settings.path(), &object).await {
            Ok(Ok(_)) => return tracing::info!("the Lease is given back"),
            Ok(Err(refused)) => refused.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(why, "the Lease cannot be given back, and ends by itself");
    }
}

/// The time, as Leases have it: in microseconds.
fn time() -> String {
    format!("{:.6}", Timestamp::now())
}
