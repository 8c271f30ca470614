//! What happens to pods and policies, and what is done about it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use picket_cluster::{Pod, Snapshot};
use picket_dataplane::EstablishedConnections;
use picket_linux::at_once;
use picket_linux::runtime::{Sandbox, SandboxId};
use picket_policy::ObjectRef;
use picket_source::{Health, ObjectVersion};

use super::custom::CustomFiles;
use super::cutting::Cutting;
use super::denied::{self, Listener};
use super::drift::Watcher;
use super::drops::Drops;
use super::held::Substitutes;
use super::known::Known;
use super::network::Networks;
use super::plugin::Plugins;
use super::proof::Proofs;
use super::round::Round;
use super::sandbox::{Place, names};
use super::status::{PodsStatus, SandboxStatus};
use super::trace::{self, Scene};
use super::troubles::Troubles;
use super::watching::{Found, Sandboxes};
use super::{News, Outbox, PodSettings};
use crate::events::Events;
use crate::metrics::Metrics;
use crate::objects::Objects;
use crate::serve::{Answers, Pulse};
use crate::status::{Pods, Shared};
use crate::trace::{Asked, TraceQuestion};
use crate::{AgentError, Ended, Extent, Settings};

/// How often to look whether others have changed rules where that was not heard, and whether files of custom rules have changed.
const TICK: Duration = Duration::from_millis(500);

/// The most news that are taken in before what they mean is enforced.
const AT_ONCE: usize = 10_000;

/// Enforces.
pub(super) struct Agent {
    settings: Settings,
    networks: Networks,
    known: Known,
    custom: CustomFiles,
    /// What the runtime said last, once it has.
    sandboxes: Option<Sandboxes>,
    places: BTreeMap<SandboxId, Place>,
    /// Whether it remains to find out which policies are to blame for what was refused somewhere.
    is_searching: bool,
    /// The policies that are to be in force in sandboxes that cannot be entered.
    unreached: BTreeMap<SandboxId, Vec<ObjectRef>>,
    /// Why this seems to be another node than it is said to be.
    elsewhere: Option<String>,
    /// How many pods of the node policies can select.
    pods: usize,
    /// Who cuts what a change denies, if anybody is to.
    cutting: Option<Cutting>,
    /// Who hears what is denied, if anybody is to.
    listener: Option<Listener>,
    /// Who hears what others do to rules, if anybody is to.
    watcher: Option<Watcher>,
    drops: Drops,
    proofs: Proofs,
    shared: Shared,
    metrics: Metrics,
    troubles: Troubles,
    pulse: Pulse,
    extent: Extent,
}

impl Agent {
    /// # Errors
    /// When a thread cannot begin, or what is to be done once needs a file of custom rules that is wrong.
    pub(super) fn new(
        settings: &Settings,
        pods: &PodSettings,
        health: &Health,
        extent: Extent,
    ) -> Result<Self, AgentError> {
        let custom = CustomFiles::read(&pods.custom).map_err(AgentError::CustomRules)?;
        if let Some(why) = custom.never_right().filter(|_| extent != Extent::Forever) {
            return Err(AgentError::CustomRules(why.to_owned()));
        }
        let shared = Shared::new(&settings.node, health.clone());
        let metrics = Metrics::default();
        let events = Events::start(settings, extent, &metrics)?;
        shared.lock().pods = Some(PodsStatus::default());
        let cuts = settings.established == EstablishedConnections::Cut && extent != Extent::DryRun;
        let cutting = cuts.then(|| Cutting::start(metrics.clone())).transpose()?;
        Ok(Self {
            settings: settings.clone(),
            networks: Networks::new(
                settings.semantics.clone(),
                settings.established,
                log_denied(settings),
            ),
            listener: None,
            watcher: None,
            known: Known::new(&settings.node, Plugins::new(&pods.plugins), events.clone()),
            custom,
            sandboxes: None,
            places: BTreeMap::new(),
            is_searching: false,
            unreached: BTreeMap::new(),
            elsewhere: None,
            pods: 0,
            cutting,
            drops: Drops::default(),
            proofs: Proofs::new(settings.verify_every),
            shared,
            metrics,
            troubles: Troubles::new(events),
            pulse: Pulse::new(),
            extent,
        })
    }

