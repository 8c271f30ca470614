//! Addresses, prefixes, protocols and ports: exact set algebra.
//!
//! Every set in picket is canonical: two values that hold the same members are equal, hash alike and print alike.
//! That is what lets the layers above compare meanings by comparing values.

mod address;
mod bits;
mod interval;
mod port;
mod prefix;
mod protocol;
mod traffic;

pub use address::{AddressRange, AddressSet, Family, next_address, parse_address};
pub use bits::BitSet;
pub use interval::{Bound, Interval, IntervalSet};
pub use port::{PortRange, PortSet};
pub use prefix::{Prefix, PrefixError, PrefixNote};
pub use protocol::{Protocol, ProtocolSet};
pub use traffic::TrafficSet;
