//! The reflector: what the API server says, kept in etcd.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use jiff::Timestamp;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Etcd;
use super::error::EtcdError;
use super::key::Keys;
use super::lead::{Candidate, Elected};
use super::mirror::{Batch, Mirror};
use super::progress::{Reach, Reflection};
use super::session::Session;
use super::snapshot::get;
use super::write::{Change, Count, Writer, difference, ordered};
use crate::kube::backoff::Backoff;
use crate::kube::{Health, Interest, Kube};

/// How often at least to say that everything is there.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// How often at most to say so when no record changed.
const PACE: Duration = Duration::from_secs(1);

/// How long to wait until this API server says what another has said before.
const CATCH_UP: Duration = Duration::from_secs(30);

/// How long a connection lasts that was not only made to end.
const STEADY: Duration = Duration::from_secs(10);

/// Keeps what is known of a cluster in etcd. Several may do so: one of them writes.
#[derive(Clone, Debug)]
pub struct Reflector {
    /// The cluster.
    pub kube: Kube,
    /// Where to keep it.
    pub etcd: Etcd,
    /// What it is called, to which a number is added.
    pub name: String,
    /// How often to compare all of etcd with the cluster.
    pub pass_every: Duration,
    /// How often to ask whether kinds came or went.
    pub discovery: Duration,
    /// How long after a reflector was last heard of another takes over; at least two seconds.
    pub lease: Duration,
}

/// What etcd lacks, and what it has and should not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// The keys to write.
    pub puts: Vec<String>,
    /// The keys to delete.
    pub deletions: Vec<String>,
}

/// How a reflector goes. Clones show the same.
#[derive(Clone, Default)]
pub struct Reflected {
    state: Arc<Mutex<State>>,
    tell: Option<Tell>,
}

/// Who is told what was and what is.
type Tell = Arc<dyn Fn(&State, &State) + Send + Sync>;

/// How a reflector goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// What it is called.
    pub name: String,
    /// Since which revision of etcd it leads, if it does.
    pub epoch: Option<i64>,
    /// Who leads, if that is another.
    pub leader: Option<String>,
    /// How many objects there are to keep.
    pub objects: usize,
    /// How many records it wrote.
    pub puts: u64,
    /// How many it deleted.
    pub deletions: u64,
    /// In how many transactions.
    pub transactions: u64,
    /// How many records etcd did not take because they are too large.
    pub too_large: u64,
    /// How often it compared all of etcd with the cluster.
    pub passes: u64,
    /// How often etcd did not answer, or not as it should.
    pub failures: u64,
    /// Why it does not write, although it should.
    pub trouble: Option<String>,
    /// When it last said that everything is there.
    pub time: Option<Timestamp>,
}

impl Reflected {
    /// One that calls `tell` with what was and what is now, whenever that is another.
    #[must_use]
    pub fn telling(tell: impl Fn(&State, &State) + Send + Sync + 'static) -> Self {
        Self {
            state: Arc::default(),
            tell: Some(Arc::new(tell)),
        }
    }

    /// How it goes now.
    #[must_use]
    pub fn state(&self) -> State {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, note: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.clone();
        note(&mut state);
        let now = state.clone();
        drop(state);
        if let Some(tell) = self.tell.as_ref().filter(|_| before != now) {
            tell(&before, &now);
        }
    }
}

impl Reflector {
    /// Reflects until it is dropped or `stop` ends; then another can lead at once.
    ///
    /// Nothing is written before the cluster is known, so that nothing of it is deleted by mistake. After every failure all of
    /// etcd is compared with the cluster.
    ///
    /// # Errors
    /// When nothing says where the cluster or etcd is. That they cannot be reached is none.
    pub async fn run(
        &self,
        health: Health,
        reflected: Reflected,
        stop: impl Future<Output = ()>,
    ) -> Result<(), EtcdError> {
        let (keys, mirror) = self.begin()?;
        let reflecting = Reflecting::new(self, keys, mirror.clone(), reflected);
        let write = reflecting.run(stop);
        let follow = self.kube.tell(self.interest(), health, mirror);
        match select(pin!(write), pin!(follow)).await {
            Either::Left(((), _)) => Ok(()),
            Either::Right((Err(error), _)) => Err(error.into()),
        }
    }

    /// Makes etcd what the cluster is now, and ends.
    ///
    /// # Errors
    /// When it cannot, which is also when another reflector leads.
    pub async fn once(&self, health: Health) -> Result<Difference, EtcdError> {
        let (keys, mirror) = self.begin()?;
        let reflecting = Reflecting::new(self, keys, mirror.clone(), Reflected::default());
        let follow = self.kube.tell(self.interest(), health, mirror);
        match select(pin!(reflecting.once()), pin!(follow)).await {
            Either::Left((done, _)) => done,
            Either::Right((Err(error), _)) => Err(error.into()),
        }
    }