    /// What there is to tell those who ask how it goes.
    pub(super) fn answers(&self, outbox: Outbox) -> Answers {
        let drops = self.drops.clone();
        Answers {
            shared: self.shared.clone(),
            metrics: self.metrics.clone(),
            pulse: self.pulse.clone(),
            targets: Vec::new(),
            drops: Some(Arc::new(move || Ok(drops.read()))),
            tracer: Some(trace::answering(self.settings.node.clone(), outbox)),
        }
    }

    /// Has somebody hear what others do to rules, and what is denied, where rules log it.
    ///
    /// # Errors
    /// When a thread cannot begin.
    pub(super) fn listen(&mut self, outbox: Outbox) -> Result<(), AgentError> {
        self.watcher = Some(Watcher::start(outbox.clone())?);
        if let Some(group) = self.networks.log_denied() {
            self.listener = Some(Listener::start(group, outbox)?);
        }
        Ok(())
    }

    /// Enforces what the news say, until somebody ends it or what was asked is done.
    pub(super) fn run(mut self, inbox: &Receiver<News>) -> Result<Ended, AgentError> {
        let mut tick = Instant::now();
        loop {
            self.pulse.beat();
            let mut is_changed = false;
            let mut news = inbox.recv_timeout(self.patience(tick)).ok();
            let heard = Instant::now();
            let mut taken = 0;
            while let Some(one) = news {
                if matches!(one, News::End) {
                    return Ok(Ended::Stopped);
                }
                is_changed |= self.hear(one)?;
                taken += 1;
                news = if taken < AT_ONCE {
                    inbox.try_recv().ok()
                } else {
                    None
                };
            }
            let now = Instant::now();
            let is_tick = now >= tick + TICK;
            if is_tick {
                tick = now;
                is_changed |= self.custom.refresh();
            }
            if is_changed && self.is_known() {
                self.want(heard);
                self.locate();
                if self.extent != Extent::Forever {
                    return self.finish();
                }
            }
            self.make(now, is_tick);
            if self.is_known() {
                self.proofs.go_on(&mut self.places, &self.networks, &self.metrics);
            }
            self.tell();
        }
    }

    /// How long to wait for news.
    fn patience(&self, tick: Instant) -> Duration {
        if self.is_searching {
            return Duration::ZERO;
        }
        let retries = self.places.values().filter_map(Place::retry_at);
        let next = retries.chain([tick + TICK]).chain(self.proofs.at()).min();
        next.map_or(TICK, |next| next.saturating_duration_since(Instant::now()))
    }

    /// Whether the cluster and its sandboxes are known; where something is to be done once, also where each of these is, as far as
    /// that can be found out.
    fn is_known(&self) -> bool {
        let waits = self.extent != Extent::Forever && self.is_asking();
        self.known.is_complete && self.sandboxes.is_some() && !waits
    }

    /// Whether the runtime has not said yet where a sandbox is.
    fn is_asking(&self) -> bool {
        let mut sandboxes = self.sandboxes.iter().flatten();
        sandboxes.any(|(_, found)| matches!(found, Found::Asked))
    }

    /// Whether every sandbox that there is now has been what the policies say once.
    fn is_ready(&self) -> bool {
        self.is_known()
            && !self.is_asking()
            && self.custom.never_right().is_none()
            && self.unreached.is_empty()
            && self.elsewhere.is_none()
            && self.places.values().all(Place::is_ready)
    }

    /// Takes in news; whether something else may have to be enforced.
    fn hear(&mut self, news: News) -> Result<bool, AgentError> {
        match news {
            News::Cluster(change) => Ok(self.known.take(change?)),
            News::Sandboxes(sandboxes) => {
                self.silence(None);
                self.visit(&sandboxes);
                self.sandboxes = Some(sandboxes);
                Ok(true)
            }
            News::Silence(why) if self.extent != Extent::Forever => Err(AgentError::Pods(vec![why])),
            News::Silence(why) => {
                self.silence(Some(why));
                Ok(false)
            }
            News::Denied(told) => {
                denied::tell(&told, &self.places, &self.networks, &self.metrics);
                Ok(false)
            }
            News::Drifted(drifted) => {
                for (sandbox, change) in drifted {
                    if let Some(place) = self.places.get_mut(&sandbox) {
                        place.drifted(change);
                    }
                }
                Ok(false)
            }
            News::Asked(Asked { question, reply }) => {
                // Who has stopped waiting needs no answer.
                let _ = reply.send(self.is_known().then(|| self.scenes(&question)));
                Ok(false)
            }
            News::End => Ok(false),
        }
    }

