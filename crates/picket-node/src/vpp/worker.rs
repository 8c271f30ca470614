//! The thread of a target: its connection to VPP, and what it does there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use picket_policy::ObjectRef;
use picket_vpp::client::{Backoff, Connector, Error, Feature, Vpp};
use smol_str::SmolStr;

use super::acl::AclTables;
use super::mailbox::Receiver;
use super::render::Wanted;
use super::report::{Report, said};
use super::session::SessionTables;
use super::status::PendingPod;
use super::{VppSettings, VppTarget};
use crate::UntilSynced;
use crate::retry::Retry;
use crate::serve::Pulse;

/// How often at least to say that it goes on.
const PULSE: Duration = Duration::from_secs(1);

/// What a target keeps in VPP.
pub(crate) trait Tables: Send {
    /// What of VPP's API it needs.
    fn features(&self) -> &'static [Feature];

    /// Has VPP tell what happens that matters.
    fn watch(&mut self, vpp: &mut Vpp) -> Result<(), Error>;

    /// Reads everything back.
    fn read(&mut self, vpp: &mut Vpp) -> Result<(), Error>;

    /// Looks whether VPP has others of what is a pod's; with `has_events` also what that has. Whether something is to be done.
    fn look(&mut self, vpp: &mut Vpp, has_events: bool) -> Result<bool, Error>;

    /// Lets nothing pass where a pod may be and nothing is in force, as nobody knows yet what is wanted.
    fn close(&mut self, _vpp: &mut Vpp) -> Result<Closed, Error> {
        Ok(Closed::default())
    }

    /// So much time has passed since the last time. Whether something is to be done because of it.
    fn age(&mut self, _passed: Duration) -> bool {
        false
    }

    /// Learns what is wanted from now on.
    fn hear(&mut self, _wanted: &Wanted) {}

    /// Makes what VPP has what is wanted, which was heard of.
    fn sync(&mut self, vpp: &mut Vpp, wanted: &Wanted) -> Result<Synced, Error>;

    /// What would be done to have what is wanted, which was heard of, as text.
    fn plan(&mut self, vpp: &mut Vpp, wanted: &Wanted) -> Result<String, Error>;

    /// Removes what is ours, and nothing else.
    fn clean(&mut self, vpp: &mut Vpp) -> Result<Cleaned, Error>;
}

/// What removing what is ours has done.
#[derive(Debug, Default)]
pub(crate) struct Cleaned {
    /// How many lists or rules are gone.
    pub(crate) removed: usize,
    /// What VPP did not do.
    pub(crate) troubles: Vec<Error>,
}

/// What letting nothing pass has done.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    /// How many requests it took.
    pub(crate) operations: usize,
    /// The interfaces at which nothing passes.
    pub(crate) interfaces: Vec<SmolStr>,
    /// The tables of session rules by which nothing may be opened.
    pub(crate) tables: Vec<String>,
    /// Why it is not known what VPP has for pods, if it is not.
    pub(crate) unsaid: Option<String>,
    /// What VPP did not do.
    pub(crate) troubles: Vec<Error>,
}

/// What making VPP what it should be has done.
#[derive(Debug, Default)]
pub(crate) struct Synced {
    /// How many requests it took.
    pub(crate) operations: usize,
    /// What VPP did not take.
    pub(crate) troubles: Vec<Error>,
    pub(crate) summary: Arc<Summary>,
    /// What has become of pods since that was made, by name.
    pub(crate) moved: BTreeMap<String, Moved>,
    /// The interfaces of no known pod, where these are others since.
    pub(crate) unknown: Option<Vec<String>>,
}

/// What there is of a pod now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) interfaces: Vec<String>,
    pub(crate) namespaces: Vec<u32>,
    pub(crate) pending: Option<PendingPod>,
}

