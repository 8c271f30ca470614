//! What happens, and what is done about it.

use std::future::pending;
use std::io;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use picket_engine::Delta;
use picket_linux::{NetworkNamespace, give_back_memory};
use picket_source::{Change, Health, Interest};
use smol_str::SmolStr;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep_until};

use crate::blame::Blame;
use crate::bridges::Bridges;
use crate::enforcer::Enforcer;
use crate::error::HostError;
use crate::events::Events;
use crate::grace::Grace;
use crate::inbox::{Inbox, News, Outbox, Patience};
use crate::kernel::Kernel;
use crate::knowledge::{Knowledge, Whose};
use crate::metrics::Metrics;
use crate::serve::{self, Answers, Pulse};
use crate::source::{self, Following};
use crate::status::{Shared, Trouble};
use crate::trace::{Asked, Scene};
use crate::vpp::{Known, Targets};
use crate::{AgentError, Settings, queue};

/// How often the agent shows that it is alive when nothing happens.
const PULSE: Duration = Duration::from_secs(10);

/// The most changes that are taken in before what they mean is enforced.
const AT_ONCE: usize = 10_000;

/// How long changes are taken in before that: some are repairs.
const TURN: Duration = Duration::from_secs(1);

/// How long a proof may take, for which everything waits but what others do to the table.
const PROOF: Patience = Patience {
    alone: Duration::from_secs(30),
    waited_for: Duration::from_secs(5),
};

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
    settings.source.settle_memory();
    let health = Health::default();
    let shared = Shared::new(&settings.node, health.clone());
    let (metrics, pulse) = (Metrics::default(), Pulse::new());
    let (outbox, inbox) = queue::channel();
    let events = Events::start(settings, extent, &metrics)?;
    let kernel = match settings.nftables {
        true => Some(Kernel::open(
            settings, extent, &shared, &metrics, &events, &outbox,
        )?),
        false => None,
    };
    let vpp = settings.vpp.as_ref();
    let mut vpp = vpp.map(|vpp| Targets::new(&settings.node, vpp, &shared, &metrics, &events));
    name_targets(settings, &shared);
    if extent == Extent::Forever {
        let answers = Answers {
            shared: shared.clone(),
            metrics,
            pulse: pulse.clone(),
            targets: vpp
                .as_mut()
                .map(|vpp| vpp.start(settings.until_synced))
                .transpose()?
                .unwrap_or_default(),
            drops: kernel.as_ref().map(Kernel::drops),
            tracer: kernel.as_ref().map(Kernel::tracer),
        };
        serve::serve(&settings.listen, answers)?;
    }
    let enforcer = kernel.map(|kernel| kernel.start(settings, extent)).transpose()?;
    let bridges = match &enforcer {
        Some(_) => Some(Bridges::open(&NetworkNamespace::current()?)?),
        None => None,
    };
    let _following = follow(settings, &health, outbox)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(AgentError::Start)?.block_on(async {
        let bells = Bells::new(settings).map_err(AgentError::Start)?;
        let agent = Agent {
            node: settings.node.clone(),
            knowledge: Knowledge::new(&settings.node, settings.semantics.clone(), vpp.is_some(), events),
            enforcer,
            bridges,
            vpp,
            shared,
            known: Known::default(),
            inbox,
            pulse,
            extent,
        };
        agent.run(bells).await
    })
}

/// Says what the policies are enforced with.
fn name_targets(settings: &Settings, shared: &Shared) {
    let mut status = shared.lock();
    let names: Vec<_> = status.vpp.keys().cloned().collect();
    let nftables = settings.nftables.then(|| "nftables".to_owned());
    status.targets = nftables.into_iter().chain(names).collect();
    // Where there are no rules of the kernel, none have to be in force.
    status.ready = !settings.nftables;
}

