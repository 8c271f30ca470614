//! What happens, and what is done about it.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use picket_dataplane::EstablishedConnections;
use picket_engine::Delta;
use picket_linux::PacketLog;
use picket_source::{Health, Interest};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep_until};

use crate::blame::Blame;
use crate::cut::Cutting;
use crate::denied;
use crate::drift;
use crate::drops::Drops;
use crate::enforcer::Enforcer;
use crate::error::HostError;
use crate::events::Events;
use crate::host::Host;
use crate::inbox::{self, Inbox, News, Outbox};
use crate::knowledge::Knowledge;
use crate::metrics::Metrics;
use crate::serve::{self, Answers, Pulse};
use crate::source;
use crate::status::Shared;
use crate::trace::{Asked, Scene, Tracer};
use crate::uplinks::Uplinks;
use crate::{AgentError, Settings, UntilSynced};

/// How often the agent shows that it is alive when nothing happens.
const PULSE: Duration = Duration::from_secs(10);

/// The most changes that are taken in before what they mean is enforced.
const AT_ONCE: usize = 10_000;

/// How far to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Until somebody ends it.
    Forever,
    /// Until what the cluster is now is in force.
    Once,
    /// Until it is known what would be done; nothing is.
    DryRun,
}

/// How an agent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Somebody asked it to; the rules stay.
    Stopped,
    /// Everything is in force, and no more was asked.
    Done,
    /// What would be done, as nft commands; nothing when everything is as it should be.
    Plan(String),
}

/// Enforces the policies of a cluster on the node in whose network namespace this thread is.
///
/// SIGTERM and SIGINT end it; the rules stay.
///
/// # Errors
/// When it cannot start, or with [`Extent::Once`] and [`Extent::DryRun`] when it cannot do what it was asked.
pub fn run(settings: &Settings, extent: Extent) -> Result<Ended, AgentError> {
    let health = Health::default();
    let shared = Shared::new(&settings.node, health.clone());
    let metrics = Metrics::default();
    let pulse = Pulse::new();
    let mut host = Host::open(settings)?;
    let log = settings
        .log_denied
        .and_then(|group| log_denied(&mut host, group, extent));
    let (watch, port) = (host.watch()?, host.port());
    let uplinks = Uplinks::open(host.namespace())?;
    let cuts = settings.established == EstablishedConnections::Cut && extent != Extent::DryRun;
    let cutting = match cuts {
        true => Some(Cutting::start(host.namespace(), metrics.clone())?),
        false => None,
    };
    let (outbox, inbox) = inbox::channel();
    let drops = Drops::open(host.namespace())?;
    let tracer = Tracer::new(host.namespace(), outbox.clone(), drops.clone(), shared.clone())?;
    let events = Events::start(settings, extent, &metrics)?;
    let mut enforcer = Enforcer::new(
        host,
        cutting,
        drops.clone(),
        shared.clone(),
        metrics.clone(),
        events.clone(),
    );
    enforcer.reroute(uplinks.names());
    if extent == Extent::Forever {
        let answers = Answers {
            shared,
            metrics,
            pulse: pulse.clone(),
            drops: Arc::new(move || drops.read()),
            tracer: Some(tracer),
        };
        serve::start(&settings.listen, answers)?;
    }
    if extent != Extent::DryRun && settings.until_synced == UntilSynced::Deny {
        enforcer.close()?;
    }
    if extent == Extent::Forever {
        drift::start(watch, port, outbox.clone())?;
        uplinks.start(outbox.clone())?;
        if let Some(log) = log {
            denied::start(log, outbox.clone())?;
        }
    }
    follow(settings, &health, outbox)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(AgentError::Start)?.block_on(async {
        let bells = Bells::new(settings).map_err(AgentError::Start)?;
        let agent = Agent {
            knowledge: Knowledge::new(settings.semantics.clone(), events),
            enforcer,
            inbox,
            pulse,
            extent,
        };
        agent.run(bells).await
    })
}

