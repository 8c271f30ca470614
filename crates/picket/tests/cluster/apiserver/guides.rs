//! What the guides tell operators to run, as it stands there: against a real API server, by Helm, and as `kubectl` would.
//!
//! There is no kubelet: what runs in a container is held to be understood by picket, and `apiserver::contained` runs it.

use std::path::Path;
use std::process::Command;

use picket_testing::apiserver::Server;
use picket_testing::program::HELM;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::apiserver::deploy::{apply, path_of};
use crate::client::Api;

const AGENT: &str = include_str!("../../../../../docs/agent.md");
const MIGRATE: &str = include_str!("../../../../../docs/migrate.md");
const PODS: &str = include_str!("../../../../../docs/pods.md");
const UPGRADE: &str = include_str!("../../../../../docs/upgrade.md");

/// Somebody in the folder of the project who follows a guide.
struct Operator {
    server: Server,
    api: Api,
    home: TempDir,
}

impl Operator {
    fn new() -> Self {
        let server = Server::start(&[]);
        Self {
            api: Api::new(&server.kubeconfig()),
            server,
            home: tempfile::tempdir().unwrap(),
        }
    }

    /// Runs a block of commands.
    fn play(&self, block: &[Vec<String>]) {
        for command in block {
            let words: Vec<_> = command.iter().map(String::as_str).collect();
            self.run(&words);
        }
    }

    fn run(&self, command: &[&str]) {
        match command {
            ["helm", arguments @ ..] => self.helm(arguments),
            ["kubectl", "apply", "-f", file] => {
                let manifest = std::fs::read_to_string(root().join(file)).unwrap();
                apply(&self.api, &manifest);
            }
            ["kubectl", "-n", "kube-system", arguments @ ..] => self.kubectl(arguments),
            ["podman", "build", .., "-f", file, "."] => assert!(root().join(file).is_file(), "{file}"),
            ["picket", ..] => understood(command),
            other => panic!("{other:?}: nobody has looked at whether that can be run"),
        }
    }

    fn helm(&self, arguments: &[&str]) {
        let mut helm = Command::new(HELM.path());
        helm.args(arguments)
            .current_dir(root())
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.server.kubeconfig());
        let output = helm.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
    }

    fn kubectl(&self, arguments: &[&str]) {
        match arguments {
            ["rollout", "status" | "undo", of] => {
                let spec = &self.object(of)["spec"];
                let strategy = if spec["updateStrategy"].is_null() {
                    &spec["strategy"]
                } else {
                    &spec["updateStrategy"]
                };
                assert_eq!(strategy["type"], "RollingUpdate", "{of}");
            }
            ["logs", "--prefix", of] => drop(self.object(of)),
            ["exec", of, "--", command @ ..] => {
                let containers = &self.object(of)["spec"]["template"]["spec"]["containers"];
                assert_eq!(containers.as_array().unwrap().len(), 1, "{of}");
                understood(command);
            }
            ["delete", kind, name] => {
                self.object(&format!("{kind}/{name}"));
                self.api.delete(&path_of(kind_of(kind)), name);
            }
            other => panic!("{other:?}: nobody has looked at whether that can be run"),
        }
    }

    /// An object that is there, as in `daemonset/picket-agent`.
    fn object(&self, of: &str) -> Value {
        let found = self.find(of);
        found.unwrap_or_else(|| panic!("there is no {of}"))
    }

    fn find(&self, of: &str) -> Option<Value> {
        let (kind, name) = of.split_once('/').unwrap();
        let all = self.api.list(&path_of(kind_of(kind))).into_iter();
        all.into_iter().find(|object| object["metadata"]["name"] == name)
    }

    /// The only container of an object that runs some.
    fn container(&self, of: &str) -> Value {
        self.object(of)["spec"]["template"]["spec"]["containers"][0].clone()
    }

    /// Runs another program on all nodes.
    fn run_other(&self, name: &str) {
        let labels = json!({"app": name});
        let object = json!({
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": name}]},
                },
            },
        });
        self.api.create(&path_of("DaemonSet"), &object);
    }
}

/// The folder of the project.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn kind_of(kind: &str) -> &'static str {
    match kind {
        "daemonset" => "DaemonSet",
        "deployment" => "Deployment",
        other => panic!("{other} is a kind that no guide has"),
    }
}

/// Holds that picket takes these arguments.
fn understood(command: &[&str]) {
    let ["picket", arguments @ ..] = command else {
        panic!("{command:?}: the image has no other program")
    };
    let mut picket = Command::new(env!("CARGO_BIN_EXE_picket"));
    // What is wrong before it is told.
    let output = picket.args(arguments).arg("--help").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
}

