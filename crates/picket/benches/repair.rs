//! How soon an agent has repaired what others did to its rules: `cargo bench -p picket --bench repair`, as root.
//!
//! An agent on a node with 110 pods, in a small cluster and in a large one, lets others change its table. They flush everything, or
//! add a rule that lets everything pass. How long nothing, or that rule, holds is from before nft is started until after the
//! agent's transaction, as its status says. It fails where that is ever more than a second.
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
        let agent = Agent::start(size);
        let [pods, _, policies] = size;
        let host = agent.host();
        println!(
            "{pods} pods, {policies} policies; {} pods of them on the node",
            host.pods.all
        );
        for (what, command) in [("flush ruleset", &FLUSH[..]), ("a rule that accepts", &RULE)] {
            let mut took: Vec<_> = (0..TIMES).map(|_| agent.repair(command)).collect();
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
            .arg(manifests)
            .arg("--socket")
            .arg(folder.path().join("socket"))
            .stdin(Stdio::null())
            .stderr(File::create(folder.path().join("log")).unwrap());
        let process = node.run(|| command.spawn()).unwrap().unwrap();
        let agent = Self {
            node,
            process,
            folder,
        };
        agent.until(|host| host.current.is_some());
        agent
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
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

    /// From before somebody runs nft until what that did is repaired.
    fn repair(&self, nft: &[&str]) -> Duration {
        let repaired = self.host().repaired;
        let before = SystemTime::now();
        let mut command = Command::new("nft");
        command.args(nft);
        let status = self.node.run(|| command.status()).unwrap().unwrap();
        assert!(status.success(), "{nft:?}");
        let host = self.until(|host| host.repaired > repaired);
        let changed = SystemTime::from(host.changed.unwrap());
        changed.duration_since(before).unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
