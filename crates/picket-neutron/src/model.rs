//! What Neutron keeps for picket, as a value.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_net::{Family, PortRange, Prefix, Protocol};
use picket_policy::{Direction, ObjectRef};
use smol_str::SmolStr;

/// What a group is called. Within [`Objects`] names stand for the ids that Neutron gives.
pub type Name = SmolStr;

/// Whom a rule is about besides the ports that have its group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Remote {
    /// Everybody.
    Anyone,
    /// Addresses (`remote_ip_prefix`).
    Prefix(Prefix),
    /// The fixed addresses of the ports that have a group (`remote_group_id`).
    Group(Name),
    /// The addresses of an address group (`remote_address_group_id`).
    AddressGroup(Name),
}

/// One rule: new connections that it holds pass, and what answers them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecurityGroupRule {
    /// Towards the port, or from it.
    pub direction: Direction,
    /// Of which family.
    pub ethertype: Family,
    /// `None` for every protocol.
    pub protocol: Option<Protocol>,
    /// Destination ports; `None` for all, and for protocols without ports.
    pub ports: Option<PortRange>,
    /// The other end.
    pub remote: Remote,
}

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityGroup {
    /// For people.
    pub description: String,
    /// What it is found by. Each holds at most 60 characters, and no comma.
    pub tags: BTreeSet<SmolStr>,
    /// What its ports allow.
    pub rules: BTreeSet<SecurityGroupRule>,
}

/// An address group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressGroup {
    /// Disjoint.
    pub addresses: BTreeSet<Prefix>,
}

/// A port: where a pod is attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// The addresses of the pod.
    pub fixed_ips: BTreeSet<IpAddr>,
    /// The names of its groups: all that it has.
    pub security_groups: BTreeSet<Name>,
}

/// All groups of a cluster, and the ports that have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// By name.
    pub security_groups: BTreeMap<Name, SecurityGroup>,
    /// By name.
    pub address_groups: BTreeMap<Name, AddressGroup>,
    /// By pod.
    pub ports: BTreeMap<ObjectRef, Port>,
}
