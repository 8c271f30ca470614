//! Manifests, a Neutron, and one go.

use std::fs;
use std::path::Path;

use picket_testing::neutron::Neutron;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::openstack::controller;

pub(crate) const CLUSTER: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
status: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
status: {podIP: 10.0.0.2, podIPs: [{ip: 10.0.0.2}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
  - from: [{podSelector: {matchLabels: {app: web}}}]
    ports: [{port: 5432}]
"#;

/// The names of the groups of a port, sorted.
pub(crate) fn groups_of(server: &Neutron, port: &str) -> Vec<String> {
    let groups = server.list("security-groups");
    let name = |id: &Value| {
        let group = groups.iter().find(|group| group["id"] == *id).unwrap();
        group["name"].as_str().unwrap().to_owned()
    };
    let port = server.ask("GET", &format!("ports/{port}"), &Value::Null);
    let mut names: Vec<_> = port["port"]["security_groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(name)
        .collect();
    names.sort();
    names
}

pub(crate) fn manifests() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("cluster.yaml"), CLUSTER).unwrap();
    folder
}

/// A port of each way to be found: by its tag, and by its address.
pub(crate) fn ports(server: &Neutron) -> [String; 2] {
    let network = server.create_network(&["10.0.0.0/24"]);
    let port = |address: &str, name: &str| {
        let body = json!({"port": {
            "network_id": network, "name": name, "fixed_ips": [{"ip_address": address}],
        }});
        let made = server.ask("POST", "ports", &body);
        made["port"]["id"].as_str().unwrap().to_owned()
    };
    let (web, db) = (port("10.0.0.1", "a"), port("10.0.0.2", "b"));
    let tags = json!({"tags": ["picket.dev/pod=shop/web"]});
    server.ask("PUT", &format!("ports/{web}/tags"), &tags);
    [web, db]
}

pub(crate) fn expect_enforced(server: &Neutron, [web, db]: &[String; 2]) {
    let of_web = groups_of(server, web);
    assert_eq!(of_web[..2], ["picket/open/egress", "picket/open/ingress"]);
    assert!(
        of_web[2].starts_with("picket/peers/") && of_web.len() == 3,
        "{of_web:?}"
    );
    assert_eq!(
        groups_of(server, db),
        ["picket/open/egress", "picket/policy/shop/db/ingress"]
    );
}

#[test]
fn manifests_are_enforced_by_a_neutron_without_keystone() {
    let (server, folder) = (Neutron::start(), manifests());
    let ports = ports(&server);
    let endpoint = server.endpoint();
    let go = |path: &Path, how: &str| {
        controller(
            path,
            &["--endpoint", &endpoint, "--project", "fake_project_id", how],
        )
    };
    let before = server.list("security-groups").len();

    let planned = go(folder.path(), "--dry-run");
    assert_eq!(planned.status, 0, "{}", planned.stderr);
    for line in [
        "create group picket/policy/shop/db/ingress",
        "(Pod shop/web)",
        "set groups of port",
    ] {
        assert!(planned.stdout.contains(line), "{line}: {}", planned.stdout);
    }
    assert_eq!(server.list("security-groups").len(), before);

    let done = go(folder.path(), "--once");
    assert_eq!((done.status, done.stdout.as_str()), (0, ""), "{}", done.stderr);
    expect_enforced(&server, &ports);
    assert_eq!(go(folder.path(), "--dry-run").stdout, "");
}

#[test]
fn a_cloud_of_clouds_yaml_is_used_and_its_password_not_shown() {
    let (server, folder) = (Neutron::start_with_lasting_tokens(), manifests());
    let ports = ports(&server);
    let clouds = server.folder().join("clouds.yaml");
    let text = format!(
        "clouds:\n  prod:\n    network_endpoint_override: '{}'\n    auth: {{auth_url: '{}', username: admin, password: secret, project_name: admin, \
         user_domain_name: Default, project_domain_name: Default}}\n",
        server.endpoint(),
        server.identity()
    );
    fs::write(&clouds, text).unwrap();
    let arguments = [
        "--os-cloud",
        "prod",
        "--clouds-file",
        clouds.to_str().unwrap(),
        "--once",
        "--log",
        "debug",
    ];
    let done = controller(folder.path(), &arguments);
    assert_eq!(done.status, 0, "{}", done.stderr);
    expect_enforced(&server, &ports);
    assert!(!done.stderr.contains("secret"), "{}", done.stderr);
    let unknown = [
        "--os-cloud",
        "other",
        "--clouds-file",
        clouds.to_str().unwrap(),
        "--once",
    ];
    let failed = controller(folder.path(), &unknown);
    assert!(
        failed.status == 2 && failed.stderr.contains("no cloud is called `other`"),
        "{}",
        failed.stderr
    );
}

#[test]
fn without_a_neutron_it_says_so() {
    let folder = manifests();
    let failed = controller(folder.path(), &["--endpoint", "http://127.0.0.1:1", "--once"]);
    assert_eq!(failed.status, 2);
    assert!(failed.stderr.contains("no connection"), "{}", failed.stderr);
}
