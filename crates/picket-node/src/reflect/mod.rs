//! The process of a reflector: what the API server says, kept in etcd.

mod answers;

use std::net::SocketAddr;
use std::time::Duration;

use picket_source::{Difference, Health, Reflected, Reflector, ReflectorState};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::interval;

use crate::AgentError;
use crate::serve::{Pulse, answer_at};
use crate::source::Silences;
use answers::Answers;

/// How often it shows that it is alive when nothing happens.
const PULSE: Duration = Duration::from_secs(10);

/// Keeps in etcd what the API server says, until SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot start.
pub fn reflect(reflector: &Reflector, listen: Option<SocketAddr>) -> Result<(), AgentError> {
    let health = health();
    let reflected = Reflected::telling(tell);
    let pulse = Pulse::new();
    let answers = Answers {
        health: health.clone(),
        reflected: reflected.clone(),
        pulse: pulse.clone(),
    };
    runtime()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(AgentError::Start)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(AgentError::Start)?;
        let stop = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        let beat = async {
            let mut ticks = interval(PULSE);
            loop {
                ticks.tick().await;
                pulse.beat();
            }
        };
        let serve = async {
            match listen {
                Some(address) => answer_at(address, answers).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = reflector.run(health, reflected, stop) => Ok(ended?),
            () = beat => Ok(()),
            refused = serve => refused.map(|never| match never {}),
        }
    })
}

/// Makes etcd what the cluster is now, and ends. What was written.
///
/// # Errors
/// When it cannot, which is also when another reflector leads.
pub fn reflect_once(reflector: &Reflector) -> Result<Difference, AgentError> {
    Ok(runtime()?.block_on(reflector.once(health()))?)
}

/// What would have to be written to make etcd what the cluster is now.
///
/// # Errors
/// When that cannot be told.
pub fn reflect_difference(reflector: &Reflector) -> Result<Difference, AgentError> {
    Ok(runtime()?.block_on(reflector.difference(health()))?)
}

fn runtime() -> Result<Runtime, AgentError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(AgentError::Start)
}

/// Health that logs what the API server does not say.
fn health() -> Health {
    let silences = Silences::new("the API server");
    Health::default().telling(move |kind, why| silences.tell(kind, why))
}

/// Logs how a reflector goes.
fn tell(before: &ReflectorState, now: &ReflectorState) {
    if let Some(epoch) = now.epoch.filter(|_| before.epoch != now.epoch) {
        tracing::info!(
            reflector = now.name,
            epoch,
            "leads, and keeps etcd as the cluster is"
        );
    }
    if let Some(leader) = now.leader.as_ref().filter(|_| before.leader != now.leader) {
        tracing::info!(
            reflector = now.name,
            leader,
            "another leads; this one takes over when that ends"
        );
    }
    if before.too_large != now.too_large {
        tracing::error!(
            "etcd does not take a record because it is too large; readers are told that it cannot be read: \
             let etcd take larger ones by `--max-request-bytes`"
        );
    }
    match (&before.trouble, &now.trouble) {
        (before, Some(why)) if before.as_ref() != Some(why) => {
            tracing::warn!(why, "etcd is not as the cluster is; what it has stays");
        }
        (Some(_), None) => tracing::info!("etcd can be used again"),
        _ => {}
    }
}
