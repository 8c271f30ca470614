//! Pods as local network namespaces, enforced and probed with real packets.

mod error;
mod external;
mod network;
mod ports;
mod probe;
mod progress;
mod servers;
mod session;
mod topology;
mod wire;

pub use error::Error;
pub use network::Network;
pub use ports::Ports;
pub use probe::{Observation, Probe, all_pairs, ask};
pub use progress::Progress;
pub use servers::Servers;
pub use topology::{Host, HostKind, Place, Topology, TopologyError};
