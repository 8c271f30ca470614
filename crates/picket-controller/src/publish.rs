//! What others read in the cluster: the groups of pods, and how far policies are in force.
//!
//! A thread of its own writes it, so that the loop never waits for the API server. It writes only what is another than it
//! was, and only while this controller leads. What two controllers write at a handover is right again with the next change,
//! because who begins to lead reads what is there.

mod annotations;
mod refusals;
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
use crate::clock::Clock;
use crate::lease::Lease;
use crate::metrics::Metrics;
use crate::status::PolicyState;
use annotations::{Annotations, Said};
use states::States;

/// How soon after something was written it is looked for more.
const PACE: Duration = Duration::from_millis(500);

/// How long to wait where the API server cannot be asked.
const PAUSE: Duration = Duration::from_secs(10);

/// How often to read what there is, as others may have changed it.
const READING: Duration = Duration::from_secs(600);

/// How many objects are listed at once.
const PAGE: u32 = 500;

/// What to write into the cluster.
#[derive(Clone, Debug)]
pub struct PublishSettings {
    /// The cluster.
    pub kube: Kube,
    /// The annotation of each pod with what the cloud calls its groups, if any; with it, why policies are not enforced on a pod is written
    /// into another.
    pub annotation: Option<String>,
    /// Whether to write a `NetworkPolicyStatus` for each NetworkPolicy.
    pub states: bool,
}

/// What there is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Desired {
    /// What the cloud calls the groups of each pod.
    pub(crate) groups: BTreeMap<ObjectRef, String>,
    /// Why policies are not enforced on pods.
    pub(crate) unenforced: BTreeMap<ObjectRef, String>,
    pub(crate) states: BTreeMap<ObjectRef, PolicyState>,
}

impl Desired {
    /// What is said of each pod.
    fn said(&self) -> BTreeMap<ObjectRef, Said> {
        let pods = self.groups.keys().chain(self.unenforced.keys());
        let said = pods.map(|pod| {
            let said = Said {
                groups: self.groups.get(pod).cloned(),
                not_enforced: self.unenforced.get(pod).cloned(),
            };
            (pod.clone(), said)
        });
        said.collect()
    }
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

/// While it lasts this controller writes, and no other.
struct Turn<'a> {
    lease: &'a Lease,
    term: u64,
    /// How long a call may take.
    call: Duration,
}

impl Turn<'_> {
    /// To be asked before a call that writes: whether it ends before another controller can have the Lease.
    fn begin(&self) -> Result<(), PublishError> {
        match self.lease.permits(self.term, self.call) {
            true => Ok(()),
            false => Err(PublishError::Late),
        }
    }
}

/// Why something could not be written.
#[derive(Debug, thiserror::Error)]
enum PublishError {
    #[error(transparent)]
    Kube(#[from] KubeError),
    #[error("{what}: {why}")]
    Refused { what: &'static str, why: Refused },
    #[error("the Lease ends too soon for another call")]
    Late,
}

/// What writes it.
pub(crate) struct Publisher {
    server: ApiServer,
    outlet: Outlet,
    lease: Lease,
    /// How long a call may take.
    call: Duration,
    metrics: Metrics,
    annotations: Option<Annotations>,
    states: Option<States>,
    /// The term in which was read what there is, and when.
    read: Option<(u64, Duration)>,
    clock: Clock,
    trouble: Option<String>,
}

impl Publisher {
    /// Begins to write, in a thread of its own that ends with the process. No call takes longer than `call`.
    pub(crate) fn start(
        settings: &PublishSettings,
        identity: &str,
        call: Duration,
        lease: &Lease,
        metrics: &Metrics,
    ) -> Result<Outlet, ControllerError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ControllerError::Start)?;
        let (outlet, clock) = (Outlet::default(), Clock::of_machine());
        let new = |name| Annotations::new(name, clock.clone(), identity);
        let mut kube = settings.kube.clone();
        kube.timeout = kube.timeout.min(call);
        let publisher = Self {
            call: kube.timeout,
            server: runtime.block_on(ApiServer::open(&kube))?,
            outlet: outlet.clone(),
            lease: lease.clone(),
            metrics: metrics.clone(),
            annotations: settings.annotation.clone().map(new),
            states: settings.states.then(|| States::new(clock.clone(), identity)),
            read: None,
            clock,
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
            let term = self.lease.term();
            if let Some(desired) = self.outlet.take() {
                last = Some((term, desired));
            }
            // What was desired while another led, or before that, says nothing.
            let Some((_, desired)) = last.as_ref().filter(|(of, _)| *of == term) else {
                self.outlet.bell.notified().await;
                continue;
            };
            let wait = match self.write(desired).await {
                Ok(()) => {
                    self.tell(self.refused());
                    sleep(PACE).await;
                    self.next()
                }
                Err(error) => {
                    self.tell(Some(error.to_string()));
                    // What is there is read anew.
                    self.read = None;
                    sleep(PAUSE).await;
                    Duration::ZERO
                }
            };
            tokio::select! {
                () = self.outlet.bell.notified() => {}
                () = sleep(wait) => {}
            }
        }
    }

