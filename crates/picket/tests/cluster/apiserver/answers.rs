//! Answers about a live cluster are those about a dump of it.

use std::fs;
use std::path::Path;

use picket_testing::apiserver::Server;
use serde_json::{Value, json};

use crate::client::Api;
use crate::objects::{KINDS, define_all_but, dump, namespace, pod, policy};
use crate::picket;

/// A cluster with an object of every kind that says something.
pub(crate) fn fill(api: &Api) {
    for name in ["shop", "bank"] {
        namespace(api, name);
    }
    node(api);
    let networks = json!({"k8s.v1.cni.cncf.io/network-status": json!([
        {"name": "shop/storage", "interface": "net1", "ips": ["192.168.0.1"], "mac": "02:00:00:00:00:01"},
    ]).to_string()});
    pod(api, "shop", "web", "10.0.0.1", &networks);
    pod(api, "shop", "api", "10.0.0.2", &json!({}));
    pod(api, "bank", "vault", "10.0.0.3", &json!({}));
    for (path, object) in others() {
        api.create(path, &object);
    }
    policy(
        api,
        "shop",
        "deny-all",
        &json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}),
    );
    policy(
        api,
        "shop",
        "web",
        &json!({
            "podSelector": {"matchLabels": {"app": "web"}},
            "policyTypes": ["Egress"],
            "egress": [{"to": [{"podSelector": {"matchLabels": {"app": "api"}}}], "ports": [{"port": "http"}]}],
        }),
    );
    policy(
        api,
        "shop",
        "api",
        &json!({
            "podSelector": {"matchLabels": {"app": "api"}},
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}], "ports": [{"port": "metrics"}, {"port": 8080}]}],
        }),
    );
}

fn node(api: &Api) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}});
    api.create("/api/v1/nodes", &node);
    let address = json!({"type": "InternalIP", "address": "192.0.2.1"});
    api.set_status("/api/v1/nodes", "node-1", &json!({"addresses": [address]}));
}

/// A workload, a service and policies of the other kinds, each with the path of its list.
fn others() -> Vec<(&'static str, Value)> {
    let template = json!({
        "metadata": {"labels": {"app": "cache"}},
        "spec": {"containers": [{"name": "main", "image": "main", "ports": [{"containerPort": 11211}]}]},
    });
    vec![
        (
            "/apis/apps/v1/namespaces/bank/deployments",
            json!({
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "cache"},
                "spec": {"selector": {"matchLabels": {"app": "cache"}}, "template": template},
            }),
        ),
        (
            "/api/v1/namespaces/shop/services",
            json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "api"},
                "spec": {"selector": {"app": "api"}, "ports": [{"port": 80, "targetPort": "http"}]},
            }),
        ),
        (
            "/apis/k8s.cni.cncf.io/v1/namespaces/shop/network-attachment-definitions",
            json!({
                "apiVersion": "k8s.cni.cncf.io/v1",
                "kind": "NetworkAttachmentDefinition",
                "metadata": {"name": "storage"},
                "spec": {"config": "{\"cniVersion\": \"0.4.0\", \"type\": \"macvlan\"}"},
            }),
        ),
        (
            "/apis/k8s.cni.cncf.io/v1beta1/namespaces/shop/multi-networkpolicies",
            json!({
                "apiVersion": "k8s.cni.cncf.io/v1beta1",
                "kind": "MultiNetworkPolicy",
                "metadata": {
                    "name": "storage",
                    "annotations": {"k8s.v1.cni.cncf.io/policy-for": "storage"},
                },
                "spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "192.168.0.0/24"}}]}]},
            }),
        ),
        (
            "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies",
            json!({
                "apiVersion": "policy.networking.k8s.io/v1alpha2",
                "kind": "ClusterNetworkPolicy",
                "metadata": {"name": "guard"},
                "spec": {
                    "tier": "Admin",
                    "priority": 1,
                    "subject": {"namespaces": {"matchLabels": {"team": "bank"}}},
                    "ingress": [{"action": "Deny", "from": [{"namespaces": {"matchLabels": {"team": "shop"}}}]}],
                },
            }),
        ),
        (
            "/apis/policy.networking.k8s.io/v1alpha1/adminnetworkpolicies",
            json!({
                "apiVersion": "policy.networking.k8s.io/v1alpha1",
                "kind": "AdminNetworkPolicy",
                "metadata": {"name": "narrow"},
                "spec": {
                    "priority": 2,
                    "subject": {"namespaces": {"matchLabels": {"team": "shop"}}},
                    "egress": [{"action": "Deny", "to": [{"networks": ["198.51.100.0/24"]}]}],
                },
            }),
        ),
        (
            "/apis/policy.networking.k8s.io/v1alpha1/adminnetworkpolicies",
            json!({
                "apiVersion": "policy.networking.k8s.io/v1alpha1",
                "kind": "AdminNetworkPolicy",
                "metadata": {"name": "typo"},
                "spec": {
                    "priority": 3,
                    "subject": {"namespaces": {"matchLabels": {"team": "nobody"}}},
                    "egress": [{"action": "Deny", "to": [{"networks": ["198.51.100.0/24"]}], "misspelt": true}],
                },
            }),
        ),
        (
            "/apis/policy.networking.k8s.io/v1alpha1/baselineadminnetworkpolicies",
            json!({
                "apiVersion": "policy.networking.k8s.io/v1alpha1",
                "kind": "BaselineAdminNetworkPolicy",
                "metadata": {"name": "default"},
                "spec": {
                    "subject": {"namespaces": {"matchLabels": {"team": "bank"}}},
                    "egress": [{"action": "Deny", "to": [{"networks": ["203.0.113.0/24"]}]}],
                },
            }),
        ),
    ]
}

