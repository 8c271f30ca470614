//! Events on objects that cannot be read or enforced, as `kubectl describe` looks for them.

use std::net::TcpListener;
use std::thread;

use picket_nftables::render::indexed;
use serde_json::{Value, json};

use crate::agents::Agent;
use crate::apiserver::agent::Live;
use crate::apiserver::never_open::{allow, steal};
use crate::client::Api;
use crate::objects::KINDS;

/// The list of ClusterNetworkPolicies.
const CLUSTER: &str = KINDS[14].2;

/// The text of a rule whose action is none; far too long for an Event, with what does something to terminals.
fn nonsense() -> String {
    format!("Acept\u{1b}[2J{}", "é".repeat(2000))
}

/// Creates a policy for the cluster that nobody can read, where no schema refuses it.
fn unreadable(live: &Live, name: &str, action: &str) -> Value {
    let rules = json!([{"action": action, "from": [{"namespaces": {}}]}]);
    let spec = json!({"tier": "Admin", "priority": 5, "subject": {"namespaces": {}}, "ingress": rules});
    let (api_version, kind, path) = KINDS[14];
    let policy = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
    live.api.create(path, &policy)
}

/// The Events on an object, as whoever describes it asks for them.
pub(crate) fn events_on(api: &Api, object: &Value) -> Vec<Value> {
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    let fields = [
        ("apiVersion", object["apiVersion"].as_str().unwrap()),
        ("kind", object["kind"].as_str().unwrap()),
        ("namespace", namespace),
        ("name", metadata["name"].as_str().unwrap()),
        ("uid", metadata["uid"].as_str().unwrap()),
    ];
    let fields = fields.map(|(field, value)| format!("involvedObject.{field}={value}"));
    let namespace = if namespace.is_empty() {
        "default"
    } else {
        namespace
    };
    let path = format!("/api/v1/namespaces/{namespace}/events");
    api.list_where(&path, &fields.join(","))
}

/// How many Events an agent counts that came to this.
fn counted(agent: &Agent, outcome: &str) -> u64 {
    let name = format!("picket_events_total{{outcome=\"{outcome}\"}} ");
    let (_, metrics) = agent.get("/metrics");
    let mut lines = metrics.lines();
    let line = lines.find_map(|line| line.strip_prefix(name.as_str()));
    line.map_or(0, |count| count.parse().unwrap())
}

fn until_counted(agent: &Agent, outcome: &str, count: u64) {
    agent.until(&format!("{count} {outcome}"), |_| {
        counted(agent, outcome) == count
    });
}

#[test]
fn an_object_that_cannot_be_read_gets_one_event_however_many_agents_there_are() {
    let live = Live::without_schemas(None);
    let wrong = unreadable(&live, "wrong", &nonsense());
    let first = live.agent(&[]);
    until_counted(&first, "created", 1);
    let kubeconfig = live.server.kubeconfig_of("agent-token");
    let other = Agent::start(&live.lab, "lab-2", &kubeconfig);
    until_counted(&other, "known", 1);
    let [event] = events_on(&live.api, &wrong).try_into().unwrap();
    assert_eq!(
        [&event["type"], &event["reason"], &event["source"]["component"]],
        ["Warning", "Unenforceable", "picket"]
    );
    let message = event["message"].as_str().unwrap();
    assert!(message.contains("spec.ingress[0].action: "), "{message}");
    assert!(message.contains("Acept"), "{message}");
    assert!(
        message.len() <= 1024 && !message.contains(char::is_control),
        "{message:?}"
    );
    // A change that leaves it as wrong as before is no other Event, and one that makes it wrong otherwise is.
    let annotations = json!({"metadata": {"annotations": {"changed": "yes"}}});
    live.api.patch(CLUSTER, "wrong", &annotations);
    let otherwise = json!({"spec": {"priority": "low"}});
    live.api.patch(CLUSTER, "wrong", &otherwise);
    first.until("another Event", |_| events_on(&live.api, &wrong).len() == 2);
    let both = [&first, &other].map(|agent| counted(agent, "created") + counted(agent, "known"));
    assert!(both.iter().all(|count| *count <= 2), "{both:?}");
}

