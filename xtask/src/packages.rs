//! The Debian packages that tests and the lab use.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

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

/// What a virtual machine with another kernel needs, and what tests there need of it.
pub(crate) const MACHINE: [Program; 6] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("modprobe", "kmod"),
    ("cpio", "cpio"),
    ("busybox", "busybox-static"),
    ("apparmor_parser", "apparmor"),
    ("ipset", "ipset"),
];

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
    let programs: Vec<_> = missing
        .iter()
        .map(|(program, _)| format!("`{program}`"))
        .collect();
    say(&format!(
        "{} missing: installing the Debian packages {}",
        programs.join(", "),
        packages.join(" ")
    ));
    update()?;
    let install = ["install", "--yes", "--no-install-recommends"];
    as_root(&[&install[..], &packages].concat())
        .with_context(|| format!("install {} as root, then run this again", packages.join(" ")))
}

/// Asks Debian what packages there are now.
pub(crate) fn update() -> Result<()> {
    as_root(&["update"])
}

/// Runs `apt-get` as root.
fn as_root(arguments: &[&str]) -> Result<()> {
    ensure!(
        is_installed("apt-get"),
        "`apt-get` was not found: this is no Debian"
    );
    let mut words = vec!["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
    if !is_root()? {
        ensure!(is_installed("sudo"), "installing packages needs root");
        words.insert(0, "sudo");
    }
    words.extend(arguments);
    let mut command = Command::new(words.remove(0));
    run(command.args(words))
}
