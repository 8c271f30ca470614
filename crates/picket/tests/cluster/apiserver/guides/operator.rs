//! Somebody who follows a guide, and who makes what controllers and kubelets would.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use picket_testing::apiserver::Server;
use picket_testing::program::HELM;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::apiserver::deploy::{apply, documents, path_of};
use crate::client::Api;

/// Where pods of agents are.
const PODS: &str = "/api/v1/namespaces/kube-system/pods";

/// The nodes of the cluster.
const NODES: [&str; 2] = ["worker-1", "worker-2"];

/// Somebody in the folder of the project who follows a guide.
pub(super) struct Operator {
    server: Server,
    api: Api,
    home: TempDir,
    /// What the shell knows by name.
    variables: RefCell<BTreeMap<String, String>>,
    /// In which pod what was run last.
    asked: RefCell<(String, Vec<String>)>,
}

impl Operator {
    /// In a cluster of two nodes with a pod that guides ask about.
    pub(super) fn new() -> Self {
        let server = Server::start();
        let api = Api::new(&server.kubeconfig());
        api.create("/api/v1/namespaces", &json!({"metadata": {"name": "shop"}}));
        let db = json!({
            "metadata": {"name": "db-0"},
            "spec": {"nodeName": "worker-2", "containers": [{"name": "main", "image": "main"}]},
        });
        api.create("/api/v1/namespaces/shop/pods", &db);
        Self {
            api,
            server,
            home: tempfile::tempdir().unwrap(),
            variables: RefCell::default(),
            asked: RefCell::default(),
        }
    }

    /// Runs a block of commands.
    pub(super) fn play(&self, block: &[Vec<String>]) {
        for line in block {
            match assignment(line) {
                Some((name, command)) => {
                    let printed = self.output(&command).unwrap();
                    let value = printed.trim_end().to_owned();
                    // Where a shell would make several words of it, or none, something else is run.
                    assert_eq!(value.split_whitespace().count(), 1, "{line:?}: {value}");
                    self.variables.borrow_mut().insert(name, value);
                }
                None => drop(self.output(line)),
            }
        }
    }

