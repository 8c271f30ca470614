//! What is shipped is taken by a real API server, and an agent needs no more rights than it gives.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use picket_testing::apiserver::Server;
use serde_json::{Value, json};

use crate::agents::{Agent, lab};
use crate::apiserver::agent::isolation;
use crate::apiserver::enforce::cluster;
use crate::client::Api;
use crate::published::Published;

pub(crate) const MANIFEST: &str = include_str!("../../../../../deploy/agent.yaml");

/// The documents of a manifest, each with its kind.
fn documents(manifest: &str) -> impl Iterator<Item = (&str, &str)> {
    manifest.split("---\n").filter_map(|document| {
        let kind = document.lines().find_map(|line| line.strip_prefix("kind: "));
        kind.map(|kind| (kind, document))
    })
}

/// The role of the agent, with the name of the one in `examples`.
pub(crate) fn role() -> String {
    let (_, role) = documents(MANIFEST)
        .find(|(kind, _)| *kind == "ClusterRole")
        .unwrap();
    role.replace("name: picket-agent", "name: picket-reader")
}

/// Where objects of a kind are created.
pub(crate) fn path_of(kind: &str) -> String {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    match kind {
        "ConfigMap" => "/api/v1/namespaces/kube-system/configmaps".to_owned(),
        "ServiceAccount" => "/api/v1/namespaces/kube-system/serviceaccounts".to_owned(),
        "ClusterRole" => format!("{rbac}/clusterroles"),
        "ClusterRoleBinding" => format!("{rbac}/clusterrolebindings"),
        "Deployment" => "/apis/apps/v1/namespaces/kube-system/deployments".to_owned(),
        "DaemonSet" => "/apis/apps/v1/namespaces/kube-system/daemonsets".to_owned(),
        other => panic!("{other} is applied nowhere"),
    }
}

/// Applies a manifest, and gives its objects by their kind as the server has them then.
pub(crate) fn apply(api: &Api, manifest: &str) -> BTreeMap<String, Value> {
    let created = |(kind, document): (&str, &str)| {
        let created = api.create_yaml(&path_of(kind), document);
        (kind.to_owned(), created)
    };
    documents(manifest).map(created).collect()
}

/// The only container of a manifest that has been applied.
pub(crate) fn container(applied: &BTreeMap<String, Value>) -> Value {
    applied["DaemonSet"]["spec"]["template"]["spec"]["containers"][0].clone()
}

/// A kubeconfig of whoever has this account.
pub(crate) fn account(server: &Server, api: &Api, name: &str) -> PathBuf {
    let path = format!("/api/v1/namespaces/kube-system/serviceaccounts/{name}/token");
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = api.create(&path, &request)["status"]["token"].clone();
    server.kubeconfig_of(token.as_str().unwrap())
}

/// A program that runs picket as a container does: with its arguments, with the capabilities that it has, and no others.
pub(crate) fn as_container(container: &Value) -> Command {
    let capabilities = &container["securityContext"]["capabilities"];
    assert_eq!(capabilities["drop"], json!(["ALL"]));
    let added = capabilities["add"].as_array().unwrap().iter();
    let added = added.map(|name| format!(",+{}", name.as_str().unwrap().to_lowercase()));
    let bounds = format!("--bounding-set=-all{}", added.collect::<String>());
    let mut command = Command::new("setpriv");
    let arguments = container["args"].as_array().unwrap().iter();
    command
        .args([&bounds, "--inh-caps=-all", "--no-new-privs", "--"])
        .arg(env!("CARGO_BIN_EXE_picket"))
        .args(arguments.map(|argument| argument.as_str().unwrap()));
    command
}

#[test]
fn what_is_shipped_is_enough() {
    let server = Server::start(&[]);
    let api = Api::new(&server.kubeconfig());
    let container = container(&apply(&api, MANIFEST));
    let kubeconfig = account(&server, &api, "picket-agent");
    let step = isolation();
    let lab = lab(&cluster(&step), &kubeconfig);
    let versions = Published::new(&api).put(&lab.topology().snapshot, &step.manifests);
    let agent = Agent::run(&lab, "lab-1", &kubeconfig, as_container(&container));
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
