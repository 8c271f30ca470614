//! What is due, and what is being done: the state of a synchronisation, by the clock and without asking anybody.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use picket_neutron::Name;
use picket_policy::ObjectRef;
use smol_str::SmolStr;

use crate::backoff::{Jitter, Retry};
use crate::cloud::{Plan, Step};
use crate::progress::Troubles;
use crate::settings::Timing;

/// How many moments in which changes were heard are kept until they are in force.
const MOST_HEARD: usize = 10_000;

/// How often to look at most for ports of pods that have none.
const LOOK: Duration = Duration::from_secs(10);

/// What a step is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Group(Name),
    /// What a group has and should not have.
    Removal(Name),
    /// The ports of a pod.
    Pod(ObjectRef),
    /// A port of no pod.
    Port(SmolStr),
    /// Something else, by what is said of it.
    Other(String),
}

impl Key {
    pub(crate) fn of(step: &impl Step) -> Self {
        match (step.pod(), step.port(), step.group()) {
            (Some(pod), ..) => Self::Pod(pod),
            (None, Some(port), _) => Self::Port(port),
            (None, None, Some(group)) if step.removes() => Self::Removal(group),
            (None, None, Some(group)) => Self::Group(group),
            (None, None, None) => Self::Other(step.to_string()),
        }
    }

    /// For people.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Group(name) | Self::Removal(name) => format!("group {name}"),
            Self::Pod(pod) => pod.to_string(),
            Self::Port(id) => format!("port {id}, which is no pod's"),
            Self::Other(name) => name.clone(),
        }
    }
}

/// What is left alone for now.
#[derive(Debug, Default)]
pub(crate) struct LeftAlone {
    pub(crate) groups: BTreeSet<Name>,
    /// Those from which nothing is taken away.
    pub(crate) removals: BTreeSet<Name>,
    pub(crate) pods: BTreeSet<ObjectRef>,
    /// Those of no pod.
    pub(crate) ports: BTreeSet<SmolStr>,
}

/// Something that could not be changed.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) why: String,
    pub(crate) since: Timestamp,
    retry: Retry,
    /// Whether it is left alone until then.
    waits: bool,
}

/// What is due, and what is being done.
#[derive(Debug)]
pub(crate) struct Sync<S> {
    timing: Timing,
    jitter: Jitter,
    /// When changes that are not planned for yet were heard: first, and last.
    dirty: Option<(Duration, Duration)>,
    /// When changes were heard that are not in force yet.
    heard: Vec<Duration>,
    /// When everything is to be read.
    read_at: Duration,
    /// The attempts to read that have failed, or after which nothing could be done, since something was.
    read_retry: Option<Retry>,
    /// Whether a plan is to be made of what is known.
    replan: bool,
    /// The stages that are left.
    stages: VecDeque<VecDeque<S>>,
    /// Whether steps of the first of them have been begun.
    begun: bool,
    /// Whether a stage has failed in part, so that no later one may begin.
    broken: bool,
    /// Whether these steps undo what others have done.
    pub(crate) repairs: bool,
    /// Whether the last plan was carried out, and nothing has changed since.
    settled: bool,
    held: BTreeMap<Key, Held>,
    pub(crate) notes: Vec<String>,
    pub(crate) pending: BTreeSet<ObjectRef>,
    /// Those of them for whose ports it is looked again and again.
    awaited: BTreeSet<ObjectRef>,
    pub(crate) unenforced: BTreeMap<ObjectRef, String>,
    /// Those of them whose ports get no group by which rules mean them.
    left_out: BTreeSet<ObjectRef>,
    /// The groups of which something waits for ports that cannot be changed.
    waiting: BTreeSet<Name>,
    /// The ports that have no groups because of such ports, as long as there may be any.
    pub(crate) emptied: BTreeSet<SmolStr>,
    /// The pods that have other addresses, or name other ports, since it was last looked for ports.
    pub(crate) moved: BTreeSet<ObjectRef>,
    /// When to look for ports of pods that have none.
    look: Option<Retry>,
    looks_now: bool,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Read,
    Find,
    Plan,
    Apply,
    /// Nothing until then.
    Nothing(Duration),
}

