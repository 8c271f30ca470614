//! The rules in one sandbox.

mod blaming;
mod telling;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use jiff::Timestamp;
use picket_cluster::Pod;
use picket_dataplane::Plan;
use picket_linux::NetworkNamespace;
use picket_linux::runtime::{Sandbox, SandboxId};
use picket_nftables::client::{Change, Client, Observed, SyncError};
use picket_nftables::diff::Operation;
use picket_nftables::model::Table;
use picket_nftables::render::documented;
use picket_nftables::verify::Report;
use picket_policy::ObjectRef;

use crate::error::reason;
use crate::metrics::Metrics;
use crate::objects::Objects;
use crate::pods::blame::Search;
use crate::pods::cutting::Order;
use crate::pods::denied::{Listener, Logging};
use crate::pods::desired::Desired;
use crate::pods::drift::{Watcher, Watching};
use crate::pods::drops;
use crate::pods::held::Held;
use crate::pods::in_force::InForce;
use crate::pods::network::Networks;
use crate::pods::proof;
use crate::retry::Retry;

pub(in crate::pods) use telling::names;

/// A sandbox, its namespace, and what is in force there.
pub(in crate::pods) struct Place {
    pub(in crate::pods) sandbox: Sandbox,
    namespace: Arc<NetworkNamespace>,
    /// Its rulesets, once they have been opened.
    client: Option<Client>,
    /// Whether others are kept from changing the table.
    hold: bool,
    /// How much one transaction makes at most.
    portion: usize,
    /// What is to be in force, once that is known, and in which pod.
    desired: Option<Desired>,
    of: Option<Arc<Pod>>,
    /// For which [`Networks::revision`] that was worked out.
    revision: Option<u64>,
    /// Whether that has been in force since it was last changed.
    settled: bool,
    /// Whether anything that was to be in force ever was.
    was_made: bool,
    in_force: Option<InForce>,
    held: Held,
    /// Who of them is to blame, as far as that is not known yet.
    pub(in crate::pods) search: Search,
    /// Why rules from before this agent stay, if they do.
    kept: Option<String>,
    /// When the first change was heard that is not in force yet.
    heard: Option<Instant>,
    changed: Option<Timestamp>,
    repaired: u64,
    failure: Option<Failure>,
    /// How many changes of its table have begun and not come to nothing.
    begun: Arc<AtomicU64>,
    log: Logging,
    watching: Watching,
    /// Who has changed the table, or may have, since it was looked at.
    drifted: Option<Change>,
    /// Whether its pod is gone: what is to be in force stays.
    is_left: bool,
}

struct Failure {
    why: String,
    waiting: Vec<ObjectRef>,
    retry: Retry,
}

impl Place {
    /// A sandbox of which nothing is known yet. Whether others are kept from changing its table is up to `hold`, and how much one
    /// transaction makes at most is up to `portion`.
    pub(in crate::pods) fn new(
        sandbox: Sandbox,
        namespace: Arc<NetworkNamespace>,
        hold: bool,
        portion: usize,
    ) -> Self {
        Self {
            sandbox,
            namespace,
            client: None,
            hold,
            portion,
            desired: None,
            of: None,
            revision: None,
            settled: false,
            was_made: false,
            in_force: None,
            held: Held::default(),
            search: Search::default(),
            kept: None,
            heard: None,
            changed: None,
            repaired: 0,
            failure: None,
            begun: Arc::default(),
            log: Logging::default(),
            watching: Watching::default(),
            drifted: None,
            is_left: false,
        }
    }

    /// Whether this is the same sandbox in the same namespace.
    pub(in crate::pods) fn is(&self, namespace: &Arc<NetworkNamespace>) -> bool {
        Arc::ptr_eq(&self.namespace, namespace)
    }

    /// Whether what is to be in force is what the networks say of this pod now.
    pub(in crate::pods) fn follows(&self, pod: &Arc<Pod>, networks: &Networks) -> bool {
        self.revision == Some(networks.revision()) && self.of.as_ref() == Some(pod)
    }

