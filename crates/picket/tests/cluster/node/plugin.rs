//! Real network plugins, which attach pods to a node.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use picket_linux::{NetworkNamespace, run_with_input};
use serde_json::{Value, json};

use crate::pods::place_of;

/// The networks of the pods of each node: IPv4 and IPv6.
pub(super) const SUBNETS: [[&str; 2]; 2] = [
    ["10.245.1.0/24", "fd78:0:0:1::/64"],
    ["10.245.2.0/24", "fd78:0:0:2::/64"],
];

/// Where Debian has plugins.
const FOLDER: &str = "/usr/lib/cni";

/// A network plugin, and what the node is set to for it.
pub(crate) struct Plugin {
    pub(crate) name: &'static str,
    pub(crate) settings: &'static [(&'static str, &'static str)],
}

/// Pods on one bridge, whose packets between each other iptables and nftables see, and pods with a cable each.
pub(crate) const PLUGINS: [Plugin; 2] = [
    Plugin {
        name: "bridge",
        settings: &[
            ("bridge/bridge-nf-call-iptables", "1"),
            ("bridge/bridge-nf-call-ip6tables", "1"),
        ],
    },
    Plugin {
        name: "ptp",
        settings: &[],
    },
];

impl Plugin {
    /// Attaches a pod to a node. Returns its addresses, which are of these networks: IPv4 and IPv6.
    pub(super) fn attach(
        &self,
        node: &NetworkNamespace,
        pod: &NetworkNamespace,
        name: &str,
        subnets: [&str; 2],
        state: &Path,
    ) -> [IpAddr; 2] {
        let ranges = subnets.map(|subnet| json!([{"subnet": subnet}]));
        let routes = json!([{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]);
        let configuration = json!({
            "cniVersion": "1.0.0",
            "name": "cluster",
            "type": self.name,
            "isGateway": true,
            "hairpinMode": true,
            "ipam": {"type": "host-local", "dataDir": state, "ranges": ranges, "routes": routes},
        });
        let mut command = Command::new(Path::new(FOLDER).join(self.name));
        command
            .env("CNI_COMMAND", "ADD")
            .env("CNI_CONTAINERID", name)
            .env("CNI_NETNS", place_of(pod))
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", FOLDER);
        let input = serde_json::to_vec(&configuration).unwrap();
        let output = run_with_input(node, &mut command, &input, "containernetworking-plugins").unwrap();
        let result: Value = serde_json::from_slice(&output).unwrap();
        let address = |of: usize| {
            let text = result["ips"][of]["address"].as_str().unwrap();
            text.split('/').next().unwrap().parse().unwrap()
        };
        [address(0), address(1)]
    }
}
