//! Plans into the kernel, and tables back, over netlink and without nft.
//!
//! A plan is one transaction: all of it happens, or nothing. What nft lists afterwards is what it lists when it has read
//! the same plan as text ([`crate::print::commands`]). What is read is what was written, in the words of [`canonical`], or it
//! is told what others have put there.

mod attributes;
mod bytes;
mod calm;
mod container;
mod context;
mod counters;
mod cut;
mod encode;
mod expression;
mod guard;
mod hold;
mod limit;
mod read;
mod rule;
mod scope;
mod sync;
mod uapi;
mod watch;

use std::collections::BTreeSet;
use std::fmt;

use picket_dataplane::Plan;
use picket_linux::{BatchError, NetworkNamespace, Nfnetlink, Passing, Port};

pub use attributes::Oddity;
use calm::Patience;
pub use counters::Counters;
pub use cut::{Cut, Cutter, Denied, Severed};
pub use encode::Object;
use encode::{Origin, Transaction, Unknown, encode};
use guard::Guard;
use hold::{HELD, Hold};
pub use read::{Foreign, Observed, Place, canonical, decode};
use sync::{Known, NEVER, following, is_unanswered};
pub use sync::{Report, SyncError};
pub use watch::{Change, Heard, Watch};

use crate::diff::{Operation, PORTION, Stages, is_end};
use crate::model::{Name, Table};

/// The rulesets of one network namespace.
#[derive(Debug)]
pub struct Client {
    socket: Nfnetlink,
    /// What the last [`Client::sync`] left.
    known: Option<Known>,
    /// Whether it keeps others from changing the tables that it syncs.
    holds: bool,
    /// The flags of the tables that it keeps others from changing.
    held: u32,
    /// Whether others in the namespace may be up to filling its rulesets.
    is_wary: bool,
    guard: Option<Guard>,
    /// How much a transaction makes of what nothing leads to yet.
    portion: usize,
    patience: Patience,
    /// Whether there is something to calm since the last transaction.
    is_changing: bool,
    /// How often it has changed something, or tried to.
    changes: u64,
    /// The time until no packet is on its way from before the last change.
    passing: Option<Passing>,
}

/// Why a plan changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Somebody changed the ruleset, perhaps in another table, since its generation was read.
    #[error("the ruleset has changed since it was read")]
    Stale,
    /// The kernel refuses operations. Others may follow from the first.
    #[error("{}", listed(.0))]
    Refused(Vec<Refusal>),
    /// An operation changes something of which neither the table nor the operations before it say how it is made.
    #[error("operation {operation} uses `{name}`, which does not exist")]
    Unknown {
        /// Its index in the plan.
        operation: usize,
        /// The set or map.
        name: Name,
    },
    /// An operation changes a table that does not exist.
    #[error("operation {operation} is for a table that does not exist")]
    NoTable {
        /// Its index in the plan.
        operation: usize,
    },
    /// Something is longer than a message can say.
    #[error("operation {operation}, {object}: longer than 64 KiB")]
    TooLong {
        /// Its index in the plan.
        operation: usize,
        /// What it is about.
        object: Object,
    },
    /// The kernel refuses the whole, or could not be asked.
    #[error(transparent)]
    Transaction(BatchError),
}

impl ApplyError {
    /// The names of the chains, counters, sets and maps that are to blame, as far as that is known.
    pub fn names(&self) -> BTreeSet<&Name> {
        match self {
            Self::Refused(refusals) => refusals.iter().filter_map(|one| one.object.name()).collect(),
            Self::TooLong { object, .. } => object.name().into_iter().collect(),
            Self::Unknown { name, .. } => [name].into(),
            Self::Stale | Self::NoTable { .. } | Self::Transaction(_) => BTreeSet::new(),
        }
    }
}

/// What the kernel refuses of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The index of the operation in the plan.
    pub operation: usize,
    /// What of it.
    pub object: Object,
    /// The error code, as in `libc::ENOENT`.
    pub code: i32,
    /// The kernel's own words, if it has some.
    pub explanation: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = std::io::Error::from_raw_os_error(self.code);
        write!(f, "operation {}, {}: {code}", self.operation, self.object)?;
        self.explanation
            .as_ref()
            .map_or(Ok(()), |text| write!(f, ": {text}"))
    }
}

fn listed(refusals: &[Refusal]) -> String {
    let each: Vec<String> = refusals.iter().map(Refusal::to_string).collect();
    each.join("; ")
}

