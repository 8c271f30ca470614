//! Controllers between a real API server and a real Neutron, with the rights of their manifest and no others.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use picket_testing::faults::{Fault, Proxy};
use picket_testing::neutron::Neutron;
use serde_json::{Value, json};

use crate::apiserver::deploy::{Right, account, apply, asked, audited, granted};
use crate::client::Api;
use crate::objects::{define_all, namespace, pod, policy};

const MANIFEST: &str = include_str!("../../../../../deploy/controller.yaml");

/// How often something is looked for until a test fails, ten times a second.
const LOOKS: u32 = 3000;

/// A controller as the manifest has it, at another Neutron.
struct Controller {
    process: Child,
    socket: PathBuf,
}

impl Controller {
    fn start(container: &Value, kubeconfig: &Path, endpoint: &str, folder: &Path, name: &str) -> Self {
        let socket = folder.join(name);
        let elsewhere = ["--clouds-file", "--os-cloud", "--listen"];
        let arguments = container["args"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap());
        let process = Command::new(env!("CARGO_BIN_EXE_picket"))
            .args(arguments.filter(|word| !elsewhere.iter().any(|start| word.starts_with(start))))
            .args([
                "--endpoint",
                endpoint,
                "--project",
                "fake_project_id",
                "--name",
                name,
            ])
            .args(["--lease", "24", "--call-timeout", "12", "--socket"])
            .arg(&socket)
            .env("KUBECONFIG", kubeconfig)
            .env_remove("KUBERNETES_SERVICE_HOST")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.join(format!("{name}.log"))).unwrap())
            .spawn()
            .unwrap();
        Self { process, socket }
    }

    fn status(&self) -> Option<Value> {
        let status = Command::new(env!("CARGO_BIN_EXE_picket"))
            .args(["controller", "--status", "--socket"])
            .arg(&self.socket)
            .output()
            .unwrap();
        serde_json::from_slice(&status.stdout).ok()
    }

    /// Whether it leads, and all of so many policies are in force.
    fn enforces(&self, policies: usize) -> bool {
        self.status().is_some_and(|status| {
            let all = status["policies"].as_array().unwrap();
            let is_ready = all.len() == policies && all.iter().all(|policy| policy["ready"] == json!(true));
            status["lease"]["leads"] == json!(true) && is_ready && status["steps"] == json!(0)
        })
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if holds() {
            return;
        }
        sleep(Duration::from_millis(100));
    }
    panic!("never {what}");
}

/// The ids of the groups of a port, as the annotation of its pod has them.
fn groups_of(neutron: &Neutron, port: &str) -> String {
    let port = neutron.ask("GET", &format!("ports/{port}"), &Value::Null);
    let groups = port["port"]["security_groups"].as_array().unwrap().iter();
    let groups: BTreeSet<_> = groups.map(|id| id.as_str().unwrap()).collect();
    groups.into_iter().collect::<Vec<_>>().join(",")
}

fn annotation(api: &Api, pod: &str) -> String {
    let pods = api.list("/api/v1/namespaces/shop/pods");
    let pod = pods
        .iter()
        .find(|object| object["metadata"]["name"] == pod)
        .unwrap();
    pod["metadata"]["annotations"]["picket.dev/security-groups"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn one_of_two_controllers_enforces_and_the_other_goes_on_when_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let (server, audit) = audited(folder.path(), &[]);
    let api = Api::new(&server.kubeconfig());
    define_all(&api);
    let applied = apply(&api, MANIFEST);
    let container = applied["Deployment"]["spec"]["template"]["spec"]["containers"][0].clone();
    let kubeconfig = account(&server, &api, "picket-controller");
    namespace(&api, "shop");
    for (name, address) in [("web", "10.0.0.1"), ("db", "10.0.0.2")] {
        pod(&api, "shop", name, address, &json!({}));
    }
    let lets_in = |peer: &str| {
        json!({
            "podSelector": {"matchLabels": {"app": "db"}},
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": peer}}}]}],
        })
    };
    policy(&api, "shop", "db", &lets_in("web"));
    let neutron = Neutron::start();
    let network = neutron.create_network(&["10.0.0.0/24"]);
    let ports = [("shop/web", "10.0.0.1"), ("shop/db", "10.0.0.2")].map(|(name, address)| {
        let fixed = json!([{"ip_address": address}]);
        let port = json!({"port": {"network_id": network, "name": name, "fixed_ips": fixed}});
        neutron.ask("POST", "ports", &port)["port"]["id"]
            .as_str()
            .unwrap()
            .to_owned()
    });
    let proxy = Proxy::to(neutron.port());
    let start = |name| Controller::start(&container, &kubeconfig, &proxy.endpoint(), folder.path(), name);
    let mut pair = [start("one"), start("two")];
    until("in force", || {
        pair.iter().any(|controller| controller.enforces(1))
    });
    let is_told = || {
        let told = [annotation(&api, "web"), annotation(&api, "db")];
        told == [groups_of(&neutron, &ports[0]), groups_of(&neutron, &ports[1])]
    };
    until("told", is_told);
    if pair[1].enforces(1) {
        pair.swap(0, 1);
    }
    let [mut leader, other] = pair;
    assert!(!other.enforces(1));

    // Nobody hears how the second call for another policy ends, and then it is too late.
    let before = neutron.list("security-groups").len();
    proxy.plan_write(1, Fault::SilenceAfter);
    policy(&api, "shop", "other", &lets_in("api"));
    until("at it", || !proxy.has_write());
    leader.process.kill().unwrap();
    leader.process.wait().unwrap();
    until("in force again", || other.enforces(2));
    until("told again", is_told);
    let groups = neutron.list("security-groups");
    let names: BTreeSet<_> = groups
        .iter()
        .map(|group| group["name"].as_str().unwrap())
        .collect();
    assert_eq!((names.len(), groups.len()), (before + 2, before + 2), "{names:?}");

    // So it is, as whoever only reads finds.
    let read = |command: &[&str]| {
        let cloud = ["--endpoint", &proxy.endpoint(), "--project", "fake_project_id"];
        let ran = Command::new(env!("CARGO_BIN_EXE_picket"))
            .args(command)
            .args(["--kube", "--target", "neutron", "--live"])
            .args(cloud)
            .env("KUBECONFIG", server.kubeconfig())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success(), "{said}");
        String::from_utf8(ran.stdout).unwrap()
    };
    assert!(read(&["verify"]).starts_with("proved: the security groups mean what the policies say"));
    let views = read(&["render", "-o", "kuryrnetpolicy"]);
    assert!(
        views.contains("    networkpolicy_uid: \"") && !views.contains("id: null"),
        "{views}"
    );

    let rights = |role: &str| granted(&applied[role]);
    let granted: BTreeSet<Right> = rights("ClusterRole").union(&rights("Role")).cloned().collect();
    let without_lists = |rights: BTreeSet<Right>| -> BTreeSet<Right> {
        rights.into_iter().filter(|(_, _, verb)| verb != "list").collect()
    };
    assert_eq!(
        without_lists(asked(&audit, "picket-controller")),
        without_lists(granted)
    );
}
