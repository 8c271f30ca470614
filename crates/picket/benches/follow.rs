//! What it takes to know a large cluster that is followed: time and memory of a process that does nothing else, and of a whole
//! agent that enforces what it knows, as root; and of one for pods on secondary networks, where `cargo xtask programs` ran.
//!
//! The API server is a process of its own that makes objects up while it sends them, in the size that real ones have. All of
//! them are in a network namespace of their own. For the agent of pods every pod is on one secondary network, and policies are for
//! that; those of its node have real sandboxes, in which it puts its rules.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "it reports, and fails at once"
)]

use std::collections::HashMap;
use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{self, Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future;
use picket_cluster::{Event, Semantics, Store};
use picket_engine::Engine;
use picket_linux::runtime::Runtime;
use picket_linux::{Netlink, NetworkNamespace};
use picket_node::{Status, ask};
use picket_source::{Change, Health, Interest, Kube};
use picket_testing::http;
use picket_testing::runtime::{ContainerRuntime, Kind, SOCKET};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::sync::mpsc::unbounded_channel;

const PODS: usize = 100_000;
const NODES: usize = 1_000;
const NAMESPACES: usize = 25_000;
const POLICIES: usize = 75_000;

/// The most that an agent may take, in megabytes.
const MOST: usize = 300;

/// How long to wait before something is wrong, and before the agent is asked again.
const BOUND: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(100);

/// What the API server is called with whose pods are on a secondary network.
const SECONDARY: &str = "serve-secondary";

/// The node whose agent this is.
const NODE: &str = "worker-7.region-1.example.com";

fn main() {
    for (argument, network) in [("serve", Network::Cluster), (SECONDARY, Network::Secondary)] {
        if env::args().any(|given| given == argument) {
            return serve(network);
        }
    }
    let place = NetworkNamespace::create().unwrap();
    Netlink::open(&place).unwrap().set_up("lo").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (server, kubeconfig) = start(&place, folder.path(), "serve");
    let mut kube = Kube::new(None, Duration::from_secs(60));
    kube.kubeconfig = Some(kubeconfig.clone());
    println!("{PODS} pods, {NODES} nodes, {NAMESPACES} namespaces, {POLICIES} policies");
    report("before", process::id(), Instant::now());
    place.run(|| follow(&kube)).unwrap();
    // It is told before what that took is given back.
    let is_proved = |status: &Status, _: &Path| status.host.proof.as_ref().is_some_and(|proof| proof.proved);
    enforce(
        &place,
        &kubeconfig,
        &[],
        &[
            ("an agent enforces", |status, _| status.ready),
            ("and has proved it", is_proved),
        ],
    );
    end(server);
    let (server, kubeconfig) = start(&place, folder.path(), SECONDARY);
    let runtime = ContainerRuntime::start(Kind::Containerd);
    let prefix = runtime.prefix();
    run_pods(&runtime, &prefix);
    let in_pods = [
        "--container-runtime-endpoint",
        SOCKET,
        "--host-prefix",
        prefix.to_str().unwrap(),
    ];
    enforce(
        &place,
        &kubeconfig,
        &in_pods,
        &[
            ("an agent of pods", |status, _| {
                status.ready && has_rules_in_all(status)
            }),
            ("and has proved all", |_, socket| {
                proved(socket) >= own_pods().count()
            }),
        ],
    );
    end(server);
}

/// Runs the sandboxes of all pods of the node, each with its interface on the secondary network.
fn run_pods(runtime: &ContainerRuntime, prefix: &Path) {
    let mut addresses = HashMap::new();
    for number in own_pods() {
        let pod = on_network(number);
        let [namespace, name, uid] =
            ["namespace", "name", "uid"].map(|field| pod["metadata"][field].as_str().unwrap());
        addresses.insert(runtime.run_pod(namespace, name, uid), on_secondary(number));
    }
    let sandboxes = Runtime::at(SOCKET, prefix).unwrap();
    for sandbox in sandboxes.sandboxes().unwrap() {
        let inside = sandboxes.namespace(&sandbox).unwrap();
        ip(&inside, "link add net1 type veth peer name far");
        for address in &addresses[sandbox.id.as_str()] {
            ip(&inside, &format!("address add {address} dev net1"));
        }
        ip(&inside, "link set far up");
        ip(&inside, "link set net1 up");
    }
}

fn ip(place: &NetworkNamespace, arguments: &str) {
    let mut command = Command::new("ip");
    command.args(arguments.split(' '));
    let status = place.run(|| command.status()).unwrap().unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// The numbers of the pods of the node.
fn own_pods() -> impl Iterator<Item = usize> {
    (0..PODS).filter(|number| node_name(number % NODES) == NODE)
}

/// Whether an agent of pods has put rules into the sandboxes of all of them.
fn has_rules_in_all(status: &Status) -> bool {
    status.pods.as_ref().is_some_and(|pods| {
        let mut sandboxes = pods.sandboxes.iter();
        pods.sandboxes.len() == own_pods().count()
            && sandboxes.all(|sandbox| !sandbox.policies.is_empty() && sandbox.trouble.is_none())
    })
}

/// How many tables an agent has proved.
fn proved(socket: &Path) -> usize {
    let (_, metrics) = http::get(UnixStream::connect(socket).unwrap(), "/metrics").unwrap();
    let mut lines = metrics.lines();
    let counted = lines.find_map(|line| line.strip_prefix("picket_verifications_total{outcome=\"proved\"} "));
    counted.map_or(0, |number| number.parse().unwrap())
}

/// Starts the API server; how to reach it.
fn start(place: &NetworkNamespace, folder: &Path, argument: &str) -> (Child, PathBuf) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.arg(argument).stdout(Stdio::piped());
    let mut server = place.spawn(&mut command).unwrap();
    let mut port = String::new();
    let stdout = server.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut port).unwrap();
    let kubeconfig = folder.join("kubeconfig");
    let address = format!("http://127.0.0.1:{}", port.trim());
    let text = json!({
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": address}}],
        "users": [{"name": "a", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    });
    fs::write(&kubeconfig, text.to_string()).unwrap();
    (server, kubeconfig)
}

fn end(mut server: Child) {
    server.kill().unwrap();
    server.wait().unwrap();
}

/// Follows until everything is known, and compiles it for the node.
fn follow(kube: &Kube) {
    let began = Instant::now();
    let mut store = Store::new();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (sender, mut complete) = unbounded_channel();
    let interest = Interest {
        node: Some(NODE.into()),
        ..Interest::default()
    };
    let follow = kube.follow(interest, Health::default(), |change| {
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
        report("all objects known", process::id(), began);
    });
    let snapshot = store.snapshot();
    let own = snapshot
        .pods
        .values()
        .filter(|pod| pod.node.as_deref() == Some(NODE));
    println!(
        "{} pods known, {} of them whole; {} policies in force",
        snapshot.pods.len(),
        own.count(),
        snapshot.policies.len()
    );
    let began = Instant::now();
    let engine = Engine::compile(&snapshot, Semantics::default());
    report("compiled", process::id(), began);
    drop(engine);
}

/// Something that is to come about, of an agent that answers at a socket.
type Holds = fn(&Status, &Path) -> bool;

/// Has an agent enforce it all on the node, until each of these holds.
fn enforce(place: &NetworkNamespace, kubeconfig: &Path, more: &[&str], steps: &[(&str, Holds)]) {
    let (socket, log) = (
        kubeconfig.with_file_name("socket"),
        kubeconfig.with_file_name("log"),
    );
    let began = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
    command
        .args(["agent", "--hostname-override", NODE, "--kubeconfig"])
        .arg(kubeconfig)
        .arg("--socket")
        .arg(&socket)
        .args(more)
        .stdin(Stdio::null())
        .stderr(File::create(&log).unwrap());
    let mut agent = place.spawn(&mut command).unwrap();
    for (what, holds) in steps {
        while !ask(&socket).is_ok_and(|status| holds(&status, &socket)) {
            if agent.try_wait().unwrap().is_some() || began.elapsed() > BOUND {
                panic!("{}", fs::read_to_string(&log).unwrap());
            }
            thread::sleep(PAUSE);
        }
        report(what, agent.id(), began);
    }
    thread::sleep(PAUSE * 10);
    let most = report("a second later", agent.id(), began);
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(most < MOST, "{most} MB, and {MOST} MB are what an agent may take");
}

/// Prints what a process has of memory; the most that it had, in megabytes.
fn report(what: &str, process: u32, began: Instant) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let memory = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
        kilobytes * 1024 / 1_000_000
    };
    let most = memory("VmHWM:");
    println!(
        "{what:<20} {:>6.1} s  resident {:>4} MB, at most {most:>4} MB",
        began.elapsed().as_secs_f64(),
        memory("VmRSS:"),
    );
    most
}

