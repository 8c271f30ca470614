//! Questions about a live cluster, as a shell on one of its nodes runs what the guide says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use picket_linux::NetworkNamespace;
use picket_testing::apiserver::Server;
use picket_testing::ran::Ran;
use serde_json::json;

use super::blocks;
use crate::agents::port_of;
use crate::client::Api;
use crate::objects::{define_all, namespace, network_policy, policy};
use crate::pods::ip;
use crate::proxy::Proxy;

const CLUSTER: &str = include_str!("../../../../../../docs/cluster.md");

/// A node with a shell in it.
struct Shell {
    inside: NetworkNamespace,
    folder: tempfile::TempDir,
    kubeconfig: PathBuf,
}

impl Shell {
    fn run(&self, line: &str) -> Ran {
        let programs = Path::new(env!("CARGO_BIN_EXE_picket")).parent().unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell
            .args(["-c", line])
            .current_dir(self.folder.path())
            .env("PATH", path)
            .env("KUBECONFIG", &self.kubeconfig);
        let output = self.inside.run(|| shell.output().unwrap()).unwrap();
        output.into()
    }
}

/// A pod that runs on the node of the guide.
fn pod(api: &Api, name: &str, app: &str, address: &str) {
    let path = "/api/v1/namespaces/shop/pods";
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"nodeName": "worker-1", "containers": [{"name": "main", "image": "main"}]},
    });
    api.create(path, &pod);
    let status = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]});
    api.set_status(path, name, &status);
}

#[test]
fn a_cluster_is_asked_as_the_guide_says() {
    let server = Server::start();
    let api = Api::new(&server.kubeconfig());
    define_all(&api);
    namespace(&api, "shop");
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1"}});
    api.create("/api/v1/nodes", &node);
    pod(&api, "web", "web", "10.0.0.1");
    pod(&api, "db-0", "db", "10.0.0.2");
    let spec = |from: &str| {
        json!({
            "podSelector": {"matchLabels": {"app": "db"}},
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": from}}}], "ports": [{"port": 5432}]}],
        })
    };
    policy(&api, "shop", "db", &spec("web"));

    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(server.kubeconfig()).unwrap();
    let staging = "contexts: [{name: staging, context: {cluster: test, user: admin}}, ";
    let (kubeconfig, text) = (folder.path().join("config"), text.replace("contexts: [", staging));
    assert!(text.contains(staging), "{text}");
    fs::write(&kubeconfig, text).unwrap();
    fs::create_dir(folder.path().join("policies")).unwrap();
    let changed = network_policy("shop", "db", &spec("nobody")).to_string();
    fs::write(folder.path().join("policies/db.yaml"), changed).unwrap();
    let inside = NetworkNamespace::create().unwrap();
    ip(&inside, "link set lo up");
    let _proxy = Proxy::from(&inside, port_of(&kubeconfig));
    let shell = Shell {
        inside,
        folder,
        kubeconfig,
    };
    let load = shell.run("picket render --kube --target nftables --node worker-1 | nft -f -");
    assert_eq!((load.status, &*load.stderr), (0, ""));

    let [questions, change] = blocks(CLUSTER);
    let answers = ["", "allow", "allow", "shop/db-0", "proved", "proved", "shop/web"];
    let lines: Vec<_> = questions.iter().chain(&change).collect();
    assert_eq!(lines.len(), answers.len());
    for (words, answer) in lines.into_iter().zip(answers) {
        let line = words.join(" ");
        let ran = shell.run(&line);
        let is_told = ran.stdout.contains(answer);
        assert!(
            ran.status == 0 && is_told,
            "{line}: {}\n{}{}",
            ran.status,
            ran.stdout,
            ran.stderr
        );
    }
}
