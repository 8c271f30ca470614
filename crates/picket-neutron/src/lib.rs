//! The Neutron target: OpenStack security groups that mean exactly the policies.
//!
//! A security group can only allow, and the rules of all groups of a port add up. So isolation is decided for each pod and
//! direction: a pod that nothing isolates gets a group that lets everything pass, and one that something isolates gets the
//! groups of the policies that do, which hold nothing for other directions.
//!
//! - [`Objects`]: the groups, the address groups and which groups each port has; [`json()`] and [`table()`] print them.
//! - [`render()`]: from a compiled program to these.
//! - [`meaning`]: what Neutron makes of them, worked out from its own semantics.
//! - [`plan`]: the calls that give Neutron these, in an order that never opens.
//! - [`verify`]: that this is what the policies say, for every address at once.
//! - `client`, with the feature of that name: speaking to Neutron.

mod addresses;
mod builder;
#[cfg(feature = "client")]
pub mod client;
mod digest;
mod kuryr;
pub mod meaning;
mod model;
mod name;
mod node;
pub mod plan;
mod policy;
mod print;
mod subject;
mod traffic;
pub mod verify;

pub use builder::{Options, Rendered, render};
pub use kuryr::kuryr_net_policies;
pub use model::{AddressGroup, Name, Objects, Port, Remote, SecurityGroup, SecurityGroupRule};
pub use node::node_addresses;
pub use print::{json, table, yaml, yaml_of};