/// What is where.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    /// What does not fit together.
    pub(crate) conflicts: Vec<String>,
    pub(crate) interfaces: BTreeMap<String, Vec<String>>,
    pub(crate) namespaces: BTreeMap<String, Vec<u32>>,
    pub(crate) uplinks: Vec<String>,
    pub(crate) unknown: Vec<String>,
    pub(crate) closed: Vec<String>,
    pub(crate) pending: Vec<PendingPod>,
    pub(crate) foreign: Vec<String>,
    /// What is denied although the policies allow it.
    pub(crate) narrower: Vec<String>,
}

/// What a target does.
pub(crate) struct Worker {
    connector: Connector,
    tables: Box<dyn Tables>,
    refresh: Duration,
    /// How often to look for interfaces that nobody has told of: VPP is silent about new ones until they are up.
    look: Duration,
    /// When the tables were told last that time has passed.
    aged: Instant,
    report: Report,
    wanted: Option<Arc<Wanted>>,
    /// The policies that have changed and are not in force.
    waiting: BTreeSet<ObjectRef>,
    /// What pods may do until something is wanted.
    until_synced: UntilSynced,
}

impl Worker {
    pub(crate) fn new(target: VppTarget, settings: &VppSettings, report: Report) -> Self {
        let tables: Box<dyn Tables> = match target {
            VppTarget::Acl => Box::new(AclTables::new(settings)),
            VppTarget::Session => Box::new(SessionTables::new(settings)),
        };
        Self {
            connector: Connector::new(&settings.socket),
            tables,
            refresh: settings.refresh,
            look: settings.look,
            aged: Instant::now(),
            report,
            wanted: None,
            waiting: BTreeSet::new(),
            until_synced: UntilSynced::Allow,
        }
    }

    /// Does what is wanted, until the process ends.
    pub(crate) fn run(mut self, receiver: &Receiver, pulse: &Pulse, until_synced: UntilSynced) {
        self.until_synced = until_synced;
        let mut failures = 0;
        loop {
            pulse.beat();
            let connected = self.connector.connect(self.tables.features());
            let Err(error) = connected.and_then(|vpp| self.serve(vpp, receiver, pulse, &mut failures));
            failures += 1;
            self.report.disconnected(&error);
            let next = Instant::now() + Backoff::default().after(failures);
            while let Some(left) = next
                .checked_duration_since(Instant::now())
                .filter(|left| !left.is_zero())
            {
                self.hear(receiver);
                // Where nothing can be waited for, time still passes.
                let _ = receiver.wait(None::<&Vpp>, left);
            }
        }
    }

    /// Does what is wanted, until the connection ends.
    fn serve(
        &mut self,
        mut vpp: Vpp,
        receiver: &Receiver,
        pulse: &Pulse,
        failures: &mut u32,
    ) -> Result<std::convert::Infallible, Error> {
        self.tables.watch(&mut vpp)?;
        self.tables.read(&mut vpp)?;
        self.report.connected();
        let (mut read, mut looked) = (Instant::now(), Instant::now());
        let (mut is_due, mut retry) = (true, None::<Retry>);
        loop {
            pulse.beat();
            is_due |= self.hear(receiver) | self.age();
            if retry.is_some_and(|retry| retry.at <= Instant::now()) {
                // What VPP has refused may have changed something all the same.
                self.tables.read(&mut vpp)?;
                (is_due, read) = (true, Instant::now());
            }
            if std::mem::take(&mut is_due)
                && let Some(went_well) = self.sync(&mut vpp)?
            {
                *failures = 0;
                retry = (!went_well).then(|| Retry::after(retry, Instant::now()));
            }
            let limit = retry.map_or(self.look, |retry| {
                retry.at.saturating_duration_since(Instant::now()).min(self.look)
            });
            let limit = limit.min(PULSE);
            // Where nothing can be waited for, VPP is.
            let _ = receiver.wait(Some(&vpp), limit);
            let has_events = !vpp.events(Duration::ZERO)?.is_empty();
            if read.elapsed() >= self.refresh {
                self.tables.read(&mut vpp)?;
                (is_due, read) = (true, Instant::now());
            } else if has_events || looked.elapsed() >= self.look {
                is_due |= self.tables.look(&mut vpp, has_events)?;
                looked = Instant::now();
            }
        }
    }

