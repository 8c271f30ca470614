//! The agent with VPP as its target: the built program, and a strict VPP of the tests on a real socket.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot set itself up fails, as does one that lacks what it looks for"
)]

mod agent;
mod annotation;
mod closed;
mod closed_sockets;
mod enforce;
mod extent;
mod faults;
mod foreign;
mod kernel;
mod lists;
mod outages;
mod random;
mod scene;
mod session;
mod sockets;
mod uplinks;
mod verify;
