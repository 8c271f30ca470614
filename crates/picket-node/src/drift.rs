//! The thread that hears when others change the table.

use picket_linux::Port;
use picket_nftables::client::Watch;

use crate::AgentError;
use crate::inbox::{News, Outbox, readable};

/// Tells what others than the client of this port do to the table, in a thread of its own, which ends with the process.
pub(crate) fn start(mut watch: Watch, keeper: Port, outbox: Outbox) -> Result<(), AgentError> {
    let readable = readable(watch.monitor())?;
    outbox.listen("picket-watch", readable, move || {
        let changes = watch.changes(keeper)?;
        Ok((!changes.is_empty()).then_some(News::Table(changes)))
    })
}