impl<S: Step> Sync<S> {
    pub(crate) fn new(timing: Timing, identity: &str) -> Self {
        Self {
            timing,
            jitter: Jitter::of(identity),
            dirty: None,
            heard: Vec::new(),
            read_at: Duration::ZERO,
            read_retry: None,
            replan: false,
            stages: VecDeque::new(),
            begun: false,
            broken: false,
            repairs: false,
            settled: false,
            held: BTreeMap::new(),
            notes: Vec::new(),
            pending: BTreeSet::new(),
            awaited: BTreeSet::new(),
            unenforced: BTreeMap::new(),
            left_out: BTreeSet::new(),
            waiting: BTreeSet::new(),
            emptied: BTreeSet::new(),
            moved: BTreeSet::new(),
            look: None,
            looks_now: false,
        }
    }

    /// Begins from nothing: all that is known of the cloud is to be read, from a moment on.
    pub(crate) fn begin(&mut self, at: Duration) {
        self.stages.clear();
        self.held.clear();
        self.emptied.clear();
        // What was heard while another led is in force by what that one did.
        self.heard.clear();
        (self.dirty, self.begun) = (None, false);
        (self.read_at, self.read_retry) = (at, None);
        (self.settled, self.repairs, self.broken) = (false, false, false);
    }

    /// Something changed in the cluster.
    pub(crate) fn changed(&mut self, heard: Duration, now: Duration) {
        let first = self.dirty.map_or(now, |(first, _)| first);
        self.dirty = Some((first, now));
        if self.heard.len() < MOST_HEARD {
            self.heard.push(heard);
        }
        (self.settled, self.repairs) = (false, false);
    }

    /// When what has changed is to be planned for.
    fn plan_at(&self) -> Option<Duration> {
        let (first, last) = self.dirty?;
        Some((last + self.timing.quiet).min(first + self.timing.patience))
    }

    /// What is to be done now. `knows` is whether it is known what the cloud has.
    pub(crate) fn due(&mut self, now: Duration, knows: bool) -> Due {
        let read_at = self
            .read_retry
            .map_or(self.read_at, |retry| retry.at.max(self.read_at));
        if !knows {
            return match now < read_at {
                true => Due::Nothing(read_at),
                false => Due::Read,
            };
        }
        for held in self.held.values_mut().filter(|held| held.waits) {
            if held.retry.at <= now {
                held.waits = false;
                self.replan = true;
            }
        }
        if self.broken && !self.begun {
            self.stages.clear();
            (self.broken, self.replan) = (false, true);
        }
        let plan_at = self.plan_at();
        if plan_at.is_some_and(|at| at <= now) {
            return Due::Plan;
        }
        if !self.stages.is_empty() {
            return Due::Apply;
        }
        if read_at <= now {
            return Due::Read;
        }
        if self.replan {
            return Due::Plan;
        }
        let look_at = self
            .look
            .filter(|_| !self.awaited.is_empty())
            .map(|retry| retry.at);
        if self.looks_now || look_at.is_some_and(|at| at <= now) {
            return Due::Find;
        }
        let retries = self
            .held
            .values()
            .filter(|held| held.waits)
            .map(|held| held.retry.at);
        let next = retries.chain(plan_at).chain(look_at).chain([read_at]).min();
        Due::Nothing(next.unwrap_or(read_at))
    }

