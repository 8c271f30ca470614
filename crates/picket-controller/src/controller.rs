//! What happens, and what is done about it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use picket_neutron::{Options, Rendered, render};
use picket_node::Inbox;
use picket_policy::ObjectRef;
use picket_source::Change;

use crate::ControllerError;
use crate::clock::Clock;
use crate::cloud::{Cloud, Failure, Plan, Reason, Step, Wanted};
use crate::gate::Gate;
use crate::knowledge::Knowledge;
use crate::lease::{Beginning, Lease};
use crate::metrics::Metrics;
use crate::progress::{Extent, Troubles, extents, states, users};
use crate::publish::{Desired, Outlet};
use crate::status::{FailureStatus, Shared, SharedGroup, UnenforcedPort};
use crate::stop::Stop;
use crate::sync::{Due, Key, Sync};

/// The most changes that are taken in before what they mean is enforced.
const AT_ONCE: usize = 10_000;

/// How many calls in a row may go without an answer until the cloud is taken to be away.
const UNANSWERED: u32 = 3;

/// How often to say how it goes while there is something to do.
const TELLING: Duration = Duration::from_secs(1);

/// Something to hear.
pub(crate) enum News {
    /// Something changed in the cluster; known since then.
    Cluster(Duration, Change),
    /// The thread that follows it cannot go on.
    Failed(ControllerError),
}

/// What to do after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another, at once.
    Turn,
    /// Wait for news, for another state of the Lease, or until a moment, if there is one.
    Wait(Option<Duration>),
}

/// What makes a cloud what a cluster says.
pub(crate) struct Controller<C: Cloud> {
    pub(crate) cloud: C,
    pub(crate) clock: Clock,
    pub(crate) lease: Lease,
    pub(crate) gate: Gate,
    pub(crate) knowledge: Knowledge,
    pub(crate) inbox: Inbox<News>,
    pub(crate) options: Options,
    pub(crate) shared: Shared,
    pub(crate) metrics: Metrics,
    pub(crate) sync: Sync<C::Step>,
    pub(crate) outlet: Option<Outlet>,
    /// How many steps are done at once.
    pub(crate) at_once: usize,
    /// How long a call may take.
    pub(crate) call: Duration,
    /// The term in which what is known of the cloud was read.
    pub(crate) term: Option<u64>,
    /// Whether all is to be read again soon because a former leader may still have had calls under way.
    pub(crate) is_wary: bool,
    /// What the cloud has, as far as it is known.
    pub(crate) state: Option<C::State>,
    /// What was planned for last.
    pub(crate) rendered: Rendered,
    /// What each policy was about then; nothing where nothing has been planned in this term.
    pub(crate) extents: Option<BTreeMap<ObjectRef, Extent>>,
    /// How many calls in a row have gone without an answer.
    pub(crate) unanswered: u32,
    /// When it was said last how it goes.
    pub(crate) told: Option<Duration>,
    /// Whether it was asked to end.
    pub(crate) stop: Stop,
}

impl<C: Cloud> Controller<C> {
    /// Does one thing that is due.
    ///
    /// # Errors
    /// When the cluster cannot be followed any more.
    pub(crate) async fn turn(&mut self) -> Result<Next, ControllerError> {
        self.hear()?;
        let now = self.clock.now();
        self.notice_term(now);
        if self.term.is_none() || self.knowledge.program().is_none() {
            return Ok(Next::Wait(None));
        }
        let next = match self.sync.due(now, self.state.is_some()) {
            Due::Nothing(until) => Next::Wait(Some(until)),
            due => {
                match due {
                    Due::Read => self.read().await,
                    Due::Find => self.find().await,
                    Due::Plan => self.plan(),
                    Due::Apply => self.apply().await,
                    Due::Nothing(_) => {}
                }
                Next::Turn
            }
        };
        let is_due = self.told.is_none_or(|told| now.saturating_sub(told) >= TELLING);
        if next != Next::Turn || is_due {
            self.tell();
            self.told = Some(now);
        }
        Ok(next)
    }

    /// Takes in what there is to hear.
    fn hear(&mut self) -> Result<(), ControllerError> {
        for _ in 0..AT_ONCE {
            match self.inbox.take() {
                Some(News::Cluster(heard, change)) => {
                    if self.knowledge.take(change) {
                        self.sync.changed(heard, self.clock.now());
                    }
                    let moved = self.knowledge.take_moved();
                    // Where nothing is known of the cloud all ports will be read.
                    if self.state.is_some() {
                        self.sync.moved.extend(moved);
                    }
                }
                Some(News::Failed(error)) => return Err(error),
                None => break,
            }
        }
        Ok(())
    }

