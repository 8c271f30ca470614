//! From what the kernel has of a table to what it should have.

use std::sync::Arc;

use picket_dataplane::{Objects, Plan};
use picket_linux::BatchError;

use super::read::{Foreign, Observed, canonical};
use super::{ApplyError, Client};
use crate::diff::Operation;
use crate::model::Table;

/// How often the way to a table is begun again because the rulesets have changed meanwhile.
const ATTEMPTS: usize = 10;

/// What was done to make a table as it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many operations were carried out; with none it was so already.
    pub operations: usize,
    /// How many times the table was read from the kernel, which is not needed while nobody else changes any ruleset.
    pub readings: usize,
    /// What others had put into the table and is gone, as far as picket cannot have written it.
    pub foreign: Vec<Foreign>,
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
    /// Others change rulesets faster than this one can be read and written.
    #[error("the rulesets changed {ATTEMPTS} times while the table was read and written")]
    Unsettled,
}

/// The table that the kernel has in one generation.
#[derive(Clone, Debug)]
pub(super) struct Known {
    generation: u32,
    table: Arc<Table>,
}

impl Client {
    /// Makes the table in the kernel as it is `desired`, in one transaction: what differs from what is there, nothing where
    /// nothing does. Where others have put something into the table that picket cannot have written it is replaced whole.
    ///
    /// The kernel is asked for what it has unless it is certain: since the last transaction of this client there has been
    /// no other of anybody.
    ///
    /// # Errors
    /// [`SyncError`]; the rules that were in force still are.
    pub fn sync(&mut self, desired: &Arc<Table>) -> Result<Report, SyncError> {
        let mut report = Report::default();
        for _ in 0..ATTEMPTS {
            let (generation, outcome) = match self.take_known(desired)? {
                Some(Known { generation, table }) => {
                    let plan = if Arc::ptr_eq(&table, desired) {
                        Plan::from_iter([])
                    } else {
                        Table::difference(Some(&table), desired)
                    };
                    (
                        generation,
                        self.carry_out(Some(&table), &plan, generation, &mut report),
                    )
                }
                None => {
                    report.readings += 1;
                    let (generation, observed) = self.read(desired.name())?;
                    let (table, plan) = way(&observed, desired);
                    let outcome = self.carry_out(table, &plan, generation, &mut report);
                    if let Observed::Altered(foreign) = observed {
                        report.foreign = foreign;
                    }
                    (generation, outcome)
                }
            };
            match outcome {
                Ok(()) => {}
                Err(error) if is_passing(&error) => continue,
                Err(error) => return Err(SyncError::Apply(error)),
            }
            // A transaction for one generation makes the next, and no generation has number 0.
            let made = u32::from(report.operations > 0);
            self.known = Some(Known {
                generation: generation.wrapping_add(made).max(1),
                table: Arc::clone(desired),
            });
            return Ok(report);
        }
        Err(SyncError::Unsettled)
    }

    /// What [`Client::sync`] would do now.
    ///
    /// # Errors
    /// When the kernel refuses to say what it has.
    pub fn plan(&mut self, desired: &Table) -> picket_linux::Result<Plan<Operation>> {
        let (_, observed) = self.read(desired.name())?;
        Ok(way(&observed, desired).1)
    }

    /// The last table that was made, if it is of this name and nobody has changed anything since.
    fn take_known(&mut self, desired: &Table) -> picket_linux::Result<Option<Known>> {
        let Some(known) = self
            .known
            .take()
            .filter(|known| known.table.name() == desired.name())
        else {
            return Ok(None);
        };
        let is_current = self.generation()? == known.generation;
        Ok(is_current.then_some(known))
    }

    fn carry_out(
        &mut self,
        observed: Option<&Table>,
        plan: &Plan<Operation>,
        generation: u32,
        report: &mut Report,
    ) -> Result<(), ApplyError> {
        report.operations = plan.operations().len();
        if plan.is_empty() {
            return Ok(());
        }
        self.apply(observed, plan, Some(generation))
    }
}

/// The table that a plan is for, and the plan.
fn way<'o>(observed: &'o Observed, desired: &Table) -> (Option<&'o Table>, Plan<Operation>) {
    match observed {
        Observed::Absent => (None, Table::difference(None, desired)),
        Observed::Table(table) => (Some(table), Table::difference(Some(table), &canonical(desired))),
        Observed::Altered(_) => (
            None,
            Plan::from_iter([Operation::Replace(Box::new(desired.clone()))]),
        ),
    }
}

/// Whether a transaction may succeed when what is there is read again.
fn is_passing(error: &ApplyError) -> bool {
    matches!(
        error,
        ApplyError::Stale | ApplyError::Transaction(BatchError::Unanswered)
    )
}