    /// From now on what the networks say is to be in force, but for what is held back.
    pub(in crate::pods) fn follow(&mut self, pod: &Arc<Pod>, networks: &Networks) {
        self.is_left = false;
        if self.follows(pod, networks) {
            return self.read_in(networks);
        }
        self.revision = Some(networks.revision());
        self.held.release_changed(|policy| networks.says(policy));
        let desired = networks.desired(pod, &self.held.substitutes(), self.desired.as_ref());
        self.held.retain_applying(&desired.policies);
        self.want(pod, desired);
    }

    /// Nobody knows its pod any more, which may have been deleted before its sandbox is: what is to be in force stays as it is, with
    /// what is held back.
    pub(in crate::pods) fn leave(&mut self) {
        self.is_left = true;
    }

    /// Has the time come already to try again what is held back.
    #[cfg(test)]
    pub(in crate::pods) fn hurry(&mut self) {
        self.held.hurry();
    }

    /// What is to be in force is what it was; it may have been read in other versions.
    fn read_in(&mut self, networks: &Networks) {
        let Some(desired) = &mut self.desired else {
            return;
        };
        let versions = networks.versions_of(&desired.policies, &desired.substitutes);
        if desired.versions != versions {
            desired.versions = versions;
            if self.settled {
                self.note_in_force(Some(Timestamp::now()));
            }
        }
    }

    /// Works out again what is to be in force: something else is held back.
    pub(in crate::pods) fn resolve(&mut self, networks: &Networks) {
        // Of a pod that is gone the networks say nothing, and that is not what is to be.
        let Some(pod) = self.of.clone().filter(|_| !self.is_left) else {
            return;
        };
        // How often it was tried stays known.
        let failure = self.failure.take();
        let desired = networks.desired(&pod, &self.held.substitutes(), self.desired.as_ref());
        self.want(&pod, desired);
        self.failure = failure;
    }

    /// From now on this is to be in force.
    pub(in crate::pods) fn want(&mut self, pod: &Arc<Pod>, mut desired: Desired) {
        self.of = Some(Arc::clone(pod));
        let before = self.desired.as_ref();
        let is_same = before.is_some_and(|before| before.table == desired.table);
        if is_same {
            // The same table, not one that is equal: comparing it with what the kernel has costs nothing then.
            desired.table = self.desired.take().and_then(|before| before.table);
            self.desired = Some(desired);
            if self.settled {
                self.note_in_force(Some(Timestamp::now()));
            }
            return;
        }
        self.settled = false;
        self.failure = None;
        self.search.let_go();
        self.desired = Some(desired);
    }

    /// What is not in force yet is so because of something that was heard then.
    pub(in crate::pods) fn heard(&mut self, at: Instant) {
        if !self.settled {
            self.heard.get_or_insert(at);
        }
    }

    /// Whether it has been as it should be once, or nobody knows what it should be, or for whom.
    pub(in crate::pods) fn is_ready(&self) -> bool {
        self.was_made || self.is_left || self.desired.is_none()
    }

    /// What its table holds.
    pub(in crate::pods) fn objects(&self) -> Objects {
        self.in_force
            .as_ref()
            .map(|in_force| in_force.objects)
            .unwrap_or_default()
    }

    /// Whether it is as it should be.
    pub(in crate::pods) fn is_settled(&self) -> bool {
        self.settled
    }

    /// When to try again, if something went wrong.
    pub(in crate::pods) fn retry_at(&self) -> Option<Instant> {
        self.failure.as_ref().map(|failure| failure.retry.at)
    }

    /// The pod, once it is known.
    pub(in crate::pods) fn of(&self) -> Option<&Arc<Pod>> {
        self.of.as_ref()
    }