    /// Begins anew with every term, and stops where there is none.
    fn notice_term(&mut self, now: Duration) {
        let beginning = self.lease.beginning();
        let term = beginning.map(|(term, _)| term);
        if term == self.term {
            return;
        }
        self.term = term;
        (self.state, self.extents) = (None, None);
        self.gate.close();
        self.shared.lock().ready = false;
        let Some((term, begins)) = beginning else {
            return;
        };
        self.is_wary = begins == Beginning::Taken;
        let from = match begins {
            // A call that the former leader began may take as long.
            Beginning::Taken => now + self.call,
            Beginning::Handed => now,
        };
        self.sync.begin(from);
        self.gate.open(term);
    }

    async fn read(&mut self) {
        let began = self.clock.now();
        // Whoever asks to end need not wait for an answer that changes nothing.
        let read = tokio::select! {
            read = self.cloud.read() => read,
            () = self.stop.asked() => return,
        };
        let now = self.clock.now();
        match read {
            Ok(state) => {
                self.metrics.read(now.saturating_sub(began));
                self.state = Some(state);
                self.sync.was_read(now, std::mem::take(&mut self.is_wary));
                let mut status = self.shared.lock();
                status.synchronized = Some(Timestamp::now());
                if status.trouble.take().is_some() {
                    tracing::info!("the cloud can be used again");
                }
            }
            Err(failure) => self.is_away(&failure, now),
        }
    }

    /// Nobody knows what the cloud has.
    fn is_away(&mut self, failure: &Failure, now: Duration) {
        self.state = None;
        self.sync.must_read(now, true);
        let mut status = self.shared.lock();
        if status.trouble.as_ref() != Some(&failure.why) {
            tracing::warn!(
                why = failure.why,
                "the cloud cannot be used; what is in force there stays"
            );
        }
        status.trouble = Some(failure.why.clone());
    }

    async fn find(&mut self) {
        let Some(state) = &mut self.state else {
            return;
        };
        let pods = self.sync.searched();
        let found = tokio::select! {
            found = self.cloud.find(state, &pods) => found,
            () = self.stop.asked() => return,
        };
        let now = self.clock.now();
        match found {
            Ok(()) => self.sync.was_found(now),
            Err(failure) => self.is_away(&failure, now),
        }
    }

    fn plan(&mut self) {
        if let Some((rendered, plan)) = self.worked_out() {
            self.rendered = rendered;
            let (steps, stages) = (plan.stages.iter().map(Vec::len).sum::<usize>(), plan.stages.len());
            if steps > 0 {
                tracing::debug!(steps, stages, repairs = self.sync.repairs, "planned");
            }
            let awaited = self.knowledge.may_get_ports(&plan.pending);
            self.sync.planned(plan, awaited);
            self.extents = self.known_extents();
            self.settle();
        }
    }

    /// What is wanted, and what is to be done for it.
    pub(crate) fn worked_out(&self) -> Option<(Rendered, Plan<C::Step>)> {
        let (state, program) = (self.state.as_ref()?, self.knowledge.program()?);
        let rendered = render(program, &self.cloud.options(state, &self.options));
        let alone = self.sync.left_alone();
        let wanted = Wanted {
            objects: &rendered.objects,
            program,
            held_groups: &alone.groups,
            held_removals: &alone.removals,
            held_pods: &alone.pods,
            held_ports: &alone.ports,
            emptied: &self.sync.emptied,
        };
        let mut plan = self.cloud.plan(state, &wanted);
        let shortfalls = rendered.shortfalls.iter().map(|shortfall| {
            let (policy, what, instead) = (&shortfall.policy, &shortfall.what, &shortfall.instead);
            let code = shortfall.diagnostic().code.0;
            format!("warning[{code}]: {policy}: {what}; {instead}")
        });
        plan.notes.extend(shortfalls);
        Some((rendered, plan))
    }

    async fn apply(&mut self) {
        let steps = self.sync.next(self.at_once);
        let Some(state) = &self.state else {
            return;
        };
        let results = join_all(steps.iter().map(|step| self.cloud.apply(state, step))).await;
        for (step, result) in steps.iter().zip(results) {
            let outcome = match &result {
                Ok(_) => "done",
                Err(failure) => failure.reason.word(),
            };
            self.metrics.step(step.kind(), outcome);
            match result {
                Ok(done) => self.done(step, done),
                Err(failure) => self.failed(step, &failure),
            }
        }
        self.settle();
    }

    fn done(&mut self, step: &C::Step, done: C::Done) {
        self.unanswered = 0;
        self.sync.done(step);
        if self.sync.repairs {
            tracing::warn!(%step, "others had changed something, which is as it should be again");
            self.metrics.repaired();
            self.shared.lock().repaired += 1;
        }
        if let Some(state) = &mut self.state {
            self.cloud.note(state, step, done);
        }
    }

