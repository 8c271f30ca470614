//! The thread that follows the cluster.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::thread;

use picket_source::{Change, Health, Interest};
use tokio::runtime::Builder;
use tokio::sync::oneshot::{Sender, channel};

use crate::{AgentError, Source};

/// Somebody follows a cluster, until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Following {
    /// Nothing comes this way but its end.
    _end: Sender<Infallible>,
}

/// Follows a cluster in a thread of its own: `tell` gets every change, and why there will be no more.
///
/// # Errors
/// When there is no such thread to be had.
pub fn start(
    source: &Source,
    interest: Interest,
    health: &Health,
    mut tell: impl FnMut(Result<Change, AgentError>) + Send + 'static,
) -> Result<Following, AgentError> {
    let (end, ended) = channel();
    let source = source.clone();
    let health = telling(health, &source);
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(AgentError::Start)?;
    let follow = move || {
        let follow = async {
            let sink = |change| tell(Ok(change));
            let failed: Result<Infallible, AgentError> = match source {
                Source::Kube(kube) => kube
                    .follow(interest, health, sink)
                    .await
                    .map_err(AgentError::from),
                Source::Etcd(etcd) => etcd
                    .follow(interest, health, sink)
                    .await
                    .map_err(AgentError::from),
                Source::Directory(directory) => Ok(directory.follow(health, sink).await),
            };
            let Err(error) = failed;
            error
        };
        let error = runtime.block_on(async {
            tokio::select! {
                error = follow => Some(error),
                _ = ended => None,
            }
        });
        if let Some(error) = error {
            tell(Err(error));
        }
    };
    thread::Builder::new()
        .name("picket-source".to_owned())
        .spawn(follow)
        .map_err(AgentError::Start)?;
    Ok(Following { _end: end })
}

/// The same health, which logs what the source does not say.
fn telling(health: &Health, source: &Source) -> Health {
    let silences = Silences::new(match source {
        Source::Kube(_) => "the API server",
        Source::Etcd(_) => "etcd",
        Source::Directory(_) => "the directory of manifests",
    });
    health.clone().telling(move |kind, why| silences.tell(kind, why))
}

/// What a source does not say, and why. Mostly it is the same why for all kinds, which is logged once.
pub(crate) struct Silences {
    source: &'static str,
    known: Mutex<BTreeMap<String, String>>,
}

impl Silences {
    /// Of a source of this name.
    pub(crate) fn new(source: &'static str) -> Self {
        Self {
            source,
            known: Mutex::default(),
        }
    }

    /// The source says nothing about a kind any more, or something again.
    pub(crate) fn tell(&self, kind: &str, why: Option<&str>) {
        let source = self.source;
        let mut silences = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match why {
            Some(why) => {
                if silences.values().all(|known| known != why) {
                    tracing::warn!(
                        kind,
                        why,
                        "{source} does not say what it should, and is asked again; what was known holds"
                    );
                }
                silences.insert(kind.to_owned(), why.to_owned());
            }
            None if silences.remove(kind).is_some() && silences.is_empty() => {
                tracing::info!("{source} says what it should again");
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use picket_source::Directory;

    use super::*;

    #[test]
    fn nobody_follows_any_more_when_that_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let source = Source::Directory(Directory {
            paths: vec![folder.path().to_owned()],
            interval: Duration::from_millis(1),
        });
        let interest = Interest {
            node: None,
            cluster_network: true,
            secondary_networks: false,
            services: false,
            discovery: Duration::from_secs(600),
        };
        let (sender, news) = mpsc::channel();
        let tell = move |change: Result<Change, AgentError>| sender.send(change.is_ok()).unwrap();
        let following = start(&source, interest, &Health::default(), tell).unwrap();
        assert_eq!(news.recv(), Ok(true));
        drop(following);
        // What tells goes with the thread, which has nothing to tell.
        assert!(news.iter().all(|is_change| is_change));
    }
}
