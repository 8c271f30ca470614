//! The client against bytes by hand, against damage, and against a peer that does what it is told.

mod connection;
mod damage;
mod events;
mod peer;
mod vpp;
mod wire;
