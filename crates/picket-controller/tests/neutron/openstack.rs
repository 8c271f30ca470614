//! Against a real Neutron.

mod extensions;
mod faults;
mod kuryr;
mod meant;
mod policies;
mod ports;
mod quota;
mod random;
mod scene;
mod two;
