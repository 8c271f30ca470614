//! How long pods on secondary networks are open: `cargo bench -p picket --bench pods`, as root, where `cargo xtask programs` ran.
//!
//! On a node with 30 pods, with real sandboxes and a real API server, ten more come in each of two ways, one after the other, while
//! the agent enforces eleven policies in each. Either the runtime is done last, as where Multus tells the API server of interfaces
//! while the sandbox is made; then the first container is created and started as fast as the runtime does it. Or what the pod's
//! status says of its interfaces comes last. When the rules are in force the agent says. At last others
//! flush the rules of pods, which the agent lets them; it fails where they are not there again within a second.
//!
//! Then agents start on a node with 110 pods which have no rules, and policies about all of them come: until all are in force.
#![expect(
    dead_code,
    unused_imports,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and fails at once; tests use the other half of what it is made of"
)]

#[path = "../tests/cluster"]
mod cluster {
    pub(crate) mod agents;
    pub(crate) mod client;
    pub(crate) mod objects;
    pub(crate) mod pods;
    pub(crate) mod prober;
    pub(crate) mod proxy;
    pub(crate) mod published;
}

use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime};

use cluster::pods::{Interface, Node, Pod};
use cluster::{agents, client, objects, prober, proxy, published};
use picket_testing::runtime::Kind;
use serde_json::json;

/// How many pods there are at first, and how many come in each way.
const PODS: [usize; 2] = [30, 10];
const POLICIES: usize = 11;

/// How many pods a node has at most, as kubelets have it by default, and how often something happens to all of them.
const FULL: usize = 110;
const TIMES: usize = 5;

/// Milliseconds from one moment to another; negative if the other was earlier.
type Gap = f64;

/// How long rules that others flush may be gone.
const LIMIT: Gap = 1000.0;

fn main() -> ExitCode {
    let repairs = Kind::ALL.into_iter().map(measure);
    let slowest = repairs.fold(0.0, Gap::max);
    fill(Kind::Containerd2);
    if slowest > LIMIT {
        println!("a repair took {slowest:.1} ms, which is more than {LIMIT} ms");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// How long the slowest repair took.
fn measure(kind: Kind) -> Gap {
    let mut node = Node::with(kind);
    let [before, more] = PODS;
    let first = populate(&mut node, before);
    node.start(&[]);
    node.until_enforced();
    println!("{kind:?}: {before} pods with {POLICIES} policies each; {more} more in each way");
    let by_runtime: Vec<_> = (before..before + more)
        .map(|number| runtime_last(&mut node, number))
        .collect();
    println!("  the runtime is done last; after it has answered");
    report("the rules are in force", by_runtime.iter().map(|gaps| gaps[0]));
    report(
        "the first container may start",
        by_runtime.iter().map(|gaps| gaps[1]),
    );
    report("it has started", by_runtime.iter().map(|gaps| gaps[2]));
    let closed = by_runtime.iter().filter(|gaps| gaps[0] < gaps[1]).count();
    println!("    the rules were there before it might start: {closed} of {more}");
    let by_status = (before + more..before + 2 * more).map(|number| status_last(&mut node, number));
    println!("  the status is written last; after it is sent to the API server");
    report("the rules are in force", by_status);
    node.stop_agent();
    node.start(&["--table-owner", "everybody"]);
    node.until_enforced();
    let changes: [(&str, &[&str]); 2] = [
        ("flush the rules", &["flush", "ruleset"]),
        (
            "put a rule before them",
            &["insert", "rule", "inet", "multi_networkpolicy", "input", "accept"],
        ),
    ];
    let mut slowest = 0.0;
    for (what, change) in changes {
        println!("  others {what} in a pod; since before their nft was started");
        let repairs: Vec<_> = first
            .iter()
            .take(more)
            .map(|pod| repaired(&node, pod, change))
            .collect();
        report("the rules are there again", repairs.iter().copied());
        slowest = repairs.into_iter().fold(slowest, Gap::max);
    }
    slowest
}

/// Runs so many pods, and creates the policies about all of them.
fn populate(node: &mut Node, pods: usize) -> Vec<Pod> {
    let pods = (0..pods).map(|number| {
        let [v4, v6] = addresses(number);
        let (name, labels) = (name(number), json!({"number": number.to_string()}));
        node.pod("default", &name, &labels, &[interface(&[&v4, &v6])])
    });
    let pods = pods.collect();
    (0..POLICIES).for_each(|number| create_policy(node, number));
    pods
}

/// Creates a policy about all pods.
fn create_policy(node: &Node, number: usize) {
    let peers: Vec<_> = (0..3)
        .map(|peer| json!({"podSelector": {"matchLabels": {"number": (number * 3 + peer).to_string()}}}))
        .collect();
    let spec = json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [
        {"from": peers, "ports": [{"protocol": "TCP", "port": 8000 + number}]},
    ], "egress": [{"to": peers}]});
    node.policy("default", &format!("policy-{number}"), "default/net", &spec);
}

