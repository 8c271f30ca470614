//! An agent whose target is VPP's session layer, with an API server: rules of each pod follow what it says, whoever was away.

use std::path::Path;
use std::process::Command;

use picket_linux::NetworkNamespace;
use picket_net::Protocol;
use picket_testing::etcd::Etcd;
use picket_vpp::fake::{Connection, Fake, Options, Packet};
use serde_json::json;
use tempfile::TempDir;

use crate::agents::Agent;
use crate::client::{Api, serve};
use crate::objects::{namespace, pod, policy};
use crate::reflectors::Reflector;

const TARGET: &str = "vpp-session";

/// Pods, each with the number of its namespace in VPP.
const PODS: [(&str, &str, u32); 3] = [
    ("web", "10.0.0.1", 1),
    ("api", "10.0.0.2", 2),
    ("db", "10.0.0.3", 3),
];

/// A VPP whose session layer has a namespace for each pod, and the file that says which.
struct Layer {
    vpp: Fake,
    folder: TempDir,
}

impl Layer {
    fn new(api: &Api) -> Self {
        namespace(api, "shop");
        let mut options = Options::new(11).session_layer(true);
        let mut lines = String::new();
        for (name, address, number) in PODS {
            pod(api, "shop", name, address, &json!({}));
            options = options.namespace(&format!("shop/{name}"));
            lines += &format!("shop/{name} {number}\n");
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("namespaces"), lines).unwrap();
        Self {
            vpp: Fake::start(options).unwrap(),
            folder,
        }
    }

    fn start(&self, kubeconfig: &Path, more: &[&str]) -> Agent {
        let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
        let file = self.folder.path().join("namespaces");
        command
            .args(["agent", "--target", TARGET, "--vpp-pod-namespace"])
            .arg(format!("file={}", file.display()))
            .arg("--vpp-socket")
            .arg(self.vpp.socket())
            .args(more);
        let here = NetworkNamespace::current().unwrap();
        Agent::run_in(&here, "node-1", kubeconfig, command)
    }

    /// Whether one pod opens a connection to port 80 of another.
    fn opens(&self, from: &str, to: &str) -> bool {
        let of = |name: &str| *PODS.iter().find(|(own, ..)| *own == name).unwrap();
        let ((_, source, own), (_, destination, _)) = (of(from), of(to));
        let ends = [(source, 40_000), (destination, 80)];
        let [source, destination] = ends.map(|(address, port)| (address.parse().unwrap(), port));
        let packet = Packet::new(Protocol::TCP, source, destination);
        let state = self.vpp.state();
        [state.connects(own, &packet), state.accepts(&packet)].map(|verdict| verdict == Connection::Allowed)
            == [true; 2]
    }

    /// Waits until just these policies are in force.
    fn until_in_force(&self, agent: &Agent, policies: &[&str]) {
        agent.until("policies", |status| {
            let vpp = status.vpp.get(TARGET);
            vpp.is_some_and(|vpp| vpp.is_well() && vpp.policies == policies)
        });
        assert_eq!(self.vpp.complaints(), Vec::<String>::new());
        assert_eq!(self.vpp.crashes(), Vec::<String>::new());
    }
}

/// A policy by which only pods of one app may open connections to those of another.
fn only_from(api: &Api, name: &str, to: &str, from: &str) {
    let selector = |app: &str| json!({"matchLabels": {"app": app}});
    let rules = json!([{"from": [{"podSelector": selector(from)}]}]);
    policy(
        api,
        "shop",
        name,
        &json!({"podSelector": selector(to), "ingress": rules}),
    );
}

/// Policies, labels and pods change, and so do the rules.
fn expect_rules(api: &Api, layer: &Layer, agent: &Agent) {
    layer.until_in_force(agent, &[]);
    assert!(layer.opens("web", "db") && layer.opens("api", "db"));
    only_from(api, "db", "db", "api");
    layer.until_in_force(agent, &["NetworkPolicy shop/db"]);
    assert!(layer.opens("api", "db") && !layer.opens("web", "db") && layer.opens("web", "api"));
    let label = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    api.patch("/api/v1/namespaces/shop/pods", "web", &label("api"));
    agent.until("another label", |_| layer.opens("web", "db"));
    api.patch("/api/v1/namespaces/shop/pods", "web", &label("web"));
    agent.until("its own label", |_| !layer.opens("web", "db"));
    let egress = json!({"podSelector": {"matchLabels": {"app": "api"}}, "policyTypes": ["Egress"]});
    policy(api, "shop", "api", &egress);
    layer.until_in_force(agent, &["NetworkPolicy shop/api", "NetworkPolicy shop/db"]);
    assert!(!layer.opens("api", "db") && layer.opens("web", "api"));
    let policies = "/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies";
    api.delete(policies, "api");
    layer.until_in_force(agent, &["NetworkPolicy shop/db"]);
    assert!(layer.opens("api", "db") && !layer.opens("web", "db"));
}

#[test]
fn session_rules_follow_an_api_server_whoever_was_away() {
    let (mut server, kubeconfig, api) = serve();
    let layer = Layer::new(&api);
    let mut agent = layer.start(&kubeconfig, &[]);
    expect_rules(&api, &layer, &agent);
    // Without an API server what is in force stays, also in a VPP that has forgotten it.
    server.kill();
    layer.vpp.restart();
    agent.until("rules in a VPP that was restarted", |_| !layer.opens("web", "db"));
    // Whoever comes next finds what was left, and learns what has changed since.
    agent.kill();
    assert!(!layer.opens("web", "db"));
    server.restart();
    let api = Api::new(&kubeconfig);
    only_from(&api, "web", "web", "db");
    let agent = layer.start(&kubeconfig, &[]);
    layer.until_in_force(&agent, &["NetworkPolicy shop/db", "NetworkPolicy shop/web"]);
    assert!(layer.opens("db", "web") && !layer.opens("api", "web") && !layer.opens("web", "db"));
}

#[test]
fn session_rules_follow_what_a_reflector_keeps() {
    let (_server, kubeconfig, api) = serve();
    let layer = Layer::new(&api);
    let kept = Etcd::start();
    let _reflector = Reflector::start(&kubeconfig, &kept);
    let endpoint = kept.endpoint();
    let arguments = ["--source", "etcd", "--etcd-endpoints", &endpoint];
    let agent = layer.start("/nowhere/kubeconfig".as_ref(), &arguments);
    expect_rules(&api, &layer, &agent);
}
