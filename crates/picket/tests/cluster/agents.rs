//! Agents on the nodes of a lab: real processes in real network namespaces, which ask a real API server.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use picket_cluster::{Flow, Judgement, Semantics, Snapshot};
use picket_lab::{Cell, Enforcement, Error, Lab, Layout, Place, Progress, Shape, Topology, compile};
use picket_linux::{NetworkNamespace, die_with_parent};
use picket_net::Family;
use picket_node::{Status, ask};
use picket_policy::NetworkName;
use picket_testing::http;
use picket_testing::lost::{LostAnswers, Share};
use picket_testing::ran::Ran;
use picket_testing::signal::signal;
use serde_json::Value;
use smol_str::SmolStr;
use tempfile::TempDir;

use crate::proxy::Proxy;
use crate::published::Versions;

/// How long an agent may take for anything before a test fails.
const BOUND: Duration = Duration::from_secs(240);

/// How long to wait until an agent is asked again.
const PAUSE: Duration = Duration::from_millis(10);

/// The lab enforces nothing: agents do. It knows what they should.
struct ByAgents(Box<dyn Enforcement>);

impl Enforcement for ByAgents {
    fn judge(&self, network: Option<&NetworkName>, flow: &Flow) -> Judgement {
        self.0.judge(network, flow)
    }

    fn rulesets(&self, _: &Topology) -> Result<BTreeMap<Place, String>, Error> {
        Ok(BTreeMap::new())
    }
}

/// A lab whose nodes enforce nothing by themselves, and from which the API server of this kubeconfig can be reached.
pub(crate) fn lab(snapshot: &Snapshot, kubeconfig: &Path) -> Lab {
    lab_behind(snapshot, kubeconfig).0
}

/// The same, and the ways from its nodes to the API server.
pub(crate) fn lab_behind(snapshot: &Snapshot, kubeconfig: &Path) -> (Lab, Vec<Proxy>) {
    let shape = Shape {
        nodes: 2,
        outside: Default::default(),
        timeout: Duration::from_millis(600),
    };
    let compile = compile(Layout::Indexed, &Semantics::default(), &[]);
    let by_agents = move |snapshot: &Snapshot| -> Result<Box<dyn Enforcement>, Error> {
        Ok(Box::new(ByAgents(compile(snapshot)?)))
    };
    let lab = Lab::up(snapshot, shape, &[], Box::new(by_agents), &Progress::hidden()).unwrap();
    let port = port_of(kubeconfig);
    let nodes = lab.topology().snapshot.nodes.keys();
    let proxy = |node: &_| {
        let place = Place::Node(SmolStr::clone(node));
        Proxy::from(lab.network().namespace(&place).unwrap(), port)
    };
    let proxies = nodes.map(proxy).collect();
    (lab, proxies)
}

/// An agent on one node.
pub(crate) struct Agent {
    node: String,
    process: u32,
    /// Ends with the process.
    ended: Option<JoinHandle<ExitStatus>>,
    folder: TempDir,
}

impl Agent {
    /// Starts one on a node of a lab, as whoever the kubeconfig says.
    pub(crate) fn start(lab: &Lab, node: &str, kubeconfig: &Path) -> Self {
        Self::start_with(lab, node, kubeconfig, &[])
    }

    /// The same with more arguments.
    pub(crate) fn start_with(lab: &Lab, node: &str, kubeconfig: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
        command.arg("agent").args(more);
        Self::run(lab, node, kubeconfig, command)
    }

    /// The same with another command.
    pub(crate) fn run(lab: &Lab, node: &str, kubeconfig: &Path, command: Command) -> Self {
        let namespace = lab.network().namespace(&Place::Node(node.into())).unwrap();
        Self::run_in(namespace, node, kubeconfig, command)
    }