    /// Hears what is denied here as long as policies apply.
    pub(in crate::pods) fn listen(&mut self, listener: &Listener, now: Instant) {
        match self.desired.as_ref().map(|desired| desired.table.is_some()) {
            Some(true) => self.log.keep(listener, &self.sandbox, &self.namespace, now),
            Some(false) => self.log.end(),
            None => {}
        }
    }

    /// Hears what others do to the table as long as policies apply and the kernel lets them.
    pub(in crate::pods) fn watch(&mut self, watcher: &Watcher) {
        let Some(is_restricted) = self.desired.as_ref().map(|desired| desired.table.is_some()) else {
            return;
        };
        // Where there are no rulesets yet, that is tried with the rules.
        let client = self
            .client()
            .ok()
            .filter(|client| is_restricted && !client.is_holding());
        let keeper = client.map(|client| client.port());
        match keeper {
            Some(keeper) => self
                .watching
                .keep(watcher, &self.sandbox, &self.namespace, keeper),
            None => self.watching = Watching::default(),
        }
    }

    /// Others have changed the table, or may have.
    pub(in crate::pods) fn drifted(&mut self, change: Change) {
        self.drifted.get_or_insert(change);
    }

    /// Whether they have since it was looked at.
    pub(in crate::pods) fn has_drifted(&self) -> bool {
        self.drifted.is_some()
    }

    /// Whose drops are counted here; `None` where no policy applies.
    pub(in crate::pods) fn counted(&self) -> Option<(SandboxId, drops::Place)> {
        let desired = self.desired.as_ref()?;
        desired.table.as_ref()?;
        let place = drops::Place::new(Arc::clone(&self.namespace), desired.policies.clone());
        Some((self.sandbox.id.clone(), place))
    }

    /// Makes the rules what they should be. Nothing happens where they are, or where nobody knows what they should be or
    /// how. Gives what is in force where something else may have been before.
    ///
    /// Where something is not known that `unknown` names, rules from before this agent stay as long as they are there. Where the
    /// kernel refuses the rules it remains to find out because of which policies ([`Place::go_on`]).
    pub(in crate::pods) fn make(
        &mut self,
        networks: &Networks,
        unknown: Option<&str>,
        metrics: &Metrics,
    ) -> Option<Order> {
        let order = self.try_to_make(networks, unknown, metrics);
        self.drifted = None;
        order
    }

    fn try_to_make(
        &mut self,
        networks: &Networks,
        unknown: Option<&str>,
        metrics: &Metrics,
    ) -> Option<Order> {
        let now = Instant::now();
        if !self.is_left && self.search.is_over() && self.held.retries(now) {
            self.resolve(networks);
        }
        if self.search.is_ahead() || self.retry_at().is_some_and(|retry| retry > now) {
            let order = self.restore(metrics)?;
            return self.search.cutting_by(Some(order));
        }
        if self.desired.as_ref()?.is_unsayable() {
            return None;
        }
        let made = match self.keeps(unknown) {
            Ok(true) => return None,
            Ok(false) => self
                .change(metrics)
                .or_else(|error| self.refused(error, networks, metrics)),
            Err(error) => Err(error),
        };
        self.ended(made, metrics)
    }

    /// What came of a change.
    fn ended(&mut self, made: Result<Option<Order>, SyncError>, metrics: &Metrics) -> Option<Order> {
        if self.search.is_over() {
            self.search.end();
            self.held.settle(Instant::now());
        }
        let order = made.unwrap_or_else(|error| {
            self.failed(&error, metrics);
            None
        });
        self.search.cutting_by(order)
    }

    /// Sees to it that the rules are there which were in force last, as long as those that should be are refused. What began while
    /// they were others is to be cut.
    fn restore(&mut self, metrics: &Metrics) -> Option<Order> {
        let client = self.client.as_mut()?;
        match client.advance(&Plan::from_iter([])) {
            Ok(Some(report)) if report.operations > 0 => {
                let table = client.table().cloned();
                self.repaired += 1;
                metrics.repaired.inc();
                metrics.changed(report.operations);
                let (pod, operations) = (self.pod(), report.operations);
                tracing::warn!(
                    pod,
                    operations,
                    "others had changed the rules of a pod; those that were in force last are repaired"
                );
                Some(self.order(table))
            }
            Ok(_) => None,
            Err(error) => {
                metrics.failed(reason(&error));
                None
            }
        }
    }

