//! The address that the NAT of a node gives packets of a pod that come back to it through a service.

use std::net::{IpAddr, Ipv4Addr};

use picket_cluster::Node;

/// The last address for hosts in each of a node's podCIDRs: of IPv4 the one before the address for broadcasts.
pub fn of(node: &Node) -> Vec<IpAddr> {
    let each = node.pod_cidrs.iter().map(|cidr| match cidr.last() {
        IpAddr::V4(last) if cidr.length() < 31 => Ipv4Addr::from_bits(last.to_bits() - 1).into(),
        last => last,
    });
    each.collect()
}