/// An answer without the places where objects are written.
fn without_places(mut answer: Value) -> Value {
    match &mut answer {
        Value::Object(fields) => {
            for place in ["file", "line", "column", "endLine", "endColumn", "labels", "text"] {
                fields.shift_remove(place);
            }
            let inner = fields.values_mut();
            inner.for_each(|value| *value = without_places(value.take()));
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|value| *value = without_places(value.take())),
        _ => {}
    }
    answer
}

/// Asks about the cluster and about its dump; both answers must be the same.
fn assert_same(kubeconfig: &Path, dump: &str, command: &str, arguments: &[&str]) -> Value {
    let [live, dumped] = [&["--kube"][..], &["-f", dump]].map(|input| {
        let ran = picket(kubeconfig, &[&[command, "-o", "json"], input, arguments].concat());
        (ran.status, without_places(ran.json()))
    });
    assert_eq!(live, dumped, "{command} {arguments:?}");
    live.1
}

#[test]
fn answers_about_a_cluster_are_those_about_its_dump() {
    let server = Server::start();
    let api = Api::new(&server.kubeconfig());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dump.json");
    let dumped = file.to_str().unwrap();
    let kubeconfig = server.kubeconfig();

    // A cluster without the custom kinds, and nearly empty.
    dump(&api, &KINDS[..12], &file);
    let empty = assert_same(&kubeconfig, dumped, "matrix", &[]);

    // A field that nobody knows is there only where no schema takes it away.
    define_all_but(&api, "AdminNetworkPolicy");
    fill(&api);
    dump(&api, &KINDS, &file);
    let matrix = assert_same(&kubeconfig, dumped, "matrix", &[]);
    assert_ne!(matrix, empty);
    assert_same(&kubeconfig, dumped, "matrix", &["--network", "shop/storage"]);
    let mut verdicts = Vec::new();
    for (from, to, port) in [
        ("shop/web", "shop/api", "http"),
        ("shop/api", "shop/web", "8080"),
        ("shop/web", "bank/vault", "8080"),
        ("bank/vault", "bank/Deployment/cache", "11211"),
        ("bank/vault", "192.0.2.1", "22"),
        ("shop/api", "198.51.100.7", "443"),
    ] {
        let question = ["--from", from, "--to", to, "--port", port];
        let answer = assert_same(&kubeconfig, dumped, "eval", &question);
        verdicts.push(answer["verdict"].as_str().unwrap().to_owned());
        assert_same(&kubeconfig, dumped, "explain", &question);
    }
    assert_eq!(verdicts, ["allow", "deny", "deny", "allow", "allow", "deny"]);
    for target in ["nftables", "vpp-acl", "vpp-session"] {
        // Not the same: who has no address yet is left out of what is for a cluster.
        for input in [&["--kube"][..], &["-f", dumped]] {
            let verify = ["verify", "-o", "json", "--target", target];
            let proof = picket(&kubeconfig, &[&verify, input].concat()).json();
            assert_eq!(proof["proved"], true, "{input:?}: {proof:#}");
        }
    }
    contexts_are_told_apart(&kubeconfig, &matrix, dumped);
    policies_are_found_wanting(&kubeconfig, dumped);
    changes_are_compared(&kubeconfig, dumped, folder.path());
}