/// Follows the cluster, as far as it concerns the cluster network of the node.
fn follow(settings: &Settings, health: &Health, outbox: Outbox) -> Result<Following, AgentError> {
    let interest = Interest {
        node: Some(settings.node.clone()),
        cluster_network: true,
        secondary_networks: false,
        services: settings.vpp.is_some(),
        discovery: settings.discover_every,
    };
    source::start(&settings.source, interest, health, move |change| {
        outbox.tell(match change {
            Ok(change) => News::Cluster(Instant::now(), change),
            Err(error) => News::Failed(error),
        });
    })
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
    /// The name of the node.
    node: SmolStr,
    knowledge: Knowledge,
    /// Where the policies are enforced with nftables.
    enforcer: Option<Enforcer>,
    /// What passes by it.
    bridges: Option<Bridges>,
    /// Where they are enforced with VPP.
    vpp: Option<Targets>,
    shared: Shared,
    /// How far changes are known that VPP is told to enforce.
    known: Known,
    inbox: Inbox,
    pulse: Pulse,
    extent: Extent,
}

impl Agent {
    async fn run(mut self, mut bells: Bells) -> Result<Ended, AgentError> {
        let mut grace = Grace::default();
        loop {
            self.pulse.beat();
            grace.follow(self.enforcer.as_ref().and_then(Enforcer::changing));
            tokio::select! {
                () = self.inbox.ready() => {
                    if let Some(ended) = self.hear()? {
                        return Ok(ended);
                    }
                }
                () = until(self.enforcer.as_ref().and_then(Enforcer::retry_at)) => {
                    // What others did to the table is not to wait for who is to blame.
                    if let Some(ended) = self.hear()? {
                        return Ok(ended);
                    }
                    self.enforce();
                }
                () = grace.over() => {
                    grace.ended(self.enforcer.as_mut().is_none_or(Enforcer::calm));
                }
                _ = bells.proof.tick() => self.prove(),
                _ = bells.pulse.tick() => self.look_at_bridges(),
                _ = bells.terminate.recv() => break,
                _ = bells.interrupt.recv() => break,
            }
        }
        if let Some(enforcer) = &mut self.enforcer {
            enforcer.calm();
        }
        Ok(Ended::Stopped)
    }

    /// Says what passes by the rules.
    fn look_at_bridges(&mut self) {
        let Some(bridges) = &mut self.bridges else {
            return;
        };
        let program = self.knowledge.program().into_iter();
        let pods = program.flat_map(|program| program.pods_on(&self.node));
        let managed = pods.filter(|pod| pod.is_managed());
        let notes = bridges.look(managed.flat_map(|pod| pod.pod().addresses.iter()));
        notes.clone_into(&mut self.shared.lock().host.notes);
    }

    /// Takes in what there is to hear, and enforces it. Of what never ends it takes some: it is not all that there is to be done.
    fn hear(&mut self) -> Result<Option<Ended>, AgentError> {
        let (mut taken, mut is_changed) = (0, false);
        let began = Instant::now();
        while taken < AT_ONCE
            && began.elapsed() < TURN
            && let Some(news) = self.inbox.take()
        {
            taken += 1;
            is_changed |= self.take(news)?;
        }
        if taken == 0 {
            return Ok(None);
        }
        self.inbox.ring();
        if is_changed && self.extent != Extent::Forever {
            return self.finish().map(Some);
        }
        if self.knowledge.is_nowhere() {
            self.tell_nowhere()?;
        }
        self.tell_vpp(is_changed);
        // Whoever sees that a version is in force is to see what is wrong with it too.
        self.tell_findings();
        if is_changed {
            self.enforce();
        }
        match &mut self.enforcer {
            Some(enforcer) => enforcer.tell(&mut self.knowledge),
            // Nobody else asks for them.
            None => drop(self.knowledge.remarks.readings.take_news()),
        }
        Ok(None)
    }

    /// Takes in one piece of news; whether something else may have to be enforced then.
    fn take(&mut self, news: News) -> Result<bool, AgentError> {
        match (news, &mut self.enforcer) {
            (News::Cluster(heard, change), _) => return Ok(self.learn(heard, change)),
            (News::Asked(Asked { question, reply }), _) => {
                let program = self.knowledge.program();
                // Who has stopped waiting needs no answer.
                let _ = reply.send(program.map(|program| Scene::of(program, &question)));
            }
            (News::Failed(error), _) => return Err(error),
            (News::Table(changes), Some(enforcer)) => enforcer.repair(&changes),
            (News::Denied(told), Some(enforcer)) => enforcer.tell_denied(&told, self.knowledge.program()),
            (News::Uplinks(uplinks), Some(enforcer)) => enforcer.reroute(uplinks),
            // Nobody listens to the kernel then.
            (News::Table(_) | News::Denied(_) | News::Uplinks(_), None) => {}
        }
        Ok(false)
    }

