//! The process of a controller.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use picket_neutron::Rendered;
use picket_node::{Extent, Following, Inbox, Pulse, channel, follow, serve};
use picket_source::{Health, Interest};
use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tokio::time::{interval, sleep};

use crate::answers::Answers;
use crate::clock::Clock;
use crate::cloud::{Cloud, Plan};
use crate::controller::{Controller, News, Next};
use crate::gate::Gate;
use crate::knowledge::Knowledge;
use crate::lease::{Keeper, Lease};
use crate::metrics::Metrics;
use crate::publish::Publisher;
use crate::status::Shared;
use crate::stop::Stop;
use crate::sync::Sync;
use crate::{ControllerError, Settings};

/// How often it shows that it is alive when nothing happens.
const PULSE: Duration = Duration::from_secs(10);

/// How a controller ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Somebody asked it to; what is in force stays.
    Stopped,
    /// Everything is in force, and no more was asked.
    Done,
    /// What would be done, a step a line; nothing when everything is as it should be.
    Plan(String),
}

/// Makes a cloud what the policies of a cluster say. `connect` gives the cloud: its calls ask the [`Gate`].
///
/// SIGTERM and SIGINT end it after the calls that are under way; what is in force stays.
///
/// # Errors
/// When it cannot start, or with [`Extent::Once`] and [`Extent::DryRun`] when it cannot do what it was asked.
pub fn run<C: Cloud>(
    settings: &Settings,
    extent: Extent,
    connect: impl FnOnce(Gate) -> Result<C, ControllerError>,
) -> Result<Ended, ControllerError> {
    check(settings)?;
    let identity = identity(&settings.name);
    let clock = Clock::of_machine();
    let (health, metrics, pulse) = (Health::default(), Metrics::default(), Pulse::new());
    // Who changes nothing keeps nobody from it.
    let shares = settings.lease.as_ref().filter(|_| extent != Extent::DryRun);
    let lease = match shares {
        Some(_) => Lease::of_nobody(clock.clone()),
        None => Lease::of_the_only_one(clock.clone(), &identity),
    };
    let shared = Shared::new(&identity, health.clone(), lease.clone());
    let gate = Gate::new(lease.clone(), metrics.clone());
    let cloud = connect(gate.clone())?;
    if extent == Extent::Forever {
        let answers = Answers {
            shared: shared.clone(),
            metrics: metrics.clone(),
            pulse: pulse.clone(),
        };
        serve(&settings.listen, answers)?;
    }
    let publish = settings.publish.as_ref().filter(|_| extent == Extent::Forever);
    let outlet = publish
        .map(|publish| Publisher::start(publish, &identity, settings.timing.call, &lease, &metrics))
        .transpose()?;
    let (_following, inbox) = listen(settings, &health, &clock)?;
    let keeper = shares
        .map(|settings| Keeper::start(settings, &identity, clock.clone(), &lease))
        .transpose()?;
    let controller = Controller {
        cloud,
        gate,
        knowledge: Knowledge::new(settings.semantics.clone()),
        inbox,
        options: settings.options.clone(),
        shared,
        metrics,
        sync: Sync::new(settings.timing, &identity),
        outlet,
        at_once: settings.at_once,
        call: settings.timing.call,
        clock,
        lease,
        term: None,
        is_wary: false,
        state: None,
        rendered: Rendered::default(),
        extents: None,
        unanswered: 0,
        told: None,
        stop: Stop::default(),
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(ControllerError::Start)?;
    let patience = shares.map(|lease| lease.length * 2);
    let ended = LocalSet::new().block_on(&runtime, controller.run(extent, pulse, patience));
    // INVARIANT: whatever was under way has ended, so that another may begin.
    if let Some(keeper) = keeper {
        keeper.release();
    }
    ended
}

/// A call has to fit well into a Lease: it is renewed at a quarter of its length, and that may fail a time.
fn check(settings: &Settings) -> Result<(), ControllerError> {
    match &settings.lease {
        Some(lease) if lease.length < settings.timing.call * 2 => Err(ControllerError::ShortLease {
            lease: lease.length.as_secs(),
            call: settings.timing.call.as_secs(),
        }),
        _ => Ok(()),
    }
}

/// What no other controller is called: one that is started again is another.
fn identity(name: &str) -> String {
    let unique = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    match unique.trim() {
        "" => format!("{name}_{}", std::process::id()),
        unique => format!("{name}_{unique}"),
    }
}

/// Follows the cluster.
fn listen(
    settings: &Settings,
    health: &Health,
    clock: &Clock,
) -> Result<(Following, Inbox<News>), ControllerError> {
    let (outbox, inbox) = channel();
    let interest = Interest {
        node: None,
        cluster_network: true,
        secondary_networks: false,
        services: false,
        discovery: settings.discover_every,
    };
    let clock = clock.clone();
    let following = follow(&settings.source, interest, health, move |change| {
        outbox.tell(match change {
            Ok(change) => News::Cluster(clock.now(), change),
            Err(error) => News::Failed(error.into()),
        });
    })?;
    Ok((following, inbox))
}

impl<C: Cloud> Controller<C> {
    async fn run(
        mut self,
        extent: Extent,
        pulse: Pulse,
        patience: Option<Duration>,
    ) -> Result<Ended, ControllerError> {
        self.stop.listen(self.gate.clone())?;
        tokio::task::spawn_local(async move {
            let mut ticks = interval(PULSE);
            loop {
                ticks.tick().await;
                pulse.beat();
            }
        });
        let began = self.clock.now();
        while !self.stop.is_asked() {
            if extent == Extent::DryRun && self.state.is_some() {
                return Ok(Ended::Plan(
                    self.worked_out().map(|(_, plan)| text(&plan)).unwrap_or_default(),
                ));
            }
            let next = self.turn().await?;
            if extent != Extent::Forever {
                self.ends(began, patience)?;
                if extent == Extent::Once && self.is_over() {
                    return self.outcome();
                }
            }
            if let Next::Wait(until) = next {
                self.wait(until).await;
            }
        }
        Ok(Ended::Stopped)
    }

    async fn wait(&self, until: Option<Duration>) {
        let left = until.map_or(PULSE, |until| until.saturating_sub(self.clock.now()));
        tokio::select! {
            () = self.inbox.ready() => {}
            () = self.lease.changed() => {}
            () = self.stop.asked() => {}
            // The Lease may end without a word.
            () = sleep(left.min(PULSE)) => {}
        }
    }

    /// Fails where what was asked once cannot be done.
    fn ends(&self, began: Duration, patience: Option<Duration>) -> Result<(), ControllerError> {
        let waited = self.clock.now().saturating_sub(began);
        if self.term.is_none() && patience.is_some_and(|patience| waited > patience) {
            return Err(ControllerError::NotLeading(self.lease.leader()));
        }
        match self.shared.lock().trouble.clone() {
            Some(why) => Err(ControllerError::Cloud(why)),
            None => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        self.state.is_some() && self.sync.is_over()
    }

    fn outcome(&self) -> Result<Ended, ControllerError> {
        let held = self.sync.held().iter();
        let failed: Vec<_> = held
            .map(|(key, held)| format!("{}: {}", key.name(), held.why))
            .collect();
        match failed.is_empty() {
            true => Ok(Ended::Done),
            false => Err(ControllerError::Failed(failed)),
        }
    }
}

/// A plan for people: a step a line, stages in order, and what no step mends.
fn text<S: std::fmt::Display>(plan: &Plan<S>) -> String {
    let mut text = String::new();
    for step in plan.stages.iter().flatten() {
        let _ = writeln!(text, "{step}");
    }
    for pod in &plan.pending {
        let _ = writeln!(text, "# {pod} has no port yet");
    }
    for (pod, why) in &plan.unenforced {
        let _ = writeln!(text, "# {pod}: {why}");
    }
    for note in &plan.notes {
        let _ = writeln!(text, "# {note}");
    }
    text
}