    /// Notes why the runtime does not answer, or that it does.
    fn silence(&self, why: Option<String>) {
        let mut status = self.shared.lock();
        let pods = status.pods.get_or_insert_default();
        match &why {
            Some(why) if pods.runtime.is_none() => tracing::error!("{why}; pods that are new have no rules"),
            None if pods.runtime.is_some() => tracing::info!("the container runtime answers again"),
            _ => {}
        }
        pods.runtime = why;
    }

    /// Leaves sandboxes that are gone, and comes to those that are new.
    fn visit(&mut self, sandboxes: &Sandboxes) {
        let mut before = std::mem::take(&mut self.places);
        for (sandbox, found) in sandboxes {
            let Found::Namespace(namespace) = found else {
                continue;
            };
            let known = before.remove(&sandbox.id).filter(|place| place.is(namespace));
            let place = known.unwrap_or_else(|| {
                Place::new(
                    sandbox.clone(),
                    Arc::clone(namespace),
                    self.settings.hold,
                    self.settings.portion,
                )
            });
            self.places.insert(sandbox.id.clone(), place);
        }
    }

    /// Works out what is to be in force in each sandbox because of what was heard.
    fn want(&mut self, heard: Instant) {
        let began = Instant::now();
        let snapshot = self.known.store.snapshot();
        let pods: BTreeMap<_, _> = self
            .known
            .pods_here(&snapshot)
            .map(|pod| (pod.object.uid.as_str(), pod))
            .collect();
        let all: Vec<_> = pods.values().copied().collect();
        let custom = self.custom.rules();
        let touched = std::mem::take(&mut self.known.touched);
        self.networks
            .update(&snapshot, &touched, &all, &self.known.plugins, custom);
        self.troubles.unpoliced(self.networks.unpoliced());
        self.networks.read_in(self.known.remarks.readings.saying());
        let places = self.places.values_mut();
        let known = places.filter_map(|place| match pod_of(&place.sandbox, &pods) {
            Some(pod) => Some((pod, place)),
            None => {
                place.leave();
                None
            }
        });
        let follow = |(pod, place): (&Arc<Pod>, &mut Place)| {
            place.follow(pod, &self.networks);
            place.heard(heard);
        };
        // It takes no time to see that nothing has changed.
        let (current, others): (Vec<_>, Vec<_>) =
            known.partition(|(pod, place)| place.follows(pod, &self.networks));
        at_once(others, follow);
        current.into_iter().for_each(follow);
        let unknown = self.sandboxes.iter().flatten();
        let unknown = unknown.filter(|(_, found)| matches!(found, Found::Asked | Found::Unknown(_)));
        self.unreached = unknown
            .filter_map(|(sandbox, _)| {
                let pod = pod_of(sandbox, &pods)?;
                let desired = self.networks.desired(pod, &Substitutes::new(), None);
                (!desired.policies.is_empty()).then(|| (sandbox.id.clone(), desired.policies))
            })
            .collect();
        self.pods = all.len();
        let restricted = self.places.values().filter_map(Place::counted).collect();
        self.drops.now_of(restricted);
        Metrics::took(&self.metrics.rendering, began.elapsed());
    }

    /// Finds out whether this seems to be another node than it is said to be.
    fn locate(&mut self) {
        let snapshot = self.known.store.snapshot();
        let elsewhere = elsewhere(self.places.values(), &snapshot, &self.settings.node);
        if let Some(why) = elsewhere.as_ref().filter(|_| self.elsewhere.is_none()) {
            tracing::error!("{why}");
        }
        self.elsewhere = elsewhere;
    }