/// The blocks of commands of a page, in order: the words of each line, without what is said about it.
fn blocks<const N: usize>(page: &str) -> [Vec<Vec<String>>; N] {
    let parts = page.split("```sh\n").skip(1);
    let blocks = parts.map(|part| part.split("```").next().unwrap());
    let blocks: Vec<_> = blocks.map(|block| block.lines().map(words).collect()).collect();
    let count = blocks.len();
    blocks
        .try_into()
        .unwrap_or_else(|_| panic!("{count} blocks of commands, and {N} that somebody has looked at"))
}

/// The words of a line as a shell reads them, of which guides use only single quotes and comments.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quoted) = (Vec::new(), false);
    for (at, part) in line.split('\'').enumerate() {
        quoted = at % 2 == 1;
        if quoted {
            words.push(part.to_owned());
            continue;
        }
        let code = part.split(" #").next().unwrap();
        words.extend(code.split_whitespace().map(str::to_owned));
        if code.len() < part.len() {
            break;
        }
    }
    assert!(!quoted || line.ends_with('\''), "{line}");
    words
}

#[test]
fn agents_are_put_on_nodes() {
    let [run, by_manifest, by_chart, trace] = blocks(AGENT);
    let operator = Operator::new();
    operator.play(&run);
    operator.play(&by_manifest);
    operator.play(&trace);
    assert_eq!(
        operator.container("daemonset/picket-agent")["image"],
        "picket:0.1.0"
    );
    // Another cluster: what is there is nobody's but who has put it there.
    let operator = Operator::new();
    operator.play(&by_chart);
    operator.play(&trace);
    let image = &operator.container("daemonset/picket-agent")["image"];
    assert_eq!(image, "registry.example/picket:0.1.0");
}

#[test]
fn agents_of_pods_are_put_on_nodes() {
    let [run, by_chart, trace] = blocks(PODS);
    let operator = Operator::new();
    operator.play(&run);
    operator.play(&by_chart);
    operator.play(&trace);
    // Beside those of nodes.
    let [_, _, by_chart, _] = blocks::<4>(AGENT);
    operator.play(&by_chart);
    for agent in ["daemonset/picket-agent", "daemonset/picket-pods"] {
        let image = &operator.container(agent)["image"];
        assert_eq!(image, "registry.example/picket:0.1.0", "{agent}");
    }
}

#[test]
fn one_version_follows_another_and_goes_back() {
    let [look, upgrade, back, seen] = blocks(UPGRADE);
    let operator = Operator::new();
    let before = ["image.tag=0.0.9", "listen=127.0.0.1:9999"];
    operator.run(&[
        "helm",
        "install",
        "picket",
        "deploy/chart",
        "--namespace",
        "kube-system",
        "--set",
        before[0],
        "--set",
        before[1],
    ]);
    operator.play(&look);
    let is = |image: &str| {
        let container = operator.container("daemonset/picket-agent");
        assert_eq!(container["image"], image);
        // What was set for the version before holds for the other.
        let arguments = container["args"].as_array().unwrap();
        assert!(
            arguments.contains(&json!("--listen=127.0.0.1:9999")),
            "{container}"
        );
    };
    is("picket:0.0.9");
    operator.play(&upgrade);
    is("picket:0.1.0");
    operator.play(&seen);
    operator.play(&back);
    is("picket:0.0.9");
}

#[test]
fn other_programs_are_replaced_and_come_back() {
    let [look, from_nftables, from_iptables, back] = blocks(MIGRATE);
    let operator = Operator::new();
    let others = ["multi-networkpolicy-nftables", "multi-networkpolicy-iptables"];
    for other in others {
        operator.run_other(other);
    }
    operator.play(&look);
    for (other, replace) in others.into_iter().zip([from_nftables, from_iptables]) {
        operator.play(&replace);
        assert_eq!(operator.find(&format!("daemonset/{other}")), None);
        let container = operator.container("daemonset/picket-pods");
        let arguments = container["args"].as_array().unwrap().len();
        let (clean, rest) = back.split_at(1);
        operator.play(clean);
        let container = operator.container("daemonset/picket-pods");
        let words = container["args"].as_array().unwrap();
        // All that the agent was told, and what it is to do with it.
        assert_eq!(
            (words.len(), words.last()),
            (arguments + 1, Some(&json!("--cleanup")))
        );
        operator.play(rest);
        assert_eq!(operator.find("daemonset/picket-pods"), None);
    }
}
