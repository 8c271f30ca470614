//! Against a real Neutron.

mod extensions;
mod faults;
mod kuryr;
mod policies;
mod pool;
mod quota;
mod random;
mod scene;