    /// The same in any namespace.
    pub(crate) fn run_in(
        namespace: &NetworkNamespace,
        node: &str,
        kubeconfig: &Path,
        mut command: Command,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        command
            .args([
                "--hostname-override",
                node,
                "--discovery-interval",
                "1",
                "--kubeconfig",
            ])
            .arg(kubeconfig)
            .arg("--socket")
            .arg(folder.path().join("socket"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let (process, ended) = spawn(namespace, command);
        Self {
            node: node.to_owned(),
            process,
            ended: Some(ended),
            folder,
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Runs a command of picket that asks agents, and has it ask this one.
    pub(crate) fn asked_by(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
        command.args(arguments).arg("--socket").arg(self.socket());
        command.output().unwrap().into()
    }

    /// How it goes with it, if it answers.
    pub(crate) fn status(&self) -> Option<Status> {
        ask(&self.socket()).ok()
    }

    /// Waits until something holds of it.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Status) -> bool) -> Status {
        let began = Instant::now();
        loop {
            let status = self.status();
            match status {
                Some(status) if holds(&status) => return status,
                status if began.elapsed() > BOUND => {
                    panic!(
                        "{}: {what} does not come about: {status:#?}\n{}",
                        self.node,
                        self.log()
                    );
                }
                _ => sleep(PAUSE),
            }
        }
    }

    /// Waits until it enforces the objects of these versions.
    pub(crate) fn until_enforced(&self, versions: &Versions) -> Status {
        self.until(&format!("{versions:?}"), |status| knows(status, versions))
    }

    /// What it answers at a path of its socket: the status, and the text.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        get(&self.socket(), path)
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.await_end()
    }

    /// Has it stand still (`STOP`), go on (`CONT`), or sends it another signal.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.process, name);
    }

    /// Waits until it ends by itself.
    pub(crate) fn await_end(&mut self) -> ExitStatus {
        self.ended.take().unwrap().join().unwrap()
    }

    /// What it said.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Until this is dropped it does not hear of half of what the kernel has done for it.
    pub(crate) fn lose_answers(&self) -> LostAnswers {
        LostAnswers::of(self.process, Share::Half)
    }

    /// Ends it without order. What it enforces stays.
    pub(crate) fn kill(&mut self) {
        if let Some(ended) = self.ended.take() {
            picket_linux::kill(self.process);
            ended.join().unwrap();
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether an agent of this status enforces the objects of these versions.
pub(crate) fn knows(status: &Status, versions: &Versions) -> bool {
    versions.iter().all(|(kind, version)| {
        let enforced = status.host.versions.get(kind.as_str());
        enforced.is_some_and(|enforced| enforced.parse::<u64>().unwrap() >= *version)
    })
}

/// Runs a command in a namespace. It ends with the thread that started it, and that with it.
pub(crate) fn spawn(namespace: &NetworkNamespace, mut command: Command) -> (u32, JoinHandle<ExitStatus>) {
    let namespace = namespace.duplicate().unwrap();
    let (sender, receiver) = channel();
    let ended = thread::spawn(move || {
        namespace.enter().unwrap();
        let mut child = die_with_parent(&mut command).spawn().unwrap();
        sender.send(child.id()).unwrap();
        child.wait().unwrap()
    });
    (receiver.recv().unwrap(), ended)
}

/// What lines of a log in JSON tell about denied connections, in order.
pub(crate) fn denied(log: &str) -> Vec<Value> {
    // The last line may still be written.
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let denied = lines.filter(|line| line["target"] == "picket::denied");
    denied.map(|line| line["fields"].clone()).collect()
}

/// The port of the API server that a kubeconfig names.
pub(crate) fn port_of(kubeconfig: &Path) -> u16 {
    let text = fs::read_to_string(kubeconfig).unwrap();
    let (_, rest) = text.split_once("https://127.0.0.1:").unwrap();
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    port.parse().unwrap()
}

/// Holds what the wire says against the policies, pair by pair. Returns how many answers there were.
pub(crate) fn check(lab: &mut Lab, title: &str, agents: &[Agent]) -> usize {
    let grid = lab.probe(None, lab.timeout(), &Progress::hidden()).unwrap();
    let logs: Vec<_> = agents.iter().map(Agent::log).collect();
    assert_eq!(
        grid.differences().count(),
        0,
        "{title}\n{}\n{}",
        grid.to_text(false),
        logs.join("\n")
    );
    for family in Family::BOTH {
        let of_family = |cell: &Cell| cell.probe.family == family;
        assert!(grid.cells().iter().any(of_family), "{title}: no {family:?}");
    }
    grid.cells().len()
}

/// What an agent answers at a path of its socket: the status, and the text.
pub(crate) fn get(socket: &Path, path: &str) -> (u16, String) {
    http::get(UnixStream::connect(socket).unwrap(), path).unwrap()
}

/// The number that metrics have under a name.
pub(crate) fn value(metrics: &str, name: &str) -> u64 {
    let value = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
}