    /// Learns what the cluster says; whether something else may have to be enforced then.
    fn learn(&mut self, heard: Instant, change: Change) -> bool {
        let change = match (change, &mut self.vpp) {
            (Change::Events(events), Some(vpp)) => Change::Events(vpp.adapt(events)),
            (change, _) => change,
        };
        let note = noting(&mut self.enforcer, &mut self.vpp);
        let Some(policies) = self.knowledge.take(change, note) else {
            return false;
        };
        if let Some(vpp) = &mut self.vpp {
            vpp.heard(heard, &policies);
        }
        if let Some(enforcer) = &mut self.enforcer {
            enforcer.heard(heard, policies);
        }
        true
    }

    /// Has VPP made what the policies say. That takes its own time: nobody waits for it.
    fn tell_vpp(&mut self, is_changed: bool) {
        let (Some(vpp), Some(program)) = (&mut self.vpp, self.knowledge.whole()) else {
            return;
        };
        let known = self.knowledge.remarks.known();
        if is_changed || vpp.is_due() || self.known != known {
            vpp.enforce(program, &known);
            self.known = known;
        }
    }

    /// Says that the cluster does not know this node.
    fn tell_nowhere(&mut self) -> Result<(), AgentError> {
        let error = AgentError::UnknownNode(self.node.clone());
        if self.extent != Extent::Forever {
            return Err(error);
        }
        let mut status = self.shared.lock();
        if status.host.trouble.is_none() {
            tracing::error!("{error}; until then what was in force stays");
            status.host.trouble = Some(Trouble {
                since: Timestamp::now(),
                why: error.to_string(),
                waiting: Vec::new(),
            });
        }
        Ok(())
    }

    fn tell_findings(&self) {
        let mut findings = self.knowledge.remarks.findings();
        let of_vpp = self.vpp.as_ref().map(Targets::findings);
        findings.extend_from_slice(of_vpp.unwrap_or_default());
        self.shared.lock().findings = findings;
    }

    fn prove(&mut self) {
        let (Some(enforcer), Some(program)) = (&mut self.enforcer, self.knowledge.program()) else {
            return;
        };
        // What lists of the cluster took, and a proof takes, is as much again as what is left.
        give_back_memory();
        let Some(observation) = enforcer.observe() else {
            return;
        };
        // On a large node that takes a while.
        let proof = self.inbox.meanwhile(
            PROOF,
            |goes_on| observation.prove(program, goes_on),
            |changes| enforcer.repair(&changes),
        );
        enforcer.proved(proof, program, &self.knowledge.remarks.versions);
        give_back_memory();
    }

    fn enforce(&mut self) {
        let Some(enforcer) = &mut self.enforcer else {
            return self.knowledge.settle();
        };
        if enforcer.retries_held() {
            let held = self.knowledge.held();
            self.knowledge.release(&held, |delta| enforcer.note(delta));
        }
        if self.knowledge.program().is_none() {
            return enforcer.keep();
        }
        let was_ready = enforcer.is_ready();
        // What goes wrong has been told, and is tried again.
        let _ = make(&mut self.knowledge, enforcer);
        let proves = enforcer.is_ready() && !was_ready;
        if self.knowledge.take_other()
            && let Some(vpp) = &mut self.vpp
        {
            vpp.forget();
            self.tell_vpp(true);
            self.tell_findings();
        }
        if proves {
            self.prove();
        }
    }

    /// Does what was asked for the cluster as it is now, with every target, whatever becomes of the others.
    fn finish(&mut self) -> Result<Ended, AgentError> {
        let Some(program) = self.knowledge.whole() else {
            return Ok(Ended::Done);
        };
        let known = self.knowledge.remarks.known();
        let (mut plan, mut failed) = (String::new(), Vec::new());
        if let Some(vpp) = &mut self.vpp {
            match self.extent {
                Extent::DryRun => (plan, failed) = vpp.plan(program, &known),
                _ => failed = vpp.finish(program, &known),
            }
        }
        if let Some(enforcer) = &mut self.enforcer {
            let done = match self.extent {
                Extent::DryRun => enforcer.plan(program),
                _ => make_all(&mut self.knowledge, enforcer).map(|()| String::new()),
            };
            enforcer.finish_cutting();
            enforcer.calm();
            match done {
                Ok(commands) => plan.insert_str(0, &commands),
                Err(error) if self.vpp.is_none() => return Err(error.into()),
                Err(error) => failed.push(format!("nftables: {error}")),
            }
        }
        match (failed.is_empty(), self.extent) {
            (false, _) => Err(AgentError::Targets(failed)),
            (true, Extent::DryRun) => Ok(Ended::Plan(plan)),
            (true, _) => Ok(Ended::Done),
        }
    }
}

