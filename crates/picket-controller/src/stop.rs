//! Being asked to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use crate::ControllerError;
use crate::gate::Gate;

/// Whether somebody has asked to end. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Stop {
    is_asked: Arc<AtomicBool>,
    bell: Arc<Notify>,
}

impl Stop {
    /// Hears SIGTERM and SIGINT, and lets no call begin from then on, nor be made again. What is under way goes on.
    pub(crate) fn listen(&self, gate: Gate) -> Result<(), ControllerError> {
        let hear = |kind| signal(kind).map_err(ControllerError::Start);
        let (mut terminate, mut interrupt) = (hear(SignalKind::terminate())?, hear(SignalKind::interrupt())?);
        let stop = self.clone();
        tokio::task::spawn_local(async move {
            either(&mut terminate, &mut interrupt).await;
            gate.end();
            stop.is_asked.store(true, Ordering::SeqCst);
            stop.bell.notify_one();
        });
        Ok(())
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::SeqCst)
    }

    /// Waits until somebody does. Only one may wait at a time.
    pub(crate) async fn asked(&self) {
        while !self.is_asked() {
            self.bell.notified().await;
        }
    }
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