    /// Makes the rules of all sandboxes what they should be; those that are only when it is time to look, or when others have
    /// changed them.
    fn make(&mut self, now: Instant, is_tick: bool) {
        let round = Round {
            networks: &self.networks,
            unknown: self.custom.never_right(),
            metrics: &self.metrics,
            cutting: self.cutting.as_ref(),
        };
        round.make(&mut self.places, |place| {
            let is_due = is_tick || !place.is_settled() || place.has_drifted();
            if is_due && let Some(watcher) = &self.watcher {
                place.watch(watcher);
            }
            // Before there is something to hear.
            if is_due && let Some(listener) = &self.listener {
                place.listen(listener, now);
            }
            is_due
        });
        self.is_searching = round.search(&mut self.places);
    }

    /// How it goes in all sandboxes of which there is something to say.
    fn statuses(&self) -> Vec<(Sandbox, SandboxStatus)> {
        let readings = &self.known.remarks.readings;
        let places = self.places.values();
        let known = places.filter_map(|place| Some((place.sandbox.clone(), place.status(readings)?)));
        let unknown = self.sandboxes.iter().flatten();
        let unknown = unknown.filter_map(|(sandbox, found)| match found {
            Found::Unknown(why) => Some((sandbox.clone(), self.unreached(sandbox, Some(why)))),
            Found::Asked if self.unreached.contains_key(&sandbox.id) => {
                Some((sandbox.clone(), self.unreached(sandbox, None)))
            }
            Found::Namespace(_) | Found::Host | Found::Asked => None,
        });
        known.chain(unknown).collect()
    }

    /// How it goes in a sandbox that cannot be entered.
    fn unreached(&self, sandbox: &Sandbox, why: Option<&String>) -> SandboxStatus {
        SandboxStatus {
            pod: format!("{}/{}", sandbox.namespace, sandbox.name),
            sandbox: sandbox.id.to_string(),
            waiting: names(self.unreached.get(&sandbox.id).map_or(&[], Vec::as_slice)),
            trouble: why.cloned(),
            ..SandboxStatus::default()
        }
    }

    /// Says how it goes.
    fn tell(&mut self) {
        let mut all = self.statuses();
        let remains = |sandbox: &Sandbox| {
            let place = self.places.get(&sandbox.id);
            place.is_some_and(Place::is_searching)
        };
        self.troubles.now(
            all.iter_mut().map(|(sandbox, status)| (&*sandbox, status)),
            remains,
        );
        let mut sandboxes: Vec<_> = all.into_iter().map(|(_, status)| status).collect();
        sandboxes.sort();
        let objects: Objects = self.places.values().map(Place::objects).sum();
        objects.show(&self.metrics);
        let restricted = sandboxes.iter().filter(|sandbox| !sandbox.policies.is_empty());
        let restricted = restricted.count();
        let read = self.newly_read();
        let mut status = self.shared.lock();
        status.ready |= self.is_ready();
        status.findings = self.known.remarks.findings();
        let pods = status.pods.get_or_insert_default();
        if self.is_known() {
            pods.known = true;
            pods.versions.clone_from(&self.known.remarks.versions);
        }
        if let Some(read) = read {
            pods.read = read;
        }
        pods.unreadable = self.known.remarks.readings.unreadable();
        pods.custom_rules = self.custom.troubles();
        pods.notes = self.networks.notes().to_vec();
        pods.notes.extend(self.elsewhere.clone());
        pods.pods = Pods {
            all: self.pods,
            restricted,
        };
        pods.sandboxes = sandboxes;
        if pods.known && pods.is_well() {
            pods.current = Some(Timestamp::now());
        }
    }

    /// In which versions policies were read last, unless that is as it was.
    fn newly_read(&mut self) -> Option<BTreeMap<String, ObjectVersion>> {
        let readings = &mut self.known.remarks.readings;
        if readings.take_news().is_empty() {
            return None;
        }
        let last = readings.last();
        Some(
            last.map(|(policy, version)| (policy.to_string(), version.clone()))
                .collect(),
        )
    }

    /// What is known of the ends of a question on each network that may be meant.
    fn scenes(&self, question: &TraceQuestion) -> Vec<Scene> {
        let mut scenes = self.networks.scenes(question);
        for scene in &mut scenes {
            let places = self.places.values();
            scene.here = places
                .flat_map(|place| place.ends(scene, &self.networks))
                .collect();
        }
        scenes
    }