    /// Everything was read. With `again`, it is to be read again as long after as a call may take.
    pub(crate) fn was_read(&mut self, now: Duration, again: bool) {
        // What others have changed is only told from what was to be changed where nothing is, or is left alone.
        let is_alone = self.held.values().all(|held| held.waits);
        self.repairs = self.settled && self.dirty.is_none() && is_alone;
        let next = match again {
            true => self.timing.call,
            false => self.jitter.lengthen(self.timing.resync),
        };
        self.read_at = now + next;
        self.replan = true;
        self.moved.clear();
    }

    /// Reading has failed, or something after which everything is to be read.
    pub(crate) fn must_read(&mut self, now: Duration, failed: bool) {
        self.stages.clear();
        self.read_at = self.read_at.min(now);
        (self.begun, self.broken, self.settled) = (false, false, false);
        if failed {
            self.read_retry = Some(Retry::after(self.read_retry, now, &mut self.jitter));
        }
    }

    /// The pods whose ports are to be looked for.
    pub(crate) fn searched(&self) -> BTreeSet<ObjectRef> {
        self.awaited.union(&self.moved).cloned().collect()
    }

    /// Ports were looked for.
    pub(crate) fn was_found(&mut self, now: Duration) {
        self.looks_now = false;
        self.moved.clear();
        let retry = Retry::after(self.look, now, &mut self.jitter);
        self.look = Some(retry.by(now + self.jitter.lengthen(LOOK)));
        self.replan = true;
    }

    /// The groups and the ports that are left alone for now.
    pub(crate) fn left_alone(&self) -> LeftAlone {
        let mut alone = LeftAlone::default();
        for (key, _) in self.held.iter().filter(|(_, held)| held.waits) {
            match key {
                Key::Group(name) => _ = alone.groups.insert(name.clone()),
                Key::Pod(pod) => _ = alone.pods.insert(pod.clone()),
                Key::Port(id) => _ = alone.ports.insert(id.clone()),
                Key::Removal(name) => _ = alone.removals.insert(name.clone()),
                Key::Other(_) => {}
            }
        }
        alone
    }

    /// This is to be done from now on, and nothing else. `awaited` are those of the pods without a port that may get one at any time.
    pub(crate) fn planned(&mut self, plan: Plan<S>, awaited: BTreeSet<ObjectRef>) {
        let waits = |held: &BTreeMap<Key, Held>, step: &S| {
            let held = held.get(&Key::of(step));
            held.is_some_and(|held| held.waits)
        };
        self.stages.clear();
        for stage in plan.stages {
            let (left, steps): (VecDeque<_>, VecDeque<_>) =
                stage.into_iter().partition(|step| waits(&self.held, step));
            if !steps.is_empty() {
                self.stages.push_back(steps);
            }
            // What comes later may open something as long as this is there.
            if left.iter().any(Step::removes) {
                break;
            }
        }
        let planned: BTreeSet<_> = self.stages.iter().flatten().map(Key::of).collect();
        self.held.retain(|key, held| held.waits || planned.contains(key));
        if awaited.difference(&self.awaited).next().is_some() {
            (self.look, self.looks_now) = (None, true);
        }
        if awaited.is_empty() {
            (self.look, self.looks_now) = (None, false);
        }
        self.looks_now |= !self.moved.is_empty();
        for note in plan.notes.iter().filter(|note| !self.notes.contains(note)) {
            tracing::warn!("{note}");
        }
        self.notes = plan.notes;
        self.waiting = plan.waiting;
        // An attempt that holds nothing names none, and may be in vain.
        self.emptied.extend(plan.emptied);
        (self.pending, self.awaited) = (plan.pending, awaited);
        self.unenforced = plan.unenforced;
        self.left_out = plan.left_out;
        (self.dirty, self.replan) = (None, false);
        (self.begun, self.broken) = (false, false);
    }

    /// The steps to do now, at most so many.
    pub(crate) fn next(&mut self, most: usize) -> Vec<S> {
        let Some(stage) = self.stages.front_mut() else {
            return Vec::new();
        };
        let count = stage.len().min(most.max(1));
        let steps = stage.drain(..count).collect();
        self.begun = !stage.is_empty();
        if !self.begun {
            self.stages.pop_front();
        }
        steps
    }