    /// That what this table denies, which is in force now, is to be cut.
    fn order(&self, table: Option<Arc<Table>>) -> Order {
        Order {
            sandbox: self.sandbox.id.clone(),
            pod: self.pod(),
            namespace: Arc::clone(&self.namespace),
            table,
            known: self.begun.load(Ordering::SeqCst),
            begun: Arc::clone(&self.begun),
        }
    }

    /// Whether rules from before this agent stay, because nobody knows all of what is to be in their place.
    fn keeps(&mut self, unknown: Option<&str>) -> Result<bool, SyncError> {
        let is_restricted = self
            .desired
            .as_ref()
            .is_some_and(|desired| desired.table.is_some());
        let unknown = unknown.filter(|_| is_restricted && !self.was_made);
        let kept = match unknown {
            Some(why) if self.client()?.exists(&documented::table_name())? => Some(why.to_owned()),
            _ => None,
        };
        self.kept = kept;
        Ok(self.kept.is_some())
    }

    /// Makes the rules what is desired now.
    pub(in crate::pods) fn change(&mut self, metrics: &Metrics) -> Result<Option<Order>, SyncError> {
        let table = self.desired.as_ref().and_then(|desired| desired.table.clone());
        let (was_settled, begun) = (self.settled, Arc::clone(&self.begun));
        let found = !self.was_made && self.client()?.exists(&documented::table_name())?;
        if !was_settled {
            begun.fetch_add(1, Ordering::SeqCst);
        }
        let began = Instant::now();
        let operations = self.carry_out(table.as_ref()).inspect_err(|_| {
            if !was_settled {
                begun.fetch_sub(1, Ordering::SeqCst);
            }
        })?;
        if !was_settled {
            Metrics::took(&metrics.writing, began.elapsed());
        }
        self.made(operations, (!found).then(Timestamp::now), metrics);
        let is_new = !was_settled || operations > 0;
        Ok(is_new.then(|| self.order(table)))
    }

    fn carry_out(&mut self, table: Option<&Arc<Table>>) -> Result<usize, SyncError> {
        let settled = self.settled;
        let client = self.client()?;
        match table {
            Some(table) => Ok(client.sync(table)?.operations),
            // What others write under this name afterwards is theirs.
            None if settled => Ok(0),
            None => remove(client),
        }
    }

    /// Reads the table and proves that it means what the policies say. Where it does not it is made anew next time.
    pub(in crate::pods) fn prove(&mut self, networks: &Networks, metrics: &Metrics) {
        let Some((pod, desired)) = self.of.clone().zip(self.desired.clone()) else {
            return;
        };
        // What is not in force is told and tried again.
        let Some(table) = desired.table.clone().filter(|_| self.settled) else {
            return;
        };
        let began = Instant::now();
        let read = self.client().and_then(|client| Ok(client.observe(&table)?));
        let observed = match read {
            Ok(observed) => observed,
            Err(error) => return self.failed(&error, metrics),
        };
        let outcome = match &observed {
            Observed::Table(table) => {
                networks.prove(&pod, &desired, table, &|| began.elapsed() < proof::LONGEST)
            }
            // What others have put there is no table of ours, whatever it means.
            Observed::Absent | Observed::Altered(_) => Ok(Report {
                stopped: true,
                ..Report::default()
            }),
        };
        if !proof::tell(outcome, began.elapsed(), &self.pod(), metrics)
            && let Some(client) = &mut self.client
        {
            client.forget();
        }
    }

