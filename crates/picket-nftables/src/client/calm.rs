//! After a change, when no packet from before it is on its way any more.

use super::{Client, Report, SyncError};
use crate::diff::end;

/// What becomes of that which is to be done then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It is waited for, and done.
    Waits,
    /// It is left to [`Client::calm`].
    Leaves,
    /// It is just done; what others add to it is left again.
    Calms,
}

impl Client {
    /// Whether there is nothing for [`Client::calm`] to do.
    pub fn is_calm(&self) -> bool {
        self.table().is_none_or(|table| end(table).is_none())
    }

    /// The change since which there is, if there is: how often this client has changed something by then, or tried to.
    pub fn changing(&self) -> Option<u64> {
        (!self.is_calm()).then_some(self.changes)
    }

    /// Ends what has kept packets from being judged by two tables: that sources are judged once more. Waits before until every packet
    /// has come that was on its way when the last change came into force, as before any other change ([`Client::await_packets`]).
    /// Where nothing is to end, does nothing. What others have changed meanwhile is repaired, and reported.
    ///
    /// # Errors
    /// [`SyncError`]; the rules are in force whatever comes of this.
    pub fn calm(&mut self) -> Result<Report, SyncError> {
        let Some(plan) = self.table().and_then(|table| end(table)) else {
            return Ok(Report::default());
        };
        let patience = std::mem::replace(&mut self.patience, Patience::Calms);
        let ended = self.advance(&plan);
        self.patience = patience;
        ended.map(Option::unwrap_or_default)
    }
}