    fn failed(&mut self, step: &C::Step, failure: &Failure) {
        let now = self.clock.now();
        if failure.reason == Reason::Unknown {
            self.unanswered += 1;
        }
        match failure.reason {
            // A part of it may have been done.
            Reason::Closed => {
                self.state = None;
                self.sync.must_read(now, true);
                return;
            }
            Reason::Away => return self.is_away(failure, now),
            Reason::Unknown if self.unanswered >= UNANSWERED => {
                self.unanswered = 0;
                self.is_away(failure, now);
            }
            Reason::Stale | Reason::Unknown => {
                self.state = None;
                self.sync.must_read(now, false);
            }
            Reason::Refused => {}
        }
        tracing::warn!(%step, why = failure.why, "cannot be done now; everything else goes on");
        let refused = failure.reason == Reason::Refused;
        self.sync.failed(step, &failure.why, now, refused);
    }

    /// Notes that everything is in force, but for what cannot be changed, if it is.
    fn settle(&mut self) {
        if self.state.is_none() {
            return;
        }
        let Some(waited) = self.sync.settle(self.clock.now()) else {
            return;
        };
        waited
            .into_iter()
            .for_each(|waited| self.metrics.enforced(waited));
        let failing = self.sync.held().len();
        let mut status = self.shared.lock();
        if failing == 0 {
            status.current = Some(Timestamp::now());
        }
        if !std::mem::replace(&mut status.ready, true) {
            tracing::info!(
                failing,
                "the policies are in force, but for what cannot be changed"
            );
        }
    }

    /// What is not as it should be.
    fn troubles(&self) -> Troubles {
        let mut troubles = self.sync.troubles();
        if self.state.is_none() {
            let trouble = self.shared.lock().trouble.clone();
            let unread = || "what the cloud has is not known yet".to_owned();
            troubles.everything = Some(trouble.unwrap_or_else(unread));
        } else if self.extents.is_none() {
            troubles.everything = Some("what is to be done is not known yet".to_owned());
        }
        troubles
    }

    /// What each policy is about by now.
    fn known_extents(&self) -> Option<BTreeMap<ObjectRef, Extent>> {
        let generation = |policy: &_| self.knowledge.generation(policy);
        Some(extents(self.knowledge.program()?, generation))
    }

    /// Says how it goes.
    fn tell(&mut self) {
        // What is heard of and not planned for yet is not in force, of whatever generation it is.
        let is_planned = self.extents.is_some();
        if is_planned && !self.sync.is_behind() {
            self.extents = self.known_extents();
        }
        let troubles = self.troubles();
        let unplanned = if is_planned { None } else { self.known_extents() };
        let Some(extents) = self.extents.as_ref().or(unplanned.as_ref()) else {
            return;
        };
        let states = states(extents, &self.rendered, &troubles);
        let failures = self.sync.held().iter().map(|(key, held)| FailureStatus {
            object: key.name(),
            since: held.since,
            why: held.why.clone(),
        });
        let unenforced = self.sync.unenforced.iter().map(|(pod, why)| UnenforcedPort {
            pod: pod.to_string(),
            why: why.clone(),
        });
        let shared = users(extents, &self.rendered).into_iter();
        let shared = shared.map(|(group, users)| SharedGroup {
            group: group.into(),
            users: users.iter().map(ToString::to_string).collect(),
        });
        let mut status = self.shared.lock();
        status.steps = self.sync.steps_left();
        status.failures = failures.collect();
        status.pending = self.sync.pending.iter().map(ToString::to_string).collect();
        status.unenforced = unenforced.collect();
        status.policies = states.values().cloned().collect();
        status.shared = shared.collect();
        status.notes.clone_from(&self.sync.notes);
        status.findings = self.knowledge.findings();
        drop(status);
        if let (true, Some(outlet), Some(state)) = (is_planned, &self.outlet, &self.state) {
            outlet.put(Desired {
                groups: self.groups(state),
                unenforced: self.sync.unenforced.clone(),
                states,
            });
        }
    }

    /// What the groups of each pod are called in the cloud, where it has all of them but some that no new port is to get: those that cannot be
    /// made, those that cannot be made less, and those that wait because of a port that cannot be changed. What was written before may let more
    /// pass.
    fn groups(&self, state: &C::State) -> BTreeMap<ObjectRef, String> {
        let ports = self.rendered.objects.ports.iter();
        let held = self.sync.held();
        let groups = ports.filter_map(|(pod, port)| {
            let mut ids = Vec::new();
            for name in &port.security_groups {
                match self.cloud.id_of(state, name) {
                    // It may let more pass than it should.
                    Some(_) if held.contains_key(&Key::Removal(name.clone())) => {}
                    Some(_) if self.sync.is_waiting(name) => {}
                    Some(id) => ids.push(id),
                    None if held.contains_key(&Key::Group(name.clone())) => {}
                    None => return None,
                }
            }
            ids.sort();
            Some((pod.clone(), ids.join(",")))
        });
        groups.collect()
    }
}

#[cfg(test)]
mod tests;
