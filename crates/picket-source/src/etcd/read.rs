//! Reading what a reflector keeps: everything at one revision, and then what changes.
//!
//! What is known holds until etcd says otherwise and a reflector stands for it. A member that fails costs nothing but
//! time: the next is asked for what came after the last revision. Where etcd has forgotten that (compaction), or is another
//! than before (set back, made anew), everything is read again and only the difference counts. An etcd without progress,
//! or with an older one than what was known, says nothing at all.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::mem::take;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use picket_cluster::codes;
use picket_policy::{Diagnostic, ObjectRef, Severity};
use tokio::time::{Instant, sleep};

use super::Etcd;
use super::entry::{Entry, Terms};
use super::error::EtcdError;
use super::heard::Heard;
use super::key::{Key, Keys, kinds};
use super::message::{Event, Header, KeyValue, WatchResponse};
use super::progress::Reflection;
use super::record::Unreadable;
use super::session::Session;
use super::snapshot::{Pages, get, get_at};
use crate::kube::backoff::Backoff;
use crate::kube::kind::Kind;
use crate::kube::listener::{Listener, Objects};
use crate::kube::{Change, Health, Interest};
use crate::live::{Changes, Found, Live, Step};

/// What asking etcd is called in [`Health::kinds`].
const ETCD: &str = "etcd";

/// How often to ask how far etcd is.
const CHECK: Duration = Duration::from_secs(10);

/// How long a connection lasts that was not only made to end.
const STEADY: Duration = Duration::from_secs(10);

/// Reads for one who enforces policies.
pub(super) struct Reader<S> {
    etcd: Etcd,
    pub(super) terms: Arc<Terms>,
    health: Health,
    objects: Objects<S>,
    /// What changed and has not been told.
    changes: Changes,
    /// Up to where everything is known; `None` when all of it is to be read.
    pub(super) known: Option<Header>,
    /// What a reflector said last.
    reflection: Option<Reflection>,
    /// The key in which it said that, by which one knows the etcd again.
    witness: Option<KeyValue>,
    /// The keys that are nobody's.
    strange: BTreeSet<Vec<u8>>,
    is_complete: bool,
}

/// Why an attempt ended.
pub(super) enum Stop {
    /// etcd no longer knows what changed since.
    Forgotten,
    /// No reflector stands for what is there; why.
    Unreflected(String),
    /// It failed.
    Failed(EtcdError),
}

impl From<EtcdError> for Stop {
    fn from(error: EtcdError) -> Self {
        match error.is_compacted() {
            true => Self::Forgotten,
            false => Self::Failed(error),
        }
    }
}

impl<S: FnMut(Change)> Reader<S> {
    pub(super) fn new(etcd: &Etcd, keys: Keys, interest: Interest, health: Health, sink: S) -> Self {
        let kinds = kinds().filter(|kind| interest.includes(kind.name));
        let terms = Terms {
            keys,
            kinds: kinds.collect(),
            every_policy: interest.node.is_none(),
        };
        Self {
            etcd: etcd.clone(),
            terms: Arc::new(terms),
            health,
            objects: Objects {
                live: Live::new(interest.node),
                sink,
            },
            changes: Changes::default(),
            known: None,
            reflection: None,
            witness: None,
            strange: BTreeSet::new(),
            is_complete: false,
        }
    }

    pub(super) fn begin(&mut self) {
        self.objects.begin();
        for kind in &self.terms.kinds {
            self.health.note(&kind.full_name(), |_| {});
        }
    }

    pub(super) async fn run(mut self) -> Infallible {
        self.begin();
        let mut backoff = Backoff::default();
        let mut turn = 0;
        loop {
            let began = Instant::now();
            let stop = match Session::open(&self.etcd, turn).await {
                Ok(session) => self.attempt(&session).await,
                Err(error) => Stop::Failed(error),
            };
            if began.elapsed() > STEADY {
                backoff.reset();
            }
            match stop {
                Stop::Forgotten => {
                    self.known = None;
                    self.failed("etcd forgot what changed since: reading everything again");
                }
                // That has been told, and has passed.
                Stop::Unreflected(_) => {
                    self.known = None;
                    backoff.reset();
                }
                Stop::Failed(error) => {
                    turn = turn.wrapping_add(1);
                    self.failed(&error.to_string());
                }
            }
            sleep(backoff.next()).await;
        }
    }