#[test]
fn what_is_not_in_force_on_a_node_is_an_event_that_names_the_node() {
    let live = Live::new(None);
    let agent = live.agent(&["--table-owner", "everybody"]);
    agent.until_enforced(&live.versions);
    let thief = steal(live.node(), &indexed::table_name());
    allow(&live, "UDP");
    let policies = live.api.list(super::never_open::POLICIES);
    let mut allowing = policies
        .into_iter()
        .find(|policy| policy["metadata"]["name"] == "allow")
        .unwrap();
    // Lists leave it out.
    allowing["apiVersion"] = "networking.k8s.io/v1".into();
    allowing["kind"] = "NetworkPolicy".into();
    until_counted(&agent, "created", 1);
    let [event] = events_on(&live.api, &allowing).try_into().unwrap();
    assert_eq!(
        [&event["reason"], &event["source"]["host"]],
        ["NotInForce", "lab-1"]
    );
    let message = event["message"].as_str().unwrap();
    assert!(message.contains("on node lab-1: "), "{message}");
    assert!(message.contains("Operation not permitted"), "{message}");
    drop(thief);
    agent.until("another attempt", |status| status.host.trouble.is_none());
    assert_eq!(counted(&agent, "created"), 1);
}

#[test]
fn an_agent_that_may_write_none_says_so_once_and_goes_on() {
    let live = Live::without_schemas(Some("events"));
    for name in ["wrong", "also-wrong"] {
        unreadable(&live, name, "Acept");
    }
    let agent = live.agent(&[]);
    until_counted(&agent, "refused", 2);
    agent.until_enforced(&live.versions);
    let log = agent.log();
    assert_eq!(log.matches("cannot create resource").count(), 1, "{log}");
    // The API server writes Events of its own.
    let path = "/api/v1/namespaces/default/events";
    assert_eq!(live.api.list_where(path, "source=picket"), Vec::<Value>::new());
}

#[test]
fn who_wants_none_gets_none() {
    let live = Live::without_schemas(None);
    unreadable(&live, "wrong", "Acept");
    let off = live.agent(&["--events", "off"]);
    off.until("a finding", |status| !status.findings.is_empty());
    off.until_enforced(&live.versions);
    // Another is the first to write it.
    let kubeconfig = live.server.kubeconfig_of("agent-token");
    let on = Agent::start(&live.lab, "lab-2", &kubeconfig);
    until_counted(&on, "created", 1);
    let (_, metrics) = off.get("/metrics");
    assert!(!metrics.contains("\npicket_events_total{"), "{metrics}");
}

/// Waits until the server asks somebody before it takes Events, who refuses to be asked once for that.
fn await_asking(live: &Live, asked: &TcpListener) {
    let refusing = asked.try_clone().unwrap();
    let refusing = thread::spawn(move || drop(refusing.accept().unwrap()));
    let namespace = json!({"namespace": "default"});
    let metadata = json!({"namespace": "default", "generateName": "attempt-"});
    let event =
        json!({"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": namespace});
    while live
        .api
        .try_create("/api/v1/namespaces/default/events", &event)
        .is_ok()
    {}
    refusing.join().unwrap();
}

#[test]
fn a_server_that_takes_none_or_is_away_holds_up_nothing_and_gets_it_later() {
    let mut live = Live::without_schemas(None);
    let agent = live.agent(&[]);
    agent.until_enforced(&live.versions);
    // Nobody answers whom the server asks first.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let hook = json!({
        "name": "silent.picket.example",
        "clientConfig": {"url": url},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["events"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
    });
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "silent"},
        "webhooks": [hook],
    });
    live.api.create(hooks, &configuration);
    await_asking(&live, &silent);
    let wrong = unreadable(&live, "wrong", "Acept");
    let (asking, _) = silent.accept().unwrap();
    allow(&live, "UDP");
    agent.until("a policy meanwhile", |status| {
        status.host.policies.contains(&"NetworkPolicy x/allow".to_owned())
    });
    assert_eq!(counted(&agent, "created"), 0);
    live.server.kill();
    drop((asking, silent));
    live.server.restart();
    live.api = Api::new(&live.server.kubeconfig());
    live.api.delete(hooks, "silent");
    until_counted(&agent, "created", 1);
    assert_eq!(events_on(&live.api, &wrong).len(), 1);
    assert_eq!(counted(&agent, "lost"), 0);
}
