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
    /// Why nobody knew the last time.
    trouble: Option<String>,
}

impl Bridges {
    pub(crate) fn open(namespace: &NetworkNamespace) -> picket_linux::Result<Self> {
        Ok(Self {
            netlink: Netlink::open(namespace)?,
            notes: Vec::new(),
            trouble: None,
        })
    }

    /// What to tell people of the bridges at which these addresses of pods are, in the namespace of this thread. What is new is
    /// logged, and where the kernel does not say what bridges there are that is, and what was known stays.
    pub(crate) fn look(&mut self, pods: impl Iterator<Item = IpAddr>) -> &[String] {
        let read = self.read(pods);
        self.take(read)
    }

    fn take(&mut self, read: picket_linux::Result<Vec<String>>) -> &[String] {
        match read {
            Ok(notes) => {
                for note in notes.iter().filter(|note| !self.notes.contains(note)) {
                    tracing::warn!("{note}");
                }
                (self.notes, self.trouble) = (notes, None);
            }
            Err(error) => {
                let error = error.to_string();
                if self.trouble.as_ref() != Some(&error) {
                    tracing::warn!(error, "nobody knows what passes by at bridges");
                }
                self.trouble = Some(error);
            }
        }
        &self.notes
    }

    fn read(&mut self, pods: impl Iterator<Item = IpAddr>) -> picket_linux::Result<Vec<String>> {
        let unseen = Family::BOTH
            .into_iter()
            .filter(|family| !is_set(setting(*family)));
        let unseen: Vec<_> = unseen.collect();
        let of_unseen = pods.filter(|pod| unseen.contains(&Family::of(*pod)));
        let pods: Vec<_> = of_unseen.collect();
        if pods.is_empty() {
            return Ok(Vec::new());
        }
        let bridges = self.netlink.bridges()?;
        let mut notes = Vec::new();
        for family in unseen {
            let of_family = pods.iter().filter(|pod| Family::of(**pod) == family);
            let reached = bridges
                .iter()
                .filter(|bridge| of_family.clone().any(|pod| reaches(bridge, *pod)));
            notes.extend(reached.map(|bridge| note(bridge, family)));
        }
        Ok(notes)
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

/// Whether what the node sends to a pod with this address leaves over the bridge: the route that is about the least decides.
fn reaches(bridge: &Bridge, pod: IpAddr) -> bool {
    let longest = |routes: &[(IpAddr, u8)]| {
        let prefixes = routes.iter();
        let prefixes = prefixes.filter_map(|(address, length)| Prefix::new(*address, *length));
        let about_pod = prefixes.filter(|prefix| prefix.contains(pod));
        about_pod.map(|prefix| prefix.length()).max()
    };
    longest(&bridge.reaches).is_some_and(|here| longest(&bridge.elsewhere).is_none_or(|other| other <= here))
}

/// Kernels without the module do not have it.
fn is_set(setting: &str) -> bool {
    fs::read(format!("/proc/sys/net/bridge/{setting}")).is_ok_and(|value| value.trim_ascii() == b"1")
}

#[cfg(test)]
mod kernel {
    use std::io;
    use std::process::Command;

    use super::*;
    use crate::testing::Log;

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
            let notes = namespace.run(|| bridges.look(pods.into_iter()).to_vec());
            notes.unwrap()
        };
        assert_eq!(look(["0", "0"]), [""; 0]);
        let run = |command: &str| {
            let mut ip = Command::new("ip");
            let mut ip = namespace.spawn(ip.args(command.split(' '))).unwrap();
            assert!(ip.wait().unwrap().success(), "{command}");
        };
        for command in [
            "link add elsewhere type bridge",
            "link set elsewhere up",
            "address add 10.2.0.1/24 dev elsewhere",
            "link add cni0 type bridge",
            "link set cni0 up",
            "address add 10.1.0.1/24 dev cni0",
            "address add fd00:1::1/64 dev cni0 nodad",
        ] {
            run(command);
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
        assert_eq!(look(["1", "0"]), [v6.as_str()]);
        assert_eq!(look(["0", "1"]), [v4.as_str()]);
        assert_eq!(look(["1", "1"]), [""; 0]);
        // The pod has an interface of its own.
        run("link add pod7 type veth peer name other7");
        run("link set pod7 up");
        run("route add 10.1.0.7/32 dev pod7");
        assert_eq!(look(["0", "0"]), [v6]);
        run("-6 route add fd00:1::7/128 dev pod7");
        assert_eq!(look(["0", "0"]), [""; 0]);
        // Those of less, and of everything, are of no matter.
        run("route del 10.1.0.7/32 dev pod7");
        run("route add 10.1.0.0/16 dev pod7");
        assert_eq!(look(["0", "0"]), [v4]);
    }

    #[test]
    fn what_cannot_be_read_is_said_once() {
        let namespace = NetworkNamespace::create().unwrap();
        let mut bridges = Bridges::open(&namespace).unwrap();
        let fails = |why: &str| {
            Err(picket_linux::Error::Netlink {
                action: why.to_owned(),
                detail: String::new(),
                source: io::ErrorKind::Other.into(),
            })
        };
        let mut said = |read: picket_linux::Result<Vec<String>>| {
            let mut notes = Vec::new();
            let lines = Log::of(|| notes = bridges.take(read).to_vec());
            (lines.len(), notes.len())
        };
        let note = || Ok(vec!["a note".to_owned()]);
        assert_eq!(said(note()), (1, 1));
        assert_eq!(said(note()), (0, 1));
        assert_eq!(said(fails("list")), (1, 1));
        assert_eq!(said(fails("list")), (0, 1));
        assert_eq!(said(fails("read")), (1, 1));
        assert_eq!(said(note()), (0, 1));
        assert_eq!(said(fails("read")), (1, 1));
        assert_eq!(said(Ok(Vec::new())), (0, 0));
    }
}
