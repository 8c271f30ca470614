//! From what the kernel has of a table to what it should have.

use std::sync::Arc;

use picket_dataplane::{Objects, Plan};
use picket_linux::{BatchError, Reply};

use super::calm::Patience;
use super::hold::{Hold, Holder};
use super::read::{Expected, Extent, Foreign, Listing, Observed, canonical, list};
use super::{ApplyError, Client, Object};
use crate::diff::{Operation, begun, is_end};
use crate::model::{Draft, Name, Table};

/// How often the way to a table is begun again because the rulesets have changed meanwhile.
const ATTEMPTS: usize = 10;

/// From which attempt on it is made in as few transactions as can be, so that there is less to come between.
const HURRIED: usize = 5;

/// A generation that no ruleset has.
pub(super) const NEVER: u32 = 0;

/// `EPERM`.
const NOT_PERMITTED: i32 = 1;

/// `ENOENT`.
const NOT_FOUND: i32 = 2;

/// `EINVAL`.
const INVALID: i32 = 22;

/// `EOPNOTSUPP`.
const NOT_SUPPORTED: i32 = 95;

/// What was done to make a table as it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many operations were carried out; with none it was so already.
    pub operations: usize,
    /// How many times the table was read from the kernel, which is not needed while nobody else changes any ruleset.
    pub readings: usize,
    /// What others had put into the table and is gone, as far as picket cannot have written it.
    pub foreign: Vec<Foreign>,
    /// Whether the table was another than the one that this client had made last. Others had changed it, unless it is not known
    /// what became of a transaction.
    pub was_another: bool,
}

impl Report {
    /// What a transaction does of which there is no answer is counted: it is not there to be done when the table is read again.
    fn may_have_done(&mut self, plan: &Plan<Operation>, error: &ApplyError) {
        if is_unanswered(error) {
            self.operations = self.operations.max(plan.operations().len());
        }
    }

    /// Compares what is there, the first time that this is known, with what this client had made last.
    fn compare(&mut self, observed: Option<&Observed>, before: &mut Option<&Table>) {
        if let Some(observed) = observed
            && let Some(before) = before.take()
        {
            self.was_another = !matches!(observed, Observed::Table(table) if table == before);
        }
    }
}

/// Why a table is as it was.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] picket_linux::Error),
    /// The kernel does not take what it should be.
    #[error(transparent)]
    Apply(ApplyError),
    /// Another program keeps everybody else from changing the table.
    #[error(
        "another program holds the table, by its netlink socket {socket}; an agent of picket that runs does"
    )]
    Held {
        /// The number of its socket, mostly that of its process.
        socket: u32,
    },
    /// Others change rulesets faster than this one can be written, or answers of the kernel were lost.
    #[error("the rulesets changed {ATTEMPTS} times while the table was read and written")]
    Unsettled,
}

/// The table that the kernel has.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The generation of the rulesets in which it has it; `None` when nobody else can change it.
    generation: Option<u32>,
    table: Arc<Table>,
}

/// A table that is being made, whatever the kernel has.
struct Making<'a> {
    desired: &'a Arc<Table>,
    /// How much of it is read.
    extent: Extent,
    /// What the kernel had, until that has been compared with what it has.
    before: Option<&'a Table>,
    report: Report,
    /// Whether a part of it has been made to which nothing leads yet.
    has_begun: bool,
}

impl Client {
    /// Makes the table in the kernel as it is `desired`: what differs from what is there, nothing where nothing does. One
    /// transaction puts it into force; what packets do not meet before that may come in others ([`crate::diff::Stages`]). Where others have put something into the table that picket cannot have written it is replaced whole.
    ///
    /// The kernel is asked for what it has unless it is certain: this client holds the table, or since its last transaction
    /// there has been no other of anybody.
    ///
    /// # Errors
    /// [`SyncError`]; the rules that were in force still are.
    pub fn sync(&mut self, desired: &Arc<Table>) -> Result<Report, SyncError> {
        let before = self.known.as_ref().map(|known| Arc::clone(&known.table));
        let made = self.make(desired, before.as_deref());
        if let (Err(_), Some(before)) = (&made, before) {
            self.doubt(before);
        }
        made
    }

