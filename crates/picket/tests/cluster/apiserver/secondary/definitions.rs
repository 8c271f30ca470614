//! Definitions of networks that come, change and go while nobody can read them: the pods on these networks stay as protected as
//! they were.

use std::path::PathBuf;

use picket_node::Status;
use picket_testing::apiserver::AGENT;
use serde_json::{Value, json};

use super::super::outages::copy;
use super::{holds, labelled, named, pod, simple};
use crate::agents::port_of;
use crate::objects::{KINDS, newest};
use crate::pods::{DEFINITIONS, Node, Pods, expect};
use crate::prober::Prober;
use crate::proxy::{Proxy, nonsense};

pub(super) const MACVLAN: &str =
    r#"{"cniVersion": "1.0.0", "plugins": [{"type": "macvlan"}, {"type": "tuning"}]}"#;
const BRIDGE: &str = r#"{"cniVersion": "0.3.1", "type": "bridge"}"#;
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// A status, a text, and what happens while everything is answered so.
type Answer = (&'static str, &'static str, fn(&Node));

/// What others may answer in place of the server, and what becomes of the definition meanwhile. With each of these policies hold: what
/// an agent hears of that afterwards, one after the other, opens nothing either.
const ANSWERS: [Answer; 5] = [
    ("500 Internal Server Error", "", |node| node.redefine("net", "{")),
    ("404 Not Found", "404 page not found", make_anew),
    ("200 OK", r#"{"items":[]}"#, |node| {
        node.api.delete(DEFINITIONS, "net");
    }),
    ("200 OK", "<html>welcome to the network</html>", |node| {
        node.define("net", "{}");
    }),
    ("503 Service Unavailable", "upstream connect error", make_anew),
];

/// Deletes the definition, and makes another of that name.
fn make_anew(node: &Node) {
    node.api.delete(DEFINITIONS, "net");
    node.define("net", MACVLAN);
}

/// The way of the agent to the API server, on which others can answer.
struct Way {
    kubeconfig: PathBuf,
    proxy: Proxy,
}

impl Way {
    /// One that leads to the server.
    fn new(node: &mut Node) -> Self {
        let kubeconfig = node.server.kubeconfig_of(AGENT.0);
        let proxy = Proxy::to(port_of(&kubeconfig));
        let way = Self { kubeconfig, proxy };
        node.kubeconfig = Some(way.lead_to(&format!("https://127.0.0.1:{}", way.proxy.port)));
        way
    }

    fn lead_to(&self, address: &str) -> PathBuf {
        let direct = format!("https://127.0.0.1:{}", port_of(&self.kubeconfig));
        copy(&self.kubeconfig, "behind", &direct, address)
    }

    /// From now on everything is answered so.
    fn answer(&self, status: &'static str, body: &'static str) {
        self.proxy.close();
        self.lead_to(&format!("http://127.0.0.1:{}", nonsense(status, body)));
    }

    /// From now on the server answers again.
    fn restore(&self) {
        self.proxy.open();
        self.lead_to(&format!("https://127.0.0.1:{}", self.proxy.port));
    }

    /// Every connection begins anew.
    fn begin_anew(&self) {
        self.proxy.close();
        self.proxy.open();
    }
}

/// How often definitions could not be read, and why not.
fn of_definitions(status: &Status) -> (u64, Option<String>) {
    let kind = status
        .source
        .get("network-attachment-definitions.k8s.cni.cncf.io");
    kind.map_or((0, None), |kind| (kind.failures, kind.trouble.clone()))
}

/// What the agent may list and watch of secondary networks from now on.
fn permit(node: &Node, resources: &[&str]) {
    let rules = json!([
        {"apiGroups": [""], "resources": ["namespaces", "pods"], "verbs": ["list", "watch"]},
        {"apiGroups": ["k8s.cni.cncf.io"], "resources": resources, "verbs": ["list", "watch"]},
    ]);
    node.api.patch(ROLES, "agent", &json!({"rules": rules}));
    let asked = |verb: &str| {
        let attributes =
            json!({"group": "k8s.cni.cncf.io", "resource": "network-attachment-definitions", "verb": verb});
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": AGENT.1, "resourceAttributes": attributes}});
        node.api.create(REVIEWS, &review)["status"]["allowed"] == true
    };
    let expected = resources.contains(&"network-attachment-definitions");
    while ["list", "watch"].map(asked) != [expected; 2] {}
}

