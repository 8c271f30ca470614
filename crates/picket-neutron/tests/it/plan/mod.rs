//! The way from what Neutron has to what is wanted.

mod calls;
pub(crate) mod fake;
mod mended;
mod random;
mod stuck;
mod verified;
mod watch;
pub(crate) mod world;
