//! The controller against a real Neutron: what its API returns is held against the specification.
//!
//! Every test here needs it, and so is in the module `openstack`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a wrong literal, or a server that does not do what it should, fails its test"
)]

mod openstack;
