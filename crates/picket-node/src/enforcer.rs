//! Makes the table what the policies say, and tells how that went.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use jiff::Timestamp;
use picket_engine::{Delta, Program};
use picket_nftables::client::{self, Change, SyncError};
use picket_nftables::model::InterfaceName;
use picket_nftables::verify::Report;
use picket_policy::{Direction, ObjectRef};

use crate::blame::Search;
use crate::cut::Cutting;
use crate::denied::{self, Denied, Told};
use crate::drops::Drops;
use crate::error::HostError;
use crate::events::{Events, Reason};
use crate::host::{Found, Host, Made, Observation, Proof};
use crate::knowledge::Knowledge;
use crate::metrics::Metrics;
use crate::objects::Objects;
use crate::retry::Retry;
use crate::status::{self, Pods, Shared, Trouble};
use crate::vpp::Versions;

/// Makes the table of the node what the policies say.
pub(crate) struct Enforcer {
    host: Host,
    /// Who cuts what a change denies, if anybody is to.
    cutting: Option<Cutting>,
    shared: Shared,
    metrics: Metrics,
    drops: Drops,
    events: Events,
    /// When the first change was heard that is not in force yet.
    heard: Option<Instant>,
    /// The policies that changed since the table was last what they say.
    waiting: BTreeSet<ObjectRef>,
    /// Of which of them there are Events.
    told: BTreeSet<ObjectRef>,
    retry: Option<Retry>,
    /// Whether there was a table before this agent, and nobody has been told yet what is in force.
    found: bool,
    /// What is held back, and why.
    held: BTreeMap<ObjectRef, String>,
    /// The policies that stand in the place of others, or shut pods.
    instead: Vec<ObjectRef>,
    /// Which of them are not to blame may not be known yet.
    pub(crate) search: Search,
    /// When to try again to have them in force.
    retry_held: Option<Retry>,
}

impl Enforcer {
    pub(crate) fn new(
        mut host: Host,
        cutting: Option<Cutting>,
        drops: Drops,
        shared: Shared,
        metrics: Metrics,
        events: Events,
    ) -> Self {
        Self {
            found: host.exists(),
            host,
            cutting,
            shared,
            metrics,
            drops,
            events,
            heard: None,
            waiting: BTreeSet::new(),
            told: BTreeSet::new(),
            retry: None,
            held: BTreeMap::new(),
            instead: Vec::new(),
            search: Search::default(),
            retry_held: None,
        }
    }