    /// Reads and watches until that ends.
    async fn attempt(&mut self, session: &Session) -> Stop {
        let stop = match self.take_up(session).await {
            Ok(()) => self.watch(session).await,
            Err(stop) => Err(stop),
        };
        let Err(stop) = stop;
        let Stop::Unreflected(why) = stop else {
            return stop;
        };
        self.failed(&why);
        match self.await_reflector(session, &why).await {
            Ok(()) => Stop::Unreflected(why),
            Err(error) => error.into(),
        }
    }

    /// Knows everything up to some revision.
    async fn take_up(&mut self, session: &Session) -> Result<(), Stop> {
        if !self.is_the_same(session).await? {
            self.known = None;
            self.list(session).await?;
        }
        Ok(())
    }

    /// Whether etcd is the one that it was, with the same past. One that was set back may have as many revisions again.
    async fn is_the_same(&self, session: &Session) -> Result<bool, EtcdError> {
        let Some(known) = self.known else {
            return Ok(false);
        };
        let (_, now) = get(session, &self.terms.keys.progress).await?;
        if known.cluster_id != now.cluster_id || known.revision > now.revision {
            return Ok(false);
        }
        let (then, _) = get_at(session, &self.terms.keys.progress, known.revision).await?;
        Ok(then.is_some() && then == self.witness)
    }

    /// Reads everything that there is at one revision.
    async fn list(&mut self, session: &Session) -> Result<(), Stop> {
        let terms = Arc::clone(&self.terms);
        let (start, end) = terms.keys.all();
        let mut parts = pin!(terms.read_pages(Pages::of(start, &end).stream(session)));
        let (mut at, mut progress) = (Header::default(), None);
        self.begin_list();
        while let Some((revision, entries)) = parts.try_next().await? {
            at = revision;
            self.listed(entries, &mut progress);
        }
        self.end_list(at, progress)
    }

    pub(super) fn begin_list(&mut self) {
        self.strange.clear();
        for kind in self.terms.kinds.clone() {
            self.step(kind, Step::Begin);
        }
    }

    pub(super) fn listed(&mut self, entries: Vec<Entry>, progress: &mut Option<KeyValue>) {
        for entry in entries {
            match entry {
                Entry::Progress(kv) => *progress = Some(kv),
                entry => self.put(entry, Step::Listed),
            }
        }
    }

    /// Knows what was listed, if a reflector stands for it.
    pub(super) fn end_list(&mut self, at: Header, progress: Option<KeyValue>) -> Result<(), Stop> {
        let progress = progress.ok_or_else(|| Stop::Unreflected(self.unreflected()))?;
        let reflection = self.believe(&progress)?;
        for kind in self.terms.kinds.clone() {
            self.step(kind, Step::End);
            self.health.note(&kind.full_name(), |health| {
                health.answered();
                health.complete = true;
                health.lists += 1;
            });
        }
        self.known = Some(at);
        self.tell();
        self.witness = Some(progress);
        self.reach(reflection);
        Ok(())
    }

    fn unreflected(&self) -> String {
        format!(
            "there is no `{}`: no reflector has written all of the cluster",
            self.terms.keys.progress
        )
    }

    /// What a reflector says of everything that was read, if that is no older than what is known.
    fn believe(&self, progress: &KeyValue) -> Result<Reflection, Stop> {
        let key = &self.terms.keys.progress;
        let said = Reflection::read(&progress.value)
            .map_err(|why| Stop::Unreflected(format!("`{key}` cannot be read: {why}")))?;
        let known = self.reflection.as_ref().map(|known| known.time);
        match known {
            Some(known) if said.time < known => Err(Stop::Unreflected(format!(
                "etcd was set back: `{key}` is of {}, and what is known of {known}",
                said.time
            ))),
            _ => Ok(said),
        }
    }

    /// Waits until a reflector says something else than what is told, or etcd fails.
    async fn await_reflector(&mut self, session: &Session, told: &str) -> Result<(), EtcdError> {
        let key = self.terms.keys.progress.clone();
        let (found, now) = get(session, &key).await?;
        let why = match found.map(|found| self.believe(&found)) {
            None => self.unreflected(),
            Some(Err(Stop::Unreflected(why))) => why,
            Some(_) => return Ok(()),
        };
        if why != told {
            return Ok(());
        }
        let mut watch = session.watch(&key, "", now.revision + 1).await?;
        loop {
            let by = Instant::now() + CHECK;
            let Some(answer) = watch.next(by).await? else {
                get(session, &key).await?;
                continue;
            };
            if answer.canceled {
                return Err(watch.canceled(&answer.cancel_reason));
            }
            if !answer.events.is_empty() {
                return Ok(());
            }
        }
    }

