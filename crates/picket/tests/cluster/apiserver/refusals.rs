//! Servers that refuse, are silent or are not there.

use std::fs;

use picket_testing::apiserver::Server;
use serde_json::json;

use crate::client::Api;
use crate::objects::{define_without_schema, namespace, pod, policy};
use crate::picket;

/// The role that the project offers.
const READER: &str = include_str!("../../../../../examples/cluster-reader.yaml");

const EVAL: [&str; 8] = [
    "eval", "--kube", "--from", "shop/web", "--to", "shop/api", "--port", "8080",
];

/// A server with two pods of which neither may reach the other.
fn server() -> (Server, Api) {
    let server = Server::start_with(&[("reader-token", "reader"), ("partial-token", "partial")], &[]);
    let api = Api::new(&server.kubeconfig());
    namespace(&api, "shop");
    pod(&api, "shop", "web", "10.0.0.1", &json!({}));
    pod(&api, "shop", "api", "10.0.0.2", &json!({}));
    policy(&api, "shop", "deny-all", &json!({"podSelector": {}}));
    (server, api)
}

/// A role, `picket-reader` in the text, as the only rights of a user; without a resource if one is named.
pub(crate) fn grant(api: &Api, role: &str, user: &str, without: Option<&str>) {
    let text = role.replace("name: picket-reader", &format!("name: {user}"));
    // One that picket does not ask for, since a rule without a resource is refused.
    let role = match without {
        Some(resource) => text.replace(&format!("- {resource}\n"), "- ingresses\n"),
        None => text,
    };
    api.create_yaml("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        "roleRef": {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": user},
    });
    api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding);
}

#[test]
fn the_role_of_the_project_is_enough_and_one_without_a_resource_is_told() {
    let (server, api) = server();
    grant(&api, READER, "reader", None);
    grant(&api, READER, "partial", Some("networkpolicies"));
    let reader = server.kubeconfig_of("reader-token");
    let ran = picket(&reader, &EVAL);
    assert_eq!((ran.status, ran.stderr.as_str()), (1, ""), "{}", ran.stdout);

    let partial = server.kubeconfig_of("partial-token");
    let ran = picket(&partial, &EVAL);
    assert_eq!(ran.status, 2, "{}{}", ran.stdout, ran.stderr);
    let expected = "error[C017]: `networkpolicies.networking.k8s.io` cannot be read: \
                    networkpolicies.networking.k8s.io is forbidden: User \"partial\" cannot list resource \
                    \"networkpolicies\" in API group \"networking.k8s.io\" at the cluster scope (403)";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    for command in [&["matrix", "--kube"][..], &["check", "--kube"]] {
        let ran = picket(&partial, command);
        assert_eq!(ran.status, 2, "{}{}", ran.stdout, ran.stderr);
        let all = ran.stdout + &ran.stderr;
        assert!(all.contains("C017"), "{all}");
    }
    let ran = picket(
        &partial,
        &["render", "--kube", "--target", "nftables", "--node", "node-1"],
    );
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("not all of the cluster is known"),
        "{}",
        ran.stderr
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new.yaml");
    fs::write(
        &file,
        "{apiVersion: v1, kind: Namespace, metadata: {name: other}}",
    )
    .unwrap();
    let ran = picket(&partial, &["diff", "--kube", "-f", file.to_str().unwrap()]);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    let expected = "the old side cannot be compared: `networkpolicies.networking.k8s.io` cannot be read";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
}

#[test]
fn who_is_unknown_learns_that() {
    let (server, _) = server();
    let ran = picket(&server.kubeconfig_of("no-token"), &EVAL);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    let expected = "does not accept the credentials when asked to get /apis (401): Unauthorized";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
}

#[test]
fn a_kind_that_is_served_in_unknown_versions_only_is_missing() {
    let (server, api) = server();
    let path = "/apis/policy.networking.k8s.io/v2/clusternetworkpolicies";
    // No project has released it.
    define_without_schema(
        &api,
        ("policy.networking.k8s.io/v2", "ClusterNetworkPolicy", path),
    );
    let ran = picket(&server.kubeconfig(), &EVAL);
    assert_eq!(ran.status, 2, "{}{}", ran.stdout, ran.stderr);
    let expected = "the cluster serves ClusterNetworkPolicy only as v2, and picket reads v1alpha2";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
}

#[test]
fn a_server_that_is_silent_or_gone_is_told() {
    let (server, _) = server();
    let patient = [&EVAL[..], &["--request-timeout", "600"]].concat();
    server.signal("STOP");
    let ran = picket(
        &server.kubeconfig(),
        &[&EVAL[..], &["--request-timeout", "1"]].concat(),
    );
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    let expected = "did not answer within 1 s when asked to get /apis";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    server.signal("CONT");
    let ran = picket(&server.kubeconfig(), &patient);
    assert_eq!(ran.status, 1, "{}", ran.stderr);

    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let text = fs::read_to_string(server.kubeconfig()).unwrap();
    let authority = fs::read(server.authority()).unwrap();
    let copy = folder.path().join("ca.crt");
    fs::write(&copy, authority).unwrap();
    let text = text.replace(server.authority().to_str().unwrap(), copy.to_str().unwrap());
    fs::write(&kubeconfig, text).unwrap();
    drop(server);
    let ran = picket(&kubeconfig, &patient);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert!(
        ran.stderr.contains("cannot be reached: Connection refused"),
        "{}",
        ran.stderr
    );
}
