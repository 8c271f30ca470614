//! The chart, rendered by Helm and taken by a real API server.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use picket_testing::program::HELM;
use picket_testing::runtime::{Kind, SOCKET};
use serde_json::{Value, json};

use crate::apiserver::deploy::{MANIFEST, account, apply, as_container, container, path_of};
use crate::apiserver::reflect::REFLECTOR;
use crate::apiserver::secondary::simple;
use crate::client::{Api, serve};
use crate::pods::{Node, expect};

/// What Helm makes of the chart with some values.
fn helm(command: &str, values: &[&str]) -> Output {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/chart");
    let home = tempfile::tempdir().unwrap();
    let mut helm = Command::new(HELM.path());
    helm.args(command.split(' '))
        .arg(chart)
        .args(["--namespace", "kube-system"])
        .env("HOME", home.path());
    for value in values {
        helm.args(["--set", value]);
    }
    helm.output().unwrap()
}

fn rendered(values: &[&str]) -> String {
    let output = helm("template picket", values);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{values:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Takes away what was applied, and what the server says of each object.
fn withdraw(api: &Api, applied: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let withdrawn = applied.into_iter().map(|(kind, mut object)| {
        let metadata = object["metadata"].as_object_mut().unwrap();
        api.delete(&path_of(&kind), metadata["name"].as_str().unwrap());
        metadata.retain(|field, _| ["name", "namespace", "labels", "annotations"].contains(&field.as_str()));
        (kind, object)
    });
    withdrawn.collect()
}

#[test]
fn without_values_it_is_the_manifest() {
    let (_server, _, api) = serve();
    let manifest = withdraw(&api, apply(&api, MANIFEST));
    let chart = withdraw(&api, apply(&api, &rendered(&[])));
    assert_eq!(manifest.len(), 4);
    assert_eq!(chart, manifest);
}

#[test]
fn of_reflectors_it_is_their_manifest() {
    let (_server, _, api) = serve();
    let manifest = withdraw(&api, apply(&api, REFLECTOR));
    let chart = withdraw(&api, apply(&api, &rendered(&["mode=reflector"])));
    assert_eq!(manifest.len(), 4);
    assert_eq!(chart, manifest);
}

#[test]
fn values_of_reflectors_are_used_and_wrong_ones_are_refused() {
    let (_server, _, api) = serve();
    let applied = apply(
        &api,
        &rendered(&[
            "mode=reflector",
            "image.tag=v9",
            "listen=[::]:9999",
            "arguments[0]=--etcd-prefix=/here/",
            "reflector.etcdEndpoints={http://a:1,http://b:2}",
            "reflector.etcdSecret=",
            "reflector.replicas=3",
            "reflector.priorityClassName=",
            "reflector.tolerations[0].operator=Exists",
        ]),
    );
    let deployment = &applied["Deployment"]["spec"];
    let pod = &deployment["template"]["spec"];
    assert_eq!(
        (&deployment["replicas"], &pod["volumes"]),
        (&json!(3), &Value::Null)
    );
    assert_eq!(
        (&pod["priorityClassName"], &pod["tolerations"]),
        (&Value::Null, &json!([{"operator": "Exists"}]))
    );
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "picket:v9");
    assert_eq!(
        container["args"],
        json!([
            "reflect",
            "--etcd-endpoints=http://a:1,http://b:2",
            "--listen=[::]:9999",
            "--log-format=json",
            "--etcd-prefix=/here/"
        ])
    );
    assert_eq!(container["volumeMounts"], Value::Null);
    assert_eq!(container["livenessProbe"]["httpGet"]["port"], 9999);
    for wrong in [
        "reflector.etcdEndpoints={}",
        "reflector.etcdEndpoints={etcd:2379}",
        "reflector.replicas=0",
        "reflector.secret=a",
    ] {
        let output = helm("template picket", &["mode=reflector", wrong]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains("schema"),
            "{wrong}: {errors}"
        );
    }
    let output = helm("lint --strict", &["mode=reflector"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn values_are_used_and_wrong_ones_are_refused() {
    let (_server, _, api) = serve();
    let values = [
        "image.repository=registry.example/picket",
        "image.tag=v9",
        "image.pullPolicy=Always",
        "imagePullSecrets[0].name=secret",
        "listen=[::1]:9999",
        "arguments[0]=--established=keep",
        "priorityClassName=",
        "tolerations=null",
    ];
    let applied = apply(&api, &rendered(&values));
    let pod = &applied["DaemonSet"]["spec"]["template"]["spec"];
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "secret"}]));
    assert_eq!(
        (&pod["priorityClassName"], &pod["tolerations"]),
        (&Value::Null, &Value::Null)
    );
    let container = container(&applied);
    assert_eq!(container["image"], "registry.example/picket:v9");
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(
        container["args"],
        json!([
            "agent",
            "--listen=[::1]:9999",
            "--log-format=json",
            "--established=keep"
        ])
    );
    let probe = &container["readinessProbe"]["httpGet"];
    assert_eq!((&probe["host"], &probe["port"]), (&json!("::1"), &json!(9999)));
    for wrong in ["mode=node", "imagee.tag=1", "arguments[0]=agent", "listen=9480"] {
        let output = helm("template picket", &[wrong]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains("schema"),
            "{wrong}: {errors}"
        );
    }
    let output = helm("lint --strict", &[]);
    assert!(output.status.success(), "{output:?}");
}

