//! Pods as local network namespaces, enforced and probed with real packets.

mod access;
mod control;
mod error;
mod expectation;
mod external;
mod grid;
mod keeper;
mod lab;
mod loaded;
mod network;
mod policies;
mod ports;
mod probe;
mod progress;
mod report;
mod servers;
mod session;
mod topology;
mod wire;

pub use access::gain_access;
pub use control::{ControlError, Request, Response, execute, running, send};
pub use error::{Error, Unloaded};
pub use expectation::{Expectation, ExpectationError, Outcome, check_expectations, parse_expectations};
pub use grid::{Cell, Grid};
pub use keeper::{Claim, Load, probe};
pub use lab::{Changes, Compile, Enforcement, Lab, Shape};
pub use network::Network;
pub use picket_linux::leave_terminal;
pub use policies::{Layout, compile};
pub use ports::Ports;
pub use probe::{Observation, Probe, all_pairs, ask};
pub use progress::Progress;
pub use report::{report, status};
pub use servers::Servers;
pub use topology::{Host, HostKind, Place, Topology, TopologyError};