/// The context that is named is asked, and not the one that the kubeconfig prefers.
fn contexts_are_told_apart(kubeconfig: &Path, matrix: &Value, dumped: &str) {
    let text = fs::read_to_string(kubeconfig).unwrap();
    let text = text.replace("current-context: test", "current-context: away");
    let away = "contexts: [{name: away, context: {cluster: away, user: admin}}, ";
    let text = text.replace("contexts: [", away);
    assert!(
        text.contains(away) && text.contains("current-context: away"),
        "{text}"
    );
    let folder = tempfile::tempdir().unwrap();
    let several = folder.path().join("several");
    fs::write(&several, text).unwrap();
    let named = picket(&several, &["matrix", "-o", "json", "--kube", "--context", "test"]);
    assert_eq!(without_places(named.json()), *matrix);
    let question = ["--from", "shop/web", "--to", "shop/api", "--port", "http"];
    let commands = [
        vec!["matrix"],
        [&["eval"][..], &question].concat(),
        [&["explain"][..], &question].concat(),
        vec!["check"],
        vec!["diff", "-f", dumped],
        vec!["verify", "--target", "nftables"],
    ];
    for command in commands {
        for (more, name) in [(&[][..], "away"), (&["--context", "nobody"][..], "nobody")] {
            let ran = picket(&several, &[&command, &["--kube"][..], more].concat());
            assert_eq!(ran.status, 2, "{command:?}: {}", ran.stdout);
            assert!(ran.stderr.contains(name), "{command:?}: {}", ran.stderr);
        }
        let ran = picket(
            &several,
            &[&command, &["--kube", "--context", "test"][..]].concat(),
        );
        assert_ne!(ran.status, 2, "{command:?}: {}", ran.stderr);
    }
}

/// What is wrong is found in the objects of a cluster too, unknown fields of custom kinds among it.
fn policies_are_found_wanting(kubeconfig: &Path, dumped: &str) {
    let [live, dumped] = [&["--kube"][..], &["-f", dumped]].map(|input| {
        let ran = picket(kubeconfig, &[&["check", "-o", "json"], input].concat());
        let mut findings: Vec<_> = ran.json()["diagnostics"]
            .as_array()
            .unwrap()
            .iter()
            .map(|found| {
                format!(
                    "{} {} {} {}",
                    found["code"], found["object"], found["field"], found["message"]
                )
            })
            .collect();
        findings.sort();
        (ran.status, findings, ran.json()["summary"]["objects"].clone())
    });
    assert_eq!(live, dumped);
    let codes = ["P013", "C008"];
    for code in codes {
        assert!(
            live.1
                .iter()
                .any(|found| found.starts_with(&format!("\"{code}\""))),
            "{live:?}"
        );
    }
    let ran = picket(kubeconfig, &["check", "--kube"]);
    let place = "--> kube:adminnetworkpolicies/typo:";
    assert!(ran.stdout.contains(place), "{}", ran.stdout);
}

/// `diff --kube -f` is a difference of two dumps.
fn changes_are_compared(kubeconfig: &Path, dumped: &str, folder: &Path) {
    let new = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: api, namespace: shop}
spec: {podSelector: {matchLabels: {app: api}}, ingress: [{}]}
";
    let file = folder.join("new.yaml");
    fs::write(&file, new).unwrap();
    let dump: Value = serde_json::from_str(&fs::read_to_string(dumped).unwrap()).unwrap();
    let kept = dump["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["kind"] != "NetworkPolicy" || item["metadata"]["name"] != "api");
    let after = folder.join("after");
    fs::create_dir(&after).unwrap();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": kept.collect::<Vec<_>>()});
    fs::write(after.join("rest.json"), list.to_string()).unwrap();
    fs::write(after.join("new.yaml"), new).unwrap();
    let live = picket(kubeconfig, &["diff", "--kube", "-f", file.to_str().unwrap()]);
    let dumps = picket(kubeconfig, &["diff", dumped, after.to_str().unwrap()]);
    let expected = dumps.stdout.replace("/after/new.yaml", "/new.yaml");
    assert_eq!((live.status, &live.stdout), (0, &expected), "{}", live.stderr);
    assert!(live.stdout.contains("shop/api"), "{}", live.stdout);
}

#[test]
fn lists_of_several_pages_are_read_whole() {
    let server = Server::start();
    let api = Api::new(&server.kubeconfig());
    let count = 501;
    for number in 0..count {
        policy(
            &api,
            "default",
            &format!("policy-{number}"),
            &json!({"podSelector": {}}),
        );
    }
    let ran = picket(&server.kubeconfig(), &["check", "-o", "json", "--kube"]);
    assert_eq!(ran.json()["summary"]["objects"]["NetworkPolicy"], count);
}
