//! The thread that hears when others change the table.

use std::thread;

use picket_linux::{Epoll, Interest, Port};
use picket_nftables::client::Watch;

use crate::AgentError;
use crate::inbox::{News, Outbox};

/// Tells what others than the client of this port do to the table, in a thread of its own, which ends with the process.
pub(crate) fn start(mut watch: Watch, keeper: Port, outbox: Outbox) -> Result<(), AgentError> {
    let epoll = Epoll::new()?;
    epoll.add(watch.monitor(), 0, Interest::Read)?;
    let listen = move || {
        loop {
            match epoll.wait(None).and_then(|_| watch.changes(keeper)) {
                Ok(changes) if changes.is_empty() => {}
                Ok(changes) => outbox.tell(News::Table(changes)),
                Err(error) => return outbox.tell(News::Failed(error.into())),
            }
        }
    };
    thread::Builder::new()
        .name("picket-watch".to_owned())
        .spawn(listen)
        .map_err(AgentError::Start)?;
    Ok(())
}
