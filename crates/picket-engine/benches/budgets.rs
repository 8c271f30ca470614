//! Measures the budgets of the engine: `cargo bench -p picket-engine --bench budgets`; with `-- real` or `-- large` one
//! size only, with `-- compile` without events.
//!
//! Single-threaded. Prints p50, p99 and the worst of every kind of event, and peak resident memory.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and fails at once"
)]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use picket_cluster::{Endpoint, Event, Flow, Object, Pod, Semantics, Snapshot};
use picket_engine::{Delta, Engine};
use picket_net::{Family, Protocol};
use picket_testing::build::{self, accept, block, pods_in, pods_where};
use picket_testing::synthetic::{self, Size};

fn main() {
    let chosen: Vec<_> = std::env::args()
        .skip(1)
        .filter(|argument| ["real", "large"].contains(&argument.as_str()))
        .collect();
    for (name, size, repetitions) in [("real", Size::REAL, 5), ("large", Size::LARGE, 3)] {
        if chosen.is_empty() || chosen.iter().any(|one| one == name) {
            measure(name, size, repetitions);
        }
    }
}

fn measure(name: &str, size: Size, repetitions: usize) {
    let Size {
        pods,
        namespaces,
        policies,
        ..
    } = size;
    println!("{name}: {pods} pods, {namespaces} namespaces, {policies} policies");
    let snapshot = synthetic::cluster(size);
    let before = resident();
    let mut engine = None;
    let compile = repeat(repetitions, || {
        drop(engine.take());
        let (made, took) = timed(|| Engine::compile(&snapshot, Semantics::default()));
        engine = Some(made);
        took
    });
    let mut engine = engine.unwrap();
    line("cold compile", &compile);
    let cpu = cpu_time();
    drop(black_box(Engine::compile(&snapshot, Semantics::default())));
    line("cold compile and drop, time on the CPU", &[cpu_time() - cpu]);
    let cpu = cpu_time();
    let expand = vec![timed(|| engine.program().expand()).1];
    line("every allow set, time on the CPU", &[cpu_time() - cpu]);
    line("every allow set, from nothing", &expand);
    let program = engine.program();
    println!(
        "  {} identities, {} subjects, {} prefixes; {} MiB for objects, {} MiB with all allow sets, peak {} MiB",
        program.identities().count(),
        program.subjects().count(),
        program.prefixes().len(),
        before,
        resident(),
        peak()
    );
    if std::env::args().any(|argument| argument == "compile") {
        return;
    }
    judge(&engine, &snapshot);
    pod_events(&mut engine, &snapshot);
    policy_events(&mut engine);
    namespace_events(&mut engine, size);
}

/// Verdicts with causes between pods of all kinds.
fn judge(engine: &Engine, snapshot: &Snapshot) {
    let pods: Vec<_> = snapshot.pods.keys().collect();
    let flows: Vec<_> = (0..10_000)
        .map(|at| Flow {
            source: Endpoint::Pod(pods[at * 7919 % pods.len()].clone()),
            destination: Endpoint::Pod(pods[at * 104_729 % pods.len()].clone()),
            family: Family::Ipv4,
            protocol: Protocol::TCP,
            port: 8080,
        })
        .collect();
    let times = flows
        .iter()
        .map(|flow| timed(|| black_box(engine.program().judge(flow))).1)
        .collect::<Vec<_>>();
    line("one verdict with causes", &times);
}

/// A pod that goes, and one with the labels of another that comes.
fn pod_events(engine: &mut Engine, snapshot: &Snapshot) {
    let twins: Vec<&Pod> = snapshot
        .pods
        .values()
        .step_by(snapshot.pods.len() / 2000 + 1)
        .map(|pod| &**pod)
        .collect();
    let new = (1u32..).zip(&twins).map(|(number, twin)| {
        let mut pod = (*twin).clone();
        pod.object.name = format!("{}-new", pod.object.name).into();
        pod.addresses = [IpAddr::V4(Ipv4Addr::from_bits(0x0b00_0000 + number))]
            .into_iter()
            .collect();
        pod
    });
    let new: Vec<_> = new.collect();
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    for pod in &new {
        let event = Event::Apply(Object::from(pod.clone()));
        added.push(timed(|| black_box(engine.apply(event))).1);
    }
    for pod in &new {
        let event = Event::Delete(pod.object.clone());
        removed.push(timed(|| black_box(engine.apply(event))).1);
    }
    line("pod with known labels comes", &added);
    line("pod goes", &removed);
}