/// What pods are on, and policies are for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Network {
    Cluster,
    Secondary,
}

/// Answers what is asked of an API server, on a port that it prints.
fn serve(network: Network) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    for client in listener.incoming() {
        let client = client.unwrap();
        thread::spawn(move || answer(network, &client));
    }
}

fn answer(network: Network, client: &TcpStream) -> Option<()> {
    let mut lines = BufReader::new(client).lines();
    let request = lines.next()?.ok()?;
    while !lines.next()?.ok()?.is_empty() {}
    let mut out = BufWriter::new(client);
    let mut words = request.split([' ', '?']);
    let (method, path) = (words.next()?, words.next()?);
    type Body = fn(&mut BufWriter<&TcpStream>) -> Option<()>;
    let body: Option<Body> = match (network, path) {
        _ if method == "POST" => Some(|out| write!(out, "{{}}").ok()),
        (Network::Secondary, "/apis") => Some(|out| write!(out, "{}", groups()).ok()),
        (Network::Cluster, "/apis") => Some(|out| write!(out, "{}", json!({"groups": []})).ok()),
        (Network::Secondary, "/apis/k8s.cni.cncf.io/v1") => {
            Some(|out| write!(out, "{}", kinds("NetworkAttachmentDefinition")).ok())
        }
        (Network::Secondary, "/apis/k8s.cni.cncf.io/v1beta1") => {
            Some(|out| write!(out, "{}", kinds("MultiNetworkPolicy")).ok())
        }
        (Network::Secondary, "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions") => {
            Some(|out| list(out, 0..1, definition))
        }
        (Network::Secondary, "/apis/k8s.cni.cncf.io/v1beta1/multi-networkpolicies") => {
            Some(|out| list(out, 0..POLICIES, of_network))
        }
        (Network::Secondary, "/api/v1/pods") => Some(|out| list(out, 0..PODS, on_network)),
        (Network::Cluster, "/api/v1/pods") => Some(|out| list(out, 0..PODS, pod)),
        (_, "/api/v1/nodes") => Some(|out| list(out, 0..NODES, node)),
        (_, "/api/v1/namespaces") => Some(|out| list(out, 0..NAMESPACES, namespace)),
        (_, "/apis/networking.k8s.io/v1/networkpolicies") => Some(|out| list(out, 0..POLICIES, policy)),
        // What a cluster does not name may be asked for all the same.
        _ => None,
    };
    let code = match (method, &body) {
        ("POST", _) => "201 Created",
        (_, Some(_)) => "200 OK",
        (_, None) => "404 Not Found",
    };
    write!(
        out,
        "HTTP/1.1 {code}\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
    )
    .ok()?;
    match body {
        Some(body) => body(&mut out),
        None => {
            let failure = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404});
            write!(out, "{failure}").ok()
        }
    }
}