/// Tells every target what changes in its program.
fn noting<'a>(
    enforcer: &'a mut Option<Enforcer>,
    vpp: &'a mut Option<Targets>,
) -> impl FnMut(Whose, &Delta) + use<'a> {
    move |whose, delta| {
        if let Some(enforcer) = enforcer.as_mut().filter(|_| whose != Whose::Others) {
            enforcer.note(delta);
        }
        if let Some(vpp) = vpp.as_mut().filter(|_| whose != Whose::Kernel) {
            vpp.note(delta);
        }
    }
}

/// Makes the table what the policies say; but those that are to blame where it is refused stay as they were. It may have to be
/// called again to find out who is.
///
/// # Errors
/// When not all policies are in force; that has been told.
fn make(knowledge: &mut Knowledge, enforcer: &mut Enforcer) -> Result<(), HostError> {
    let Some(program) = knowledge.program() else {
        return Ok(());
    };
    let made = enforcer.attempt(program);
    let mut blame = Blame::new(knowledge, enforcer);
    if let Err(error) = &made
        && !blame.find(error)
    {
        enforcer.failed(error);
        return made;
    }
    blame.go_on();
    knowledge.settle();
    enforcer.settle(knowledge);
    made
}

/// Makes the table what the policies say, and finds out who is to blame where it is refused.
///
/// # Errors
/// When not all policies are in force; that has been told.
pub(crate) fn make_all(knowledge: &mut Knowledge, enforcer: &mut Enforcer) -> Result<(), HostError> {
    let made = make(knowledge, enforcer);
    while enforcer.goes_on() {
        // What goes wrong has been told, and ends this.
        let _ = make(knowledge, enforcer);
    }
    made
}

/// Waits until then, for ever without a time.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::iter;

    use tokio::task::yield_now;

    use super::*;
    use crate::testing::settings;

    /// An agent that enforces nothing.
    fn idle(settings: &Settings, inbox: Inbox) -> Agent {
        let events = Events::start(settings, Extent::Forever, &Metrics::default()).unwrap();
        Agent {
            node: settings.node.clone(),
            knowledge: Knowledge::new("n", settings.semantics.clone(), false, events),
            enforcer: None,
            bridges: None,
            vpp: None,
            shared: Shared::new("n", Health::default()),
            known: Known::default(),
            inbox,
            pulse: Pulse::of_busy(),
            extent: Extent::Forever,
        }
    }

    #[test]
    fn an_agent_to_which_others_never_stop_talking_has_time_for_more() {
        let (_outbox, mut inbox) = queue::channel();
        let endless = iter::repeat_with(|| News::Uplinks(BTreeSet::new()));
        inbox.earlier.extend(endless.take(2 * AT_ONCE + 1));
        let mut agent = idle(&settings(), inbox);
        let runtime = Builder::new_current_thread().build().unwrap();
        for left in [AT_ONCE + 1, 1, 0] {
            assert!(agent.hear().unwrap().is_none());
            assert_eq!(agent.inbox.earlier.len(), left);
            // It hears of the rest without news.
            runtime.block_on(agent.inbox.ready());
        }
    }

    #[test]
    fn an_agent_that_hears_nothing_comes_round_all_the_same() {
        let settings = settings();
        let (_outbox, inbox) = queue::channel();
        let agent = idle(&settings, inbox);
        let pulse = agent.pulse.clone();
        let comes_round = async {
            // It is time for a first proof at once.
            for _ in 0..5 {
                pulse.forget();
                while !pulse.beats() {
                    yield_now().await;
                }
            }
        };
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bells = Bells {
                pulse: interval(Duration::from_millis(1)),
                ..Bells::new(&settings).unwrap()
            };
            tokio::select! {
                ended = agent.run(bells) => panic!("{ended:?}"),
                () = comes_round => {}
            }
        });
    }
}