impl Client {
    /// Opens the rulesets of `namespace`; they stay those whatever thread uses it.
    ///
    /// # Errors
    /// When the namespace cannot be entered or no socket made.
    pub fn open(namespace: &NetworkNamespace) -> picket_linux::Result<Self> {
        Nfnetlink::open(namespace).map(|socket| Self {
            socket,
            known: None,
            holds: false,
            held: HELD,
            is_wary: false,
            guard: None,
            portion: PORTION,
            patience: Patience::Waits,
            is_changing: false,
            changes: 0,
            // Who had the table before may just have changed it.
            passing: Some(Passing::begin()),
        })
    }

    /// The same, which makes what nothing leads to yet in transactions of at most so many objects, rules and elements.
    #[must_use]
    pub fn in_portions_of(mut self, portion: usize) -> Self {
        self.portion = portion;
        self
    }

    /// The same, and from now on no other program may change the tables that [`Client::sync`] makes, or flush them, while
    /// this lives. They outlive it. Where the kernel cannot do that (before 6.9), everybody may.
    #[must_use]
    pub fn holding(mut self) -> Self {
        self.holds = true;
        self
    }

    /// The same for a namespace in which others may put as much into rulesets as they like: of a table that it syncs it reads no
    /// more than is to be there, and some. One that has more is none that picket has written, and is replaced. One that another
    /// socket holds it does not try to change, and does not read where it is to hold it itself.
    #[must_use]
    pub fn wary(mut self) -> Self {
        self.is_wary = true;
        self
    }

    /// The same, which does not wait until no packet from before a change is on its way any more only to end that sources are judged
    /// twice, and leaves that to [`Client::calm`].
    #[must_use]
    pub fn patient(mut self) -> Self {
        self.patience = Patience::Leaves;
        self
    }

    /// Whether it keeps others from changing the tables that it syncs, as far as it knows what the kernel can.
    pub fn is_holding(&self) -> bool {
        self.holds
    }

    /// By what others know the transactions of this client.
    pub fn port(&self) -> Port {
        self.socket.port()
    }