/// The groups of secondary networks.
fn groups() -> Value {
    let versions = ["v1", "v1beta1"].map(|version| json!({"version": version}));
    json!({"groups": [{"name": "k8s.cni.cncf.io", "versions": versions}]})
}

/// That a version of a group has one kind.
fn kinds(kind: &str) -> Value {
    json!({"resources": [{"name": "a", "kind": kind, "verbs": ["list", "watch"]}]})
}

/// The secondary network.
fn definition(namespace: usize) -> Value {
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": metadata("net", Some(namespace), &json!({})),
        "spec": {"config": json!({"cniVersion": "0.3.1", "name": "net", "type": "macvlan"}).to_string()},
    })
}

/// A pod that is on the secondary network too, as Multus says it.
fn on_network(number: usize) -> Value {
    let mut pod = pod(number);
    let network = format!("{}/net", namespace_name(0));
    let ips = on_secondary(number);
    let status =
        json!([{"name": network, "interface": "net1", "ips": ips, "mac": "0a:58:0a:7b:00:02", "dns": {}}]);
    for (name, text) in [("networks", network), ("network-status", status.to_string())] {
        pod["metadata"]["annotations"][format!("k8s.v1.cni.cncf.io/{name}")] = text.into();
    }
    pod
}

/// The addresses of a pod on the secondary network.
fn on_secondary(number: usize) -> [String; 2] {
    let (high, middle, low) = (number >> 16, number >> 8 & 255, number & 255);
    [
        format!("11.{high}.{middle}.{low}"),
        format!("fd01::{high:x}:{:x}", number & 0xffff),
    ]
}

