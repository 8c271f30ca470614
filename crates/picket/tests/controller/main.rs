//! `picket controller` against a real Neutron. Every test here needs it, and so is in the module `openstack`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a wrong literal fails its test"
)]

mod openstack;
