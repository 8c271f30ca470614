//! Bridges at which pods reach each other past the rules of the node.

use std::fs;
use std::net::IpAddr;

use picket_linux::{Bridge, Netlink, NetworkNamespace};
use picket_net::{Family, Prefix};

/// Has the rules of the node see what passes over its bridges, where it is 1.
const fn setting(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "bridge-nf-call-iptables",
        Family::Ipv6 => "bridge-nf-call-ip6tables",
    }
}

/// Looks for bridges that pods of the node are at and whose packets no rule of the node sees.
pub(crate) struct Bridges {
    netlink: Netlink,
    notes: Vec<String>,
}

impl Bridges {
    pub(crate) fn open(namespace: &NetworkNamespace) -> picket_linux::Result<Self> {
        Ok(Self {
            netlink: Netlink::open(namespace)?,
            notes: Vec::new(),
        })
    }

    /// What to tell people of the bridges at which these addresses of pods are, in the namespace of this thread. What is new is
    /// logged.
    ///
    /// # Errors
    /// When the kernel does not say what bridges there are.
    pub(crate) fn look(&mut self, pods: impl Iterator<Item = IpAddr>) -> picket_linux::Result<&[String]> {
        let unseen = Family::BOTH.map(|family| !is_set(setting(family)));
        let mut notes = Vec::new();
        if unseen.contains(&true) {
            let bridges = self.netlink.bridges()?;
            let pods: Vec<_> = if bridges.is_empty() {
                Vec::new()
            } else {
                pods.collect()
            };
            for (family, _) in Family::BOTH.into_iter().zip(unseen).filter(|(_, unseen)| *unseen) {
                let reached = bridges.iter().filter(|bridge| reaches(bridge, family, &pods));
                notes.extend(reached.map(|bridge| note(bridge, family)));
            }
        }
        for note in notes.iter().filter(|note| !self.notes.contains(note)) {
            tracing::warn!("{note}");
        }
        self.notes = notes;
        Ok(&self.notes)
    }
}

fn note(bridge: &Bridge, family: Family) -> String {
    let version = match family {
        Family::Ipv4 => "IPv4",
        Family::Ipv6 => "IPv6",
    };
    format!(
        "pods at the bridge `{}` reach each other over {version} past all policies: `net.bridge.{}` is not 1 (module \
         `br_netfilter`)",
        bridge.name,
        setting(family)
    )
}

/// Whether a pod with one of these addresses of the family is at the bridge.
fn reaches(bridge: &Bridge, family: Family, pods: &[IpAddr]) -> bool {
    let prefixes = bridge.reaches.iter();
    let mut prefixes = prefixes.filter_map(|(address, length)| Prefix::new(*address, *length));
    prefixes.any(|prefix| {
        let mut pods = pods.iter().filter(|pod| Family::of(**pod) == family);
        pods.any(|pod| prefix.contains(*pod))
    })
}

/// Kernels without the module do not have it.
fn is_set(setting: &str) -> bool {
    fs::read(format!("/proc/sys/net/bridge/{setting}")).is_ok_and(|value| value.trim_ascii() == b"1")
}

#[cfg(test)]
mod kernel {
    use std::process::Command;

    use super::*;

    #[test]
    fn bridges_of_pods_are_named_until_rules_see_what_passes_over_them() {
        let namespace = NetworkNamespace::create().unwrap();
        let mut bridges = Bridges::open(&namespace).unwrap();
        let pods = ["10.1.0.7", "fd00:1::7"].map(|pod| pod.parse::<IpAddr>().unwrap());
        let mut look = |settings: [&str; 2]| {
            let [v4, v6] = settings;
            let settings = [
                ("bridge/bridge-nf-call-iptables", v4),
                ("bridge/bridge-nf-call-ip6tables", v6),
            ];
            namespace.set(&settings).expect("br_netfilter");
            let notes = namespace.run(|| bridges.look(pods.into_iter()).unwrap().to_vec());
            notes.unwrap()
        };
        assert_eq!(look(["0", "0"]), [""; 0]);
        for command in [
            "link add elsewhere type bridge",
            "link set elsewhere up",
            "address add 10.2.0.1/24 dev elsewhere",
            "link add cni0 type bridge",
            "link set cni0 up",
            "address add 10.1.0.1/24 dev cni0",
            "address add fd00:1::1/64 dev cni0 nodad",
        ] {
            let mut ip = Command::new("ip");
            let mut ip = namespace.spawn(ip.args(command.split(' '))).unwrap();
            assert!(ip.wait().unwrap().success(), "{command}");
        }
        let [v4, v6] = look(["0", "0"]).try_into().unwrap();
        assert!(
            v4.contains("`cni0`") && v4.contains("`net.bridge.bridge-nf-call-iptables`"),
            "{v4}"
        );
        assert!(
            v6.contains("`cni0`") && v6.contains("`net.bridge.bridge-nf-call-ip6tables`"),
            "{v6}"
        );
        assert_eq!(look(["1", "0"]), [v6]);
        assert_eq!(look(["0", "1"]), [v4]);
        assert_eq!(look(["1", "1"]), [""; 0]);
    }
}