    /// The rulesets of the namespace.
    fn client(&mut self) -> Result<&mut Client, SyncError> {
        let client = match self.client.take() {
            Some(client) => client,
            None => {
                let client = Client::open(&self.namespace)?.wary().in_portions_of(self.portion);
                if self.hold { client.holding() } else { client }
            }
        };
        Ok(self.client.insert(client))
    }

    /// What is desired is in force, `now` unless it may have been before this agent came.
    fn made(&mut self, operations: usize, now: Option<Timestamp>, metrics: &Metrics) {
        self.failure = None;
        let was_settled = std::mem::replace(&mut self.settled, true);
        self.was_made = true;
        if !was_settled {
            self.note_in_force(now);
        }
        if let Some(heard) = self.heard.take() {
            Metrics::took(&metrics.latency, heard.elapsed());
        }
        if operations == 0 {
            return;
        }
        metrics.changed(operations);
        self.changed = Some(Timestamp::now());
        let pod = self.pod();
        if was_settled {
            self.repaired += 1;
            metrics.repaired.inc();
            let (thread, program) = match self.drifted.take() {
                Some(Change::By { thread, program }) => (Some(thread), Some(program)),
                Some(Change::Perhaps) | None => (None, None),
            };
            tracing::warn!(
                pod,
                operations,
                thread,
                program,
                "others had changed the rules of a pod; they are repaired"
            );
        } else {
            tracing::info!(pod, operations, "the policies of a pod are in force");
        }
    }

    fn note_in_force(&mut self, now: Option<Timestamp>) {
        let (desired, before) = (self.desired.as_ref(), self.in_force.as_ref());
        self.in_force = desired.map(|desired| InForce::new(desired, before, now));
    }

    fn failed(&mut self, error: &SyncError, metrics: &Metrics) {
        metrics.failed(reason(error));
        let policies = names(self.note_failure(error));
        let pod = self.pod();
        tracing::error!(
            pod,
            %error,
            waiting = ?policies,
            "the policies of a pod are not in force, what was in force there stays"
        );
    }

    /// Notes that what should be is not in force; the policies that wait.
    fn note_failure(&mut self, error: &SyncError) -> &[ObjectRef] {
        let before = self.failure.take().map(|failure| failure.retry);
        self.settled = false;
        let failure = Failure {
            why: error.to_string(),
            waiting: self.waiting(),
            retry: Retry::after(before, Instant::now()),
        };
        &self.failure.insert(failure).waiting
    }

    /// The policies that are not in force as they should be, by what the kernel has now.
    fn waiting(&mut self) -> Vec<ObjectRef> {
        self.confirm();
        let desired = self.desired.as_ref();
        let in_force = self.in_force.clone().unwrap_or_default();
        let waiting = desired.map_or_else(Vec::new, |desired| in_force.waiting(desired));
        self.with_held(waiting.iter())
    }

    /// Finds out whether what was in force still is.
    fn confirm(&mut self) {
        let before = self.in_force.take();
        let client = self.client().ok();
        // Whether it is this that stays, or others have changed it, no error says.
        let mut both = before.zip(client);
        self.in_force = both
            .take_if(|(before, client)| before.is_still(client))
            .map(|(before, _)| before);
    }

    /// These policies and those that are held back, sorted.
    fn with_held<'p>(&'p self, policies: impl Iterator<Item = &'p ObjectRef>) -> Vec<ObjectRef> {
        let all: BTreeSet<_> = policies.chain(self.held.policies()).cloned().collect();
        all.into_iter().collect()
    }

    /// What [`Place::make`] would do, as nft commands.
    pub(in crate::pods) fn plan(&mut self) -> Result<String, SyncError> {
        let Some(desired) = &self.desired else {
            return Ok(String::new());
        };
        let table = desired.table.clone();
        let client = self.client()?;
        let name = documented::table_name();
        let plan = match table {
            Some(table) => client.plan(&table)?,
            None if client.exists(&name)? => Plan::from_iter([Operation::Delete(name.clone())]),
            None => return Ok(String::new()),
        };
        Ok(picket_nftables::print::commands(&name, &plan))
    }

    pub(in crate::pods) fn pod(&self) -> String {
        format!("{}/{}", self.sandbox.namespace, self.sandbox.name)
    }
}