/// A policy for the secondary network.
fn of_network(number: usize) -> Value {
    let mut policy = policy(number);
    policy["apiVersion"] = "k8s.cni.cncf.io/v1beta1".into();
    policy["kind"] = "MultiNetworkPolicy".into();
    let network = format!("{}/net", namespace_name(0));
    policy["metadata"]["annotations"]["k8s.v1.cni.cncf.io/policy-for"] = network.into();
    policy
}

/// A streaming list, after which nothing changes.
fn list(out: &mut impl Write, objects: Range<usize>, object: impl Fn(usize) -> Value) -> Option<()> {
    for number in objects {
        writeln!(out, "{}", json!({"type": "ADDED", "object": object(number)})).ok()?;
    }
    let metadata = json!({"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}});
    let bookmark = json!({"apiVersion": "v1", "kind": "Any", "metadata": metadata});
    writeln!(out, "{}", json!({"type": "BOOKMARK", "object": bookmark})).ok()?;
    out.flush().ok()?;
    loop {
        thread::park();
    }
}

fn node_name(number: usize) -> String {
    format!("worker-{number}.region-1.example.com")
}

fn metadata(name: &str, namespace: Option<usize>, labels: &Value) -> Value {
    let field = json!({"f:app.kubernetes.io/name": {}, "f:app.kubernetes.io/instance": {}, "f:containers": {".": {}}});
    let entry = json!({
        "manager": "kube-controller-manager",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": field}, "f:spec": {"f:a": field, "f:b": field, "f:c": field}},
    });
    let [one, other, third, fourth] =
        [0, 1, 2, 3].map(|salt| scattered(&format!("{salt} {name} {namespace:?}")));
    let (high, middle, low) = (one >> 32, one >> 16 & 0xffff, one & 0xfff);
    let (second, minute, hour) = (other % 60, other / 60 % 60, other / 3600 % 24);
    json!({
        "name": name,
        "namespace": namespace.map(namespace_name),
        "uid": format!("{high:08x}-{middle:04x}-4{low:03x}-8{:03x}-{:012x}", other & 0xfff, third >> 16),
        "resourceVersion": (fourth % 100_000_000).to_string(),
        "creationTimestamp": format!("2026-01-01T{hour:02}:{minute:02}:{second:02}Z"),
        "labels": labels,
        "annotations": {"example.com/checksum": format!("{one:016x}{other:016x}{third:016x}{fourth:016x}")},
        "managedFields": [entry, entry],
    })
}

/// A number that stands for a text and looks random (FNV-1a).
fn scattered(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn namespace_name(number: usize) -> String {
    format!("team-{number:05}-production")
}

/// The application whose pods are in a namespace.
fn application(namespace: usize) -> String {
    format!("service-{}", namespace % 500)
}

fn pod(number: usize) -> Value {
    let application = application(number / 4);
    let name = format!("{application}-7d4b9c6f5d-{number:05x}");
    let labels = json!({
        "app.kubernetes.io/name": application,
        "app.kubernetes.io/instance": format!("{application}-production"),
        "app.kubernetes.io/part-of": "shop",
        "app.kubernetes.io/version": "1.2.3",
        "pod-template-hash": "7d4b9c6f5d",
        "tier": tier(number),
    });
    let (high, middle, low) = (number >> 16, number >> 8 & 255, number & 255);
    let address = format!("10.{high}.{middle}.{low}");
    let host = number % NODES;
    let host = format!("192.168.{}.{}", host >> 8, host & 255);
    let variables: Vec<_> = (0..20)
        .map(|at| json!({"name": format!("VARIABLE_{at}"), "value": "a value"}))
        .collect();
    let container = json!({
        "name": "main",
        "image": "registry.example.com/team/service:1.2.3",
        "env": variables,
        "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "256Mi"}},
    });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(&name, Some(number / 4 % NAMESPACES), &labels),
        "spec": {"nodeName": node_name(number % NODES), "containers": [container]},
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}, {"ip": format!("fd00::{:x}:{:x}", number >> 16, number & 0xffff)}],
            "hostIP": host,
            "hostIPs": [{"ip": host}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    })
}