    /// What a command prints, if somebody wants to know.
    pub(super) fn output(&self, command: &[String]) -> Option<String> {
        let words: Vec<_> = command.iter().map(|word| self.expanded(word)).collect();
        self.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// A word with the values of what it names.
    fn expanded(&self, word: &str) -> String {
        match word.split_once('$') {
            Some((before, name)) => format!("{before}{}", self.variables.borrow()[name]),
            None => word.to_owned(),
        }
    }

    pub(super) fn run(&self, command: &[&str]) -> Option<String> {
        match command {
            ["helm", arguments @ ..] => self.helm(arguments),
            ["kubectl", action @ ("apply" | "delete"), "-f", file] => {
                let manifest = std::fs::read_to_string(root().join(file)).unwrap();
                if *action == "apply" {
                    apply(&self.api, &manifest);
                } else {
                    documents(&manifest).for_each(|(kind, document)| self.delete(kind, document));
                }
            }
            ["kubectl", "-n", "shop", "get", "pod", name, "--output", format] => {
                let pods = self.api.list("/api/v1/namespaces/shop/pods").into_iter();
                let mut named = pods.filter(|pod| pod["metadata"]["name"] == *name);
                let path = format
                    .strip_prefix("jsonpath={")
                    .unwrap()
                    .strip_suffix('}')
                    .unwrap();
                return Some(field(&named.next().unwrap(), path));
            }
            [
                "kubectl",
                "-n",
                "kube-system",
                "get",
                "pods",
                "--selector",
                labels,
                rest @ ..,
            ] => {
                return Some(self.pods(labels, rest));
            }
            ["kubectl", "-n", "kube-system", arguments @ ..] => self.kubectl(arguments),
            ["podman", "build", .., "-f", file, "."] => assert!(root().join(file).is_file(), "{file}"),
            ["picket", ..] => understood(command),
            other => panic!("{other:?}: nobody has looked at whether that can be run"),
        }
        None
    }

    /// What `kubectl get pods` prints of those with a label.
    fn pods(&self, labels: &str, rest: &[&str]) -> String {
        let (fields, format) = match rest {
            ["--field-selector", fields, "--output", format] => (*fields, *format),
            ["--output", format] => ("", *format),
            other => panic!("{other:?}: nobody has looked at whether that can be run"),
        };
        let (key, value) = labels.split_once('=').unwrap();
        let mut pods = self.api.list_where(PODS, fields);
        pods.retain(|pod| pod["metadata"]["labels"][key] == value);
        if format == "name" {
            let name = |pod: &Value| format!("pod/{}\n", field(pod, ".metadata.name"));
            return pods.iter().map(name).collect();
        }
        let columns = format.strip_prefix("custom-columns=").unwrap().split(',');
        let columns: Vec<_> = columns.map(|column| column.split_once(':').unwrap()).collect();
        let header = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let row = |pod| columns.iter().map(|(_, path)| field(pod, path)).collect();
        let rows = [header].into_iter().chain(pods.iter().map(row));
        rows.map(|row: Vec<String>| row.join(" ") + "\n").collect()
    }

    /// Deletes an object of a manifest.
    fn delete(&self, kind: &str, document: &str) {
        let name = document.lines().find_map(|line| line.strip_prefix("  name: "));
        self.api.delete(&path_of(kind), name.unwrap());
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
                if of.starts_with("daemonset/") {
                    self.roll_out(of);
                }
            }
            ["get", "daemonset", name] => drop(self.object(&format!("daemonset/{name}"))),
            ["patch", "daemonset", name, "--type=json", file] => {
                let file = root().join(file.strip_prefix("--patch-file=").unwrap());
                let text = std::fs::read_to_string(file).unwrap();
                let code = text.lines().filter(|line| !line.trim_start().starts_with('#'));
                let operations = serde_json::from_str(&code.collect::<String>()).unwrap();
                self.api.patch_by(&path_of("DaemonSet"), name, &operations);
            }
            ["exec", of, "--", command @ ..] => {
                let name = of.strip_prefix("pod/").unwrap();
                let pods = self.api.list_where(PODS, &format!("metadata.name={name}"));
                let containers = &pods[0]["spec"]["containers"];
                assert_eq!(containers.as_array().unwrap().len(), 1, "{of}");
                understood(command);
                let command = command.iter().map(|word| (*word).to_owned()).collect();
                *self.asked.borrow_mut() = (name.to_owned(), command);
            }
            ["delete", kind, name] => {
                self.object(&format!("{kind}/{name}"));
                self.api.delete(&path_of(kind_of(kind)), name);
            }
            other => panic!("{other:?}: nobody has looked at whether that can be run"),
        }
    }

    /// Holds that the agent of these on a node was asked last, and what.
    pub(super) fn expect_asked(&self, of: &str, node: &str, command: &str) {
        let (pod, asked) = self.asked.borrow().clone();
        assert_eq!((pod, asked[1].as_str()), (on(of, node), command), "{asked:?}");
    }

    /// Replaces the pods of a DaemonSet, as its controller does, and runs them.
    pub(super) fn roll_out(&self, of: &str) {
        self.end_pods(of);
        let template = &self.object(of)["spec"]["template"];
        for node in NODES {
            let mut pod = template.clone();
            pod["metadata"]["name"] = json!(on(of, node));
            pod["spec"]["nodeName"] = json!(node);
            self.api.create(PODS, &pod);
        }
    }

    /// Ends the pods of a DaemonSet.
    pub(super) fn end_pods(&self, of: &str) {
        for pod in self.api.list(PODS) {
            let name = pod["metadata"]["name"].as_str().unwrap();
            if NODES.iter().any(|node| name == on(of, node)) {
                self.api.delete(PODS, name);
            }
        }
    }

    /// What a kubelet says when the first container of such a pod has succeeded.
    pub(super) fn clean_up_on(&self, of: &str, node: &str) {
        let terminated = json!({"exitCode": 0, "reason": "Completed"});
        let container = json!({
            "name": "cleanup",
            "image": "",
            "imageID": "",
            "ready": true,
            "restartCount": 0,
            "state": {"terminated": terminated},
        });
        let status = json!({"initContainerStatuses": [container]});
        self.api.set_status(PODS, &on(of, node), &status);
    }

    /// An object that is there, as in `daemonset/picket-agent`.
    pub(super) fn object(&self, of: &str) -> Value {
        let found = self.find(of);
        found.unwrap_or_else(|| panic!("there is no {of}"))
    }

    pub(super) fn find(&self, of: &str) -> Option<Value> {
        let (kind, name) = of.split_once('/').unwrap();
        let all = self.api.list(&path_of(kind_of(kind))).into_iter();
        all.into_iter().find(|object| object["metadata"]["name"] == name)
    }

    /// The only container of an object that runs some.
    pub(super) fn container(&self, of: &str) -> Value {
        self.object(of)["spec"]["template"]["spec"]["containers"][0].clone()
    }

    /// Runs another program on all nodes.
    pub(super) fn run_other(&self, name: &str) {
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

/// The pod of a DaemonSet on a node.
fn on(of: &str, node: &str) -> String {
    let (_, name) = of.split_once('/').unwrap();
    format!("{name}-{node}")
}

/// A field of an object as `kubectl` shows it, by a path as in `.spec.nodeName` or `.status.podIPs[0].ip`.
fn field(object: &Value, path: &str) -> String {
    let pointer = path.replace('[', ".").replace(']', "").replace('.', "/");
    let value = object.pointer(&pointer).and_then(Value::as_str);
    value.unwrap_or("<none>").to_owned()
}

/// Holds that picket takes the arguments of a container.
pub(super) fn expect_understood(container: &Value) {
    let arguments = container["args"].as_array().unwrap().iter();
    let arguments = arguments.map(|argument| argument.as_str().unwrap());
    understood(&["picket"].into_iter().chain(arguments).collect::<Vec<_>>());
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

/// What a line gives a name to, as in `node=$(kubectl …)`.
fn assignment(line: &[String]) -> Option<(String, Vec<String>)> {
    let (name, first) = line.first()?.split_once("=$(")?;
    let mut command = line.to_vec();
    command[0] = first.to_owned();
    let last = command.last_mut().unwrap();
    *last = last.strip_suffix(')').unwrap().to_owned();
    Some((name.to_owned(), command))
}

/// The words of a line as a shell reads them, of which guides use only single quotes and comments.
pub(super) fn words(line: &str) -> Vec<String> {
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
