//! The thread that follows the cluster.

use std::thread;
use std::time::Instant;

use picket_source::{Health, Interest};
use tokio::runtime::Builder;

use crate::inbox::{News, Outbox};
use crate::{AgentError, Settings};

/// Follows the cluster in a thread of its own, which ends with the process.
pub(crate) fn start(settings: &Settings, health: &Health, outbox: Outbox) -> Result<(), AgentError> {
    let kube = settings.kube.clone();
    let interest = Interest {
        node: Some(settings.node.clone()),
        cluster_network: true,
        secondary_networks: false,
        discovery: settings.discover_every,
    };
    let health = health.clone();
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(AgentError::Start)?;
    let follow = move || {
        let follow = kube.follow(interest, health, |change| {
            outbox.tell(News::Cluster(Instant::now(), change));
        });
        let Err(error) = runtime.block_on(follow);
        outbox.tell(News::Failed(error.into()));
    };
    thread::Builder::new()
        .name("picket-source".to_owned())
        .spawn(follow)
        .map_err(AgentError::Start)?;
    Ok(())
}
