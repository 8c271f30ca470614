//! What a whole agent takes to have VPP do what a change says: `cargo bench -p picket --bench lists`, with Debian's etcd.
//!
//! A node with 800 pods of 400 applications, each with a policy of 20 + 20 rules, is kept in a real etcd; the agent reads it there and
//! talks to the stand-in for VPP over its socket: first about lists, then another about session rules. Each change is one record that
//! is written. The time is what the agent counts itself, from when it has heard of the change to when VPP has answered all that is to
//! be done for it.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "it reports, and fails at once"
)]

use std::fmt::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use picket_linux::die_with_parent;
use picket_net::Family;
use picket_testing::etcd::Etcd;
use picket_testing::http;
use picket_testing::reflected::{progress, record};
use picket_vpp::fake::{Fake, Options, Transport};
use serde_json::{Value, json};

const PODS: usize = 800;
/// Pods of one application.
const ALIKE: usize = 2;
/// Rules of each policy in each direction.
const RULES: usize = 20;
/// How often each change is made.
const TIMES: usize = 40;
/// How long anything may take.
const BOUND: Duration = Duration::from_secs(120);
/// How long to wait before somebody is asked again: who is asked is busy with that.
const PAUSE: Duration = Duration::from_millis(100);

/// A change, by its number: the key that is written, and the object; none where it goes.
type Change = fn(usize) -> (String, Option<Value>);

const CHANGES: [(&str, Change); 4] = [
    ("a pod that no policy knows comes or goes", unknown),
    ("a pod of an application comes or goes", known),
    ("a port of a policy changes", port),
    ("a pod elsewhere that no policy knows", elsewhere),
];

/// The interface or the namespace of each pod, and that of one more, which comes and goes.
const PLACES: usize = PODS + 1;

fn main() {
    let kept = Etcd::start();
    let mut records = vec![(format!("{}progress", picket_source::Etcd::PREFIX), progress())];
    for number in 0..PODS {
        records.push((key("pods", &name(number)), record(&pod(number, "node-1"))));
    }
    for application in 0..PODS / ALIKE {
        let policy = policy(application, 0);
        records.push((policies(application), record(&policy)));
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": {"addresses": [
        {"type": "InternalIP", "address": "192.168.0.1"},
    ]}});
    for (place, object) in [("namespaces/shop", namespace), ("nodes/node-1", node)] {
        records.push((
            format!("{}objects/{place}", picket_source::Etcd::PREFIX),
            record(&object),
        ));
    }
    for part in records.chunks(100) {
        let part: Vec<_> = part
            .iter()
            .map(|(key, record)| (key.as_str(), Some(record.as_str())))
            .collect();
        kept.change(&part);
    }
    for target in [Target::Lists, Target::SessionRules] {
        measure(target, &kept);
    }
}

/// What the agent keeps in VPP.
#[derive(Clone, Copy)]
enum Target {
    Lists,
    SessionRules,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Self::Lists => "vpp-acl",
            Self::SessionRules => "vpp-session",
        }
    }

    /// A VPP with what pods have there.
    fn start(self) -> Fake {
        let options = match self {
            Self::Lists => Options::new(7).interface("uplink0", ""),
            Self::SessionRules => Options::new(7).session_layer(true),
        };
        let options = (0..PLACES).fold(options, |options, number| {
            let pod = format!("shop/{}", name(number));
            match self {
                Self::Lists => options.interface(&format!("tap{number}"), &pod),
                Self::SessionRules => options.namespace(&pod),
            }
        });
        Fake::start(options).unwrap()
    }

    /// What VPP has by now.
    fn there(self, vpp: &Fake) -> String {
        let state = vpp.state();
        match self {
            Self::Lists => format!("{} lists", state.acls().count()),
            Self::SessionRules => {
                let tables = state.namespaces().map(|(index, _)| Some(index)).chain([None]);
                let rules = tables.flat_map(|table| {
                    let each = [Transport::Tcp, Transport::Udp].map(|transport| {
                        Family::BOTH.map(|family| state.session_rules(table, transport, family))
                    });
                    each.into_iter().flatten().flatten()
                });
                // Those for everything that say nothing are always there.
                let said = rules.filter(|rule| rule.action != u32::MAX);
                format!("{} session rules", said.count())
            }
        }
    }
}

/// What an agent takes from each change on.
fn measure(target: Target, kept: &Etcd) {
    let vpp = target.start();
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(target, kept, &vpp, folder.path());
    let whole = agent.await_change((0.0, 0.0));
    println!(
        "{PODS} pods of {} applications, {RULES} + {RULES} rules each: {} in VPP after {:.0} ms",
        PODS / ALIKE,
        target.there(&vpp),
        whole * 1000.0
    );
    for (what, change) in CHANGES {
        let mut took = Vec::new();
        vpp.clear_record();
        for number in 0..TIMES {
            let before = agent.told();
            let (key, object) = change(number);
            let record = object.map(|object| record(&object));
            kept.change(&[(&key, record.as_deref())]);
            took.push(agent.await_change(before));
        }
        took.sort_by(f64::total_cmp);
        let of = |at: usize| took.get(at).copied().unwrap_or_default() * 1e6;
        println!(
            "  {what:<42} best {:>7.0} µs  p50 {:>7.0} µs  worst {:>7.0} µs of {TIMES}; {} messages each",
            of(0),
            of(TIMES / 2),
            of(TIMES - 1),
            vpp.record().len() / TIMES
        );
    }
    drop(agent);
    assert_eq!(vpp.complaints(), Vec::<String>::new());
}

