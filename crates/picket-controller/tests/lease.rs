//! Controllers that share a Lease of a real API server: never do two of them begin calls at a time, whatever happens to one of
//! them or to the server.
//!
//! Each controller is a process of its own, this program with the argument `contend`. Its cloud is a file: whenever it begins
//! something it writes a line with the time by the clock of the machine, which all of them share.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a wrong literal fails its test"
)]

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use picket_cluster::Semantics;
use picket_controller::{
    Cloud, Extent, Failure, Gate, LeaseSettings, Plan, Reason, Settings, Status, Step, Timing, Wanted, run,
};
use picket_neutron::{Name, Options};
use picket_node::{Listen, Source, fetch_status};
use picket_policy::ObjectRef;
use picket_source::{Directory, Kube};
use picket_testing::apiserver::Server;
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};

/// How long a Lease is, and how long a call may take.
const LENGTH: Duration = Duration::from_secs(6);
const CALL: Duration = Duration::from_secs(2);

/// How long anything may take before a test fails.
const BOUND: Duration = Duration::from_secs(240);

/// The time in milliseconds, by a clock that all processes share.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    u64::try_from(time.tv_sec).unwrap() * 1000 + u64::try_from(time.tv_nsec).unwrap() / 1_000_000
}

/// A cloud in which there is always the same to do, and that writes down what is begun.
struct Log {
    gate: Gate,
    file: PathBuf,
}

#[derive(Clone)]
struct Touch;

impl fmt::Display for Touch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("touch")
    }
}

impl Step for Touch {
    fn kind(&self) -> &'static str {
        "touch"
    }

    fn group(&self) -> Option<Name> {
        None
    }

    fn pod(&self) -> Option<ObjectRef> {
        None
    }

    fn removes(&self) -> bool {
        false
    }
}

impl Log {
    fn write(&self, what: &str) {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.file)
            .unwrap();
        writeln!(file, "{} {what}", now()).unwrap();
    }
}

impl Cloud for Log {
    type State = ();
    type Step = Touch;
    type Done = ();

    async fn read(&self) -> Result<(), Failure> {
        self.write("read");
        Ok(())
    }

    async fn find(&self, (): &mut (), _: &BTreeSet<ObjectRef>) -> Result<(), Failure> {
        Ok(())
    }

    fn plan(&self, (): &(), _: &Wanted<'_>) -> Plan<Touch> {
        Plan {
            stages: vec![vec![Touch]; 10_000],
            ..Plan::default()
        }
    }

    async fn apply(&self, (): &(), _: &Touch) -> Result<(), Failure> {
        if !self.gate.permits(CALL) {
            return Err(Failure::new(Reason::Closed, "not now"));
        }
        self.write("call");
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(())
    }

    fn note(&self, (): &mut (), _: &Touch, (): ()) {}

    fn id_of(&self, (): &(), _: &Name) -> Option<String> {
        None
    }
}

/// A controller, in the process that is started for it.
fn contend(name: &str, kubeconfig: &Path, folder: &Path) {
    let mut kube = Kube::new(None, Duration::from_secs(5));
    kube.kubeconfig = Some(kubeconfig.to_owned());
    let settings = Settings {
        source: Source::Directory(Directory {
            paths: vec![folder.join("manifests")],
            interval: Duration::from_secs(1),
        }),
        name: name.to_owned(),
        lease: Some(LeaseSettings {
            kube,
            namespace: "kube-system".to_owned(),
            name: "picket-controller".to_owned(),
            length: LENGTH,
        }),
        semantics: Semantics::default(),
        options: Options::default(),
        timing: Timing {
            call: CALL,
            ..Timing::default()
        },
        at_once: 1,
        publish: None,
        discover_every: Duration::from_secs(60),
        listen: Listen {
            address: None,
            socket: folder.join(format!("{name}.sock")),
        },
    };
    let connect = |gate| {
        let file = folder.join(format!("{name}.log"));
        Ok(Log { gate, file })
    };
    run(&settings, Extent::Forever, connect).unwrap();
}

/// The process of a controller.
struct Contender {
    child: Child,
    name: &'static str,
    folder: PathBuf,
}

impl Contender {
    fn start(name: &'static str, scene: &Scene) -> Self {
        let errors = File::create(scene.folder.path().join(format!("{name}.err"))).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .arg("contend")
            .arg(name)
            .arg(scene.server.kubeconfig())
            .arg(scene.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .unwrap();
        Self {
            child,
            name,
            folder: scene.folder.path().to_owned(),
        }
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_child(&self.child);
        kill_process(id, signal).unwrap();
    }

    /// The times at which it began something: what it read, and what it changed.
    fn began(&self, what: &str) -> Vec<u64> {
        let log = fs::read_to_string(self.folder.join(format!("{}.log", self.name))).unwrap_or_default();
        let lines = log.lines().filter_map(|line| line.split_once(' '));
        lines
            .filter(|(_, did)| *did == what)
            .map(|(at, _)| at.parse().unwrap())
            .collect()
    }

    fn calls(&self) -> usize {
        self.began("call").len()
    }

    /// Waits until it has begun so many calls more.
    fn until_it_calls(&self, more: usize) {
        let before = self.calls();
        self.until("a call", || self.calls() >= before + more);
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let began = Instant::now();
        while !holds() {
            let errors = fs::read_to_string(self.folder.join(format!("{}.err", self.name)));
            assert!(began.elapsed() < BOUND, "{what} does not come about: {errors:?}");
            sleep(Duration::from_millis(5));
        }
    }

    fn status(&self) -> Option<Status> {
        fetch_status(&self.folder.join(format!("{}.sock", self.name))).ok()
    }

    fn until_it_waits(&self) {
        self.until("that another leads", || {
            let lease = self.status().map(|status| status.lease);
            lease.is_some_and(|lease| !lease.leads && lease.leader.is_some())
        });
    }

    fn until_it_leads_no_more(&self) {
        self.until("that it does not lead", || {
            self.status().is_some_and(|status| !status.lease.leads)
        });
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Scene {
    server: Server,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let manifests = folder.path().join("manifests");
        fs::create_dir(&manifests).unwrap();
        let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: x}}";
        fs::write(manifests.join("all.yaml"), namespace).unwrap();
        let server = Server::start();
        Self { server, folder }
    }