    /// Does what was asked for the cluster as it is now.
    fn finish(&mut self) -> Result<Ended, AgentError> {
        if let Some(why) = self.elsewhere.take() {
            return Err(AgentError::Pods(vec![why]));
        }
        if self.extent == Extent::DryRun {
            let mut plan = String::new();
            for place in self.places.values_mut() {
                let commands = place.plan();
                let commands =
                    commands.map_err(|error| AgentError::Pods(vec![format!("{}: {error}", place.pod())]))?;
                if !commands.is_empty() {
                    plan.push_str(&format!(
                        "# pod {}, sandbox {}\n{commands}",
                        place.pod(),
                        place.sandbox.id
                    ));
                }
            }
            return Ok(Ended::Plan(plan));
        }
        self.make(Instant::now(), true);
        while self.is_searching {
            self.make(Instant::now(), false);
        }
        if let Some(cutting) = self.cutting.take() {
            cutting.finish();
        }
        self.tell();
        let status = self.shared.lock().pods.clone().unwrap_or_default();
        if status.is_done() {
            return Ok(Ended::Done);
        }
        let troubles = status.sandboxes.into_iter();
        let troubles = troubles.filter_map(|sandbox| Some(format!("{}: {}", sandbox.pod, sandbox.trouble?)));
        Err(AgentError::Pods(troubles.chain(status.runtime).collect()))
    }
}

/// The netlink group to which rules are to log what policies drop, if the kernel knows such rules.
fn log_denied(settings: &Settings) -> Option<u16> {
    let group = settings.log_denied?;
    match denied::is_possible(group) {
        Ok(()) => Some(group),
        Err(error) => {
            tracing::warn!(%error, "denied connections are not logged");
            None
        }
    }
}

/// Whether the cluster has the pods of these sandboxes on another node than this, as far as it has them: an example, in words.
fn elsewhere<'p>(
    mut places: impl Iterator<Item = &'p Place> + Clone,
    snapshot: &Snapshot,
    node: &str,
) -> Option<String> {
    if places.clone().any(|place| place.of().is_some()) {
        return None;
    }
    places.find_map(|place| {
        let Sandbox { namespace, name, .. } = &place.sandbox;
        // Of pods of other nodes no uid is known.
        let pod = snapshot.pods.get(&ObjectRef::new("Pod", namespace, name))?;
        let other = pod.node.as_deref().filter(|other| *other != node)?;
        Some(format!(
            "pod {namespace}/{name} runs here, and the cluster has it on node `{other}`: is `{node}` the name of this node \
             (`--hostname-override`, or `NODE_NAME`)?"
        ))
    })
}

/// The pod of a sandbox. The runtime knows static pods by another uid than the API server does. Any other pod of the same name is
/// another: that of the sandbox was deleted while this still runs.
fn pod_of<'s>(sandbox: &Sandbox, pods: &BTreeMap<&str, &'s Arc<Pod>>) -> Option<&'s Arc<Pod>> {
    let is_static = |pod: &&&Arc<Pod>| {
        pod.static_uid() == Some(sandbox.pod_uid.as_str())
            && pod.object.namespace == sandbox.namespace
            && pod.object.name == sandbox.name
    };
    let known = pods.get(sandbox.pod_uid.as_str());
    known.or_else(|| pods.values().find(is_static)).copied()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::thread;

    use super::*;
    use crate::testing::settings;

    #[test]
    fn an_agent_that_hears_nothing_comes_round_all_the_same() {
        let pods = PodSettings {
            endpoint: String::new(),
            prefix: "".into(),
            custom: Vec::new(),
            plugins: Vec::new(),
        };
        let agent = Agent::new(&settings(), &pods, &Health::default(), Extent::Forever).unwrap();
        let pulse = Pulse::of_busy();
        let agent = Agent {
            pulse: pulse.clone(),
            ..agent
        };
        let (outbox, inbox) = sync_channel(1);
        let running = thread::spawn(move || agent.run(&inbox));
        for _ in 0..2 {
            pulse.forget();
            while !pulse.beats() {
                thread::yield_now();
            }
        }
        outbox.send(News::End).unwrap();
        assert_eq!(running.join().unwrap().unwrap(), Ended::Stopped);
    }
}
