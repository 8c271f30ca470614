//! The thread that follows the cluster.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread;

use picket_source::{Change, Health, Interest, Kube};
use tokio::runtime::Builder;

use crate::AgentError;

/// Follows a cluster in a thread of its own, which ends with the process: `tell` gets every change, and why there will be
/// no more.
pub(crate) fn start(
    kube: &Kube,
    interest: Interest,
    health: &Health,
    mut tell: impl FnMut(Result<Change, AgentError>) + Send + 'static,
) -> Result<(), AgentError> {
    let kube = kube.clone();
    let silences = Silences::default();
    let health = health.clone().telling(move |kind, why| silences.tell(kind, why));
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(AgentError::Start)?;
    let follow = move || {
        let follow = kube.follow(interest, health, |change| tell(Ok(change)));
        let Err(error) = runtime.block_on(follow);
        tell(Err(error.into()));
    };
    thread::Builder::new()
        .name("picket-source".to_owned())
        .spawn(follow)
        .map_err(AgentError::Start)?;
    Ok(())
}

/// What the API server does not say, and why. Mostly it is the same why for all kinds, which is logged once.
#[derive(Default)]
struct Silences(Mutex<BTreeMap<String, String>>);

impl Silences {
    /// The server says nothing about a kind any more, or something again.
    fn tell(&self, kind: &str, why: Option<&str>) {
        let mut silences = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match why {
            Some(why) => {
                if silences.values().all(|known| known != why) {
                    tracing::warn!(
                        kind,
                        why,
                        "the API server does not say what it should, and is asked again; what was known holds"
                    );
                }
                silences.insert(kind.to_owned(), why.to_owned());
            }
            None if silences.remove(kind).is_some() && silences.is_empty() => {
                tracing::info!("the API server says what it should again");
            }
            None => {}
        }
    }
}