    /// One that leads, and one that waits.
    fn two(&self) -> (Contender, Contender) {
        let leader = Contender::start("a", self);
        leader.until_it_calls(3);
        let other = Contender::start("b", self);
        other.until_it_waits();
        (leader, other)
    }
}

/// Holds that `next` began nothing until a call that `leader` began last had ended.
#[track_caller]
fn expect_apart(leader: &[u64], next: &Contender) {
    let call = u64::try_from(CALL.as_millis()).unwrap();
    let (last, read) = (leader.last().unwrap(), next.began("read")[0]);
    assert!(read > last + call, "{last} and {read}");
    assert!(next.began("call")[0] >= read);
}

fn one_that_is_killed() {
    let scene = Scene::new();
    let (mut leader, other) = scene.two();
    leader.child.kill().unwrap();
    leader.child.wait().unwrap();
    other.until_it_calls(3);
    expect_apart(&leader.began("call"), &other);
    // Only after a whole Lease, and the time of a call.
    let waited = other.began("read")[0] - leader.began("call").last().unwrap();
    assert!(waited > u64::try_from(CALL.as_millis()).unwrap(), "{waited}");
}

fn one_that_stands_still() {
    let scene = Scene::new();
    let (leader, other) = scene.two();
    leader.signal(Signal::STOP);
    let began = leader.began("call");
    other.until_it_calls(3);
    expect_apart(&began, &other);
    // It goes on, and believes for a moment that it leads.
    leader.signal(Signal::CONT);
    leader.until_it_waits();
    other.until_it_calls(20);
    assert_eq!(leader.began("call"), began, "it began something that it must not");
}

fn one_that_ends_in_order() {
    let scene = Scene::new();
    let (mut leader, other) = scene.two();
    leader.signal(Signal::TERM);
    assert!(leader.child.wait().unwrap().success());
    other.until_it_calls(3);
    // The other need not wait for the Lease to end, nor for calls.
    let last = *leader.began("call").last().unwrap();
    let read = other.began("read")[0];
    assert!(read >= last);
    let length = u64::try_from(LENGTH.as_millis()).unwrap();
    assert!(read < last + length, "{last} and {read}");
}

fn a_server_that_is_away() {
    let mut scene = Scene::new();
    let leader = Contender::start("a", &scene);
    leader.until_it_calls(3);
    scene.server.kill();
    let killed = now();
    leader.until_it_leads_no_more();
    let last = *leader.began("call").last().unwrap();
    // The last renewal was before the server was killed.
    let [length, call] = [LENGTH, CALL].map(|time| u64::try_from(time.as_millis()).unwrap());
    assert!(last + call <= killed + length, "{killed} and {last}");
    let calls = leader.calls();
    scene.server.restart();
    leader.until_it_calls(3);
    // It begins anew, as if it had never led.
    let resumed = leader.began("call")[calls];
    assert!(
        leader
            .began("read")
            .iter()
            .any(|read| (last..=resumed).contains(read))
    );
}

fn many_that_are_stopped_and_killed_in_turn() {
    let scene = Scene::new();
    let (mut leader, mut other) = scene.two();
    for (round, name) in ["c", "d"].into_iter().enumerate() {
        match round % 2 {
            0 => leader.signal(Signal::STOP),
            _ => leader.child.kill().unwrap(),
        }
        let began = leader.began("call");
        other.until_it_calls(3);
        expect_apart(&began, &other);
        let next = Contender::start(name, &scene);
        next.until_it_waits();
        (leader, other) = (other, next);
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    if let [_, verb, name, kubeconfig, folder] = arguments.as_slice()
        && verb == "contend"
    {
        return contend(name, Path::new(kubeconfig), Path::new(folder));
    }
    // As the usual harness has it: names to run, and names to skip.
    let (mut wanted, mut skipped) = (Vec::new(), Vec::new());
    let mut words = arguments.iter().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--skip" => skipped.extend(words.next()),
            word if word.starts_with('-') => {}
            _ => wanted.push(word),
        }
    }
    for (name, test) in [
        ("apiserver::one_that_is_killed", one_that_is_killed as fn()),
        ("apiserver::one_that_stands_still", one_that_stands_still),
        ("apiserver::one_that_ends_in_order", one_that_ends_in_order),
        ("apiserver::a_server_that_is_away", a_server_that_is_away),
        (
            "apiserver::many_that_are_stopped_and_killed_in_turn",
            many_that_are_stopped_and_killed_in_turn,
        ),
    ] {
        let is_in = |words: &[&String]| words.iter().any(|word| name.contains(word.as_str()));
        if is_in(&skipped) || !wanted.is_empty() && !is_in(&wanted) {
            continue;
        }
        test();
        println!("test {name} ... ok");
    }
}