    /// Says what cannot be written, where that is another than it was.
    fn tell(&mut self, trouble: Option<String>) {
        match &trouble {
            Some(why) if self.trouble != trouble => {
                tracing::warn!(why, "the cluster cannot be told all of what is in force");
            }
            None if self.trouble.is_some() => {
                tracing::info!("the cluster can be told again what is in force");
            }
            _ => {}
        }
        self.trouble = trouble;
    }

    /// What the API server does not let be written.
    fn refused(&self) -> Option<String> {
        let annotations = self.annotations.as_ref();
        let states = || self.states.as_ref()?.refusals.trouble();
        annotations
            .and_then(|annotations| annotations.refusals.trouble())
            .or_else(states)
    }

    /// How long nothing is to be done until something else is desired.
    fn next(&self) -> Duration {
        let annotations = self.annotations.as_ref();
        let annotations = annotations.and_then(|annotations| annotations.refusals.next());
        let states = self.states.as_ref().and_then(|states| states.refusals.next());
        annotations.into_iter().chain(states).fold(READING, Duration::min)
    }

    async fn write(&mut self, desired: &Desired) -> Result<(), PublishError> {
        let Some(term) = self.lease.term() else {
            return Ok(());
        };
        let turn = Turn {
            lease: &self.lease,
            term,
            call: self.call,
        };
        let now = self.clock.now();
        let is_read = |(of, at): (u64, Duration)| of == term && now.saturating_sub(at) < READING;
        let is_new = !self.read.is_some_and(is_read);
        if let Some(annotations) = &mut self.annotations {
            if is_new {
                annotations.read(&self.server).await?;
            }
            annotations
                .write(&self.server, &desired.said(), &turn, &self.metrics)
                .await?;
        }
        if let Some(states) = &mut self.states {
            if is_new {
                states.read(&self.server).await?;
            }
            states
                .write(&self.server, &desired.states, &turn, &self.metrics)
                .await?;
        }
        if is_new {
            self.read = Some((term, now));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Hands;
    use crate::lease::Beginning;

    #[test]
    fn nothing_is_written_that_could_outlast_the_lease() {
        let hands = Hands::default();
        let lease = Lease::of_nobody(hands.clock());
        let call = Duration::from_secs(15);
        let may_begin = |term| {
            let lease = &lease;
            Turn { lease, term, call }.begin().is_ok()
        };
        assert!(!may_begin(1));
        lease.begin_for_test("test", 1, 2 * call, Beginning::Taken);
        assert!(may_begin(1) && !may_begin(2));
        hands.forward(call);
        assert!(!may_begin(1));
        lease.begin_for_test("test", 1, 2 * call, Beginning::Taken);
        assert!(may_begin(1));
    }
}