    /// When to make the table again although nothing has changed.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        if self.goes_on() {
            return Some(Instant::now());
        }
        let retries = [self.retry, self.retry_held].into_iter().flatten();
        retries.map(|retry| retry.at).min()
    }

    /// Whether there is more to be tried to find out who is to blame, which needs no waiting.
    pub(crate) fn goes_on(&self) -> bool {
        !self.search.is_over() && self.retry.is_none()
    }

    /// Whether it is time to try those again that are held back. If so none is held back any more.
    pub(crate) fn retries_held(&mut self) -> bool {
        let is_due = self.retry_held.is_some_and(|retry| retry.at <= Instant::now());
        let is_due = is_due && self.search.is_over();
        if is_due {
            self.waiting.extend(self.held.keys().cloned());
            self.held.clear();
            self.search = Search::default();
        }
        is_due
    }

    /// Objects are held back, because a table with all of them was refused. Which are to blame is still to be found out.
    pub(crate) fn suspect(&mut self, objects: &[ObjectRef], error: &HostError) {
        let held = objects.iter().map(|object| (object.clone(), error.to_string()));
        self.held.extend(held);
    }

    /// An object is held back, because a table with it was refused.
    pub(crate) fn hold(&mut self, object: &ObjectRef, error: &HostError) {
        self.metrics.failed(error.reason());
        tracing::error!(%object, %error, "not in force as it is now, everything else is");
        self.held.insert(object.clone(), error.to_string());
    }

    /// Everything up to these versions is in force but what is held back.
    pub(crate) fn settle(&mut self, knowledge: &mut Knowledge) {
        let held = knowledge.held();
        self.held.retain(|policy, _| held.contains(policy));
        self.instead = knowledge.instead();
        self.settled(&knowledge.remarks.versions);
        self.tell_versions(knowledge);
        self.tell_current();
    }

    fn settled(&mut self, versions: &Versions) {
        let is_instead = |name: &String| self.instead.iter().any(|policy| policy.to_string() == *name);
        self.shared
            .lock()
            .host
            .policies
            .retain(|policy| !is_instead(policy));
        if self.held.is_empty() {
            self.told.clear();
            self.retry_held = None;
            let mut status = self.shared.lock();
            status.host.trouble = None;
            // Perhaps nothing is heard from now on that would be a reason to tell.
            status.host.versions.clone_from(versions);
            return;
        }
        if self.search.is_over() && self.retry_held.is_none_or(|retry| retry.at <= Instant::now()) {
            self.retry_held = Some(Retry::after(self.retry_held, Instant::now()));
        }
        let whys: BTreeSet<_> = self.held.values().map(String::as_str).collect();
        let why = whys.into_iter().collect::<Vec<_>>().join("; ");
        self.trouble(why, &self.held.keys().cloned().collect());
    }

    /// The name of the node.
    pub(crate) fn node(&self) -> &str {
        self.host.node()
    }

    /// Whether the policies have been in force once.
    pub(crate) fn is_ready(&self) -> bool {
        self.shared.lock().ready
    }

    /// Learns what changed in the program.
    pub(crate) fn note(&mut self, delta: &Delta) {
        self.host.note(delta);
    }

    /// Something changed that has to be enforced.
    pub(crate) fn heard(&mut self, at: Instant, policies: Vec<ObjectRef>) {
        self.heard.get_or_insert(at);
        self.waiting.extend(policies);
    }

    /// Says up to where changes of objects are in force if nothing waits, and in which versions policies are.
    pub(crate) fn tell(&mut self, knowledge: &mut Knowledge) {
        self.tell_versions(knowledge);
        let mut status = self.shared.lock();
        if status.ready && status.host.trouble.is_none() {
            status.host.versions.clone_from(&knowledge.remarks.versions);
        }
        drop(status);
        self.tell_current();
    }

    /// The table is what all policies say, unless some wait or cannot be read.
    fn tell_current(&self) {
        let is_read = self.shared.enforced().is_current();
        let host = &mut self.shared.lock().host;
        if host.ready && host.trouble.is_none() && is_read {
            host.current = Some(Timestamp::now());
        }
    }

    fn tell_versions(&mut self, knowledge: &mut Knowledge) {
        let (ready, trouble) = {
            let status = self.shared.lock();
            let trouble = status.host.trouble.as_ref().map(|trouble| trouble.why.clone());
            (status.ready, trouble)
        };
        if !ready && trouble.is_none() {
            return;
        }
        let why = || {
            trouble
                .clone()
                .unwrap_or_else(|| "it is not in force yet".to_owned())
        };
        let waits = |policy: &ObjectRef| match self.held.get(policy) {
            Some(held) => Some(held.clone()),
            None => (!ready || self.waiting.contains(policy)).then(why),
        };
        let now = (!self.found).then(Timestamp::now);
        let mut enforced = self.shared.enforced();
        enforced.update(&mut knowledge.remarks.readings, now, waits);
        drop(enforced);
        self.found &= !ready;
    }

    /// Logs which packets were denied.
    pub(crate) fn tell_denied(&self, told: &Told<Denied>, program: Option<&Program>) {
        denied::tell(told, program, self.host.node());
        self.metrics.unlogged.inc_by(told.unlisted + told.losses);
    }

    /// Until there are policies: forwards nothing new from or to pods that rules from before do not know, and without such
    /// rules nothing new at all.
    pub(crate) fn close(&mut self) -> Result<(), HostError> {
        match self.host.close()? {
            Found::Nothing => {
                tracing::info!("nothing new is forwarded until the policies are known");
                self.shared.lock().host.closed = true;
            }
            Found::Rules => {
                tracing::info!(
                    "the rules from before hold until the policies are known, and pods that these do not know begin nothing"
                );
                self.shared.lock().host.shuts_out_unknown = true;
            }
        }
        Ok(())
    }

    /// From now on these interfaces lead away from the node.
    pub(crate) fn reroute(&mut self, uplinks: BTreeSet<InterfaceName>) {
        let names: Vec<_> = uplinks.iter().map(InterfaceName::as_str).collect();
        tracing::info!(interfaces = ?names, "interfaces that lead to others than pods of this node");
        // Whatever is to be tried again still is.
        if let Err(error) = self.host.reroute(uplinks) {
            self.failed(&error);
        }
    }

    /// The change since which packets may be judged by two tables, unless they are kept from that: which one it is among all.
    pub(crate) fn changing(&self) -> Option<u64> {
        self.host.changing()
    }

    /// Ends that they are kept from it, which waits until none from before that change is on its way any more; whether that was done.
    pub(crate) fn calm(&mut self) -> bool {
        match self.host.calm() {
            Ok(report) if report.was_another || !report.foreign.is_empty() => {
                tell_foreign(&report);
                self.metrics.changed(report.operations);
                self.repaired(&[Change::Perhaps]);
                true
            }
            Ok(_) => true,
            Err(error) => {
                tracing::debug!(%error, "sources of packets are judged twice for a while");
                false
            }
        }
    }

    /// Sees to it that the kernel has the table that it is to have as long as nothing is known of the policies.
    pub(crate) fn keep(&mut self) {
        match self.host.repair() {
            Ok(report) => {
                self.metrics.changed(report.operations);
                self.retry = None;
                self.shared.lock().host.trouble = None;
            }
            Err(error) => self.failed(&error.into()),
        }
    }

    /// Makes the table what the policies say. If that fails what was in force stays; somebody has to be told.
    ///
    /// # Errors
    /// When it fails.
    pub(crate) fn attempt(&mut self, program: &Program) -> Result<(), HostError> {
        if let Some(cutting) = &self.cutting {
            cutting.begins();
        }
        self.keep_counts();
        let made = self.host.make(program);
        if let Some(cutting) = &self.cutting {
            let change = made.as_ref().ok().map(|made| &made.change);
            cutting.ended(change.filter(|change| !change.is_nothing()).cloned());
        }
        let made = made?;
        // Others had changed it, of whom nobody has heard yet.
        if made.report.was_another || (made.change.is_nothing() && made.report.operations > 0) {
            self.repaired(&[Change::Perhaps]);
        }
        self.made(program, &made);
        Ok(())
    }

    /// Remembers what was counted until the policies were known: the rules that counted go then.
    fn keep_counts(&self) {
        if !self.is_ready()
            && let Err(error) = self.drops.read()
        {
            tracing::debug!(%error, "the counters cannot be read");
        }
    }

    fn made(&mut self, program: &Program, made: &Made) {
        let report = &made.report;
        tell_foreign(report);
        tracing::info!(
            operations = report.operations,
            rendering = ?made.rendering,
            writing = ?made.writing,
            "the policies are in force"
        );
        Metrics::took(&self.metrics.rendering, made.rendering);
        Metrics::took(&self.metrics.writing, made.writing);
        if let Some(heard) = self.heard.take() {
            Metrics::took(&self.metrics.latency, heard.elapsed());
        }
        self.metrics.changed(report.operations);
        if let Some(table) = self.host.table() {
            Objects::of(table).show(&self.metrics);
        }
        self.retry = None;
        self.waiting.clear();
        let mut status = self.shared.lock();
        let now = Timestamp::now();
        status.ready = true;
        let host = &mut status.host;
        (host.ready, host.closed, host.shuts_out_unknown) = (true, false, false);
        if report.operations > 0 {
            host.changed = Some(now);
        }
        let (pods, policies) = in_force(program, self.host.node());
        host.pods = pods;
        host.policies = policies.iter().map(ObjectRef::to_string).collect();
        self.drops.now_of(policies);
    }

    /// The table is not what the policies say, and is to be tried again.
    pub(crate) fn failed(&mut self, error: &HostError) {
        self.metrics.failed(error.reason());
        let waiting: Vec<_> = self.waiting.iter().map(ObjectRef::to_string).collect();
        tracing::error!(%error, ?waiting, "the policies are not in force, what was in force stays");
        self.retry = Some(Retry::after(self.retry, Instant::now()));
        self.trouble(error.to_string(), &self.waiting.clone());
    }

    /// Says that policies are not in force.
    fn trouble(&mut self, why: String, policies: &BTreeSet<ObjectRef>) {
        let mut status = self.shared.lock();
        let before = status.host.trouble.take();
        let since = before.map_or_else(Timestamp::now, |trouble| trouble.since);
        if Events::matters(since) {
            for policy in policies.difference(&self.told) {
                self.events.tell(policy, Reason::NotInForce, &why);
            }
            self.told.clone_from(policies);
        }
        let waiting = policies.iter().map(ObjectRef::to_string).collect();
        status.host.trouble = Some(Trouble { since, why, waiting });
    }

    /// Makes the table again what it last was: others have changed it.
    pub(crate) fn repair(&mut self, changes: &[Change]) {
        match self.host.repair() {
            Ok(report) if report.operations > 0 => {
                self.metrics.changed(report.operations);
                self.repaired(changes);
            }
            Ok(_) => {}
            Err(error) => self.failed(&error.into()),
        }
    }

    /// The table is again what it is to be, and was another: cuts what began meanwhile and is denied, and says who changed it.
    fn repaired(&self, changes: &[Change]) {
        if let Some(cutting) = &self.cutting {
            cutting.again();
        }
        for change in changes {
            match change {
                Change::By { thread, program } => {
                    tracing::warn!(thread, program, "others changed the table; it is repaired");
                }
                Change::Perhaps => tracing::warn!("the table was changed; it is repaired"),
            }
        }
        self.metrics.repaired.inc();
        let mut status = self.shared.lock();
        status.host.repaired += 1;
        status.host.changed = Some(Timestamp::now());
    }

    /// What the kernel has, to be held against the policies.
    pub(crate) fn observe(&mut self) -> Option<Observation> {
        match self.host.observe() {
            Ok(observation) => Some(observation),
            Err(error) => {
                self.failed(&SyncError::from(error).into());
                None
            }
        }
    }

    /// Tells how a proof went, and makes the table anew where it does not mean what the policies say.
    pub(crate) fn proved(&mut self, proof: Proof, program: &Program, versions: &Versions) {
        self.metrics.proved(&proof.outcome, proof.took);
        if proof.outcome.as_ref().is_ok_and(Report::is_open) {
            return tracing::warn!(
                took = ?proof.took,
                "the proof that the rules mean what the policies say was given up, since it took too long; the rules stay"
            );
        }
        let proved = proof.outcome.as_ref().is_ok_and(Report::is_proof);
        self.shared.lock().host.proof = Some(status::Proof {
            when: Timestamp::now(),
            proved,
            milliseconds: u64::try_from(proof.took.as_millis()).unwrap_or(u64::MAX),
        });
        if proved {
            return self.tell_current();
        }
        match proof.outcome {
            Ok(report) => tracing::error!(
                packets = ?report.counterexamples,
                "the rules do not mean what the policies say; they are made anew"
            ),
            Err(error) => tracing::error!(%error, "the proof itself is wrong"),
        }
        self.host.forget();
        match self.attempt(program) {
            Ok(()) => {
                self.settled(versions);
                self.tell_current();
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Waits until connections that are denied have been cut.
    pub(crate) fn finish_cutting(&mut self) {
        if let Some(cutting) = self.cutting.take() {
            cutting.finish();
        }
    }

    /// What would be done, as nft commands.
    pub(crate) fn plan(&mut self, program: &Program) -> Result<String, HostError> {
        self.host.plan(program)
    }
}

/// Tells what others had put into the table.
fn tell_foreign(report: &client::Report) {
    for foreign in &report.foreign {
        tracing::warn!(%foreign, "others had put something into the table, which is gone");
    }
}

/// The pods of a node, and the policies because of which packets of theirs can be dropped.
pub(crate) fn in_force(program: &Program, node: &str) -> (Pods, Vec<ObjectRef>) {
    let mut pods = Pods::default();
    let mut subjects = BTreeSet::new();
    for pod in program.pods_on(node) {
        if !pod.is_managed() {
            continue;
        }
        let own = Direction::BOTH.map(|direction| pod.subject(direction));
        pods.all += 1;
        pods.restricted += usize::from(own.iter().any(Option::is_some));
        subjects.extend(own.into_iter().flatten());
    }
    let policies = subjects
        .into_iter()
        .flat_map(|subject| program.deciding_policies(subject));
    let policies: BTreeSet<_> = policies.map(|policy| &policy.object).collect();
    (pods, policies.into_iter().cloned().collect())
}

#[cfg(test)]
mod kernel {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use picket_cluster::{Event, Object};
    use picket_linux::NetworkNamespace;
    use picket_net::Protocol;
    use picket_nftables::client::Client;
    use picket_nftables::model::{Draft, Name};
    use picket_nftables::render::indexed::{Guard, closed};
    use picket_policy::Policy;
    use picket_testing::build::{accept, policy};
    use picket_testing::confined::where_sockets_are_small;

    use crate::testing::{Log, Node, large};

    #[test]
    fn rules_are_current_when_a_proof_says_so_but_not_while_a_policy_is_held_back_or_unreadable() {
        let test = concat!(
            module_path!(),
            "::rules_are_current_when_a_proof_says_so_but_not_while_a_policy_is_held_back_or_unreadable"
        );
        where_sockets_are_small(test, || {
            let small = policy("x/a").build();
            let mut node = Node::new([small.clone(), large("x/b")]);
            let mut last = None;
            let mut expect = |node: &mut Node, is_current, what: &str| {
                for _ in 0..2 {
                    node.prove();
                    let host = node.shared.status().host;
                    assert!(host.ready && host.proof.unwrap().proved, "{what}");
                    assert_eq!(host.current > last, is_current, "{what}");
                    last = host.current;
                }
            };
            expect(&mut node, false, "one is held back");
            node.hear(vec![Event::Delete(large("x/b").object)]);
            expect(&mut node, true, "none is");
            node.read(&small.object, Some(1));
            node.hear(vec![Event::Apply(Object::Policy(small.clone()))]);
            expect(&mut node, true, "it was read");
            node.read(&small.object, Some(2));
            node.enforcer.tell(&mut node.knowledge);
            expect(&mut node, false, "what was read last cannot be");
            node.read(&small.object, None);
            node.hear(vec![Event::Delete(small.object.clone())]);
            expect(&mut node, true, "it is gone");
        });
    }

    /// Policies that allow a port each.
    fn two() -> [Policy; 2] {
        [("x/a", 1), ("x/b", 2)]
            .map(|(name, port)| policy(name).ingress(accept().port(Protocol::TCP, port)).build())
    }

    #[test]
    fn a_table_that_a_proof_refutes_is_made_anew() {
        let namespace = NetworkNamespace::create().unwrap();
        let proving = || {
            let [a, b] = two();
            let wider = Node::new([a.clone(), b]).table();
            let mut node = Node::new([a]);
            let right = node.table();
            assert_ne!(wider, right);
            let prove = |node: &mut Node| Log::of(|| node.prove());
            assert_eq!(prove(&mut node), [""; 0]);
            // Nobody hears of it.
            Client::open(&node.namespace)
                .unwrap()
                .sync(&Arc::new(wider))
                .unwrap();
            let log = prove(&mut node);
            assert!(
                log[0].starts_with("ERROR the rules do not mean what the policies say; they are made anew"),
                "{log:#?}"
            );
            assert!(!node.shared.status().host.proof.unwrap().proved);
            assert_eq!(node.table(), right);
            assert_eq!(prove(&mut node), [""; 0]);
            assert!(node.shared.status().host.proof.unwrap().proved);
            for (outcome, count) in [("proved", 2), ("refuted", 1)] {
                let line = format!("picket_verifications_total{{outcome=\"{outcome}\"}} {count}");
                assert!(node.metrics().contains(&line), "{:#?}", node.metrics());
            }
        };
        namespace.run(proving).unwrap();
    }

    #[test]
    fn what_others_did_is_told_whoever_is_heard_first() {
        let namespace = NetworkNamespace::create().unwrap();
        let changing = || {
            let [a, b] = two();
            let mut node = Node::new([a]);
            let mut other = Client::open(&node.namespace).unwrap();
            let (table, own) = (node.table(), Arc::new(closed(&Guard::default()).unwrap()));
            let draft = Draft::new(Name::new("other").unwrap());
            let apply = |policy: &Policy| vec![Event::Apply(Object::Policy(policy.clone()))];
            let hear = |node: &mut Node, events: Vec<Event>, told: &[&str]| {
                let log = Log::of(|| node.hear(events));
                let warnings: Vec<_> = log.iter().filter(|line| line.starts_with("WARN")).collect();
                assert_eq!(warnings.len(), told.len(), "{log:#?}");
                for (line, part) in warnings.iter().zip(told) {
                    assert!(line.contains(part), "{log:#?}");
                }
            };
            // Tables of others concern nobody.
            other.sync(&Arc::new(draft.check().unwrap())).unwrap();
            hear(&mut node, apply(&b), &[]);
            assert_eq!(node.shared.status().host.repaired, 0);
            const CHANGED: &str = "the table was changed; it is repaired";
            other.sync(&own).unwrap();
            hear(&mut node, apply(&b), &[CHANGED]);
            assert!(other.remove(table.name()).unwrap());
            hear(&mut node, vec![Event::Delete(b.object)], &[CHANGED]);
            assert_eq!(node.shared.status().host.repaired, 2);
            assert_eq!(node.table(), table);
        };
        namespace.run(changing).unwrap();
    }

    #[test]
    fn since_when_what_was_there_before_is_in_force_nobody_knows() {
        let namespace = NetworkNamespace::create().unwrap();
        let asking = || {
            let [a, b] = two();
            let hear = |node: &mut Node, policy: &Policy| {
                node.read(&policy.object, Some(1));
                node.hear(vec![Event::Apply(Object::Policy(policy.clone()))]);
                node.enforcer.tell(&mut node.knowledge);
                let host = node.shared.status().host;
                let since = host.policy_versions.iter().map(|one| one.since.is_some());
                (host.changed.is_some(), since.collect::<Vec<_>>())
            };
            let mut first = Node::before([a.clone()]);
            assert_eq!(hear(&mut first, &a), (true, vec![true]));
            let mut second = Node::before([a.clone()]);
            assert_eq!(hear(&mut second, &a), (false, vec![false]));
            assert_eq!(hear(&mut second, &b), (true, vec![false, true]));
        };
        namespace.run(asking).unwrap();
    }

    #[test]
    fn what_failed_is_tried_again_whatever_interfaces_lead_away_meanwhile() {
        let namespace = NetworkNamespace::create().unwrap();
        let failing = || {
            let mut thief = Client::open(&NetworkNamespace::current().unwrap())
                .unwrap()
                .holding();
            let other = closed(&Guard::default()).unwrap();
            thief.sync(&Arc::new(other)).unwrap();
            let policy = policy("x/a").ingress(accept().port(Protocol::TCP, 1)).build();
            let mut node = Node::new([policy]);
            let waits = |node: &Node| {
                let trouble = node.shared.status().host.trouble;
                (node.enforcer.retry_at().is_some(), trouble.is_some())
            };
            assert_eq!(waits(&node), (true, true));
            node.enforcer.reroute(BTreeSet::new());
            assert_eq!(waits(&node), (true, true));
            drop(thief);
            node.hear(Vec::new());
            assert_eq!(waits(&node), (false, false));
        };
        namespace.run(failing).unwrap();
    }
}
