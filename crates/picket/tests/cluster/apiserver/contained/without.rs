//! Without any one of the capabilities that it is given, and with all others, an agent cannot do its work, and says so.

use std::os::unix::fs::symlink;

use picket_node::{PodsStatus, SandboxStatus};
use picket_testing::runtime::{Container, Kind, SOCKET};
use picket_testing::with_each_runtime;
use serde_json::{Value, json};

use super::{asked_for, network_of, with_account};
use crate::apiserver::chart::rendered;
use crate::apiserver::deploy::apply;
use crate::apiserver::secondary::simple;
use crate::pods::{Node, expect, table};

with_each_runtime!(for_pods_no_capability_is_too_much);

/// What the agent says that it cannot do without each of them.
const WITHOUT: [(&str, &str); 3] = [
    ("NET_ADMIN", "cannot read the generation of the ruleset"),
    ("SYS_ADMIN", "cannot enter the network namespace"),
    (
        "SYS_PTRACE",
        "cannot open `/host/proc/1/ns/net`: Permission denied",
    ),
];

/// The capabilities that a container is given.
fn capabilities(container: &Container) -> Vec<Value> {
    container.security["capabilities"]["add"]
        .as_array()
        .unwrap()
        .clone()
}

/// The sandbox of the server.
fn server(status: &PodsStatus) -> Option<&SandboxStatus> {
    let mut sandboxes = status.sandboxes.iter();
    sandboxes.find(|sandbox| sandbox.pod == "default/server")
}

pub(super) fn for_pods_no_capability_is_too_much(kind: Kind) {
    let mut node = Node::with(kind);
    let values = ["mode=pods", &format!("pods.containerRuntimeEndpoint={SOCKET}")];
    let applied = apply(&node.api, &rendered(&values));
    let pods = simple(&mut node);
    let spec = json!({"podSelector": {"matchLabels": {"name": "server"}}, "ingress": []});
    node.policy("default", "nobody", "default/net", &spec);
    let pod = &applied["DaemonSet"]["spec"]["template"]["spec"];
    let network = network_of(&node);
    let config = applied.get("ConfigMap").unwrap_or(&Value::Null);
    let asked = asked_for(&node, pod, config, &[]);
    let whole = with_account(&node, &network, "picket-pods", asked);
    symlink(node.folder.path().join("socket-folder/agent.sock"), node.socket()).unwrap();
    let run = |name: &str, container: &Container| {
        node.runtime
            .run_container("kube-system", name, &format!("uid-of-{name}"), container)
    };
    let given = capabilities(&whole);
    assert_eq!(given.len(), 3, "{given:?}");
    for without in &given {
        let mut less = whole.clone();
        let others: Vec<_> = given.iter().filter(|name| *name != without).collect();
        less.security["capabilities"]["add"] = json!(others);
        let name = without.as_str().unwrap().to_lowercase().replace('_', "-");
        let id = run(&format!("without-{name}"), &less);
        let status = node.until_status("a policy that waits", |status| {
            let pods = status.pods.as_ref();
            pods.and_then(server)
                .is_some_and(|server| !server.waiting.is_empty())
        });
        let (_, why) = WITHOUT.iter().find(|(name, _)| without == name).unwrap();
        let trouble = server(status.pods.as_ref().unwrap()).and_then(|server| server.trouble.clone());
        assert!(trouble.is_some_and(|told| told.contains(why)), "{status:#?}");
        assert!(!status.ready, "{status:#?}");
        assert_eq!(table(&pods["server"]), "");
        expect(&pods, &["a->server"], true, &format!("without {without}"));
        node.runtime.remove_container(&id);
    }
    run("with-all", &whole);
    node.until_enforced();
    expect(&pods, &["a->server"], false, "with all of them");
}
