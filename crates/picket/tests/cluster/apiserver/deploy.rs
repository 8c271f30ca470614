//! What is shipped is taken by a real API server, and an agent needs no more rights than it gives.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use picket_lab::Place;
use picket_linux::NetworkNamespace;
use picket_testing::apiserver::Server;
use picket_testing::http;
use serde_json::{Value, json};

use crate::agents::{Agent, lab};
use crate::apiserver::agent::{Live, NODE, isolation};
use crate::apiserver::enforce::cluster;
use crate::client::{Api, serve};
use crate::objects::{KINDS, unreadable};
use crate::published::Published;

pub(crate) const MANIFEST: &str = include_str!("../../../../../deploy/agent.yaml");

/// The documents of a manifest, each with its kind.
pub(crate) fn documents(manifest: &str) -> impl Iterator<Item = (&str, &str)> {
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
    let admission = "/apis/admissionregistration.k8s.io/v1";
    match kind {
        "ConfigMap" => "/api/v1/namespaces/kube-system/configmaps".to_owned(),
        "ServiceAccount" => "/api/v1/namespaces/kube-system/serviceaccounts".to_owned(),
        "ClusterRole" => format!("{rbac}/clusterroles"),
        "ClusterRoleBinding" => format!("{rbac}/clusterrolebindings"),
        "Role" => format!("{rbac}/namespaces/kube-system/roles"),
        "RoleBinding" => format!("{rbac}/namespaces/kube-system/rolebindings"),
        "Deployment" => "/apis/apps/v1/namespaces/kube-system/deployments".to_owned(),
        "DaemonSet" => "/apis/apps/v1/namespaces/kube-system/daemonsets".to_owned(),
        "ValidatingAdmissionPolicy" => format!("{admission}/validatingadmissionpolicies"),
        "ValidatingAdmissionPolicyBinding" => format!("{admission}/validatingadmissionpolicybindings"),
        other => panic!("{other} is applied nowhere"),
    }
}

/// Objects that were applied, by their kind.
pub(crate) type Applied = BTreeMap<String, Value>;

/// Applies a manifest, and gives its objects by their kind as the server has them then.
pub(crate) fn apply(api: &Api, manifest: &str) -> Applied {
    let created = |(kind, document): (&str, &str)| {
        let created = api.create_yaml(&path_of(kind), document);
        (kind.to_owned(), created)
    };
    documents(manifest).map(created).collect()
}

/// The only container of a manifest that has been applied.
pub(crate) fn container(applied: &Applied) -> Value {
    applied["DaemonSet"]["spec"]["template"]["spec"]["containers"][0].clone()
}

/// A kubeconfig of whoever has this account.
pub(crate) fn account(server: &Server, api: &Api, name: &str) -> PathBuf {
    server.kubeconfig_of(&token(api, name))
}

/// What shows that somebody has this account.
pub(crate) fn token(api: &Api, name: &str) -> String {
    let path = format!("/api/v1/namespaces/kube-system/serviceaccounts/{name}/token");
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = api.create(&path, &request)["status"]["token"].clone();
    token.as_str().unwrap().to_owned()
}

/// Holds that what runs on a node as this container is to answers to the probes of kubelets there, and says no more than numbers.
pub(crate) fn expect_probes(node: &NetworkNamespace, container: &Value) {
    let ask = |method: &str, path: &str, probe: &str| {
        let asked = &container[probe]["httpGet"];
        let host: IpAddr = asked["host"].as_str().unwrap_or("127.0.0.1").parse().unwrap();
        let port = u16::try_from(asked["port"].as_u64().unwrap()).unwrap();
        let stream = node.run(|| TcpStream::connect((host, port))).unwrap().unwrap();
        http::ask(stream, method, path).unwrap()
    };
    for probe in ["livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().unwrap();
        assert_eq!(ask("GET", path, probe), (200, "ok\n".to_owned()));
        assert_eq!(ask("GET", "/metrics", probe).0, 200);
        for (method, path, status) in [
            ("GET", "/status", 404),
            ("GET", "/trace", 404),
            ("POST", "/trace", 405),
        ] {
            assert_eq!(ask(method, path, probe).0, status, "{method} {path}");
        }
    }
}

/// A program that runs picket as a container does: with its arguments, with the capabilities that it has, and no others.
pub(crate) fn as_container(container: &Value) -> Command {
    let capabilities = &container["securityContext"]["capabilities"];
    assert_eq!(capabilities["drop"], json!(["ALL"]));
    let added = capabilities["add"].as_array().into_iter().flatten();
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

/// A server that notes in a file of this folder who asks it for what.
pub(crate) fn audited(folder: &Path, tokens: &[(&str, &str)]) -> (Server, PathBuf) {
    audited_with(folder, tokens, &[])
}

fn audited_with(folder: &Path, tokens: &[(&str, &str)], more: &[&str]) -> (Server, PathBuf) {
    let (policy, log) = (folder.join("policy"), folder.join("log"));
    let all = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]});
    fs::write(&policy, all.to_string()).unwrap();
    let flags = [
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log.display()),
    ];
    let flags: Vec<_> = flags
        .iter()
        .map(String::as_str)
        .chain(more.iter().copied())
        .collect();
    (Server::start_with(tokens, &flags), log)
}

/// What may be done: the group, the resource and the verb.
pub(crate) type Right = (String, String, String);

