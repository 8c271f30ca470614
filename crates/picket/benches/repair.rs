//! How soon an agent has repaired what others did to its rules: `cargo bench -p picket --bench repair`, as root.
//!
//! An agent on a node with 110 pods, in a small cluster and in a large one, lets others change its table. They flush everything, or
//! add a rule that lets everything pass. How long nothing, or that rule, holds is from before nft is started until after the
//! agent's transaction, as its status says. At last nobody runs while they flush: there it is from before the next agent is started,
//! which reads the cluster from files. It fails where that is ever more than a second.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and fails at once"
)]

mod manifests;

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use manifests::write;
use picket_linux::NetworkNamespace;
use picket_node::{HostStatus, ask};
use tempfile::TempDir;

/// Pods, namespaces and policies.
const SIZES: [[u32; 3]; 2] = [[110, 12, 250], [5413, 604, 13_678]];

/// The node with its pods.
const NODE: &str = "node-0";

const TIMES: usize = 20;

/// How long to wait before something is wrong.
const BOUND: Duration = Duration::from_secs(120);

/// How long it may take.
const LIMIT: Duration = Duration::from_secs(1);

const PAUSE: Duration = Duration::from_micros(500);

const FLUSH: [&str; 2] = ["flush", "ruleset"];

const RULE: [&str; 6] = ["insert", "rule", "inet", "picket", "forward", "accept"];

fn main() -> ExitCode {
    let mut slowest = Duration::ZERO;
    for size in SIZES {
        let mut agent = Agent::start(size);
        let [pods, _, policies] = size;
        let host = agent.host();
        println!(
            "{pods} pods, {policies} policies; {} pods of them on the node",
            host.pods.all
        );
        type Way = fn(&mut Agent) -> Duration;
        let ways: [(&str, Way); 3] = [
            ("flush ruleset", |agent| agent.repair(&FLUSH)),
            ("a rule that accepts", |agent| agent.repair(&RULE)),
            ("flush without an agent", Agent::replace),
        ];
        for (what, way) in ways {
            let mut took: Vec<_> = (0..TIMES).map(|_| way(&mut agent)).collect();
            took.sort_unstable();
            let [best, median, worst] = [took[0], took[TIMES / 2], took[TIMES - 1]];
            println!("  {what:<22} best {best:>9.1?}, median {median:>9.1?}, worst {worst:>9.1?}");
            slowest = slowest.max(worst);
        }
    }
    if slowest > LIMIT {
        println!("a repair took {slowest:.1?}, which is more than {LIMIT:?}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

struct Agent {
    node: NetworkNamespace,
    process: Child,
    folder: TempDir,
}

impl Agent {
    /// One whose policies are in force.
    fn start(size: [u32; 3]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let manifests = folder.path().join("cluster");
        write(&manifests, size);
        let node = NetworkNamespace::create().unwrap();
        let agent = Self {
            process: spawn(&node, &folder),
            node,
            folder,
        };
        agent.until(|host| host.current.is_some());
        agent
    }

    /// Ends, and somebody flushes its rules. How long the next takes from its start to its transaction.
    fn replace(&mut self) -> Duration {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.nft(&FLUSH);
        let before = SystemTime::now();
        self.process = spawn(&self.node, &self.folder);
        let host = self.until(|host| host.current.is_some());
        since(before, &host)
    }

    fn socket(&self) -> PathBuf {
        socket(&self.folder)
    }

    fn host(&self) -> HostStatus {
        ask(&self.socket()).unwrap().host
    }

    fn until(&self, holds: impl Fn(&HostStatus) -> bool) -> HostStatus {
        let began = Instant::now();
        loop {
            match ask(&self.socket()) {
                Ok(status) if status.ready && holds(&status.host) => return status.host,
                status if began.elapsed() > BOUND => {
                    let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
                    panic!("{status:#?}\n{log}");
                }
                _ => sleep(PAUSE),
            }
        }
    }

    fn nft(&self, arguments: &[&str]) {
        let mut command = Command::new("nft");
        command.args(arguments);
        let status = self.node.run(|| command.status()).unwrap().unwrap();
        assert!(status.success(), "{arguments:?}");
    }

    /// From before somebody runs nft until what that did is repaired.
    fn repair(&self, nft: &[&str]) -> Duration {
        let repaired = self.host().repaired;
        let before = SystemTime::now();
        self.nft(nft);
        let host = self.until(|host| host.repaired > repaired);
        since(before, &host)
    }
}

/// How long it took until the rules last changed.
fn since(before: SystemTime, host: &HostStatus) -> Duration {
    let changed = SystemTime::from(host.changed.unwrap());
    changed.duration_since(before).unwrap()
}

fn socket(folder: &TempDir) -> PathBuf {
    folder.path().join("socket")
}

/// Starts one for the manifests in a folder.
fn spawn(node: &NetworkNamespace, folder: &TempDir) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
    command
        .args([
            "agent",
            "--hostname-override",
            NODE,
            "--table-owner",
            "everybody",
            "--source",
        ])
        .arg(folder.path().join("cluster"))
        .arg("--socket")
        .arg(socket(folder))
        .stdin(Stdio::null())
        .stderr(File::create(folder.path().join("log")).unwrap());
    node.run(|| command.spawn()).unwrap().unwrap()
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
