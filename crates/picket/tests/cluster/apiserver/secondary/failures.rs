//! What goes wrong in one pod, and what others do there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use picket_nftables::client::Client;
use picket_nftables::model::{Draft, Name};
use picket_nftables::render::documented;
use picket_node::PodsStatus;
use picket_testing::runtime::Kind;
use picket_testing::with_each_runtime;
use serde_json::{Value, json};

use super::super::agent::expect_schema;
use super::super::events::events_on;
use super::super::never_open::steal;
use super::{labelled, named, simple};
use crate::agents::get;
use crate::objects::KINDS;
use crate::pods::{Node, Pod, expect, table};

with_each_runtime!(policies_change_while_the_runtime_is_away);

const PODS: &str = "/api/v1/namespaces/default/pods";

/// What others may want to do to a table.
const MEDDLING: [&str; 2] = [
    "flush ruleset",
    "insert rule inet multi_networkpolicy input accept",
];

/// How often another has held a table.
const HELD: &str = "picket_failures_total{reason=\"held\"}";

/// Whether the kernel lets somebody with all rights in a pod do something with nft.
fn meddles(pod: &Pod, command: &str) -> bool {
    let mut nft = std::process::Command::new("nft");
    nft.args(command.split(' '));
    pod.inside.run(|| nft.status()).unwrap().unwrap().success()
}

#[test]
fn nobody_in_a_pod_can_change_its_table() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&[]);
    let spec = json!({"podSelector": labelled("name", "server"), "ingress": [{"from": named(&["a"])}]});
    node.policy("default", "from-a", "default/net", &spec);
    node.until_enforced();
    let before = table(&pods["server"]);
    let [flush, insert] = MEDDLING;
    // A flush passes tables of others over.
    assert!(meddles(&pods["server"], flush));
    assert!(!meddles(&pods["server"], insert));
    assert_eq!(table(&pods["server"]), before);
    expect(&pods, &["b->server"], false, "whatever is tried");
    // What the policies say still gets in, out, and in again.
    node.delete_policy("default", "from-a");
    node.until("no policy", |status| status.sandboxes.is_empty());
    assert_eq!(table(&pods["server"]), "");
    node.policy("default", "from-a", "default/net", &spec);
    node.until_enforced();
    expect(&pods, &["b->server"], false, "once more");
    expect(&pods, &["a->server"], true, "once more");
    let repaired = node.until("its status", |status| !status.sandboxes.is_empty());
    assert_eq!(repaired.sandboxes[0].repaired, 0);
}

#[test]
fn what_others_do_to_a_table_is_undone() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    // Nothing is proved by itself for a day.
    node.start(&["--table-owner", "everybody", "--verify-interval", "86400"]);
    let spec = json!({"podSelector": labelled("name", "server"), "ingress": [{"from": named(&["a"])}]});
    node.policy("default", "from-a", "default/net", &spec);
    node.until_enforced();
    expect(&pods, &["b->server"], false, "at first");
    for (times, command) in MEDDLING.iter().enumerate() {
        assert!(meddles(&pods["server"], command));
        let repaired = u64::try_from(times).unwrap() + 1;
        node.until("a repair", |status| status.sandboxes[0].repaired == repaired);
        // Only the kernel tells who it was.
        let heard = node.log().matches("program=\"nft\"").count();
        assert_eq!(heard, times + 1, "{}", node.log());
        expect(&pods, &["b->server"], false, command);
        expect(&pods, &["a->server"], true, command);
    }
    assert_eq!(node.metric("picket_drift_repaired_total"), 2);
    let json = node.status(&["-o", "json"]);
    assert_eq!(json.status, 0, "{}", json.stderr);
    expect_schema(&json.json());
    let text = node.status(&[]).stdout;
    assert!(
        text.contains("secondary networks are in force: 1 pods restricted"),
        "{text}"
    );
    assert!(
        text.contains("changed by others and repaired 2 times\n    MultiNetworkPolicy default/from-a"),
        "{text}"
    );
}

#[test]
fn a_pod_that_cannot_be_restricted_harms_no_other() {
    let mut node = Node::new();
    let mut pods = simple(&mut node);
    node.start(&[]);
    // Interfaces with names that no interface can have, or that would break a script.
    for (name, interface) in [("c", "net1; flush ruleset"), ("d", "/../..")] {
        let status = json!([{"name": "default/net", "interface": interface, "ips": ["2.2.5.99"]}]);
        let annotations = json!({"k8s.v1.cni.cncf.io/network-status": status.to_string()});
        node.api
            .patch(PODS, name, &json!({"metadata": {"annotations": annotations}}));
    }
    let everyone = json!({"podSelector": {}, "ingress": [{"from": named(&["a"])}]});
    node.policy("default", "everyone", "default/net", &everyone);
    node.until_enforced();
    for pod in ["Pod default/c", "Pod default/d"] {
        assert!(
            node.findings().iter().any(|object| object == pod),
            "{:?}",
            node.findings()
        );
    }
    expect(&pods, &["b->server server->b"], false, "beside broken pods");
    expect(&pods, &["a->server a->b"], true, "beside broken pods");
    // A sandbox that goes while its pod is still there.
    let gone = pods.remove("b").unwrap();
    node.stop(&gone);
    node.until_gone(&gone);
    expect(&pods, &["c->server"], false, "when a sandbox is gone");
    assert!(!table(&pods["server"]).is_empty());
}

