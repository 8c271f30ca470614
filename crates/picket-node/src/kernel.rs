//! nftables as a target: everything of the agent that is about the kernel of the node.

use std::sync::Arc;

use picket_dataplane::EstablishedConnections;
use picket_linux::PacketLog;
use picket_nftables::client::Watch;

use crate::cut::Cutting;
use crate::denied;
use crate::drift;
use crate::drops::{Drops, Reading};
use crate::enforcer::Enforcer;
use crate::events::Events;
use crate::host::Host;
use crate::inbox::Outbox;
use crate::metrics::Metrics;
use crate::status::Shared;
use crate::trace::{Answering, Tracer};
use crate::uplinks::Uplinks;
use crate::{AgentError, Extent, Settings, UntilSynced};

/// The table of the node, and those who listen to what concerns it.
pub(crate) struct Kernel {
    pub(crate) enforcer: Enforcer,
    tracer: Tracer,
    drops: Drops,
    listeners: Listeners,
    outbox: Outbox,
}

/// What is listened to while the agent runs.
struct Listeners {
    watch: Watch,
    port: picket_linux::Port,
    uplinks: Uplinks,
    log: Option<PacketLog>,
}

impl Kernel {
    /// Opens everything in the network namespace in which this thread is.
    ///
    /// # Errors
    /// When the kernel does not let it, or a thread cannot begin.
    pub(crate) fn open(
        settings: &Settings,
        extent: Extent,
        shared: &Shared,
        metrics: &Metrics,
        events: &Events,
        outbox: &Outbox,
    ) -> Result<Self, AgentError> {
        let mut host = Host::open(settings)?;
        let log = settings
            .log_denied
            .and_then(|group| log_denied(&mut host, group, extent));
        let listeners = Listeners {
            watch: host.watch()?,
            port: host.port(),
            uplinks: Uplinks::open(host.namespace())?,
            log,
        };
        let cuts = settings.established == EstablishedConnections::Cut && extent != Extent::DryRun;
        let cutting = match cuts {
            true => Some(Cutting::start(host.namespace(), metrics.clone())?),
            false => None,
        };
        let drops = Drops::open(host.namespace())?;
        let tracer = Tracer::new(host.namespace(), outbox.clone(), drops.clone(), shared.clone())?;
        let mut enforcer = Enforcer::new(
            host,
            cutting,
            drops.clone(),
            shared.clone(),
            metrics.clone(),
            events.clone(),
        );
        enforcer.reroute(listeners.uplinks.names());
        Ok(Self {
            enforcer,
            tracer,
            drops,
            listeners,
            outbox: outbox.clone(),
        })
    }

    /// Reads what was dropped.
    pub(crate) fn drops(&self) -> Reading {
        let drops = self.drops.clone();
        Arc::new(move || drops.read())
    }

    /// Answers questions about connections.
    pub(crate) fn tracer(&self) -> Answering {
        let tracer = self.tracer.clone();
        Arc::new(move |question| tracer.answer(question))
    }

    /// Begins: pods that rules do not know are shut out where that is wanted, and what concerns the table is listened to. Who ends before
    /// the cluster is known shuts out nobody, whom nobody would let in again.
    ///
    /// # Errors
    /// When the table cannot be written, or a thread cannot begin.
    pub(crate) fn start(mut self, settings: &Settings, extent: Extent) -> Result<Enforcer, AgentError> {
        if extent == Extent::Forever {
            if settings.until_synced == UntilSynced::Deny {
                self.enforcer.close()?;
            }
            let Listeners {
                watch,
                port,
                uplinks,
                log,
            } = self.listeners;
            drift::start(watch, port, self.outbox.clone())?;
            uplinks.start(self.outbox.clone())?;
            if let Some(log) = log {
                denied::start(log, self.outbox)?;
            }
        }
        Ok(self.enforcer)
    }
}

/// Has the rules log denied packets, if the kernel can. One that runs for ever gets the log; whoever only wants to know what
/// that one does, or does it once, leaves the log to it.
fn log_denied(host: &mut Host, group: u16, extent: Extent) -> Option<PacketLog> {
    match PacketLog::open(host.namespace(), group) {
        Ok(log) => {
            host.log_denied(group);
            Some(log)
        }
        Err(error) if extent != Extent::Forever && error.is_denied() => {
            host.log_denied(group);
            None
        }
        Err(error) => {
            tracing::warn!(%error, group, "denied connections are not logged");
            None
        }
    }
}
