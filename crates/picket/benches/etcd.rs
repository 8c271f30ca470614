//! What it takes to know a cluster that a reflector keeps in a real etcd: time, and memory of a process that does nothing else.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "it reports, and nobody waits for it"
)]

use std::fs;
use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures_util::future;
use picket_cluster::{Event, Store};
use picket_source::{Change, Etcd, Health, Interest};
use picket_testing::etcd::Etcd as Server;
use picket_testing::reflected::{self, NAMESPACES, NODES, PODS, POLICIES};
use tokio::runtime::Builder;
use tokio::sync::mpsc::unbounded_channel;

/// How many operations a transaction may have.
const AT_ONCE: usize = 100;

/// How often it is read.
const TIMES: usize = 11;

/// Until every pod and policy is known it may take less than this, half of the times.
const BUDGET: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let server = Server::start();
    let records = records();
    let began = Instant::now();
    for part in records.chunks(AT_ONCE) {
        let part: Vec<_> = part
            .iter()
            .map(|(key, record)| (key.as_str(), Some(record.as_str())))
            .collect();
        server.change(&part);
    }
    let bytes: usize = records.iter().map(|(_, record)| record.len()).sum();
    println!(
        "{PODS} pods, {NODES} nodes, {NAMESPACES} namespaces, {POLICIES} policies; records of {} kB",
        bytes / 1000
    );
    println!(
        "written by a test client in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    let mut whole = times(&server, None);
    whole.sort();
    let is_late = whole.get(TIMES / 2).is_none_or(|took| *took >= BUDGET);
    let own = times(&server, Some(&reflected::node(7)));
    for (what, mut took) in [("every pod and policy", whole), ("those of one node", own)] {
        took.sort();
        let milliseconds = |at: usize| took.get(at).map_or(0, Duration::as_millis);
        println!(
            "all objects known, {what:<20}  p50 {:>4} ms  worst {:>4} ms of {TIMES}",
            milliseconds(TIMES / 2),
            milliseconds(TIMES - 1)
        );
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    println!("at most{peak} resident");
    if is_late {
        println!("every pod and policy took {BUDGET:?} or more");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// How long it takes until everything is known, each time from nothing.
fn times(server: &Server, node: Option<&str>) -> Vec<Duration> {
    (0..TIMES).map(|_| follow(server, node)).collect()
}

fn follow(server: &Server, node: Option<&str>) -> Duration {
    let began = Instant::now();
    let mut store = Store::new();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (sender, mut complete) = unbounded_channel();
    let etcd = Etcd::new(vec![server.endpoint()], Duration::from_secs(10));
    let interest = Interest {
        node: node.map(Into::into),
        ..Interest::default()
    };
    let follow = etcd.follow(interest, Health::default(), |change| {
        if let Change::Events(events) = change {
            for event in events {
                if event == Event::InitDone {
                    sender.send(()).unwrap();
                }
                store.apply(event);
            }
        }
    });
    runtime.block_on(async {
        let mut follow = pin!(follow);
        future::select(&mut follow, pin!(complete.recv())).await;
    });
    let took = began.elapsed();
    assert_eq!(store.snapshot().pods.len(), PODS);
    took
}

/// The records of the cluster by their keys, and then how far the reflector is.
fn records() -> Vec<(String, String)> {
    let records = reflected::objects().map(|(place, object)| {
        let key = format!("{}objects/{place}", Etcd::PREFIX);
        (key, reflected::record(&object))
    });
    let progress = (format!("{}progress", Etcd::PREFIX), reflected::progress());
    records.chain([progress]).collect()
}