/// Changes rules in a pod all the time until it is `done`: those of others, and the table of the agent.
fn flood(pod: &Pod, done: &AtomicBool) {
    let mut client = Client::open(&pod.inside).unwrap();
    let [own, other] = [documented::table_name(), Name::new("other").unwrap()];
    let table = Arc::new(Draft::new(other.clone()).check().unwrap());
    while !done.load(Ordering::Relaxed) {
        for _ in 0..100 {
            client.sync(&table).unwrap();
            client.remove(&other).unwrap();
        }
        // Others may have come first.
        let _ = client.remove(&own);
    }
}

/// Whether it is heard that somebody flushes the rules of a pod: who only looks again and again does not know who did.
fn is_heard(node: &Node, name: &str, pod: &Pod) -> bool {
    (0..20).any(|_| {
        let repaired = |status: &PodsStatus| {
            let mut sandboxes = status.sandboxes.iter();
            let found = sandboxes.find(|sandbox| sandbox.pod == format!("default/{name}"));
            found.map_or(0, |sandbox| sandbox.repaired)
        };
        let before = repaired(&node.until("its status", |_| true));
        assert!(meddles(pod, MEDDLING[0]));
        node.until("a repair", |status| repaired(status) > before);
        let log = node.log();
        let mut lines = log.lines().filter(|line| line.contains("they are repaired"));
        lines.any(|line| line.contains(&format!("default/{name}")) && line.contains("program=\"nft\""))
    })
}

#[test]
fn what_others_do_is_heard_in_every_pod_whatever_one_of_them_does() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&["--table-owner", "everybody"]);
    let everyone = json!({"podSelector": {}, "ingress": [{"from": named(&["a"])}]});
    node.policy("default", "everyone", "default/net", &everyone);
    node.until_enforced();
    let before = table(&pods["a"]);
    assert!(is_heard(&node, "server", &pods["server"]));
    let done = AtomicBool::new(false);
    let heard = std::thread::scope(|scope| {
        scope.spawn(|| flood(&pods["a"], &done));
        let heard = ["server", "b", "c"].map(|name| is_heard(&node, name, &pods[name]));
        done.store(true, Ordering::Relaxed);
        heard
    });
    assert_eq!(heard, [true; 3]);
    node.until("its rules", |_| table(&pods["a"]) == before);
    expect(&pods, &["a->server a->b"], true, "in the end");
    expect(&pods, &["b->server b->a"], false, "in the end");
}

/// An object of a list, as it is alone.
pub(super) fn object(node: &Node, api_version: &str, kind: &str, path: &str, name: &str) -> Value {
    let mut items = node.api.list(path).into_iter();
    let mut found = items.find(|item| item["metadata"]["name"] == name).unwrap();
    found["apiVersion"] = api_version.into();
    found["kind"] = kind.into();
    found
}

#[test]
fn what_cannot_be_read_and_where_nothing_can_be_enforced_are_events() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&["--table-owner", "everybody"]);
    let server = labelled("name", "server");
    node.policy(
        "default",
        "from-a",
        "default/net",
        &json!({"podSelector": server, "ingress": []}),
    );
    node.until_enforced();
    let thief = steal(&pods["server"].inside, &documented::table_name());
    node.policy(
        "default",
        "from-b",
        "default/net",
        &json!({"podSelector": server, "ingress": [{"from": named(&["b"])}]}),
    );
    let (version, kind, path) = KINDS[13];
    node.policy(
        "default",
        "wrong",
        "default/net",
        &json!({"podSelector": server, "ingress": [{"from": [{"ipBlock": {"cidr": "everywhere"}}]}]}),
    );
    let expected = [
        (
            object(&node, version, kind, path, "wrong"),
            "Unenforceable",
            "ingress",
        ),
        (
            object(&node, "v1", "Pod", PODS, "server"),
            "NotInForce",
            "on node node-1: ",
        ),
    ];
    for (object, reason, told) in expected {
        let of_reason = || {
            let mut events = events_on(&node.api, &object);
            events.retain(|event| event["reason"] == reason);
            events
        };
        node.until(reason, |_| !of_reason().is_empty());
        let [event] = of_reason().try_into().unwrap();
        assert!(event["message"].as_str().unwrap().contains(told), "{event}");
    }
    drop(thief);
    node.until("another attempt", PodsStatus::is_well);
    expect(&pods, &["b->server"], true, "in the end");
}

