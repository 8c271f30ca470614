//! Reflectors: real processes, between a real API server and a real etcd.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use picket_linux::die_with_parent;
use picket_testing::etcd::Etcd;
use picket_testing::http;
use picket_testing::signal::signal;
use tempfile::TempDir;

/// How long anything may take before a test fails.
const BOUND: Duration = Duration::from_secs(240);

/// How long to wait until a reflector is asked again.
const PAUSE: Duration = Duration::from_millis(10);

/// The address of a port that nobody listens at.
fn free() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// A reflector.
pub(crate) struct Reflector {
    child: Child,
    folder: TempDir,
    listen: String,
}

impl Reflector {
    /// Starts one, as whoever the kubeconfig says.
    pub(crate) fn start(kubeconfig: &Path, etcd: &Etcd) -> Self {
        Self::start_with(kubeconfig, etcd, &[])
    }

    /// The same with more arguments.
    pub(crate) fn start_with(kubeconfig: &Path, etcd: &Etcd, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
        command
            .args(["reflect", "--etcd-endpoints", &etcd.endpoint()])
            .args(more);
        Self::run(kubeconfig, command)
    }

    /// The same with another command.
    pub(crate) fn run(kubeconfig: &Path, mut command: Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let listen = free();
        command
            .args([
                "--lease",
                "2",
                "--discovery-interval",
                "1",
                "--request-timeout",
                "5",
            ])
            .args(["--etcd-timeout", "1", "--listen", &listen, "--kubeconfig"])
            .arg(kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        Self {
            child: die_with_parent(&mut command).spawn().unwrap(),
            folder,
            listen,
        }
    }

    /// Ends it without order.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Stops it (`STOP`), lets it go on (`CONT`), or asks it to end (`TERM`).
    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(&mut self) {
        self.signal("TERM");
        assert!(self.child.wait().unwrap().success(), "{}", self.log());
    }

    /// What it said.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// What it answers at a path: the status, and the text. Nothing where it does not listen yet.
    pub(crate) fn get(&self, path: &str) -> Option<(u16, String)> {
        http::get(TcpStream::connect(&self.listen).ok()?, path)
    }

    /// Whether it says that it is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.get("/readyz").is_some_and(|(status, _)| status == 200)
    }

    /// The number that its metrics have under a name.
    pub(crate) fn value(&self, name: &str) -> Option<u64> {
        let (_, metrics) = self.get("/metrics")?;
        let name = format!("picket_reflector_{name} ");
        metrics
            .lines()
            .find_map(|line| line.strip_prefix(&name)?.parse().ok())
    }

    /// Waits until something holds of it.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !holds(self) {
            assert!(
                began.elapsed() < BOUND,
                "{what} does not come about: {}",
                self.log()
            );
            sleep(PAUSE);
        }
    }
}

impl Drop for Reflector {
    fn drop(&mut self) {
        self.kill();
    }
}