    /// Takes in what changes.
    async fn watch(&mut self, session: &Session) -> Result<Infallible, Stop> {
        let known = self.known.unwrap_or_default();
        let (start, end) = self.terms.keys.all();
        let mut watch = session.watch(start, &end, known.revision + 1).await?;
        let mut by = Instant::now() + CHECK;
        let mut parts = Vec::new();
        let mut expected = 0;
        loop {
            let Some(answer) = watch.next(by).await? else {
                self.check(session, &mut expected).await?;
                by = Instant::now() + CHECK;
                continue;
            };
            match heard(answer, &mut parts, |why| watch.canceled(why))? {
                Heard::Changes(events) => self.hear(events)?,
                Heard::Progress(revision) => self.keep_up(revision),
                Heard::Nothing => {}
            }
            self.answered();
        }
    }

    /// Asks how far etcd is; that must be known when it is asked again.
    async fn check(&mut self, session: &Session, expected: &mut i64) -> Result<(), Stop> {
        let (found, now) = get(session, &self.terms.keys.progress).await?;
        let said = found.map_or(0, |found| found.mod_revision);
        if self.has_heard(said, now.revision, expected) {
            Ok(())
        } else {
            Err(session.silent("what changed was not said").into())
        }
    }

    /// Whether what was expected is known by now. At the revision `now` the last progress is of `said`, which is expected
    /// next: as long as that is not known, one is as far behind as etcd is ahead.
    pub(super) fn has_heard(&self, said: i64, now: i64, expected: &mut i64) -> bool {
        let known = self.known.map_or(0, |known| known.revision);
        if *expected > known {
            return false;
        }
        *expected = said;
        let behind = if said > known { now - known } else { 0 };
        self.health.freshen(|freshness| freshness.behind = behind);
        true
    }

    /// Nothing that anybody wants to know has changed up to this revision: what etcd forgets up to there is not missed.
    pub(super) fn keep_up(&mut self, revision: i64) {
        self.know(revision);
        self.freshen();
    }

    /// Takes in what some revisions changed.
    pub(super) fn hear(&mut self, events: Vec<Event>) -> Result<(), Stop> {
        let progress = self.terms.keys.progress.clone().into_bytes();
        let gone = events
            .iter()
            .filter(|event| event.is_deletion())
            .filter_map(|event| event.kv.as_ref())
            .find(|kv| kv.key == progress)
            .map(|kv| kv.mod_revision);
        let mut reflection = None;
        for event in events {
            let is_deletion = event.is_deletion();
            let Some(kv) = event.kv else { continue };
            // What goes with its progress was not the reflector's doing.
            if gone.is_some_and(|gone| kv.mod_revision >= gone) {
                continue;
            }
            let revision = kv.mod_revision;
            if kv.key == progress {
                reflection = Some(self.believe(&kv)?);
                self.witness = Some(kv);
            } else if is_deletion {
                self.delete(&kv);
            } else {
                self.put(self.terms.read(kv), Step::Apply);
            }
            self.know(revision);
        }
        self.tell();
        if let Some(reflection) = reflection {
            self.reach(reflection);
        }
        match gone {
            Some(_) => Err(Stop::Unreflected(self.unreflected())),
            None => Ok(()),
        }
    }

    /// Everything up to this revision is known.
    fn know(&mut self, revision: i64) {
        if let Some(known) = &mut self.known {
            known.revision = known.revision.max(revision);
        }
    }

    /// An object is there.
    fn put(&mut self, entry: Entry, step: impl FnOnce(Found) -> Step) {
        match entry {
            Entry::Object(key, read) => {
                let kind = key.kind();
                self.health.note(&kind.full_name(), |health| health.objects += 1);
                match read {
                    Ok(found) => self.step(kind, step(found)),
                    Err(unreadable) => self.unreadable(&key, unreadable),
                }
            }
            Entry::Strange(key) => {
                self.strange.insert(key);
            }
            Entry::Progress(_) | Entry::Other => {}
        }
    }

    fn delete(&mut self, kv: &KeyValue) {
        let Some(key) = self.terms.keys.read(&kv.key) else {
            self.strange.remove(&kv.key);
            return;
        };
        let kind = key.kind();
        if self.terms.wants(kind) {
            self.health.note(&kind.full_name(), |health| health.objects += 1);
            self.step(kind, Step::Delete(key.name));
        }
    }