/// Policies that come and go, by how much they look at.
fn policy_events(engine: &mut Engine) {
    let team = "team=team-7";
    let policies = [
        (
            "in its namespace",
            build::policy("ns-9/new").ingress(accept().peer(pods_in("ns-9", "tier=web"))),
        ),
        (
            "about another namespace",
            build::policy("ns-9/new")
                .ingress(accept().peer(pods_where("kubernetes.io/metadata.name=ns-11", "tier=app"))),
        ),
        (
            "new prefix outside",
            build::policy("ns-9/new").egress(accept().peer(block("198.51.100.0/24", &["198.51.100.7/32"]))),
        ),
        (
            "everything but a new prefix",
            build::policy("ns-9/new").egress(accept().peer(block("0.0.0.0/0", &["198.51.100.0/24"]))),
        ),
        (
            "new prefix over 256 pods",
            build::policy("ns-9/new").egress(accept().peer(block("10.128.7.0/24", &[]))),
        ),
        (
            "new prefix over all pods",
            build::policy("ns-9/new").egress(accept().peer(block("10.128.0.0/12", &[]))),
        ),
        (
            "web pods of a team",
            build::policy("ns-9/new").ingress(accept().peer(pods_where(team, "tier=web,app=web-0"))),
        ),
        (
            "every web pod",
            build::policy("ns-9/new").ingress(accept().peer(pods_where("", "tier=web,app=web-0"))),
        ),
        (
            "a new port name, of many pods",
            build::policy("ns-9/new").egress(accept().named("grpc", Protocol::TCP)),
        ),
        (
            "a new port name, of no pod",
            build::policy("ns-9/new").egress(accept().named("redis", Protocol::TCP)),
        ),
        (
            "cluster-wide, Admin tier",
            build::admin_policy("new", 10).ingress(build::deny().peer(pods_where("env=dev", ""))),
        ),
    ];
    for (name, policy) in policies {
        let (mut added, mut removed, mut gone) = (Vec::new(), Vec::new(), Delta::default());
        for _ in 0..20 {
            let policy = policy.clone().build();
            let object = policy.object.clone();
            added.push(timed(|| black_box(engine.apply(Event::Apply(Object::Policy(policy))))).1);
            let (delta, took) = timed(|| engine.apply(Event::Delete(object)));
            removed.push(took);
            gone = delta;
        }
        line(&format!("policy comes: {name}"), &added);
        let addresses = gone.addresses.len();
        let identities = gone.identities.added.len() + gone.identities.removed.len();
        let subjects = gone.subjects.removed.len() + gone.changed_subjects.len();
        let changed = format!("{addresses} addresses, {identities} identities, {subjects} subjects");
        line(&format!("              goes ({changed})"), &removed);
    }
}

/// A namespace that changes hands.
fn namespace_events(engine: &mut Engine, size: Size) {
    let mut times = Vec::new();
    for at in 1..200 {
        for team in ["team-1", "team-2"] {
            let mut namespace = synthetic::namespace(size, at);
            namespace.labels = namespace.labels.with("team", team);
            let event = Event::Apply(Object::Namespace(namespace));
            times.push(timed(|| black_box(engine.apply(event))).1);
        }
    }
    line("namespace changes its team", &times);
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

fn repeat(times: usize, mut work: impl FnMut() -> Duration) -> Vec<Duration> {
    (0..times).map(|_| work()).collect()
}

fn line(what: &str, times: &[Duration]) {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = |percent: usize| sorted[(sorted.len() - 1) * percent / 100];
    println!(
        "  {what:<70} p50 {:>10.1?}  p99 {:>10.1?}  worst {:>10.1?}",
        at(50),
        at(99),
        at(100)
    );
}

/// What the scheduler has given this thread, within a few milliseconds: what remains of a busy machine's noise.
fn cpu_time() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(schedstat.split_whitespace().next().unwrap().parse().unwrap())
}

/// Resident memory in MiB.
fn resident() -> u64 {
    status("VmRSS:")
}

/// The most that was ever resident, in MiB.
fn peak() -> u64 {
    status("VmHWM:")
}

fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}
