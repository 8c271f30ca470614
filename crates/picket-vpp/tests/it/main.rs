//! VPP's lists and rules against the reference, and against what others made of the same.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "functions that tests share; a failure there is a failure of the test"
)]

mod acl;
mod beside;
mod cases;
mod configured;
mod corrected;
mod cut;
mod ends;
mod faults;
mod forged;
mod fragments;
mod installed;
mod journey;
mod loopback;
mod plan;
mod reflection;
mod refused;
mod renderer;
mod replaced;
mod rules;
mod sctp;
mod selected;
mod services;
mod session;
mod sessions;
mod tags;
mod withdrawn;
