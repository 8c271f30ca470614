//! The way from what Neutron has to what is wanted.

mod calls;
mod fake;
mod mended;
mod random;
mod watch;
mod world;