    fn make(&mut self, desired: &Arc<Table>, before: Option<&Table>) -> Result<Report, SyncError> {
        let mut report = Report::default();
        let is_another = |known: &Known| !Arc::ptr_eq(&known.table, desired);
        if self.known.as_ref().is_some_and(is_another) {
            // Not when it has been asked whether others have changed something, who may meanwhile.
            self.await_packets();
        }
        if let Some(known) = self.take_known(desired.name())? {
            let plan = if Arc::ptr_eq(&known.table, desired) {
                Plan::from_iter([])
            } else {
                Table::difference(Some(&known.table), desired)
            };
            match self.follow(&known, &plan, &mut report) {
                Ok(generation) => {
                    self.know(generation, Arc::clone(desired));
                    return Ok(report);
                }
                Err(error) if self.is_to_be_read(&error) => {}
                Err(error) => return Err(SyncError::Apply(error)),
            }
        }
        self.read_and_make(desired, before, report)
    }

    /// Carries a plan out that leads on from the table which this client made last, and says what that did. Where it is not
    /// certain any more that the kernel has that table, it is read and made what the plan leads to. `None` when the
    /// client has made none, or the plan does not lead on from it.
    ///
    /// # Errors
    /// [`SyncError`]; the rules that were in force still are.
    pub fn advance(&mut self, plan: &Plan<Operation>) -> Result<Option<Report>, SyncError> {
        let Some(table) = self.known.as_ref().map(|known| Arc::clone(&known.table)) else {
            return Ok(None);
        };
        let mut report = Report::default();
        let followed = match self.follow_known(table.name(), plan, &mut report) {
            Ok(followed) => followed,
            Err(error) => {
                self.doubt(table);
                return Err(error);
            }
        };
        if let Some(generation) = followed {
            return Ok(carried(table, plan).map(|table| {
                self.know(generation, table);
                report
            }));
        }
        let Ok(desired) = Table::applied(Some(&table), plan).map(Arc::new) else {
            self.doubt(table);
            return Ok(None);
        };
        let made = self.read_and_make(&desired, Some(&table), report);
        if made.is_err() {
            self.doubt(table);
        }
        made.map(Some)
    }

    /// Carries a plan out where nobody can have changed anything since the kernel had the table of this name that it is for; the
    /// generation that follows. `None` where somebody can have.
    fn follow_known(
        &mut self,
        name: &Name,
        plan: &Plan<Operation>,
        report: &mut Report,
    ) -> Result<Option<Option<u32>>, SyncError> {
        if !plan.is_empty() {
            self.await_packets();
        }
        let Some(known) = self.take_known(name)? else {
            return Ok(None);
        };
        match self.follow(&known, plan, report) {
            Ok(generation) => Ok(Some(generation)),
            Err(error) if self.is_to_be_read(&error) => Ok(None),
            Err(error) => Err(SyncError::Apply(error)),
        }
    }

    /// Whether what is there says more than this error: what has changed meanwhile, or who holds the table.
    fn is_to_be_read(&self, error: &ApplyError) -> bool {
        is_passing(error) || (self.is_wary && is_forbidden(error))
    }

    /// The table that this client made last: it is in force, or was until others changed rulesets.
    pub fn table(&self) -> Option<&Arc<Table>> {
        self.known.as_ref().map(|known| &known.table)
    }

    /// Lets the next [`Client::sync`] read the table.
    pub fn forget(&mut self) {
        self.known = None;
    }

    /// Carries a plan out on a table that the kernel certainly has; the generation that follows.
    fn follow(
        &mut self,
        known: &Known,
        plan: &Plan<Operation>,
        report: &mut Report,
    ) -> Result<Option<u32>, ApplyError> {
        let hold = if self.holds { Hold::Keep } else { Hold::Leave };
        report.operations = plan.operations().len();
        let generation = self.guard(Some(&known.table), plan, known.generation);
        let next = self.carry_out(Some(&known.table), plan, hold, generation, self.portion);
        let was_guarded = self.unguard();
        // Why the plan was refused is worth more than why what stood in is still there, which goes with the next reading.
        let next = next?;
        Ok(if was_guarded? { next.map(following) } else { next })
    }

