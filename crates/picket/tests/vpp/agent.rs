//! Agents: real processes that are asked how it goes.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use picket_linux::NetworkNamespace;
use picket_node::{Status, VppStatus, ask};
use picket_testing::http;
use picket_testing::ran::Ran;
use tempfile::TempDir;

/// How long an agent may take for anything before a test fails.
const BOUND: Duration = Duration::from_secs(240);

/// How long to wait until an agent is asked again.
const PAUSE: Duration = Duration::from_millis(5);

/// `picket agent`, until this is dropped.
pub(crate) struct Agent {
    child: Child,
    folder: TempDir,
}

impl Agent {
    /// Starts one on node `n1` that reads manifests, with these arguments.
    pub(crate) fn start(manifests: &Path, arguments: &[&str]) -> Self {
        let (mut command, folder) = command(manifests, arguments);
        Self {
            child: picket_linux::die_with_parent(&mut command).spawn().unwrap(),
            folder,
        }
    }

    /// The same in a network namespace.
    pub(crate) fn start_in(namespace: &NetworkNamespace, manifests: &Path, arguments: &[&str]) -> Self {
        let (mut command, folder) = command(manifests, arguments);
        Self {
            child: namespace.spawn(&mut command).unwrap(),
            folder,
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Waits until something holds of it.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Status) -> bool) -> Status {
        let began = Instant::now();
        loop {
            match ask(&self.socket()).ok() {
                Some(status) if holds(&status) => return status,
                status if began.elapsed() > BOUND => {
                    panic!("{what} does not come about: {status:#?}\n{}", self.log());
                }
                _ => sleep(PAUSE),
            }
        }
    }

    /// Waits until something holds of a target.
    pub(crate) fn until_vpp(
        &self,
        target: &str,
        what: &str,
        holds: impl Fn(&VppStatus) -> bool,
    ) -> VppStatus {
        let mut status = self.until(what, |status| status.vpp.get(target).is_some_and(&holds));
        status.vpp.remove(target).unwrap()
    }

    /// Waits until these policies are in force with a target.
    pub(crate) fn until_in_force(&self, target: &str, policies: &[&str]) -> VppStatus {
        self.until_vpp(target, &format!("{policies:?}"), |vpp| {
            vpp.is_well() && vpp.policies == policies
        })
    }

    /// `picket status` of it.
    pub(crate) fn asked(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
        command
            .arg("status")
            .args(arguments)
            .arg("--socket")
            .arg(self.socket());
        command.output().unwrap().into()
    }

    /// What it answers at a path of its socket: the status, and the text.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        http::get(UnixStream::connect(self.socket()).unwrap(), path).unwrap()
    }

    /// Ends it without order.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs one to its end.
pub(crate) fn run(manifests: &Path, arguments: &[&str]) -> Ran {
    run_on("n1", manifests, arguments)
}

/// The same on another node.
pub(crate) fn run_on(node: &str, manifests: &Path, arguments: &[&str]) -> Ran {
    let (mut command, _folder) = command_on(node, manifests, arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.output().unwrap().into()
}

fn command(manifests: &Path, arguments: &[&str]) -> (Command, TempDir) {
    command_on("n1", manifests, arguments)
}

fn command_on(node: &str, manifests: &Path, arguments: &[&str]) -> (Command, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
    command
        .args(["agent", "--hostname-override", node, "--source"])
        .arg(manifests)
        .arg("--socket")
        .arg(folder.path().join("socket"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(folder.path().join("log")).unwrap());
    (command, folder)
}