/// An agent that ends with this.
struct Agent {
    target: Target,
    child: Child,
    socket: PathBuf,
}

impl Agent {
    fn start(target: Target, kept: &Etcd, vpp: &Fake, folder: &Path) -> Self {
        let socket = folder.join("agent.sock");
        let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
        command
            .args([
                "agent",
                "--target",
                target.name(),
                "--hostname-override",
                "node-1",
            ])
            .args(["--source", "etcd", "--etcd-endpoints"])
            .arg(kept.endpoint())
            .arg("--vpp-socket")
            .arg(vpp.socket())
            .arg("--socket")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match target {
            Target::Lists => command.args(["--uplink", "uplink0"]),
            Target::SessionRules => {
                let file = folder.join("namespaces");
                let lines = (0..PLACES).fold(String::new(), |mut lines, number| {
                    writeln!(lines, "shop/{} {}", name(number), number + 1).unwrap();
                    lines
                });
                std::fs::write(&file, lines).unwrap();
                command
                    .arg("--vpp-pod-namespace")
                    .arg(format!("file={}", file.display()))
            }
        };
        let child = die_with_parent(&mut command).spawn().unwrap();
        Self {
            target,
            child,
            socket,
        }
    }

    /// How many changes were put into VPP, and how many seconds that has taken in all.
    fn told(&self) -> (f64, f64) {
        let metrics = metrics(&self.socket);
        let value = |what: &str| {
            let target = self.target.name();
            let name = format!("picket_event_to_target_seconds_{what}{{target=\"{target}\"}} ");
            let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
            line.map_or(0.0, |value| value.parse().unwrap())
        };
        (value("count"), value("sum"))
    }

    /// Waits until there is one change more than before: how many seconds that has taken.
    fn await_change(&self, (before, sum): (f64, f64)) -> f64 {
        let began = Instant::now();
        loop {
            let (count, now) = self.told();
            if count > before {
                return now - sum;
            }
            assert!(began.elapsed() < BOUND, "nothing comes of a change");
            sleep(PAUSE);
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What an agent says of itself, and nothing before it answers.
fn metrics(socket: &Path) -> String {
    let answered = UnixStream::connect(socket).ok();
    let answered = answered.and_then(|stream| http::get(stream, "/metrics"));
    answered.map(|(_, text)| text).unwrap_or_default()
}

fn name(number: usize) -> String {
    format!("pod-{number}")
}

fn key(resource: &str, name: &str) -> String {
    format!("{}objects/{resource}/shop/{name}", picket_source::Etcd::PREFIX)
}

fn policies(application: usize) -> String {
    key(
        "networkpolicies.networking.k8s.io",
        &format!("policy-{application}"),
    )
}

/// A pod of an application.
fn pod(number: usize, node: &str) -> Value {
    let application = format!("app-{}", number / ALIKE);
    labelled(number, node, &json!({"app": application}))
}

fn labelled(number: usize, node: &str, labels: &Value) -> Value {
    let [middle, low] = [number >> 8, number & 255];
    let addresses = json!([{"ip": format!("10.0.{middle}.{low}")}, {"ip": format!("fd00::{number:x}")}]);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name(number), "namespace": "shop", "labels": labels},
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "podIPs": addresses},
    })
}

/// A policy of an application, with another first port for each version.
fn policy(application: usize, version: usize) -> Value {
    let rules = |peers: &str| {
        let rules = (0..RULES).map(|rule| {
            let peer = format!("app-{}", (application + rule) % (PODS / ALIKE));
            let port = 8000 + rule + if rule == 0 { version % 7 } else { 100 };
            json!({
                peers: [{"podSelector": {"matchLabels": {"app": peer}}}],
                "ports": [{"protocol": "TCP", "port": port}],
            })
        });
        Value::Array(rules.collect())
    };
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": format!("policy-{application}"), "namespace": "shop"},
        "spec": {
            "podSelector": {"matchLabels": {"app": format!("app-{application}")}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": rules("from"),
            "egress": rules("to"),
        },
    })
}

/// One more pod comes, or goes.
fn comes(number: usize, node: &str, labels: &Value) -> (String, Option<Value>) {
    let pod = labelled(PODS, node, labels);
    (key("pods", &name(PODS)), number.is_multiple_of(2).then_some(pod))
}

fn unknown(number: usize) -> (String, Option<Value>) {
    comes(number, "node-1", &json!({}))
}

fn known(number: usize) -> (String, Option<Value>) {
    comes(number, "node-1", &json!({"app": "app-7"}))
}

fn elsewhere(number: usize) -> (String, Option<Value>) {
    comes(number, "node-2", &json!({}))
}

fn port(number: usize) -> (String, Option<Value>) {
    (policies(7), Some(policy(7, number + 1)))
}