/// What an account has asked for, by such a file.
pub(crate) fn asked(log: &Path, account: &str) -> BTreeSet<Right> {
    let user = format!("system:serviceaccount:kube-system:{account}");
    let text = fs::read_to_string(log).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let own = lines.filter(|line| line["user"]["username"] == user.as_str() && line["objectRef"].is_object());
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    own.map(|line| {
        (
            word(&line["objectRef"]["apiGroup"]),
            word(&line["objectRef"]["resource"]),
            word(&line["verb"]),
        )
    })
    .collect()
}

/// Holds that an account has done everything that its role lets it do, and tried nothing else. Lists come streaming with what is
/// watched, but from older servers.
pub(crate) fn expect_rights(log: &Path, account: &str, role: &Value) {
    expect_no_writes(role);
    let is_list = |(_, _, verb): &Right| verb == "list";
    let (lists, others): (BTreeSet<_>, BTreeSet<_>) = granted(role).into_iter().partition(is_list);
    assert_eq!(asked(log, account), others);
    let watched = others.into_iter().filter(|(_, _, verb)| verb == "watch");
    let watched = watched.map(|(group, resource, _)| (group, resource, "list".to_owned()));
    assert_eq!(lists, watched.collect());
}

/// Holds that a role lets nobody change anything, and write nothing but Events.
pub(crate) fn expect_no_writes(role: &Value) {
    for (group, resource, verb) in granted(role) {
        let right = (group.as_str(), resource.as_str(), verb.as_str());
        let is_reading = ["get", "list", "watch"].contains(&verb.as_str());
        assert!(is_reading || right == ("", "events", "create"), "{right:?}");
    }
}

/// What a role lets somebody do.
pub(crate) fn granted(role: &Value) -> BTreeSet<Right> {
    let words = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap() };
    let mut granted = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        let [groups, resources, verbs] = ["apiGroups", "resources", "verbs"].map(|field| words(&rule[field]));
        for group in &groups {
            for resource in &resources {
                let rights = verbs
                    .iter()
                    .map(|verb| (group.clone(), resource.clone(), verb.clone()));
                granted.extend(rights);
            }
        }
    }
    granted
}

#[test]
fn a_manifest_with_a_field_that_the_server_does_not_know_is_not_taken() {
    let (_server, _, api) = serve();
    let (kind, agents) = documents(MANIFEST).last().unwrap();
    let misspelt = agents.replace("hostNetwork:", "hostNetworks:");
    let refused = api.try_create_yaml(&path_of(kind), &misspelt).unwrap_err();
    assert!(
        refused
            .message
            .contains("unknown field \"spec.template.spec.hostNetworks\""),
        "{}",
        refused.message
    );
}

#[test]
fn what_is_shipped_is_enough_and_nothing_of_it_is_too_much() {
    let folder = tempfile::tempdir().unwrap();
    let (server, audit) = audited(folder.path(), &[]);
    let api = Api::new(&server.kubeconfig());
    let applied = apply(&api, MANIFEST);
    let container = container(&applied);
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
    let node = lab.network().namespace(&Place::Node("lab-1".into())).unwrap();
    expect_probes(node, &container);
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
    // Of what cannot be enforced there is an event.
    api.create(KINDS[14].2, &unreadable());
    agent.until("an event", |_| {
        asked(&audit, "picket-agent")
            .iter()
            .any(|(_, resource, _)| resource == "events")
    });
    expect_rights(&audit, "picket-agent", &applied["ClusterRole"]);
}

#[test]
fn a_server_that_streams_no_lists_is_asked_for_what_the_role_names_too() {
    let folder = tempfile::tempdir().unwrap();
    let (server, audit) = audited_with(folder.path(), &[], &["--feature-gates=WatchList=false"]);
    let api = Api::new(&server.kubeconfig());
    let applied = apply(&api, MANIFEST);
    let kubeconfig = account(&server, &api, "picket-agent");
    let step = isolation();
    let lab = lab(&cluster(&step), &kubeconfig);
    let versions = Published::new(&api).put(&lab.topology().snapshot, &step.manifests);
    let agent = Agent::start(&lab, "lab-1", &kubeconfig);
    agent.until_enforced(&versions);
    let mut granted = granted(&applied["ClusterRole"]);
    granted.retain(|(_, _, verb)| verb != "create");
    let asked = || asked(&audit, "picket-agent");
    // The last list may come before the watch behind it.
    agent.until("everything", |_| asked().is_superset(&granted));
    assert_eq!(asked(), granted);
}

#[test]
fn without_the_only_capability_that_it_is_given_an_agent_of_nodes_ends_and_says_why() {
    let live = Live::new(None);
    let mut container = container(&apply(&live.api, MANIFEST));
    let added = &mut container["securityContext"]["capabilities"]["add"];
    assert_eq!(*added, json!(["NET_ADMIN"]));
    *added = json!([]);
    let kubeconfig = live.server.kubeconfig_of("agent-token");
    let mut agent = Agent::run(&live.lab, NODE, &kubeconfig, as_container(&container));
    assert_eq!(agent.await_end().code(), Some(2), "{}", agent.log());
    let why = "cannot listen to the kernel: Operation not permitted";
    assert!(agent.log().contains(why), "{}", agent.log());
    assert_eq!(live.nft(&["list", "tables"]), "");
}
