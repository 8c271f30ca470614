//! Against a real Neutron.

mod faults;
mod policies;
mod quota;
mod random;
mod scene;
