//! What is known of a cluster that is followed is what a list of it gives.

use picket_policy::ObjectRef;
use picket_testing::apiserver::Server;
use serde_json::{Value, json};

use crate::apiserver::answers::fill;
use crate::apiserver::refusals::grant;
use crate::client::{Api, serve};
use crate::following::Following;
use crate::objects::{
    DEFINITIONS, KINDS, define, define_all, define_all_but, definition_of, namespace, pod, policy, undefine,
};

/// Where multi-network policies are.
const MULTI: (&str, &str, &str) = KINDS[13];

pub(crate) fn multi_network_policies(namespace: &str) -> String {
    format!("/apis/k8s.cni.cncf.io/v1beta1/namespaces/{namespace}/multi-networkpolicies")
}

pub(crate) fn multi_network_policy(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": MULTI.0,
        "kind": MULTI.1,
        "metadata": {"name": name, "annotations": {"k8s.v1.cni.cncf.io/policy-for": "storage"}},
        "spec": spec,
    })
}

#[test]
fn what_is_there_is_known() {
    let (_server, kubeconfig, api) = serve();
    // A field that nobody knows is there only where no schema takes it away.
    define_all_but(&api, "AdminNetworkPolicy");
    fill(&api);
    let mut following = Following::complete(&kubeconfig, None);
    following.until_equal(&kubeconfig, "what is there");
    let kinds = following.health.kinds();
    assert_eq!(kinds.len(), 11);
    assert!(
        kinds.values().all(|kind| kind.complete && kind.failures == 0),
        "{kinds:#?}"
    );
    let wrong: Vec<_> = following.diagnoses.keys().map(ObjectRef::to_string).collect();
    assert_eq!(wrong, ["AdminNetworkPolicy typo"]);
}

#[test]
fn a_server_without_streaming_lists_is_asked_for_pages() {
    let server = Server::start_with(&[], &["--feature-gates=WatchList=false"]);
    let kubeconfig = server.kubeconfig();
    let api = Api::new(&kubeconfig);
    namespace(&api, "shop");
    for number in 0..1100 {
        policy(&api, "shop", &format!("p{number}"), &json!({"podSelector": {}}));
    }
    let mut following = Following::complete(&kubeconfig, None);
    assert_eq!(following.snapshot().policies.len(), 1100);
    pod(&api, "shop", "web", "10.0.0.1", &json!({}));
    following.until_equal(&kubeconfig, "what was added");
}