/// Follows the cluster, as far as it concerns the cluster network of the node.
fn follow(settings: &Settings, health: &Health, outbox: Outbox) -> Result<(), AgentError> {
    let interest = Interest {
        node: Some(settings.node.clone()),
        cluster_network: true,
        secondary_networks: false,
        discovery: settings.discover_every,
    };
    source::start(&settings.source, interest, health, move |change| {
        outbox.tell(match change {
            Ok(change) => News::Cluster(Instant::now(), change),
            Err(error) => News::Failed(error),
        });
    })
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

/// Everything but news of the cluster that the agent wakes up for.
struct Bells {
    /// It is time for a proof.
    proof: Interval,
    pulse: Interval,
    terminate: Signal,
    interrupt: Signal,
}

impl Bells {
    fn new(settings: &Settings) -> io::Result<Self> {
        let mut proof = interval(settings.verify_every);
        proof.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            proof,
            pulse: interval(PULSE),
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }
}

struct Agent {
    knowledge: Knowledge,
    enforcer: Enforcer,
    inbox: Inbox,
    pulse: Pulse,
    extent: Extent,
}

impl Agent {
    async fn run(mut self, mut bells: Bells) -> Result<Ended, AgentError> {
        loop {
            self.pulse.beat();
            tokio::select! {
                () = self.inbox.ready() => {
                    if let Some(ended) = self.hear()? {
                        return Ok(ended);
                    }
                }
                () = until(self.enforcer.retry_at()) => self.enforce(),
                _ = bells.proof.tick() => {
                    if let Some(program) = self.knowledge.program() {
                        self.enforcer.prove(program);
                    }
                }
                _ = bells.pulse.tick() => {}
                _ = bells.terminate.recv() => return Ok(Ended::Stopped),
                _ = bells.interrupt.recv() => return Ok(Ended::Stopped),
            }
        }
    }

    /// Takes in what the cluster says, and enforces it.
    fn hear(&mut self) -> Result<Option<Ended>, AgentError> {
        loop {
            let (mut taken, mut is_changed) = (0, false);
            while taken < AT_ONCE
                && let Some(news) = self.inbox.next()
            {
                taken += 1;
                let (heard, change) = match news {
                    News::Cluster(heard, change) => (heard, change),
                    News::Table(changes) => {
                        self.enforcer.repair(&changes);
                        continue;
                    }
                    News::Denied(told) => {
                        self.enforcer.tell_denied(&told, self.knowledge.program());
                        continue;
                    }
                    News::Uplinks(uplinks) => {
                        self.enforcer.reroute(uplinks);
                        continue;
                    }
                    News::Asked(Asked { question, reply }) => {
                        let program = self.knowledge.program();
                        // Who has stopped waiting needs no answer.
                        let _ = reply.send(program.map(|program| Scene::of(program, &question)));
                        continue;
                    }
                    News::Failed(error) => return Err(error),
                };
                let note = |delta: &Delta| self.enforcer.note(delta);
                if let Some(policies) = self.knowledge.take(change, note) {
                    is_changed = true;
                    self.enforcer.heard(heard, policies);
                }
            }
            if taken == 0 {
                return Ok(None);
            }
            if is_changed {
                if self.extent != Extent::Forever {
                    return self.finish().map(Some);
                }
                self.enforce();
            }
            self.enforcer.tell(&self.knowledge);
            self.pulse.beat();
        }
    }

    fn enforce(&mut self) {
        if self.enforcer.retries_held() {
            let held = self.knowledge.held();
            let note = |delta: &Delta| self.enforcer.note(delta);
            self.knowledge.release(&held, note);
        }
        if self.knowledge.program().is_none() {
            return self.enforcer.keep();
        }
        let was_ready = self.enforcer.is_ready();
        // What goes wrong has been told, and is tried again.
        let _ = self.make();
        if let Some(program) = self.knowledge.program()
            && self.enforcer.is_ready()
            && !was_ready
        {
            self.enforcer.prove(program);
        }
    }

    /// Makes the table what the policies say; but those that are to blame where it is refused stay as they were.
    ///
    /// # Errors
    /// When not all policies are in force; that has been told.
    fn make(&mut self) -> Result<(), HostError> {
        let Some(program) = self.knowledge.program() else {
            return Ok(());
        };
        let made = self.enforcer.attempt(program);
        if let Err(error) = &made
            && !Blame::new(&mut self.knowledge, &mut self.enforcer).find(error)
        {
            self.enforcer.failed(error);
            return made;
        }
        self.knowledge.settle();
        self.enforcer.settle(&self.knowledge.held());
        made
    }

    /// Does what was asked for the cluster as it is now.
    fn finish(&mut self) -> Result<Ended, AgentError> {
        let Some(program) = self.knowledge.program() else {
            return Ok(Ended::Done);
        };
        if self.extent == Extent::DryRun {
            return Ok(Ended::Plan(self.enforcer.plan(program)?));
        }
        let made = self.make();
        self.enforcer.finish_cutting();
        Ok(made.map(|()| Ended::Done)?)
    }
}

/// Waits until then, for ever without a time.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => pending().await,
    }
}