    /// How many steps are left.
    pub(crate) fn steps_left(&self) -> usize {
        self.stages.iter().map(VecDeque::len).sum()
    }

    /// A step was done.
    pub(crate) fn done(&mut self, step: &S) {
        self.read_retry = None;
        self.held.remove(&Key::of(step));
    }

    /// A step could not be done: what it is about is left alone for a while, if it is `refused` or has failed before.
    ///
    /// What has only become another is tried again before anything else goes on without it.
    pub(crate) fn failed(&mut self, step: &S, why: &str, now: Duration, refused: bool) {
        self.broken = true;
        let key = Key::of(step);
        let before = self.held.get(&key);
        let since = before.map_or_else(Timestamp::now, |held| held.since);
        let retry = Retry::after(before.map(|held| held.retry), now, &mut self.jitter);
        let held = Held {
            why: why.to_owned(),
            since,
            retry,
            waits: refused || before.is_some(),
        };
        self.held.insert(key, held);
    }

    /// If everything that was planned is done, but for what has failed and is left alone: how long ago each change was heard that is in
    /// force by that.
    pub(crate) fn settle(&mut self, now: Duration) -> Option<Vec<Duration>> {
        if !self.is_over() || self.held.values().any(|held| !held.waits) {
            return None;
        }
        (self.settled, self.repairs) = (true, false);
        self.read_retry = None;
        if self.held.is_empty() {
            self.emptied.clear();
        }
        let heard = std::mem::take(&mut self.heard).into_iter();
        Some(heard.map(|heard| now.saturating_sub(heard)).collect())
    }

    /// Whether something was heard of for which nothing is planned yet.
    pub(crate) fn is_behind(&self) -> bool {
        self.dirty.is_some()
    }

    /// Whether nothing is left to be done but what has failed.
    pub(crate) fn is_over(&self) -> bool {
        self.stages.is_empty() && !self.broken && !self.replan && self.dirty.is_none() && !self.looks_now
    }

    /// What could not be changed.
    pub(crate) fn held(&self) -> &BTreeMap<Key, Held> {
        &self.held
    }

    /// Whether a group waits because of a port that cannot be changed.
    pub(crate) fn is_waiting(&self, group: &Name) -> bool {
        self.waiting.contains(group)
    }

    /// What is not as it should be: what failed, and what is still to be done.
    pub(crate) fn troubles(&self) -> Troubles {
        let mut troubles = Troubles {
            pending: self.pending.clone(),
            pods: self.unenforced.clone(),
            ..Troubles::default()
        };
        let known = self.left_out.iter();
        let known = known.filter_map(|pod| self.unenforced.get_key_value(pod));
        let held_pods = self.held.iter().filter_map(|(key, held)| match key {
            Key::Pod(pod) => Some((pod, &held.why)),
            _ => None,
        });
        let left_out = known.chain(held_pods);
        troubles.left_out = left_out.map(|(pod, why)| (pod.clone(), why.clone())).collect();
        let held = self
            .held
            .iter()
            .map(|(key, held)| (key.clone(), held.why.clone()));
        let steps = self.stages.iter().flatten();
        let steps = steps.map(|step| (Key::of(step), "is still to be changed".to_owned()));
        for name in &self.waiting {
            let why = "waits for a port that cannot be changed, as it would open something there";
            troubles.groups.insert(name.clone(), why.to_owned());
        }
        // What has failed comes last, and counts.
        for (key, why) in steps.chain(held) {
            match key {
                Key::Group(name) | Key::Removal(name) => _ = troubles.groups.insert(name, why),
                Key::Pod(pod) => _ = troubles.pods.insert(pod, why),
                Key::Port(_) | Key::Other(_) => {}
            }
        }
        troubles
    }
}
