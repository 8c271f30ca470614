//! Against a real Neutron.

mod extensions;
mod faults;
mod kuryr;
mod policies;
mod quota;
mod random;
mod scene;
