//! Two nodes on one link, which reach each other's pods by routes through each other (host-gateway).

use std::path::Path;

use super::plugin::SUBNETS;
use super::{HOSTS, Node, Plugin};
use crate::pods::{ip, place_of};

/// The nodes, and a host beside them.
const ON_LINK: [(&str, [&str; 2]); 3] = [
    ("node-1", HOSTS[0].1),
    ("node-2", ["192.0.2.2", "fd00:2::2"]),
    ("outside", HOSTS[1].1),
];

impl Node {
    /// Two nodes with these pods, from which the API server of the kubeconfig can be reached.
    pub(crate) fn gateways(plugin: &Plugin, pods: [&[&str]; 2], kubeconfig: &Path) -> Self {
        let mut nodes = Self::nothing();
        ip(nodes.place("switch"), "link add link0 type bridge");
        ip(nodes.at("switch"), "link set link0 up");
        for (name, addresses) in ON_LINK {
            nodes.plug_in(name, addresses);
        }
        for (here, there) in [(0, 1), (1, 0)] {
            let (name, [v4, v6]) = (ON_LINK[here].0, ON_LINK[there].1);
            for (subnet, gateway) in SUBNETS[there].iter().zip([v4, v6]) {
                ip(
                    nodes.at(name),
                    &format!("route add {subnet} via {gateway} dev eth0"),
                );
            }
            nodes.attach(name, plugin, SUBNETS[here], pods[here]);
        }
        nodes.begin(&["node-1", "node-2"], kubeconfig);
        nodes
    }

    /// Builds a node or a host on the link.
    fn plug_in(&mut self, name: &str, addresses: [&str; 2]) {
        self.place(name);
        let (place, switch) = (self.at(name), self.at("switch"));
        let end = format!("to-{name}");
        ip(place, &format!("link add eth0 type veth peer name {end}"));
        ip(place, &format!("link set {end} netns {}", place_of(switch)));
        ip(switch, &format!("link set {end} master link0 up"));
        ip(place, "link set eth0 up");
        for (address, length) in addresses.iter().zip([24, 64]) {
            ip(place, &format!("address add {address}/{length} dev eth0"));
        }
        let addresses = addresses.map(|address| address.parse().unwrap());
        self.addresses.insert(name.to_owned(), addresses);
    }
}
