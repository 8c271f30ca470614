//! After a change, when no packet from before it is on its way any more.

use super::{Client, SyncError};
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

    /// Ends what has kept packets from being judged by two tables: that sources are judged once more. Every packet must have come that
    /// was on its way when the last change came into force ([`picket_linux::await_packets`]). Where nothing is to end, does nothing.
    ///
    /// # Errors
    /// [`SyncError`]; the rules are in force whatever comes of this.
    pub fn calm(&mut self) -> Result<(), SyncError> {
        let Some(plan) = self.table().and_then(|table| end(table)) else {
            return Ok(());
        };
        let patience = std::mem::replace(&mut self.patience, Patience::Calms);
        let ended = self.advance(&plan);
        self.patience = patience;
        ended.map(drop)
    }
}
