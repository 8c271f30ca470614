//! The Debian packages that tests and the lab use.

use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{is_installed, is_root, run, say};

/// A program, and the package of Debian 12 that brings it.
type Program = (&'static str, &'static str);

/// What the lab and the kernel tests need.
pub(crate) const KERNEL: [Program; 4] = [
    ("nft", "nftables"),
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("setpriv", "util-linux"),
];

/// What the tests of the page need.
pub(crate) const BROWSER: [Program; 1] = [("chromium", "chromium")];

/// What tests with sandboxes of real container runtimes need. Plugins of networks are in no search path.
pub(crate) const RUNTIME: [Program; 4] = [
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("conmon", "conmon"),
    ("/usr/lib/cni/host-local", "containernetworking-plugins"),
];

/// What building the image of picket needs, and the shell of what stands for the image that it is built in.
pub(crate) const IMAGE: [Program; 2] = [("buildah", "buildah"), ("busybox", "busybox-static")];

/// What kube-proxy needs.
pub(crate) const SERVICES: [Program; 1] = [("iptables", "iptables")];

/// What tests of etcd need: etcd, and certificates.
pub(crate) const ETCD: [Program; 2] = [("etcd", "etcd-server"), ("openssl", "openssl")];

/// What building programs of others needs.
pub(crate) const GO: [Program; 1] = [("go", "golang-go")];

/// What making environments of Python needs. The module that makes them is in no search path.
pub(crate) const PYTHON: [Program; 2] = [
    ("python3", "python3"),
    ("/usr/lib/python3.11/ensurepip/__init__.py", "python3-venv"),
];

/// Installs what is missing of `programs`, and says so. Needs root or `sudo` only when something is.
pub(crate) fn install_missing(programs: &[Program]) -> Result<()> {
    let missing: Vec<_> = programs
        .iter()
        .filter(|(program, _)| !is_installed(program))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    let packages = packages.join(" ");
    let programs: Vec<_> = missing
        .iter()
        .map(|(program, _)| format!("`{program}`"))
        .collect();
    say(&format!(
        "{} missing: installing the Debian packages {packages}",
        programs.join(", ")
    ));
    let install = format!("apt-get install --yes --no-install-recommends {packages}");
    if !is_installed("apt-get") {
        bail!("install {packages} (this is no Debian: `apt-get` was not found) and run this again");
    }
    let as_root = is_root()?;
    if !as_root && !is_installed("sudo") {
        bail!("installing needs root: run `{install}` as root, then this again");
    }
    let apt_get = |arguments: &str| {
        let mut words = if as_root { Vec::new() } else { vec!["sudo"] };
        words.extend(["env", "DEBIAN_FRONTEND=noninteractive"]);
        words.extend(arguments.split_whitespace());
        let mut command = Command::new(words.remove(0));
        command.args(words);
        command
    };
    run(&mut apt_get("apt-get update"))?;
    run(&mut apt_get(&install))
}