/// Runs a command on the node of a container runtime, with nothing of the node but what its container mounts.
fn in_mounts(node: &Node, applied: &BTreeMap<String, Value>, command: &Command) -> Command {
    let volumes = &applied["DaemonSet"]["spec"]["template"]["spec"]["volumes"];
    let root = node.folder.path().join("root");
    let mut script = "set -e\n".to_owned();
    for mount in container(applied)["volumeMounts"].as_array().unwrap() {
        let mut volumes = volumes.as_array().unwrap().iter();
        let volume = volumes.find(|volume| volume["name"] == mount["name"]).unwrap();
        let to = root.join(mount["mountPath"].as_str().unwrap().trim_start_matches('/'));
        fs::create_dir_all(&to).unwrap();
        if let Some(from) = volume["hostPath"]["path"].as_str() {
            assert!(mount["readOnly"] == true && from != "/", "{mount}");
            let to = to.display();
            script += &format!("mount --rbind {from} {to}\nmount -o remount,bind,ro {to}\n");
            if mount["mountPropagation"] != "HostToContainer" {
                script += &format!("mount --make-rprivate {to}\n");
            }
        } else if volume["configMap"].is_object() {
            for (name, text) in applied["ConfigMap"]["data"].as_object().unwrap() {
                fs::write(to.join(name), text.as_str().unwrap()).unwrap();
            }
        }
    }
    // Its own /proc is of its own processes.
    script += "mount -t proc proc /proc\nexec \"$@\"";
    let prefix = node.runtime.prefix();
    let mut around = Command::new("nsenter");
    around
        .args(["--mount", "--target"])
        .arg(prefix.iter().nth(2).unwrap())
        .args(["unshare", "--mount", "--propagation", "slave"])
        .args(["sh", "-c", &script, "sh"])
        .arg(command.get_program());
    // What the container has at these places is elsewhere here.
    let elsewhere = |argument: &str| {
        ["host", "etc/picket"]
            .iter()
            .fold(argument.to_owned(), |argument, place| {
                argument.replace(&format!("=/{place}"), &format!("={}/{place}", root.display()))
            })
    };
    around.args(
        command
            .get_args()
            .map(|argument| elsewhere(argument.to_str().unwrap())),
    );
    around
}

#[test]
fn for_pods_what_it_gives_is_enough() {
    // One after the other: both agents listen where the chart says.
    for kind in Kind::ALL {
        enforces_in_pods(kind);
    }
}

fn enforces_in_pods(kind: Kind) {
    let mut node = Node::with(kind);
    let socket = format!("pods.containerRuntimeEndpoint={SOCKET}");
    let rules = [
        "pods.customRules.v4-ingress=ip saddr 2.2.5.14 accept",
        "pods.customRules.v6-ingress=ip6 saddr 2001:db8::14 accept",
    ];
    let applied = apply(&node.api, &rendered(&["mode=pods", &socket, rules[0], rules[1]]));
    let kubeconfig = account(&node.server, &node.api, "picket-pods");
    let mut command = as_container(&container(&applied));
    command
        .args(["--hostname-override", "node-1", "--kubeconfig"])
        .arg(kubeconfig)
        .arg("--socket")
        .arg(node.folder.path().join("socket"));
    let command = in_mounts(&node, &applied, &command);
    node.start_by(command);
    // What is mounted on the node from now on, namespaces among it, the agent must see.
    let pods = simple(&mut node);
    expect(&pods, &["a->server"], true, "without a policy");
    let spec = json!({"podSelector": {"matchLabels": {"name": "server"}}, "ingress": []});
    node.policy("default", "nobody", "default/net", &spec);
    node.until_enforced();
    expect(&pods, &["a->server"], false, "with a policy");
    expect(
        &pods,
        &["server->a c->server"],
        true,
        "with a policy and a custom rule",
    );
    let status = node.status(&[]);
    assert_eq!(status.status, 0, "{}", status.stdout);
}