fn tier(number: usize) -> &'static str {
    match number % 3 {
        0 => "web",
        1 => "api",
        _ => "store",
    }
}

fn node(number: usize) -> Value {
    let name = node_name(number);
    let address = format!("192.168.{}.{}", number >> 8, number & 255);
    let images: Vec<_> = (0..50)
        .map(|at| json!({"names": [format!("registry.example.com/{at}")]}))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(&name, None, &json!({"kubernetes.io/hostname": name})),
        "status": {"addresses": [{"type": "InternalIP", "address": address}], "images": images},
    })
}

fn namespace(number: usize) -> Value {
    let name = namespace_name(number);
    let labels = json!({"kubernetes.io/metadata.name": name, "team": format!("team-{number:05}"), "stage": "production"});
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(&name, None, &labels)})
}

/// One of three policies that each namespace has: what all have alike, who may come, and where its pods may go. The others
/// differ in whom they select, and in ports and addresses.
fn policy(number: usize) -> Value {
    let namespace = number % NAMESPACES;
    let name = application(namespace);
    let own =
        json!({"app.kubernetes.io/name": name, "app.kubernetes.io/instance": format!("{name}-production")});
    let (called, spec) = match number / NAMESPACES {
        0 => ("default".to_owned(), by_default()),
        1 => (format!("{name}-from"), ingress(namespace, &own)),
        _ => (format!("{name}-to"), egress(namespace, &own)),
    };
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(&called, Some(namespace), &own),
        "spec": spec,
    })
}

fn by_default() -> Value {
    json!({
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "egress": [{"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}],
    })
}

fn ingress(namespace: usize, own: &Value) -> Value {
    let other = (namespace * 7 + 13) % NAMESPACES;
    let theirs = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace_name(other)}});
    let peers = json!([
        {"podSelector": {"matchLabels": {"tier": tier(namespace)}}},
        {"namespaceSelector": theirs, "podSelector": {"matchLabels": {"app.kubernetes.io/name": application(other)}}},
    ]);
    let scrapers =
        json!([{"namespaceSelector": {"matchLabels": {"team": format!("team-{:05}", namespace % 50)}}}]);
    json!({
        "podSelector": {"matchLabels": own},
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": peers, "ports": [{"protocol": "TCP", "port": "http"}, {"protocol": "TCP", "port": 1024 + namespace * 3 % 50_000}]},
            {"from": scrapers, "ports": [{"protocol": "TCP", "port": "metrics"}]},
        ],
    })
}

fn egress(namespace: usize, own: &Value) -> Value {
    let (high, low) = (namespace >> 8, namespace & 255);
    let peers = json!([
        {"ipBlock": {"cidr": format!("172.{}.{low}.0/24", 16 + high % 16), "except": [format!("172.{}.{low}.128/25", 16 + high % 16)]}},
        {"ipBlock": {"cidr": format!("198.18.{high}.{low}/32")}},
    ]);
    let others = json!([{"podSelector": {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": [tier(namespace)]}]}}]);
    json!({
        "podSelector": {"matchLabels": own},
        "policyTypes": ["Egress"],
        "egress": [
            {"to": peers, "ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 1024 + namespace * 11 % 50_000}]},
            {"to": others},
        ],
    })
}
