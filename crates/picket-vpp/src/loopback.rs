//! The address that the NAT of a node gives packets of a pod that come back to it through a service.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use picket_cluster::{Node, Snapshot};

/// The last address for hosts in each of a node's podCIDRs: of IPv4 the one before the address for broadcasts.
pub fn of(node: &Node) -> Vec<IpAddr> {
    let each = node.pod_cidrs.iter().map(|cidr| match cidr.last() {
        IpAddr::V4(last) if cidr.length() < 31 => Ipv4Addr::from_bits(last.to_bits() - 1).into(),
        last => last,
    });
    each.collect()
}

/// Gives each node the addresses of its translation, as it counts as the node's; but for those that a pod has.
pub fn add(snapshot: &mut Snapshot) {
    let pods = snapshot.live_pods().filter(|pod| !pod.host_network);
    let taken: BTreeSet<_> = pods.flat_map(|pod| pod.addresses.iter()).collect();
    for node in snapshot.nodes.values_mut() {
        let free = of(node).into_iter().filter(|address| !taken.contains(address));
        node.addresses.extend(free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_address_for_hosts_is_taken() {
        for (cidr, expected) in [
            ("10.1.0.0/24", "10.1.0.254"),
            ("10.1.0.0/16", "10.1.255.254"),
            ("10.1.0.4/30", "10.1.0.6"),
            ("10.1.0.4/31", "10.1.0.5"),
            ("10.1.0.4/32", "10.1.0.4"),
            ("fd00:1::/120", "fd00:1::ff"),
            ("fd00:1::/64", "fd00:1::ffff:ffff:ffff:ffff"),
        ] {
            let node = Node {
                name: "a".into(),
                labels: picket_policy::Labels::default(),
                addresses: BTreeSet::new(),
                pod_cidrs: vec![cidr.parse().unwrap()],
            };
            assert_eq!(of(&node), [expected.parse::<IpAddr>().unwrap()], "{cidr}");
        }
    }
}
