//! Who may say which interface of VPP is that of a pod.

use picket_testing::apiserver::Server;
use serde_json::{Value, json};

use crate::apiserver::deploy::apply;
use crate::client::{Answer, Api};

const MANIFEST: &str = include_str!("../../../../../deploy/vpp-interface.yaml");

const ANNOTATION: &str = "picket.dev/vpp-interface";

/// The account of what makes interfaces, as the manifest has it.
const PLUGIN: &str = "system:serviceaccount:kube-system:vpp-cni";

const PODS: &str = "/api/v1/namespaces/default/pods";

fn naming(interface: &str) -> Value {
    json!({"metadata": {"annotations": {ANNOTATION: interface}}})
}

/// A pod that names an interface, or none.
fn pod(name: &str, interface: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": interface.map(|interface| json!({ANNOTATION: interface}))},
        "spec": {"containers": [{"name": "main", "image": "main"}]},
    })
}

#[track_caller]
fn is_refused(answer: Answer) {
    let status = answer.unwrap_err();
    let expected = "only the CNI plugin names interfaces of VPP";
    assert!(status.message.contains(expected), "{}", status.message);
}

#[test]
fn an_annotation_that_agents_believe_can_be_left_to_the_plugin() {
    let server = Server::start_with(&[("user-token", "user"), ("plugin-token", PLUGIN)], &[]);
    let admin = Api::new(&server.kubeconfig());
    let subjects = ["user", PLUGIN];
    let subjects =
        subjects.map(|name| json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}));
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "may-do-everything"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": subjects,
    });
    admin.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding);
    // It takes the server a while.
    let may = |name: &&str| {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": name, "resourceAttributes": {"resource": "namespaces", "verb": "list"}}});
        let reviewed = admin.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review);
        reviewed["status"]["allowed"] == true
    };
    while !["user", PLUGIN].iter().all(may) {}
    let [user, plugin] = ["user-token", "plugin-token"].map(|token| Api::new(&server.kubeconfig_of(token)));
    apply(&admin, MANIFEST);
    while user.try_create(PODS, &pod("early", Some("tap9"))).is_ok() {
        user.delete(PODS, "early");
    }

    is_refused(user.try_create(PODS, &pod("named", Some("tap1"))));
    user.create(PODS, &pod("web", None));
    let change = naming("tap1");
    for subresource in [None, Some("status")] {
        is_refused(user.try_patch(PODS, "web", subresource, &change));
    }
    let bind = |annotations: &Value| {
        let binding = json!({
            "metadata": {"name": "web", "annotations": annotations},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
        });
        user.try_create(&format!("{PODS}/web/binding"), &binding)
    };
    is_refused(bind(&json!({ANNOTATION: "tap1"})));

    plugin.patch(PODS, "web", &change);
    // Whoever leaves it as it is may do all else.
    let labels = json!({"metadata": {"labels": {"app": "web"}}});
    user.patch(PODS, "web", &labels);
    user.set_status(PODS, "web", &json!({"phase": "Running"}));
    is_refused(user.try_patch(PODS, "web", None, &naming("tap2")));
    let none = json!({"metadata": {"annotations": {ANNOTATION: null}}});
    is_refused(user.try_patch(PODS, "web", None, &none));
    plugin.patch(PODS, "web", &none);
    bind(&json!({})).unwrap();
}