/// Starts agents on a full node without rules, and creates policies there.
fn fill(kind: Kind) {
    let mut node = Node::with(kind);
    let _pods = populate(&mut node, FULL);
    println!("{kind:?}: {FULL} pods with {POLICIES} policies each");
    let starts = (0..TIMES).map(|_| {
        node.run(&["--cleanup"]);
        let began = SystemTime::now();
        node.start(&[]);
        let started = gap(began, enforced_in_all(&node, began));
        node.stop_agent();
        started
    });
    let starts: Vec<_> = starts.collect();
    println!("  an agent is started, and there are no rules; since before that");
    report("the rules are in force in all", starts.into_iter());
    node.start(&[]);
    node.until_enforced();
    let created = (POLICIES..POLICIES + TIMES).map(|number| {
        let sent = SystemTime::now();
        create_policy(&node, number);
        gap(sent, enforced_in_all(&node, sent))
    });
    println!("  a policy about all of them is created; since before that");
    report("it is in force in all", created);
}

/// When the rules of all sandboxes of a full node last came into force, after a moment.
fn enforced_in_all(node: &Node, after: SystemTime) -> SystemTime {
    let changed = |status: &picket_node::PodsStatus| -> Vec<_> {
        let sandboxes = status.sandboxes.iter();
        let changed = sandboxes.filter_map(|sandbox| sandbox.changed.map(SystemTime::from));
        changed.filter(|changed| *changed > after).collect()
    };
    let status = node.until("rules in all", |status| changed(status).len() == FULL);
    changed(&status).into_iter().max().unwrap()
}

/// Runs a pod of which everything else is known already: from the answer of the runtime to the rules, to when the first container
/// is told to start, and until it has.
fn runtime_last(node: &mut Node, number: usize) -> [Gap; 3] {
    let [v4, v6] = addresses(number);
    let addresses = [v4.as_str(), &v6];
    let interfaces = [interface(&addresses)];
    let (name, labels) = (name(number), json!({"number": number.to_string()}));
    let uid = node.ask_for("default", &name, &labels, &interfaces);
    node.tell("default", &name, &interfaces);
    node.until_enforced();
    let asked = SystemTime::now();
    let sandbox = node.runtime.run_pod("default", &name, &uid);
    let answered = SystemTime::now();
    let container = node.runtime.create_container(&sandbox, "default", &name, &uid);
    let told = SystemTime::now();
    node.runtime.start_container(&container);
    let started = SystemTime::now();
    let enforced = enforced(node, &sandbox, asked);
    node.attached(&name, sandbox, &interfaces);
    [enforced, told, started].map(|moment| gap(answered, moment))
}

/// Runs a pod whose status comes last: from then to the rules.
fn status_last(node: &mut Node, number: usize) -> Gap {
    let [v4, v6] = addresses(number);
    let addresses = [v4.as_str(), &v6];
    let interfaces = [interface(&addresses)];
    let (name, labels) = (name(number), json!({"number": number.to_string()}));
    let uid = node.ask_for("default", &name, &labels, &interfaces);
    let sandbox = node.runtime.run_pod("default", &name, &uid);
    node.attached(&name, sandbox.clone(), &interfaces);
    node.until_enforced();
    let found = |learned| node.count(&format!("picket_sandboxes_total{{learned=\"{learned}\"}}"));
    node.until("one sandbox more", |_| {
        found("event") + found("asking") == u64::try_from(number).unwrap() + 1
    });
    let sent = SystemTime::now();
    node.tell("default", &name, &interfaces);
    gap(sent, enforced(node, &sandbox, sent))
}

/// Changes the rules of a pod, as if somebody in it did: from before nft is started to the rules.
fn repaired(node: &Node, pod: &Pod, change: &[&str]) -> Gap {
    let mut command = Command::new("nft");
    command.args(change);
    let before = SystemTime::now();
    let status = pod.inside.run(|| command.status()).unwrap().unwrap();
    assert!(status.success());
    gap(before, enforced(node, &pod.sandbox, before))
}

/// When the rules of a sandbox came into force, after a moment before which it had none.
fn enforced(node: &Node, sandbox: &str, after: SystemTime) -> SystemTime {
    let changed = |status: &picket_node::PodsStatus| {
        let mut sandboxes = status.sandboxes.iter();
        let found = sandboxes.find(|status| status.sandbox == sandbox)?;
        let changed = found.changed.map(SystemTime::from);
        changed.filter(|changed| *changed > after)
    };
    let status = node.until("rules", |status| changed(status).is_some());
    changed(&status).unwrap()
}

fn gap(from: SystemTime, to: SystemTime) -> Gap {
    let between = to.duration_since(from);
    let milliseconds = |duration: Duration| duration.as_secs_f64() * 1000.0;
    between.map_or_else(|earlier| -milliseconds(earlier.duration()), milliseconds)
}

fn report(what: &str, gaps: impl Iterator<Item = Gap>) {
    let mut gaps: Vec<_> = gaps.collect();
    gaps.sort_by(f64::total_cmp);
    println!(
        "    {what:<32} best {:>7.1} ms, median {:>7.1} ms, worst {:>7.1} ms",
        gaps[0],
        gaps[gaps.len() / 2],
        gaps[gaps.len() - 1]
    );
}

fn name(number: usize) -> String {
    format!("pod-{number}")
}

fn addresses(number: usize) -> [String; 2] {
    let number = number + 10;
    [format!("2.2.5.{number}/24"), format!("2001:db8::{number}/64")]
}

fn interface<'a>(addresses: &'a [&'a str; 2]) -> Interface<'a> {
    Interface {
        network: "default/net",
        name: "net1",
        addresses,
    }
}
