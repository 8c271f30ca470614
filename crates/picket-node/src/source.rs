//! The thread that follows the cluster.

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
    let health = health.clone();
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
