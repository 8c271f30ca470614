//! The real kube-proxy, on a node.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use picket_testing::program::KUBE_PROXY;
use serde_json::json;

use super::Node;
use crate::agents::spawn;

/// How long it may take for anything before a test fails.
const BOUND: Duration = Duration::from_secs(240);

/// How it makes services work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// With iptables, whose rules the kernel keeps as nftables.
    Iptables,
    /// With iptables as the kernel had them before nftables.
    IptablesLegacy,
    /// With nftables.
    Nftables,
    /// With the load balancer of the kernel.
    Ipvs,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Iptables | Self::IptablesLegacy => "iptables",
            Self::Nftables => "nftables",
            Self::Ipvs => "ipvs",
        }
    }

    /// A folder in which `iptables` is the one of the mode.
    fn programs(self, node: &Node) -> PathBuf {
        let backend = if self == Self::IptablesLegacy {
            "legacy"
        } else {
            "nft"
        };
        let folder = node.folder.path().join(backend);
        if fs::create_dir(&folder).is_ok() {
            for family in ["iptables", "ip6tables"] {
                for end in ["", "-save", "-restore"] {
                    let program = format!("/usr/sbin/{family}-{backend}{end}");
                    symlink(program, folder.join(format!("{family}{end}"))).unwrap();
                }
            }
        }
        folder
    }
}

/// A running kube-proxy.
pub(crate) struct KubeProxy {
    process: u32,
    /// Ends with the process.
    ended: Option<JoinHandle<ExitStatus>>,
    log: PathBuf,
}

impl KubeProxy {
    /// Starts one on the node of this name, as whoever the kubeconfig says.
    pub(crate) fn start(node: &Node, name: &str, mode: Mode, kubeconfig: &Path) -> Self {
        let never = "0s";
        let configuration = json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": mode.name(),
            "hostnameOverride": name,
            "clientConnection": {"kubeconfig": kubeconfig},
            "clusterCIDR": "10.245.0.0/16,fd78::/32",
            "iptables": {"minSyncPeriod": never},
            "nftables": {"minSyncPeriod": never},
            "conntrack": {"maxPerCore": 0, "min": 0},
        });
        let file = node.folder.path().join(format!("kube-proxy-of-{name}.json"));
        fs::write(&file, configuration.to_string()).unwrap();
        let log = node.folder.path().join(format!("kube-proxy-of-{name}.log"));
        let mut path = mode.programs(node).into_os_string();
        path.push(":/usr/sbin:/usr/bin:/sbin:/bin");
        let mut command = Command::new(KUBE_PROXY.path());
        command
            .arg("--config")
            .arg(file)
            .env("PATH", path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap());
        let (process, ended) = spawn(node.at(name), command);
        Self {
            process,
            ended: Some(ended),
            log,
        }
    }

    /// Waits until something holds that it sees to.
    pub(crate) fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < BOUND, "{what}: {}", self.log());
        }
    }

    /// Ends it without order.
    pub(crate) fn kill(&mut self) {
        if let Some(ended) = self.ended.take() {
            picket_linux::kill(self.process);
            ended.join().unwrap();
        }
    }

    /// What it said.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for KubeProxy {
    fn drop(&mut self) {
        self.kill();
    }
}
