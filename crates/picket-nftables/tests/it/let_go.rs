//! What one test has let go while the processes that others start may still have it.

use std::fmt::Debug;
use std::io::{self, ErrorKind};
use std::thread;

use picket_nftables::client::SyncError;

/// How often it is tried; nobody has it for so long.
const ATTEMPTS: usize = 100_000;

/// What comes of `attempt` once nobody has what it needs, for which it fails with an error that is `taken`: a process that another test
/// starts has all sockets until it is what it is to be.
pub(crate) fn once_free<T, E: Debug>(
    taken: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> T {
    for _ in 0..ATTEMPTS {
        match attempt() {
            Err(error) if taken(&error) => thread::yield_now(),
            done => return done.expect("what nobody has"),
        }
    }
    attempt().expect("what nobody has")
}

/// What comes of `bind` once no socket has the address, closed ones of this process among them.
pub(crate) fn once_unbound<T>(bind: impl FnMut() -> io::Result<T>) -> T {
    once_free(|error: &io::Error| error.kind() == ErrorKind::AddrInUse, bind)
}

/// What comes of `attempt` once no client holds the table.
pub(crate) fn once_held_by_none<T>(attempt: impl FnMut() -> Result<T, SyncError>) -> T {
    once_free(|error| matches!(error, SyncError::Held { .. }), attempt)
}
