//! What others read in the cluster: the groups of pods, and how far policies are in force.
//!
//! A thread of its own writes it, so that the loop never waits for the API server. It writes only what is another than it
//! was, and only while this controller leads. What two controllers write at a handover is right again with the next change,
//! because who begins to lead reads what is there.

mod annotations;
mod states;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use picket_policy::ObjectRef;
use picket_source::{ApiServer, Kube, KubeError, Refused};
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::ControllerError;
use crate::lease::Lease;
use crate::metrics::Metrics;
use crate::status::PolicyState;
use annotations::Annotations;
use states::States;

/// How soon after something was written it is looked for more.
const PACE: Duration = Duration::from_millis(500);

/// How long to wait after something could not be written.
const PAUSE: Duration = Duration::from_secs(10);

/// How many objects are listed at once.
const PAGE: u32 = 500;

/// What to write into the cluster.
#[derive(Clone, Debug)]
pub struct PublishSettings {
    /// The cluster.
    pub kube: Kube,
    /// The annotation of each pod with what the cloud calls its groups, if any.
    pub annotation: Option<String>,
    /// Whether to write a `NetworkPolicyStatus` for each NetworkPolicy.
    pub states: bool,
}

/// What there is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Desired {
    /// What the cloud calls the groups of each pod.
    pub(crate) groups: BTreeMap<ObjectRef, String>,
    pub(crate) states: BTreeMap<ObjectRef, PolicyState>,
}

/// Where to say what there is to be. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Outlet {
    desired: Arc<Mutex<Option<Desired>>>,
    bell: Arc<Notify>,
}

impl Outlet {
    /// This is what there is to be, from now on.
    pub(crate) fn put(&self, desired: Desired) {
        *self.desired.lock().unwrap_or_else(PoisonError::into_inner) = Some(desired);
        self.bell.notify_one();
    }

    pub(crate) fn take(&self) -> Option<Desired> {
        self.desired.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Why something could not be written.
#[derive(Debug, thiserror::Error)]
enum PublishError {
    #[error(transparent)]
    Kube(#[from] KubeError),
    #[error("{what}: {why}")]
    Refused { what: &'static str, why: Refused },
}

/// What writes it.
pub(crate) struct Publisher {
    server: ApiServer,
    outlet: Outlet,
    lease: Lease,
    metrics: Metrics,
    annotations: Option<Annotations>,
    states: Option<States>,
    /// The term in which was read what there is.
    term: Option<u64>,
    trouble: Option<String>,
}

impl Publisher {
    /// Begins to write, in a thread of its own that ends with the process.
    pub(crate) fn start(
        settings: &PublishSettings,
        lease: &Lease,
        metrics: &Metrics,
    ) -> Result<Outlet, ControllerError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ControllerError::Start)?;
        let outlet = Outlet::default();
        let publisher = Self {
            server: runtime.block_on(ApiServer::open(&settings.kube))?,
            outlet: outlet.clone(),
            lease: lease.clone(),
            metrics: metrics.clone(),
            annotations: settings.annotation.clone().map(Annotations::new),
            states: settings.states.then(States::default),
            term: None,
            trouble: None,
        };
        let thread = thread::Builder::new().name("picket-publish".to_owned());
        let thread = thread.spawn(move || runtime.block_on(publisher.run()));
        thread.map_err(ControllerError::Start)?;
        Ok(outlet)
    }

    async fn run(mut self) {
        let mut last = None;
        loop {
            let Some(desired) = self.outlet.take().or_else(|| last.take()) else {
                self.outlet.bell.notified().await;
                continue;
            };
            match self.write(&desired).await {
                Ok(()) => {
                    if self.trouble.take().is_some() {
                        tracing::info!("the cluster can be told again what is in force");
                    }
                    sleep(PACE).await;
                }
                Err(error) => {
                    let why = error.to_string();
                    if self.trouble.as_ref() != Some(&why) {
                        tracing::warn!(why, "the cluster cannot be told what is in force");
                    }
                    self.trouble = Some(why);
                    // What is there is read anew.
                    self.term = None;
                    last = Some(desired);
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn write(&mut self, desired: &Desired) -> Result<(), PublishError> {
        let term = self.lease.term();
        if term.is_none() {
            return Ok(());
        }
        let is_new = self.term != term;
        if let Some(annotations) = &mut self.annotations {
            if is_new {
                annotations.read(&self.server).await?;
            }
            annotations
                .write(&self.server, &desired.groups, &self.lease, &self.metrics)
                .await?;
        }
        if let Some(states) = &mut self.states {
            if is_new {
                states.read(&self.server).await?;
            }
            states
                .write(&self.server, &desired.states, &self.lease, &self.metrics)
                .await?;
        }
        self.term = term;
        Ok(())
    }
}

/// Every object of a list, page by page.
async fn list(
    server: &ApiServer,
    path: &str,
    what: &'static str,
    mut each: impl FnMut(&Value),
) -> Result<(), PublishError> {
    let mut rest = String::new();
    loop {
        let page = server.get(&format!("{path}?limit={PAGE}{rest}")).await?;
        let page = page.map_err(|why| PublishError::Refused { what, why })?;
        let items = page.get("items").and_then(Value::as_array);
        items.into_iter().flatten().for_each(&mut each);
        match page.pointer("/metadata/continue").and_then(Value::as_str) {
            None | Some("") => return Ok(()),
            Some(token) => rest = format!("&continue={token}"),
        }
    }
}

/// A text of an object; empty where it has none.
fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