    /// The generation of the rulesets. Every transaction of anybody in the namespace makes the next one.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn generation(&mut self) -> picket_linux::Result<u32> {
        self.socket.generation()
    }

    /// What the kernel has of a table, and the generation of the rulesets then.
    ///
    /// # Errors
    /// When the kernel refuses, or the rulesets change all the time.
    pub fn read(&mut self, table: &Name) -> picket_linux::Result<(u32, Observed)> {
        let (generation, listing) = read::list(&mut self.socket, table, &read::Extent::All, |_| false)?;
        Ok((generation, listing.decode(table)))
    }

    /// Whether the kernel has a table of this name, whoever wrote it.
    ///
    /// # Errors
    /// As [`Client::read`].
    pub fn exists(&mut self, table: &Name) -> picket_linux::Result<bool> {
        read::exists(&mut self.socket, table)
    }

    /// Removes a table, if there is one; whether there was.
    ///
    /// # Errors
    /// [`SyncError`]; it is as it was then.
    pub fn remove(&mut self, table: &Name) -> Result<bool, SyncError> {
        self.forget();
        if !self.exists(table)? {
            return Ok(false);
        }
        let plan = Plan::from_iter([Operation::Delete(table.clone())]);
        self.apply(None, &plan, None).map_err(SyncError::Apply)?;
        Ok(true)
    }

    /// Carries out a plan on a table that is as `observed`: all of it, or nothing. Where packets on their way could be judged
    /// wrongly otherwise that takes several transactions ([`Stages`]), and no packet meets two that it might notice
    /// ([`Client::await_packets`]). With a generation only when the rulesets are still of it.
    ///
    /// # Errors
    /// [`ApplyError`]; nothing has changed then, unless it is [`BatchError::Unanswered`].
    pub fn apply(
        &mut self,
        observed: Option<&Table>,
        plan: &Plan<Operation>,
        generation: Option<u32>,
    ) -> Result<(), ApplyError> {
        let patience = std::mem::replace(&mut self.patience, Patience::Waits);
        let done = self.commit(observed, plan, Hold::Leave, generation, self.portion);
        self.patience = patience;
        done.map(drop)
    }

    /// Returns the generation that follows, if the one before is known; [`NEVER`] where more is left there than should be.
    fn commit(
        &mut self,
        observed: Option<&Table>,
        plan: &Plan<Operation>,
        hold: Hold,
        generation: Option<u32>,
        portion: usize,
    ) -> Result<Option<u32>, ApplyError> {
        let is_end = is_end(plan);
        self.changes += u64::from(!is_end);
        let stages = Stages::of(observed, plan, portion);
        let plans = stages
            .as_ref()
            .map_or_else(|| vec![plan], |stages| stages.before_end().collect());
        let is_held = matches!(hold, Hold::Keep | Hold::Take);
        let unmet = stages.as_ref().map_or(0, |stages| stages.unmet);
        let mut generation = generation;
        for (index, transaction) in encode(observed, &plans, hold, self.held)?.into_iter().enumerate() {
            // Once the table is held nobody else changes it between two transactions, whatever they do to others.
            let expected = generation.filter(|_| index == 0 || !is_held);
            let is_noticed = index >= unmet && plans.get(index).is_some_and(|plan| !plan.is_empty());
            // A table that stands in for another is only added.
            if is_noticed && hold != Hold::Briefly {
                self.await_packets();
            }
            let done = self.transact(transaction, expected);
            if is_noticed && done.as_ref().err().is_none_or(is_unanswered) {
                self.passing = Some(Passing::begin());
            }
            if let Err(error) = done {
                let Some(stages) = &stages else {
                    return Err(error);
                };
                // All is in force: whoever reads the table next makes it right, where that is not done on no condition.
                if index > stages.first.len() {
                    let _ = self.carry_out_alone(observed, &stages.last);
                    self.passing = Some(Passing::begin());
                    self.is_changing = !stages.end.is_empty();
                    return Ok(Some(NEVER));
                }
                // What may be in force is not taken back.
                if index < stages.first.len() || !is_unanswered(&error) {
                    self.undo(observed, stages, index);
                }
                return Err(error);
            }
            generation = generation.map(following);
        }
        match stages.filter(|stages| !stages.end.is_empty()) {
            Some(_) if self.patience != Patience::Waits => self.is_changing = true,
            // All is in force, whatever becomes of what is left.
            Some(stages) => {
                let ended = self.commit(observed, &stages.end, hold.kept(), generation, portion);
                return Ok(ended.unwrap_or(Some(NEVER)));
            }
            None => {}
        }
        Ok(generation)
    }

    /// Waits until no packet is on its way from before the last transaction that packets notice. Before the next one that is done anyway: a
    /// packet that meets two might be judged by what was, by what is, and by what was between them.
    pub fn await_packets(&mut self) {
        if let Some(passing) = self.passing.take() {
            passing.end();
        }
    }

    /// Whether there is no more to wait for ([`Client::await_packets`]).
    pub fn packets_have_come(&self) -> bool {
        self.passing.is_none_or(Passing::is_over)
    }

    fn transact(&mut self, (batch, origins): Transaction, generation: Option<u32>) -> Result<(), ApplyError> {
        let done = self.socket.commit(batch, generation);
        done.map_err(|error| blamed(error, &origins))
    }

    /// Takes away what was made and nothing leads to. Where that fails the next who reads the table does it.
    fn undo(&mut self, observed: Option<&Table>, stages: &Stages, done: usize) {
        let is_noticed = done > stages.unmet;
        if is_noticed {
            self.await_packets();
        }
        let _ = self.carry_out_alone(observed, &stages.undo(done));
        if is_noticed {
            self.passing = Some(Passing::begin());
        }
    }

    /// Carries out in one transaction what changes nothing of what is to be in force, whatever others have changed.
    fn carry_out_alone(
        &mut self,
        observed: Option<&Table>,
        plan: &Plan<Operation>,
    ) -> Result<(), ApplyError> {
        let mut transactions = encode(observed, &[plan], Hold::Leave, self.held)?.into_iter();
        transactions.try_for_each(|transaction| self.transact(transaction, None))
    }
}

impl From<Unknown> for ApplyError {
    fn from(Unknown { operation, name }: Unknown) -> Self {
        match name {
            Some(name) => Self::Unknown { operation, name },
            None => Self::NoTable { operation },
        }
    }
}

/// Puts operations where the transaction has messages.
fn blamed(error: BatchError, origins: &[Origin]) -> ApplyError {
    match error {
        BatchError::Stale => ApplyError::Stale,
        BatchError::TooLong(message) if let Some(origin) = origins.get(message) => ApplyError::TooLong {
            operation: origin.operation,
            object: origin.object.clone(),
        },
        BatchError::Refused(refused) => {
            let refusals = refused.into_iter().filter_map(|refused| {
                let origin = origins.get(refused.message)?;
                Some(Refusal {
                    operation: origin.operation,
                    object: origin.object.clone(),
                    code: refused.code,
                    explanation: refused.explanation,
                })
            });
            ApplyError::Refused(refusals.collect())
        }
        other => ApplyError::Transaction(other),
    }
}

#[cfg(test)]
mod tests;