#[test]
fn what_waits_is_not_in_force_and_an_agent_is_not_ready_before_all_is_once() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&["--table-owner", "everybody"]);
    let from = |name: &str| json!({"podSelector": labelled("name", "server"), "ingress": [{"from": named(&[name])}]});
    node.policy("default", "from-a", "default/net", &from("a"));
    node.until_enforced();
    assert_eq!(node.readiness(), (200, "ok\n".to_owned()));
    let thief = steal(&pods["server"].inside, &documented::table_name());
    node.policy("default", "from-b", "default/net", &from("b"));
    // That somebody else holds the table may be seen before there is anything to write into it.
    let is_refused = |status: &PodsStatus| status.sandboxes.iter().any(|pod| !pod.waiting.is_empty());
    let status = node.until("a refusal", is_refused);
    let [server] = status.sandboxes.as_slice() else {
        panic!("{status:#?}")
    };
    assert_eq!(server.policies, ["MultiNetworkPolicy default/from-a"]);
    assert_eq!(server.waiting, ["MultiNetworkPolicy default/from-b"]);
    assert_eq!(node.metric("picket_policies_waiting"), 1);
    assert_eq!(node.metric("picket_policies"), 1);
    assert!(node.metric(HELD) > 0);
    // It has been ready once.
    assert_eq!(node.readiness(), (200, "ok\n".to_owned()));
    expect_schema(&node.status(&["-o", "json"]).json());

    node.kill();
    node.launch(&["--verify-interval", "1"]);
    let status = node.until_status("a pod without its policies", |status| {
        let pods = status.pods.as_ref();
        pods.is_some_and(|pods| pods.known && !pods.is_well())
    });
    assert!(!status.ready, "{status:#?}");
    let (code, why) = node.readiness();
    assert_eq!(code, 503, "{why}");
    assert!(
        why.contains("default/server: another program holds the table"),
        "{why}"
    );
    assert_eq!(node.metric("picket_ready"), 0);
    assert!(node.metric(HELD) > 0);
    assert_eq!(node.metric("picket_policies"), 0);
    assert_eq!(node.metric("picket_policies_waiting"), 2);
    let told = node.status(&[]);
    assert_eq!(told.status, 1, "{}", told.stdout);
    assert!(
        told.stdout.contains("are NOT in force in all pods yet: 0 pods"),
        "{}",
        told.stdout
    );

    drop(thief);
    node.until("another attempt", PodsStatus::is_well);
    assert_eq!(node.readiness(), (200, "ok\n".to_owned()));
    expect(&pods, &["a->server b->server"], true, "in the end");
    node.until("a proof", |_| node.proofs("proved") > 0);
    assert_eq!(get(&node.socket(), "/healthz"), (200, "ok\n".to_owned()));
    for (name, value) in [
        ("picket_ready", 1),
        ("picket_policies_waiting", 0),
        ("picket_policies", 2),
        ("picket_pods", 5),
        ("picket_pods_restricted", 1),
    ] {
        assert_eq!(node.metric(name), value, "{name}");
    }
    for name in [
        "picket_event_to_kernel_seconds_count",
        "picket_render_seconds_count",
        "picket_write_seconds_count",
        "picket_verify_seconds_count",
        "picket_operations_total",
        "picket_current_timestamp_seconds",
        "picket_table_objects{object=\"element\"}",
        "picket_table_objects{object=\"rule\"}",
        "picket_table_objects{object=\"chain\"}",
        "picket_version_in_force{kind=\"multi-networkpolicies.k8s.cni.cncf.io\"}",
    ] {
        assert!(node.metric(name) > 0, "{name}");
    }
}

fn policies_change_while_the_runtime_is_away(kind: Kind) {
    let mut node = Node::with(kind);
    let pods = simple(&mut node);
    node.start(&[]);
    node.until_enforced();
    node.runtime.kill();
    let status = node.until("a missing runtime", |status| status.runtime.is_some());
    assert!(
        status.runtime.as_ref().unwrap().contains("ListPodSandbox"),
        "{status:#?}"
    );
    assert_eq!(node.status(&[]).status, 1);
    let spec = json!({"podSelector": labelled("name", "server"), "ingress": [{"from": named(&["a"])}]});
    node.policy("default", "from-a", "default/net", &spec);
    node.until_enforced();
    expect(&pods, &["b->server"], false, "without a runtime");
    expect(&pods, &["a->server"], true, "without a runtime");
    node.runtime.restart();
    node.until("a runtime", |status| status.runtime.is_none());
    expect(&pods, &["b->server"], false, "with the runtime again");
    assert_eq!(node.status(&[]).status, 0);
}