    fn unreadable(&mut self, key: &Key, Unreadable { why, instead }: Unreadable) {
        let kind = key.kind();
        let object = ObjectRef::new(kind.name, &key.name.namespace, &key.name.name);
        let message = format!(
            "the record `{}` cannot be read: {why}",
            shown(self.terms.keys.of(key).as_bytes())
        );
        let diagnostic = Diagnostic::new(codes::RECORD, Severity::Error, message).on(&object);
        let holds = match instead {
            Some(_) => {
                "what was known of the policy holds; for who knew nothing it selects the same pods and allows them nothing"
            }
            None => "what was known of the object holds",
        };
        let diagnostic = diagnostic.note(holds);
        let instead = instead.map(|found| *found);
        let changes = self
            .objects
            .live
            .unreadable(kind.name, &key.name, diagnostic, instead);
        self.note(changes);
    }

    fn step(&mut self, kind: &'static Kind, step: Step) {
        let changes = self.objects.live.step(kind.name, step);
        self.note(changes);
    }

    fn note(&mut self, changes: Changes) {
        self.changes.events.extend(changes.events);
        self.changes.versions.extend(changes.versions);
        self.changes.diagnoses.extend(changes.diagnoses);
        self.changes.plugins.extend(changes.plugins);
    }

    /// Tells what changed as one change.
    fn tell(&mut self) {
        let changes = take(&mut self.changes);
        self.objects.emit(changes);
        self.complete();
        self.answered();
        self.freshen();
    }

    fn freshen(&self) {
        let revision = self.known.map_or(0, |known| known.revision);
        self.health.freshen(|freshness| freshness.revision = revision);
    }

    /// Says once that everything is known: all of it can be read, and a reflector stands for it.
    fn complete(&mut self) {
        if self.is_complete || self.known.is_none() {
            return;
        }
        if self.objects.live.first_unknown().is_some() {
            return;
        }
        self.is_complete = true;
        self.objects.complete();
    }

    /// etcd answers, and says what it should but for this.
    fn answered(&self) {
        let strange = self.strange.first();
        let strange =
            strange.map(|key| format!("`{}` is no key of an object: it is passed over", shown(key)));
        let unreadable = || {
            let object = self.objects.live.first_unknown()?;
            Some(format!(
                "the record of {object} cannot be read, and nothing else is known of it"
            ))
        };
        let held_up = if self.is_complete { None } else { unreadable() };
        self.health.note(ETCD, |health| {
            health.answered();
            health.complete = self.is_complete;
            health.trouble = held_up.or(strange);
        });
    }

    fn failed(&self, why: &str) {
        self.health.note(ETCD, |health| health.failed(why.to_owned()));
    }

    /// A reflector has said how far it is, and everything up to there is told.
    fn reach(&mut self, reflection: Reflection) {
        let before = self.reflection.as_ref().map(|before| &before.kinds);
        let mut reached = Vec::new();
        for kind in &self.terms.kinds {
            let name = kind.full_name();
            let now = reflection.kinds.get(&name).map(|reach| &reach.resource_version);
            let before = before
                .and_then(|kinds| kinds.get(&name))
                .map(|reach| &reach.resource_version);
            if let Some(now) = now
                && before != Some(now)
            {
                reached.push((*kind, now.clone()));
            }
        }
        for (kind, version) in reached {
            self.objects.reached(kind, version);
        }
        self.health
            .freshen(|freshness| freshness.reflection = Some(reflection.clone()));
        self.reflection = Some(reflection);
    }
}

/// What an answer says, unless that the watch has ended; `canceled` is what that is called.
pub(super) fn heard(
    answer: WatchResponse,
    parts: &mut Vec<Event>,
    canceled: impl FnOnce(&str) -> EtcdError,
) -> Result<Heard, Stop> {
    if !answer.canceled {
        return Ok(Heard::of(answer, parts));
    }
    Err(match answer.compact_revision {
        0 => canceled(&answer.cancel_reason).into(),
        _ => Stop::Forgotten,
    })
}

/// A key for people.
fn shown(key: &[u8]) -> String {
    const LONGEST: usize = 200;
    String::from_utf8_lossy(key)
        .escape_debug()
        .take(LONGEST)
        .collect()
}
