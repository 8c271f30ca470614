//! The client, against a real Neutron and a real Keystone, and against servers that talk nonsense.
//!
//! Every test that needs the real ones is in the module `openstack`.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share; a failure there is a failure of the test"
)]

mod clouds;
mod hostile;
mod openstack;
mod support;