    /// Whether something is to be done because time has passed.
    fn age(&mut self) -> bool {
        let passed = self.aged.elapsed();
        self.aged += passed;
        self.tables.age(passed)
    }

    /// Whether something else is wanted.
    fn hear(&mut self, receiver: &Receiver) -> bool {
        let Some(wanted) = receiver.take() else {
            return false;
        };
        self.tables.hear(&wanted);
        self.waiting.extend(wanted.changed.iter().cloned());
        self.wanted = Some(wanted);
        true
    }

    /// Makes VPP what is wanted, if that is known; whether all of it could be done.
    fn sync(&mut self, vpp: &mut Vpp) -> Result<Option<bool>, Error> {
        let Some(wanted) = &self.wanted else {
            return match self.until_synced {
                UntilSynced::Allow => Ok(None),
                UntilSynced::Deny => self.close(vpp).map(Some),
            };
        };
        let synced = self.tables.sync(vpp, wanted)?;
        self.report.synced(wanted, &synced, &self.waiting);
        if synced.troubles.is_empty() && synced.summary.conflicts.is_empty() {
            self.waiting.clear();
        }
        Ok(Some(synced.troubles.is_empty()))
    }

    /// Lets nothing pass where a pod may be and nothing is in force; whether all of it could be done.
    fn close(&mut self, vpp: &mut Vpp) -> Result<bool, Error> {
        let closed = self.tables.close(vpp)?;
        self.report.closed(&closed);
        Ok(closed.troubles.is_empty())
    }

    /// Makes VPP what is wanted, once.
    ///
    /// # Errors
    /// Why not all of it could be done.
    pub(crate) fn once(mut self, wanted: Arc<Wanted>) -> Result<(), String> {
        let mut vpp = self.open()?;
        self.tables.hear(&wanted);
        let synced = self
            .tables
            .sync(&mut vpp, &wanted)
            .map_err(|error| said(&error))?;
        self.report.synced(&wanted, &synced, &self.waiting);
        for pending in &synced.summary.pending {
            tracing::warn!(pod = pending.pod, why = pending.why, "a pod is not in VPP yet");
        }
        let whys = synced
            .troubles
            .iter()
            .map(said)
            .chain(synced.summary.conflicts.iter().cloned());
        let whys: Vec<_> = whys.collect();
        match whys.as_slice() {
            [] => Ok(()),
            whys => Err(whys.join("; ")),
        }
    }

    /// What would be done, as text.
    ///
    /// # Errors
    /// Why that is not known.
    pub(crate) fn plan(mut self, wanted: Arc<Wanted>) -> Result<String, String> {
        let mut vpp = self.open()?;
        self.tables.hear(&wanted);
        self.tables.plan(&mut vpp, &wanted).map_err(|error| said(&error))
    }

    /// Removes what is ours.
    ///
    /// # Errors
    /// Why not all of it could be removed.
    pub(crate) fn clean(mut self) -> Result<usize, String> {
        let mut vpp = self.open()?;
        let cleaned = self.tables.clean(&mut vpp).map_err(|error| said(&error))?;
        let whys: Vec<_> = cleaned.troubles.iter().map(said).collect();
        match whys.as_slice() {
            [] => Ok(cleaned.removed),
            whys => Err(whys.join("; ")),
        }
    }

    fn open(&mut self) -> Result<Vpp, String> {
        let connected = self.connector.connect(self.tables.features());
        let read = connected.and_then(|mut vpp| self.tables.read(&mut vpp).map(|()| vpp));
        read.map_err(|error| said(&error))
    }
}
