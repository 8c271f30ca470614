//! Against a real Neutron, and a real Keystone.

mod addresses;
mod faults;
mod groups;
mod keystone;
mod ports;