/// Removes the table of pods, if there is one; how many operations that took.
pub(in crate::pods) fn remove(client: &mut Client) -> Result<usize, SyncError> {
    client.remove(&documented::table_name()).map(usize::from)
}

#[cfg(test)]
impl Place {
    /// What is in force, as far as that is known.
    pub(in crate::pods) fn in_force(&self) -> Option<&InForce> {
        self.in_force.as_ref()
    }
}

#[cfg(test)]
mod kernel {
    use picket_cluster::Semantics;
    use picket_dataplane::EstablishedConnections;
    use picket_nftables::model::{Base, Chain, Hook, Match, Name, Policy, Rule, Verdict};
    use picket_nftables::render::indexed::{Guard, closed};
    use picket_testing::build::pod;

    use super::*;
    use crate::pods::testing::place;

    fn make(place: &mut Place, table: &Arc<Table>) -> Result<Option<Order>, SyncError> {
        let desired = Desired {
            table: Some(Arc::clone(table)),
            ..Desired::default()
        };
        place.want(&Arc::new(pod("x/a").build()), desired);
        place.change(&Metrics::default())
    }

    /// A table of which kernels take no more than a part: where a packet came from is not known where it leaves.
    fn refused(table: &Table) -> Arc<Table> {
        let mut draft = table.clone().into_draft();
        let base = Base {
            hook: Hook::Output,
            priority: 0,
            policy: Policy::Accept,
        };
        let drop = Rule::when([Match::NoReversePath], Verdict::Drop);
        let chain = Chain::base(Name::new("bad").unwrap(), base);
        draft.chains.push(chain.with_rules([drop]));
        Arc::new(draft.check().unwrap())
    }

    #[test]
    fn rules_that_were_in_force_are_repaired_while_others_are_refused() {
        let namespace = Arc::new(NetworkNamespace::create().unwrap());
        let mut place = place("a", &namespace);
        let table = Arc::new(closed(&Guard::default()).unwrap());
        make(&mut place, &table).unwrap();
        let metrics = Metrics::default();
        let error = make(&mut place, &refused(&table)).err().unwrap();
        place.failed(&error, &metrics);
        let mut other = Client::open(&namespace).unwrap();
        assert!(other.remove(table.name()).unwrap());
        // It is not yet time to try what is refused again.
        let networks = Networks::new(Semantics::default(), EstablishedConnections::Keep, None);
        let order = place.make(&networks, None, &metrics).unwrap();
        assert_eq!(order.table.unwrap(), table);
        assert!(other.exists(table.name()).unwrap());
        assert_eq!(place.repaired, 1);
        assert!(place.make(&networks, None, &metrics).is_none());
    }

    #[test]
    fn what_is_in_force_is_still_known_after_a_change_that_failed() {
        let namespace = Arc::new(NetworkNamespace::create().unwrap());
        let mut place = place("a", &namespace);
        let mut make = |table: &Arc<Table>| make(&mut place, table);
        let table = Arc::new(closed(&Guard::default()).unwrap());
        let order = make(&table).unwrap().unwrap();
        let is_in_force = || order.known == order.begun.load(Ordering::SeqCst);
        assert!(is_in_force());

        let mut other = Client::open(&namespace).unwrap().holding();
        other.sync(&table).unwrap();
        let mut draft = Table::clone(&table).into_draft();
        draft.comment = None;
        let next = Arc::new(draft.check().unwrap());
        assert!(make(&next).is_err() && is_in_force());

        drop(other);
        let order = make(&next).unwrap().unwrap();
        assert!(!is_in_force() && order.known == order.begun.load(Ordering::SeqCst));
    }
}
