//! Changes by others of the rules in pods.
//!
//! Where the kernel lets others change the table of a pod the agent listens in the namespace of that pod, by a socket of its own
//! ([`Watching`]). One thread hears them all, however many there are ([`watches`]), and tells the loop which tables to look at. Who
//! changes rules all the time is heard a few times a second, and takes nobody else's time. What is not heard, since no socket
//! can be had or it was too much, is found when the loop looks by itself.

mod watches;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use picket_linux::runtime::{Sandbox, SandboxId};
use picket_linux::{NetworkNamespace, Port};
use picket_nftables::client::{Change, Watch};
use picket_nftables::render::documented;

use super::{News, Outbox};
use crate::AgentError;
use crate::retry::Retry;
use watches::{Watched, Watches};

/// How often one pod is heard at most.
const TURN: Duration = Duration::from_millis(200);

/// The tables that others have changed, and the first who did.
pub(super) type Drifted = Vec<(SandboxId, Change)>;

/// Who hears what others do in pods.
#[derive(Clone)]
pub(super) struct Watcher(Arc<Watches>);

impl Watcher {
    /// Begins, in a thread of its own, which ends with the process.
    pub(super) fn start(outbox: Outbox) -> Result<Self, AgentError> {
        let watches = Arc::new(Watches::new()?);
        let heard = Arc::clone(&watches);
        thread::Builder::new()
            .name("picket-watch".to_owned())
            .spawn(move || listen(&heard, &outbox))
            .map_err(AgentError::Start)?;
        Ok(Self(watches))
    }
}

fn listen(watches: &Watches, outbox: &Outbox) {
    let mut next = Instant::now();
    loop {
        let wait = next.saturating_duration_since(Instant::now());
        let ready = match watches.wait(wait) {
            Ok(ready) => ready,
            Err(error) => {
                return tracing::error!(%error, "what others change in pods is heard no more, but looked for");
            }
        };
        let drifted = watches.hear(&ready);
        // When nobody hears it the agent has ended, and the process is about to.
        if !drifted.is_empty() && outbox.send(News::Drifted(drifted)).is_err() {
            return;
        }
        if Instant::now() >= next {
            next = Instant::now() + TURN;
            watches.turn();
        }
    }
}

/// Whether changes by others are heard in one sandbox.
#[derive(Default)]
pub(super) struct Watching {
    watched: Option<Watched>,
    failure: Option<Retry>,
}

impl Watching {
    /// Hears from now on what others than the keeper do there, if it is not heard yet and it is not too soon to try again. What
    /// goes wrong is told once.
    pub(super) fn keep(
        &mut self,
        watcher: &Watcher,
        sandbox: &Sandbox,
        namespace: &NetworkNamespace,
        keeper: Port,
    ) {
        let now = Instant::now();
        let is_too_soon = self.failure.is_some_and(|retry| retry.at > now);
        if is_too_soon || self.watched.as_ref().is_some_and(Watched::is_heard) {
            return;
        }
        let watch = Watch::open_small(namespace, &documented::table_name());
        match watch.and_then(|watch| Watches::add(&watcher.0, sandbox.id.clone(), watch, keeper)) {
            Ok(watched) => {
                *self = Self {
                    watched: Some(watched),
                    failure: None,
                }
            }
            Err(error) => {
                if self.failure.is_none() {
                    let pod = format!("{}/{}", sandbox.namespace, sandbox.name);
                    tracing::warn!(pod, %error, "what others change in a pod is not heard, but looked for");
                }
                self.watched = None;
                self.failure = Some(Retry::after(self.failure, now));
            }
        }
    }
}

#[cfg(test)]
mod kernel {
    use std::sync::mpsc::sync_channel;

    use picket_nftables::client::Client;

    use super::super::testing::{Scene, desired};
    use super::*;

    #[test]
    fn the_loop_is_told_each_time_that_others_have_changed_a_table() {
        let (outbox, inbox) = sync_channel(1);
        let watcher = Watcher::start(outbox).unwrap();
        let mut scene = Scene::new();
        scene.want(desired(&[("a", 1)]));
        scene.place.watch(&watcher);
        let mut other = Client::open(&scene.namespace).unwrap();
        for times in 1..=3 {
            assert!(!scene.place.has_drifted());
            assert!(other.remove(&documented::table_name()).unwrap());
            let Ok(News::Drifted(drifted)) = inbox.recv() else {
                panic!("nothing is heard");
            };
            let [(sandbox, change @ Change::By { .. })] = drifted.as_slice() else {
                panic!("{drifted:?}");
            };
            assert_eq!(*sandbox, scene.place.sandbox.id);
            scene.place.drifted(change.clone());
            assert!(scene.place.has_drifted());
            scene.make(None);
            assert!(other.exists(&documented::table_name()).unwrap());
            assert_eq!(scene.status().repaired, times);
        }
        // Where no policy applies any more nobody listens.
        scene.want(desired(&[]));
        scene.place.watch(&watcher);
        assert!(watcher.0.is_empty());
    }
}
