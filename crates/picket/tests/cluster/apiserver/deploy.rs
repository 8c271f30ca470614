//! What is shipped is taken by a real API server, and an agent needs no more rights than it gives.

use std::fs;
use std::process::Command;

use picket_testing::apiserver::Server;
use serde_json::{Value, json};

use crate::agents::{Agent, lab};
use crate::apiserver::agent::isolation;
use crate::apiserver::enforce::cluster;
use crate::client::Api;
use crate::published::Published;

const MANIFEST: &str = include_str!("../../../../../deploy/agent.yaml");

/// The documents of the manifest, each with its kind.
fn documents() -> impl Iterator<Item = (&'static str, &'static str)> {
    MANIFEST.split("---\n").map(|document| {
        let kind = document.lines().find_map(|line| line.strip_prefix("kind: "));
        (kind.unwrap(), document)
    })
}

/// The role of the agent, with the name of the one in `examples`.
pub(crate) fn role() -> String {
    let (_, role) = documents().find(|(kind, _)| *kind == "ClusterRole").unwrap();
    role.replace("name: picket-agent", "name: picket-reader")
}

/// Applies the manifest, and gives the daemon set as the server has it then.
fn apply(api: &Api) -> Value {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let mut daemon_set = None;
    for (kind, document) in documents() {
        let path = match kind {
            "ServiceAccount" => "/api/v1/namespaces/kube-system/serviceaccounts",
            "ClusterRole" => &format!("{rbac}/clusterroles"),
            "ClusterRoleBinding" => &format!("{rbac}/clusterrolebindings"),
            "DaemonSet" => "/apis/apps/v1/namespaces/kube-system/daemonsets",
            other => panic!("{other} is applied nowhere"),
        };
        let created = api.create_yaml(path, document);
        if kind == "DaemonSet" {
            daemon_set = Some(created);
        }
    }
    daemon_set.unwrap()
}

/// A program that runs picket with the capabilities that a container has, and no others.
fn with_capabilities(container: &Value) -> Command {
    let capabilities = &container["securityContext"]["capabilities"];
    assert_eq!(capabilities["drop"], json!(["ALL"]));
    let added = capabilities["add"].as_array().unwrap().iter();
    let added = added.map(|name| format!(",+{}", name.as_str().unwrap().to_lowercase()));
    let bounds = format!("--bounding-set=-all{}", added.collect::<String>());
    let mut command = Command::new("setpriv");
    command
        .args([&bounds, "--inh-caps=-all", "--no-new-privs", "--"])
        .arg(env!("CARGO_BIN_EXE_picket"));
    command
}

#[test]
fn what_is_shipped_is_enough() {
    let server = Server::start(&[]);
    let api = Api::new(&server.kubeconfig());
    let container = apply(&api)["spec"]["template"]["spec"]["containers"][0].clone();
    let account = "/api/v1/namespaces/kube-system/serviceaccounts/picket-agent/token";
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = api.create(account, &request)["status"]["token"].clone();
    let admin = fs::read_to_string(server.kubeconfig().with_file_name("admin.token")).unwrap();
    let kubeconfig = server.kubeconfig().with_file_name("kubeconfig-of-agent");
    let text = fs::read_to_string(server.kubeconfig()).unwrap();
    fs::write(&kubeconfig, text.replace(&admin, token.as_str().unwrap())).unwrap();
    let step = isolation();
    let lab = lab(&cluster(&step), &kubeconfig);
    let versions = Published::new(&api).put(&lab.topology().snapshot, &step.manifests);
    let mut command = with_capabilities(&container);
    command.args(
        container["args"]
            .as_array()
            .unwrap()
            .iter()
            .map(|argument| argument.as_str().unwrap()),
    );
    let agent = Agent::run(&lab, "lab-1", &kubeconfig, command);
    let status = agent.until_enforced(&versions);
    assert_eq!(status.host.policies, ["NetworkPolicy x/deny-ingress"]);
    assert!(
        status.source.values().all(|kind| kind.failures == 0),
        "{status:#?}"
    );
    for probe in ["livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().unwrap();
        assert_eq!(agent.get(path), (200, "ok\n".to_owned()));
    }
    // In JSON, and nothing in it complains.
    let log = agent.log();
    let lines = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let levels: Vec<_> = lines.map(|line| line["level"].clone()).collect();
    assert!(
        !levels.is_empty() && levels.iter().all(|level| level == "INFO"),
        "{log}"
    );
}