/// An object of a kind that clusters do not have by themselves.
fn object_of((api_version, kind, _): (&str, &str, &str)) -> Value {
    // Of baselines there is only the default one.
    let name = "default";
    let every = json!({"namespaces": {}});
    let spec = match kind {
        "NetworkAttachmentDefinition" => json!({"config": r#"{"cniVersion": "1.0.0", "type": "macvlan"}"#}),
        "MultiNetworkPolicy" => return multi_network_policy(name, &json!({"podSelector": {}})),
        "ClusterNetworkPolicy" => json!({"tier": "Admin", "priority": 5, "subject": every}),
        "AdminNetworkPolicy" => json!({"priority": 5, "subject": every}),
        _ => json!({"subject": every}),
    };
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

#[test]
fn kinds_come_and_go() {
    let (_server, kubeconfig, api) = serve();
    namespace(&api, "shop");
    policy(&api, "shop", "stays", &json!({"podSelector": {}}));
    let mut following = Following::complete(&kubeconfig, None);
    for kind in [&KINDS[12..], &[MULTI]].concat() {
        define(&api, kind);
        let (version, plural) = kind.2.rsplit_once('/').unwrap();
        let within = if kind.0.starts_with("k8s.cni") {
            "/namespaces/shop"
        } else {
            ""
        };
        api.create(&format!("{version}{within}/{plural}"), &object_of(kind));
        following.until_equal(&kubeconfig, kind.1);
        let count = |following: &Following| {
            let snapshot = following.snapshot();
            snapshot.policies.len() + snapshot.networks.len()
        };
        assert_eq!(count(&following), 2, "{}", kind.1);
        undefine(&api, kind);
        following.until_health(|kinds| !kinds.contains_key(&definition_of(kind.2)));
        following.until_equal(&kubeconfig, kind.1);
        assert_eq!(count(&following), 1, "{}", kind.1);
    }
}

/// Has the definition of multi-network policies serve one of two versions, and waits until it does.
pub(crate) fn serve_alone(api: &Api, version: &str) {
    let operations = ["v1beta1", "v1beta2"].iter().enumerate().flat_map(|(index, name)| {
        ["served", "storage"].map(|what| json!({"op": "replace", "path": format!("/spec/versions/{index}/{what}"), "value": *name == version}))
    });
    let operations = operations.collect::<Vec<_>>().into();
    api.patch_by(DEFINITIONS, &definition_of(MULTI.2), &operations);
    api.await_list(&of_version(&multi_network_policies("shop"), version));
}

/// The same text about another version of multi-network policies.
fn of_version(text: &str, version: &str) -> String {
    assert!(text.contains("v1beta1"), "{text}");
    text.replace("v1beta1", version)
}

#[test]
fn a_kind_that_is_served_in_another_version_is_followed_on() {
    let (_server, kubeconfig, api) = serve();
    namespace(&api, "shop");
    define(&api, MULTI);
    let put = |name: &str, version: &str| {
        let policy = multi_network_policy(name, &json!({"podSelector": {}})).to_string();
        let policy = serde_json::from_str(&of_version(&policy, version)).unwrap();
        api.create(&of_version(&multi_network_policies("shop"), version), &policy);
    };
    put("first", "v1beta1");
    let mut following = Following::complete(&kubeconfig, None);
    for (name, version) in [("second", "v1beta2"), ("third", "v1beta1")] {
        serve_alone(&api, version);
        put(name, version);
        following.until_equal(&kubeconfig, version);
    }
    assert_eq!(following.snapshot().policies.len(), 3);
    assert!(!following.has_lost(), "{:#?}", following.events);
}

#[test]
fn nothing_is_complete_before_every_kind_may_be_listed() {
    let server = Server::start_with(&[("follower-token", "follower")], &[]);
    let api = Api::new(&server.kubeconfig());
    define_all(&api);
    fill(&api);
    let role = include_str!("../follower.yaml");
    grant(&api, role, "follower", Some("clusternetworkpolicies"));
    let mut following = Following::start(&server.kubeconfig_of("follower-token"), None);
    let refused = "clusternetworkpolicies.policy.networking.k8s.io";
    following.until_health(|kinds| {
        let others = kinds.iter().filter(|(kind, _)| *kind != refused);
        others.clone().count() == 10 && others.into_iter().all(|(_, kind)| kind.complete)
    });
    following.until_health(|kinds| {
        let trouble = kinds[refused].trouble.as_deref();
        trouble.is_some_and(|trouble| trouble.ends_with("at the cluster scope (403)"))
    });
    assert!(!following.is_complete);
    let rule = json!([{"apiGroups": ["policy.networking.k8s.io"], "resources": ["clusternetworkpolicies"], "verbs": ["list", "watch"]}]);
    let more = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "more"},
        "rules": rule,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "more"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "follower"}],
        "roleRef": {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "more"},
    });
    api.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", &more);
    api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding);
    following.until_complete();
    following.until_equal(&server.kubeconfig(), "what is there");
}

#[test]
fn a_bad_object_is_named_and_harms_no_other() {
    let (_server, kubeconfig, api) = serve();
    // The schema of the project would refuse all but one of them.
    define_all_but(&api, "MultiNetworkPolicy");
    namespace(&api, "shop");
    let path = multi_network_policies("shop");
    let mut deep = json!({"a": 1});
    for _ in 0..300 {
        deep = json!({ "a": deep });
    }
    let bad = [
        ("deep", json!({"podSelector": {}, "ingress": deep})),
        ("number", json!(7)),
        ("none", Value::Null),
        ("selector", json!({"podSelector": 7})),
        ("unknown", json!({"podSelector": {}, "ingress": [{"form": []}]})),
    ];
    for (name, spec) in &bad {
        api.create_unread(&path, &multi_network_policy(name, spec).to_string());
    }
    let mut following = Following::complete(&kubeconfig, None);
    api.create(&path, &multi_network_policy("good", &json!({"podSelector": {}})));
    following.until_equal(&kubeconfig, "the good and the bad");
    let mut wrong: Vec<_> = following
        .diagnoses
        .keys()
        .map(|object| object.name.as_str())
        .collect();
    wrong.sort_unstable();
    assert_eq!(wrong, ["deep", "none", "number", "selector", "unknown"]);
    // One that was good and is bad now holds on as it was.
    let before = following.snapshot();
    api.patch(&path, "good", &json!({ "spec": Value::Null }));
    let good = ObjectRef::new(MULTI.1, "shop", "good");
    following.until("a diagnosis", |following| following.diagnoses.contains_key(&good));
    assert_eq!(following.snapshot(), before);
    for (name, _) in &bad {
        api.delete(&path, name);
    }
    api.patch(
        &path,
        "good",
        &json!({"spec": {"podSelector": {}, "policyTypes": ["Egress"]}}),
    );
    following.until_equal(&kubeconfig, "nothing bad");
    following.until("all is well", |following| following.diagnoses.is_empty());
}