    /// Makes the table as it is desired, whatever the kernel has; it had `before`, as far as that is known.
    fn read_and_make(
        &mut self,
        desired: &Arc<Table>,
        before: Option<&Table>,
        report: Report,
    ) -> Result<Report, SyncError> {
        let mut making = Making {
            desired,
            extent: self.extent(desired, before),
            before,
            report,
            has_begun: false,
        };
        for attempt in 0..ATTEMPTS {
            match self.attempt(attempt, &mut making) {
                Ok(true) => return Ok(making.report),
                Ok(false) => {}
                Err(SyncError::Apply(error)) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.unguard().map_err(SyncError::Apply)?;
        Err(SyncError::Unsettled)
    }

    /// Reads the table, and makes it what it should be or comes closer to that; whether it is.
    fn attempt(&mut self, attempt: usize, making: &mut Making<'_>) -> Result<bool, SyncError> {
        let desired = making.desired;
        self.unguard().map_err(SyncError::Apply)?;
        if making.before.is_some() || attempt > 0 {
            self.await_packets();
        }
        making.report.readings += 1;
        let (generation, listing) = self.look(desired.name(), &making.extent)?.unzip();
        let holder = listing.as_ref().map(|listing| Holder::of(&listing.objects));
        let hold = self.hold(holder.unwrap_or(Holder::All))?;
        let observed = listing.map(|listing| listing.decode(desired.name()));
        if observed == Some(Observed::Absent) {
            self.passing = None;
        }
        making.report.compare(observed.as_ref(), &mut making.before);
        let portion = self.portion_of(attempt);
        let beginning = observed
            .as_ref()
            .and_then(|observed| beginning(observed, desired, portion));
        let (table, plan) = match &observed {
            Some(observed) if attempt + 1 < ATTEMPTS => {
                way(observed, beginning.as_ref().unwrap_or(desired), hold)
            }
            _ => (None, whole(desired)),
        };
        if let Some(Holder::Socket(socket)) = holder.filter(|holder| holder.is_another(self.port()))
            && self.is_wary
            && !plan.is_empty()
        {
            return Err(SyncError::Held { socket });
        }
        // Nobody else can change what this client holds already, and what is made anew goes whatever it is: the others
        // may have their turns meanwhile.
        let is_certain = hold == Some(Hold::Keep) || (attempt > 0 && made_anew(&plan).is_some());
        let hold = hold.unwrap_or(if self.holds { Hold::Keep } else { Hold::Leave });
        let mut expected = generation.filter(|_| !is_certain);
        if observed != Some(Observed::Absent) {
            expected = self.guard(table, &plan, expected);
        }
        let next = match self.carry_out(table, &plan, hold, expected, portion) {
            Ok(_) if beginning.is_some() => {
                making.has_begun = true;
                return Ok(false);
            }
            Ok(next) => next,
            Err(error) => {
                making.report.may_have_done(&plan, &error);
                return self.failed(error, hold, making);
            }
        };
        making.report.operations = making.report.operations.max(plan.operations().len());
        if let Some(Observed::Altered(foreign)) = observed {
            making.report.foreign = foreign;
        }
        self.settle(desired, next).map_err(SyncError::Apply)?;
        Ok(true)
    }

    /// What follows where a transaction of an attempt was not carried out: another attempt may succeed, or nothing of it stays.
    fn failed(&mut self, error: ApplyError, hold: Hold, making: &Making<'_>) -> Result<bool, SyncError> {
        if hold != Hold::Leave && is_unsupported(&error) {
            self.holds = false;
            return Ok(false);
        }
        if !is_passing(&error) {
            self.unguard().map_err(SyncError::Apply)?;
            if making.has_begun {
                self.remove(making.desired.name())?;
            }
        }
        Err(SyncError::Apply(error))
    }

    /// What the kernel has of a table, and the generation of the rulesets then; `None` where these change all the time.
    fn look(&mut self, name: &Name, extent: &Extent) -> Result<Option<(u32, Listing)>, SyncError> {
        let (holds, own) = (self.holds, self.port());
        let is_held = |table: &Reply| holds && Holder::of([table]).is_another(own);
        match list(&mut self.socket, name, extent, is_held) {
            Ok(read) => Ok(Some(read)),
            Err(error) if error.is_interrupted() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// How much a transaction makes in this attempt of what nothing leads to yet.
    fn portion_of(&self, attempt: usize) -> usize {
        match attempt < HURRIED {
            true => self.portion,
            false => usize::MAX,
        }
    }

    /// The kernel has this table now, in the generation `next` if that is known, and nothing needs to stand in for it any more.
    fn settle(&mut self, table: &Arc<Table>, next: Option<u32>) -> Result<(), ApplyError> {
        let was_guarded = self.unguard()?;
        let next = if was_guarded { next.map(following) } else { next };
        let is_certain = self.holds && next != Some(NEVER);
        let generation = if is_certain { None } else { next.or(Some(NEVER)) };
        self.know(generation, Arc::clone(table));
        Ok(())
    }

    /// The kernel may have something else than this table by now, which is to be there all the same.
    fn doubt(&mut self, table: Arc<Table>) {
        let generation = Some(NEVER);
        self.known = Some(Known { generation, table });
    }

    /// The kernel has this table now, or the same in which packets are judged with care still.
    fn know(&mut self, generation: Option<u32>, table: Arc<Table>) {
        let table = match std::mem::take(&mut self.is_changing) {
            true => begun(table).ok(),
            false => Some(table),
        };
        self.known = table.map(|table| Known { generation, table });
    }

    /// What to do about who may change a table that is so far this holder's; `None` when it must be made anew for that.
    fn hold(&self, holder: Holder) -> Result<Option<Hold>, SyncError> {
        match holder {
            _ if !self.holds => Ok(Some(Hold::Leave)),
            Holder::All => Ok(None),
            Holder::Nobody => Ok(Some(Hold::Take)),
            Holder::Socket(socket) if holder.is_another(self.port()) => Err(SyncError::Held { socket }),
            Holder::Socket(_) => Ok(Some(Hold::Keep)),
        }
    }

    /// What [`Client::sync`] would do now.
    ///
    /// # Errors
    /// When the kernel refuses to say what it has.
    pub fn plan(&mut self, desired: &Table) -> picket_linux::Result<Plan<Operation>> {
        let observed = self.observe(desired)?;
        Ok(way(&observed, &Arc::new(desired.clone()), Some(Hold::Leave)).1)
    }

    /// What the kernel has of a table that should be as it is `desired`.
    ///
    /// # Errors
    /// When the kernel refuses, or the rulesets change all the time.
    pub fn observe(&mut self, desired: &Table) -> picket_linux::Result<Observed> {
        let before = self.known.as_ref().map(|known| &*known.table);
        let extent = self.extent(desired, before);
        let (_, listing) = list(&mut self.socket, desired.name(), &extent, |_| false)?;
        Ok(listing.decode(desired.name()))
    }

    /// What is read of a table that should be as it is `desired` and was as `before`, if that is known.
    fn extent(&self, desired: &Table, before: Option<&Table>) -> Extent {
        let before = before.filter(|before| before.name() == desired.name());
        match self.is_wary {
            true => Extent::Expected(Expected::of(desired, before)),
            false => Extent::All,
        }
    }

    /// The last table that was made, if it is of this name and nobody can have changed anything since.
    fn take_known(&mut self, table: &Name) -> picket_linux::Result<Option<Known>> {
        let Some(known) = self.known.take().filter(|known| known.table.name() == table) else {
            return Ok(None);
        };
        let is_current = match known.generation {
            Some(generation) => self.generation()? == generation,
            None => true,
        };
        Ok(is_current.then_some(known))
    }

    /// Returns the generation that follows, if the one before is known.
    fn carry_out(
        &mut self,
        observed: Option<&Table>,
        plan: &Plan<Operation>,
        hold: Hold,
        generation: Option<u32>,
        portion: usize,
    ) -> Result<Option<u32>, ApplyError> {
        let nothing = Plan::from_iter([]);
        let is_left = self.patience == Patience::Leaves && is_end(plan);
        let plan = if is_left { &nothing } else { plan };
        self.is_changing = false;
        let next = match plan.is_empty() && hold != Hold::Take {
            true => generation,
            false => self.commit(observed, plan, hold, generation, portion)?,
        };
        self.is_changing |= is_left;
        Ok(next)
    }
}

/// The table that the kernel has after a plan, if that was for this one.
fn carried(table: Arc<Table>, plan: &Plan<Operation>) -> Option<Arc<Table>> {
    if plan.is_empty() {
        return Some(table);
    }
    Arc::unwrap_or_clone(table).carried(plan).ok().map(Arc::new)
}

/// The generation after a transaction for one generation; none follows the one that no ruleset has.
pub(super) fn following(generation: u32) -> u32 {
    match generation {
        NEVER => NEVER,
        _ => generation.wrapping_add(1).max(1),
    }
}

/// The table to make first where there is none and one transaction would be too large: it has nothing, so that all the
/// rest may come as [`Stages`](crate::diff::Stages).
fn beginning(observed: &Observed, desired: &Table, portion: usize) -> Option<Arc<Table>> {
    if !matches!(observed, Observed::Absent) || desired.size() <= portion {
        return None;
    }
    let mut draft = Draft::new(desired.name().clone());
    draft.comment = desired.comment().cloned();
    draft.check().ok().map(Arc::new)
}

/// The table that a plan is for, and the plan.
fn way<'o>(
    observed: &'o Observed,
    desired: &Arc<Table>,
    hold: Option<Hold>,
) -> (Option<&'o Table>, Plan<Operation>) {
    match observed {
        Observed::Table(table) if hold.is_some() => {
            (Some(table), Table::difference(Some(table), &canonical(desired)))
        }
        Observed::Absent | Observed::Table(_) | Observed::Altered(_) => (None, whole(desired)),
    }
}

/// A table, made anew.
pub(super) fn whole(table: &Arc<Table>) -> Plan<Operation> {
    Plan::from_iter([Operation::Replace(Arc::clone(table))])
}

/// The table that a plan makes anew, whatever there is in its place.
pub(super) fn made_anew(plan: &Plan<Operation>) -> Option<&Table> {
    plan.operations().iter().find_map(|operation| match operation {
        Operation::Replace(table) => Some(&**table),
        _ => None,
    })
}

/// Whether the kernel cannot keep others from changing a table, where it was asked to. Before 5.12 it says of flags which it does not
/// know that they are invalid.
fn is_unsupported(error: &ApplyError) -> bool {
    [NOT_SUPPORTED, INVALID]
        .into_iter()
        .any(|code| is_refused(error, code))
}

/// Whether this client may not change something, as of a table that another socket holds.
fn is_forbidden(error: &ApplyError) -> bool {
    let ApplyError::Refused(refusals) = error else {
        return false;
    };
    refusals.iter().any(|refusal| refusal.code == NOT_PERMITTED)
}

/// Whether a table is not there.
pub(super) fn is_missing(error: &ApplyError) -> bool {
    is_refused(error, NOT_FOUND)
}

/// Whether the kernel refuses what is to become of a table, with this code.
fn is_refused(error: &ApplyError, code: i32) -> bool {
    let ApplyError::Refused(refusals) = error else {
        return false;
    };
    refusals
        .iter()
        .any(|refusal| refusal.code == code && matches!(refusal.object, Object::Table(_)))
}

/// Whether a transaction may succeed when what is there is read again.
fn is_passing(error: &ApplyError) -> bool {
    matches!(error, ApplyError::Stale) || is_unanswered(error)
}

/// Whether it is not known if a transaction took place.
pub(super) fn is_unanswered(error: &ApplyError) -> bool {
    matches!(error, ApplyError::Transaction(BatchError::Unanswered))
}

#[cfg(test)]
mod tests;
