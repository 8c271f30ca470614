//! What one test has let go while the processes that others start may still have it.

use std::fmt::Debug;
use std::thread;

use picket_nftables::client::SyncError;

/// What comes of `attempt` once nobody has what it needs, for which it fails with an error that is `taken`: a process that another test
/// starts has all sockets until it is what it is to be.
pub(crate) fn once_free<T, E: Debug>(
    taken: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> T {
    loop {
        match attempt() {
            Err(error) if taken(&error) => thread::yield_now(),
            done => return done.expect("what nobody has"),
        }
    }
}

/// What comes of `attempt` once no client holds the table.
pub(crate) fn once_held_by_none<T>(attempt: impl FnMut() -> Result<T, SyncError>) -> T {
    once_free(|error| matches!(error, SyncError::Held { .. }), attempt)
}