    /// What etcd lacks of the cluster as it is now, and what it has and should not have.
    ///
    /// # Errors
    /// When that cannot be told.
    pub async fn difference(&self, health: Health) -> Result<Difference, EtcdError> {
        let (keys, mirror) = self.begin()?;
        let compare = async {
            mirror.complete().await;
            let session = Session::open(&self.etcd, 0).await?;
            let changes = difference(&session, &keys, mirror.all().0).await?;
            Ok(Difference::of(&changes))
        };
        let follow = self.kube.tell(self.interest(), health, mirror.clone());
        match select(pin!(compare), pin!(follow)).await {
            Either::Left((done, _)) => done,
            Either::Right((Err(error), _)) => Err(error.into()),
        }
    }

    fn begin(&self) -> Result<(Keys, Mirror), EtcdError> {
        self.etcd.check()?;
        Ok((Keys::new(&self.etcd.prefix)?, Mirror::default()))
    }

    fn interest(&self) -> Interest {
        Interest {
            discovery: self.discovery,
            services: true,
            ..Interest::default()
        }
    }
}

impl Difference {
    fn of(changes: &[Change]) -> Self {
        let mut difference = Self::default();
        for (key, record) in changes {
            let key = String::from_utf8_lossy(key).escape_debug().to_string();
            match record {
                Some(_) => difference.puts.push(key),
                None => difference.deletions.push(key),
            }
        }
        difference
    }

    /// Whether etcd is as the cluster is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.deletions.is_empty()
    }
}

/// A reflector at work.
struct Reflecting {
    etcd: Etcd,
    keys: Keys,
    mirror: Mirror,
    candidate: Candidate,
    reflected: Reflected,
    pass_every: Duration,
    /// When something was last written about how far it is: by any reflector, if that is later than the clock says.
    time: Timestamp,
    pass: Timestamp,
}

impl Reflecting {
    fn new(reflector: &Reflector, keys: Keys, mirror: Mirror, reflected: Reflected) -> Self {
        let candidate = Candidate::new(&reflector.name, reflector.lease);
        reflected.note(|state| state.name.clone_from(&candidate.name));
        Self {
            etcd: reflector.etcd.clone(),
            keys,
            mirror,
            candidate,
            reflected,
            pass_every: reflector.pass_every,
            time: Timestamp::MIN,
            pass: Timestamp::MIN,
        }
    }