/// Sends from one pod to all addresses of another, which is denied.
pub(super) fn probe(pods: &Pods, from: &str, to: &str) -> Vec<Prober> {
    let (from, to) = (&pods[from], &pods[to]);
    let probers = to
        .addresses
        .iter()
        .map(|address| Prober::between(&from.inside, &to.inside, (*address, 7000).into()));
    probers.collect()
}

fn from(names: &[&str]) -> Value {
    json!({"podSelector": labelled("name", "server"), "ingress": [{"from": named(names)}]})
}

/// A node with a policy for a network of which the definition is there, whose agent reaches the API server on this way.
fn protected() -> (Node, Pods, Way, Vec<Prober>) {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.define("net", MACVLAN);
    node.policy("default", "few", "default/net", &from(&["a"]));
    let way = Way::new(&mut node);
    node.start(&[]);
    node.until_enforced();
    holds(&pods, "a->server", "b->server", "at first");
    let denied = probe(&pods, "b", "server");
    (node, pods, way, denied)
}

/// Nothing has come of what was denied all the time.
pub(super) fn expect_none(denied: Vec<Prober>) {
    for prober in denied {
        let (sent, received) = prober.end_after(100);
        assert_eq!(received, 0, "of {sent}");
    }
}

#[test]
fn a_protected_pod_stays_so_while_the_server_answers_nonsense_and_definitions_change() {
    let (node, pods, way, denied) = protected();
    for (status, body, happen) in ANSWERS {
        let (failures, _) = of_definitions(&node.until_status("a status", |_| true));
        way.answer(status, body);
        happen(&node);
        // One more may be of the connection that ended.
        node.until_status("nonsense", |now| of_definitions(now).0 > failures + 1);
        way.restore();
        node.until_status("the server", |now| of_definitions(now).1.is_none());
    }
    assert_eq!(node.until_enforced().notes, Vec::<String>::new());
    holds(&pods, "a->server", "b->server", "in the end");
    expect_none(denied);
}

#[test]
fn policies_change_and_pods_come_while_definitions_alone_cannot_be_read() {
    const POLICIES: &str = "multi-networkpolicies";
    let (mut node, mut pods, way, denied) = protected();
    permit(&node, &[POLICIES]);
    way.begin_anew();
    let is_refused = |status: &Status| of_definitions(status).1.is_some_and(|why| why.contains("(403)"));
    node.until_status("a refusal", is_refused);
    node.redefine("net", BRIDGE);
    let path = KINDS[13].2.replace("/v1beta1/", "/v1beta1/namespaces/default/");
    node.api.replace_spec(&path, "few", &from(&["a", "c"]));
    let labels = json!({"name": "server"});
    pod(&mut node, &mut pods, "second", &labels, "default/net", 16);
    let known = [
        ("pods", "/api/v1/pods"),
        ("multi-networkpolicies.k8s.cni.cncf.io", KINDS[13].2),
    ];
    let versions = known.map(|(kind, path)| (kind, newest(&node.api, path)));
    node.until("all else", |status| {
        let mut versions = versions.iter();
        versions.all(|(kind, version)| status.versions[*kind].parse::<u64>().unwrap() >= *version)
    });
    holds(
        &pods,
        "c->server c->second",
        "b->server b->second",
        "when all else is known",
    );

    // Nor does an agent that begins open anything, which cannot know all.
    node.kill();
    node.launch(&[]);
    let status = node.until_status("a refusal again", is_refused);
    assert!(!status.ready, "{status:#?}");
    expect(
        &pods,
        &["b->server b->second"],
        false,
        "with an agent that begins",
    );
    node.redefine("net", MACVLAN);
    permit(&node, &[POLICIES, "network-attachment-definitions"]);
    assert_eq!(node.until_enforced().notes, Vec::<String>::new());
    holds(&pods, "c->server c->second", "b->server b->second", "in the end");
    expect_none(denied);
}
