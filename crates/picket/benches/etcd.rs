//! What it takes to know a cluster that a reflector keeps in a real etcd: time, and memory of a process that does nothing else.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "it reports, and nobody waits for it"
)]

use std::fs;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::future;
use picket_cluster::{Event, Store};
use picket_source::{Change, Etcd, Health, Interest};
use picket_testing::etcd::Etcd as Server;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::sync::mpsc::unbounded_channel;

const PODS: usize = 5_000;
const POLICIES: usize = 2_000;
const NAMESPACES: usize = 200;
const NODES: usize = 50;

/// How many operations a transaction may have.
const AT_ONCE: usize = 100;

/// How often it is read.
const TIMES: usize = 11;

fn main() {
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
    let whole = times(&server, None);
    let own = times(&server, Some("worker-7"));
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

/// The records of the cluster by their keys.
fn records() -> Vec<(String, String)> {
    let record = |object: &Value| {
        json!({"version": 1, "created": "2026-01-01T00:00:00Z", "object": object}).to_string()
    };
    let key = |rest: String| format!("{}objects/{rest}", Etcd::PREFIX);
    let mut all = Vec::new();
    for number in 0..NAMESPACES {
        let name = namespace(number);
        let labels = json!({"kubernetes.io/metadata.name": name, "stage": "production"});
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        all.push((key(format!("namespaces/{name}")), record(&object)));
    }
    for number in 0..NODES {
        let name = node(number);
        let addresses = json!([{"type": "InternalIP", "address": format!("192.168.0.{number}")}]);
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"addresses": addresses}});
        all.push((key(format!("nodes/{name}")), record(&object)));
    }
    for number in 0..PODS {
        let object = pod(number);
        let place = format!("{}/pod-{number}", namespace(number / 5 % NAMESPACES));
        all.push((key(format!("pods/{place}")), record(&object)));
    }
    for number in 0..POLICIES {
        let object = policy(number);
        let place = format!("{}/policy-{number}", namespace(number % NAMESPACES));
        all.push((
            key(format!("networkpolicies.networking.k8s.io/{place}")),
            record(&object),
        ));
    }
    let time = "2026-01-01T00:00:00Z";
    let progress =
        json!({"version": 1, "epoch": 1, "reflector": "bench", "time": time, "pass": time, "kinds": {}});
    all.push((format!("{}progress", Etcd::PREFIX), progress.to_string()));
    all
}

fn namespace(number: usize) -> String {
    format!("team-{number:03}-production")
}

fn node(number: usize) -> String {
    format!("worker-{number}")
}

fn tier(number: usize) -> &'static str {
    match number % 3 {
        0 => "web",
        1 => "api",
        _ => "store",
    }
}

fn pod(number: usize) -> Value {
    let application = format!("service-{}", number / 4 % 500);
    let (middle, low) = (number >> 8, number & 255);
    let address = format!("10.0.{middle}.{low}");
    let host = format!("192.168.0.{}", number % NODES);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("pod-{number}"),
            "namespace": namespace(number / 5 % NAMESPACES),
            "uid": format!("00000000-0000-4000-8000-{number:012x}"),
            "labels": {
                "app.kubernetes.io/name": application,
                "app.kubernetes.io/instance": format!("{application}-production"),
                "pod-template-hash": "7d4b9c6f5d",
                "tier": tier(number),
            },
        },
        "spec": {
            "nodeName": node(number % NODES),
            "containers": [{"ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}],
        },
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}, {"ip": format!("fd00::{number:x}")}],
            "hostIP": host,
            "hostIPs": [{"ip": host}],
        },
    })
}

fn policy(number: usize) -> Value {
    let selector = json!({"matchLabels": {"tier": tier(number)}});
    let peers =
        json!([{"podSelector": selector}, {"namespaceSelector": {"matchLabels": {"stage": "production"}}}]);
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": format!("policy-{number}"),
            "namespace": namespace(number % NAMESPACES),
            "uid": format!("00000000-0000-4000-9000-{number:012x}"),
        },
        "spec": {
            "podSelector": selector,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": peers, "ports": [{"protocol": "TCP", "port": "http"}]}],
            "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.9.0.0/16"]}}]}, {"ports": [{"protocol": "UDP", "port": 53}]}],
        },
    })
}