    async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        self.reflect(&mut stop).await;
        // Whoever can be reached is told; the lease ends by itself otherwise.
        let resign = async {
            if let Ok(session) = Session::open(&self.etcd, 0).await {
                self.candidate.resign(&session).await;
            }
        };
        let _ = timeout(Duration::from_secs(2), resign).await;
    }

    async fn reflect(&mut self, stop: &mut (impl Future<Output = ()> + Unpin)) {
        let complete = self.mirror.clone();
        if let Either::Right(_) = select(pin!(complete.complete()), &mut *stop).await {
            return;
        }
        let mut backoff = Backoff::default();
        let mut turn = 0;
        loop {
            let began = Instant::now();
            let attempt = self.attempt(turn);
            let ended = match select(pin!(attempt), &mut *stop).await {
                Either::Left((ended, _)) => ended,
                Either::Right(_) => return,
            };
            if began.elapsed() > STEADY {
                backoff.reset();
            }
            let error = ended.err();
            self.reflected.note(|state| {
                state.epoch = None;
                if let Some(error) = &error {
                    state.failures += 1;
                    state.trouble = Some(error.to_string());
                }
            });
            if let Some(error) = error {
                // Who leads does not depend on whom one asks.
                turn += usize::from(!matches!(error, EtcdError::Deposed));
                if let Either::Right(_) = select(pin!(sleep(backoff.next())), &mut *stop).await {
                    return;
                }
            }
        }
    }

    /// Leads as long as it may; or waits until it might.
    async fn attempt(&mut self, turn: usize) -> Result<(), EtcdError> {
        let session = Session::open(&self.etcd, turn).await?;
        let epoch = match self.candidate.run(&session, &self.keys).await? {
            Elected::Itself(epoch) => epoch,
            Elected::Other(leader, revision) => {
                self.reflected.note(|state| {
                    state.trouble = None;
                    state.leader = Some(leader);
                });
                self.candidate.wait(&session, &self.keys, revision).await?;
                self.reflected.note(|state| state.leader = None);
                return Ok(());
            }
        };
        self.reflected.note(|state| {
            state.leader = None;
            state.epoch = Some(epoch);
        });
        self.catch_up(&session).await?;
        self.pass(&session, epoch).await?;
        self.keep_up(&session, epoch).await
    }

    /// Waits until no less is known than what another reflector has written, but not for ever: an API server may have been
    /// set back.
    async fn catch_up(&mut self, session: &Session) -> Result<(), EtcdError> {
        let (found, _) = get(session, &self.keys.progress).await?;
        let Some(written) = found.and_then(|found| Reflection::read(&found.value).ok()) else {
            return Ok(());
        };
        self.time = self.time.max(written.time);
        let until = Instant::now() + CATCH_UP;
        while Instant::now() < until && !has_reached(&self.mirror.reach(), &written.kinds) {
            self.candidate.keep(session).await?;
            select(
                pin!(self.mirror.changed()),
                pin!(sleep_until(until.min(self.candidate.due()))),
            )
            .await;
        }
        Ok(())
    }

    /// Compares all of etcd with the cluster, and makes it the same.
    async fn pass(&mut self, session: &Session, epoch: i64) -> Result<Vec<Change>, EtcdError> {
        self.candidate.keep(session).await?;
        let (records, kinds) = self.mirror.all();
        let changes = difference(session, &self.keys, records).await?;
        self.pass = Timestamp::now();
        self.write(session, epoch, changes.clone(), kinds).await?;
        self.reflected.note(|state| state.passes += 1);
        Ok(changes)
    }

    async fn write(
        &mut self,
        session: &Session,
        epoch: i64,
        changes: Vec<Change>,
        kinds: BTreeMap<String, Reach>,
    ) -> Result<(), EtcdError> {
        let just_after = self
            .time
            .checked_add(Duration::from_nanos(1))
            .unwrap_or(self.time);
        self.time = Timestamp::now().max(just_after);
        let mut progress = Reflection::new(epoch, &self.candidate.name, self.time, self.pass);
        progress.kinds = kinds;
        let mut writer = Writer {
            session,
            keys: &self.keys,
            candidate: &mut self.candidate,
            epoch,
            count: Count::default(),
        };
        let written = writer.write(changes, progress.write()).await;
        let count = writer.count;
        self.reflected.note(|state| {
            state.puts += count.puts;
            state.deletions += count.deletions;
            state.transactions += count.transactions;
            state.too_large += count.too_large;
            state.objects = self.mirror.len();
            if written.is_ok() {
                state.trouble = None;
                state.time = Some(self.time);
            }
        });
        written
    }

    /// Writes what changes.
    async fn keep_up(&mut self, session: &Session, epoch: i64) -> Result<(), EtcdError> {
        let mut written = Instant::now();
        let mut pass_at = Instant::now() + self.pass_every;
        let mut told = self.mirror.reach();
        loop {
            self.candidate.keep(session).await?;
            let now = Instant::now();
            if now >= pass_at {
                told = self.mirror.reach();
                self.pass(session, epoch).await?;
                (written, pass_at) = (Instant::now(), now + self.pass_every);
            }
            let Batch { changes, kinds } = self.mirror.take();
            let is_news = kinds != told;
            let pause = if is_news { PACE } else { HEARTBEAT };
            if !changes.is_empty() || now >= written + pause {
                let changes = ordered(&self.keys, changes);
                told.clone_from(&kinds);
                self.write(session, epoch, changes, kinds).await?;
                written = Instant::now();
                continue;
            }
            let until = (written + pause).min(pass_at).min(self.candidate.due());
            select(pin!(self.mirror.changed()), pin!(sleep_until(until))).await;
        }
    }

    /// Makes etcd what the cluster is, once.
    async fn once(mut self) -> Result<Difference, EtcdError> {
        self.mirror.clone().complete().await;
        let session = Session::open(&self.etcd, 0).await?;
        let epoch = match self.candidate.run(&session, &self.keys).await? {
            Elected::Itself(epoch) => epoch,
            Elected::Other(leader, _) => {
                self.candidate.resign(&session).await;
                return Err(EtcdError::Led(leader));
            }
        };
        let done = match self.catch_up(&session).await {
            Ok(()) => self.pass(&session, epoch).await,
            Err(error) => Err(error),
        };
        self.candidate.resign(&session).await;
        Ok(Difference::of(&done?))
    }
}

/// Whether every object that one has written is known to the other.
fn has_reached(known: &BTreeMap<String, Reach>, written: &BTreeMap<String, Reach>) -> bool {
    written.iter().all(|(kind, written)| {
        let known = known.get(kind);
        // A kind that is gone, and versions that are no numbers, tell nothing.
        known.is_none_or(|known| {
            let version: Option<u64> = known.resource_version.parse().ok();
            version.is_none_or(|version| version >= written.changed)
        })
    })
}
