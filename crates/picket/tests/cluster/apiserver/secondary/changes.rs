//! What changes while policies of secondary networks are in force.

use picket_testing::runtime::Kind;
use picket_testing::{replaced, with_every_runtime};
use serde_json::{Value, json};

use super::{holds, labelled, named, simple};
use crate::objects::KINDS;
use crate::pods::{Interface, Node, Pods, expect, forget_neighbours, ip, nft, table};

with_every_runtime!(
    labels_and_policies_change_and_pods_go,
    a_sandbox_is_made_anew,
    agents_come_and_go,
);

fn from_a() -> Value {
    json!({"podSelector": labelled("name", "server"), "ingress": [{"from": named(&["a"])}]})
}

fn labels_and_policies_change_and_pods_go(kind: Kind) {
    let mut node = Node::with(kind);
    let mut pods = simple(&mut node);
    node.start(&[]);
    node.policy("default", "from-a", "default/net", &from_a());
    node.until_enforced();
    holds(&pods, "a->server", "b->server", "at first");
    let list = "/api/v1/namespaces/default/pods";
    node.api
        .patch(list, "b", &json!({"metadata": {"labels": {"name": "a"}}}));
    node.until_enforced();
    holds(
        &pods,
        "a->server b->server",
        "c->server",
        "when b is labelled as a",
    );
    let policies = KINDS[13].2.replace("/v1beta1/", "/v1beta1/namespaces/default/");
    let spec = json!({"spec": {"ingress": [{"from": named(&["c"])}]}});
    node.api.patch(&policies, "from-a", &spec);
    node.until_enforced();
    holds(
        &pods,
        "c->server",
        "a->server b->server",
        "when the policy is changed",
    );
    // A pod that goes: whoever gets its address is not c.
    let gone = pods.remove("c").unwrap();
    node.stop(&gone);
    node.api.delete(list, "c");
    let interface = Interface {
        network: "default/net",
        name: "net1",
        addresses: &["2.2.5.14/24", "2001:db8::14/64"],
    };
    let heir = node.pod("default", "heir", &json!({"name": "heir"}), &[interface]);
    pods.insert("heir".to_owned(), heir);
    forget_neighbours(&pods);
    node.until_enforced();
    holds(
        &pods,
        "server->heir",
        "heir->server",
        "when another has the address of c",
    );
}

fn a_sandbox_is_made_anew(kind: Kind) {
    made_anew(kind, str::to_owned);
}

/// The kubelet knows it by a hash of its file, and the API server by the uid that it gave its mirror.
#[test]
fn a_static_pod_is_known_by_another_uid() {
    made_anew(Kind::Containerd, |_| HASH.to_owned());
}

/// A pod was deleted by force and made anew while what it was still runs.
#[test]
fn rules_stay_where_another_pod_has_the_name() {
    let mut node = Node::with(Kind::Containerd);
    let mut pods = simple(&mut node);
    node.policy("default", "from-a", "default/net", &from_a());
    node.start(&[]);
    node.until_enforced();
    holds(&pods, "a->server", "b->server", "at first");
    let server = pods["server"].sandbox.clone();
    let path = "/api/v1/namespaces/default/pods";
    node.api.delete(path, "server");
    let interfaces = [SERVER];
    node.ask_for("default", "server", &json!({"name": "heir"}), &interfaces);
    node.tell("default", "server", &interfaces);
    node.policy("default", "mark", "default/net", &from_a());
    node.until_enforced();
    holds(&pods, "a->server", "b->server", "while another has the name");
    let status = node.until("both sandboxes", |status| status.known);
    assert!(
        status.sandboxes.iter().any(|sandbox| sandbox.sandbox == server),
        "{status:?}"
    );
    // A user who says of that pod that it is the static one of the sandbox says it of another.
    let hash = json!({"metadata": {"annotations": {"kubernetes.io/config.hash": "no uid of any sandbox"}}});
    node.api.patch(path, "server", &hash);
    node.policy("default", "another-mark", "default/net", &from_a());
    node.until_enforced();
    holds(
        &pods,
        "a->server",
        "b->server",
        "while another has the name and a hash",
    );
    pods.clear();
}

/// A pod has these interfaces from now on, as Multus says it.
fn plug(node: &Node, name: &str, interfaces: &[Interface<'_>]) {
    let networks: Vec<_> = interfaces.iter().map(|interface| interface.network).collect();
    let annotations = json!({"k8s.v1.cni.cncf.io/networks": networks.join(",")});
    let list = "/api/v1/namespaces/default/pods";
    node.api
        .patch(list, name, &json!({"metadata": {"annotations": annotations}}));
    node.tell("default", name, interfaces);
}

/// The interface of a pod on a network, with the one address.
fn interface<'a>(network: &'a str, name: &'a str, addresses: &'a [&'a str; 1]) -> Interface<'a> {
    Interface {
        network,
        name,
        addresses,
    }
}

#[test]
fn interfaces_and_addresses_come_and_go_while_policies_are_in_force() {
    let mut node = Node::new();
    let mut pods = simple(&mut node);
    node.start(&[]);
    node.policy("default", "from-a", "default/net,default/other", &from_a());
    node.until_enforced();
    holds(&pods, "a->server", "b->server", "at first");
    assert!(!table(&pods["server"]).contains("net2"));

    // Another network is plugged in.
    let others = [
        ("server", ["3.2.5.11/24"]),
        ("a", ["3.2.5.12/24"]),
        ("b", ["3.2.5.13/24"]),
    ];
    let firsts = [["2.2.5.11/24"], ["2.2.5.12/24"], ["2.2.5.13/24"]];
    for ((name, addresses), first) in others.iter().zip(&firsts) {
        let second = interface("default/other", "net2", addresses);
        node.attach(&pods[*name].inside, &second);
        plug(&node, name, &[interface("default/net", "net1", first), second]);
    }
    node.until("rules on it", |_| table(&pods["server"]).contains("net2"));
    let address = |pods: &mut Pods, of: &str, address: &str| {
        pods.get_mut(of).unwrap().addresses = vec![address.parse().unwrap()];
    };
    address(&mut pods, "server", "3.2.5.11");
    node.until_enforced();
    holds(
        &pods,
        "a->server",
        "b->server",
        "on a network that was plugged in",
    );

    // An allowed peer gets another address, and somebody else the one that it had.
    let [of_a, of_b] = [("a", "3.2.5.12"), ("b", "3.2.5.13")];
    for (name, address) in [of_a, of_b] {
        ip(&pods[name].inside, &format!("address del {address}/24 dev net2"));
    }
    for (name, address) in [("a", "3.2.5.77"), ("b", of_a.1)] {
        ip(&pods[name].inside, &format!("address add {address}/24 dev net2"));
    }
    forget_neighbours(&pods);
    expect(&pods, &["a->server"], false, "before it is told");
    for ((name, addresses), first) in [("a", ["3.2.5.77/24"]), ("b", ["3.2.5.12/24"])]
        .iter()
        .zip(&firsts[1..])
    {
        let second = interface("default/other", "net2", addresses);
        plug(&node, name, &[interface("default/net", "net1", first), second]);
    }
    node.until("its address", |_| table(&pods["server"]).contains("3.2.5.77"));
    node.until_enforced();
    holds(&pods, "a->server", "b->server", "with other addresses");

    // The network is taken out of the pod again.
    plug(&node, "server", &[interface("default/net", "net1", &firsts[0])]);
    node.until("rules without it", |_| !table(&pods["server"]).contains("net2"));
    address(&mut pods, "server", "2.2.5.11");
    node.until_enforced();
    holds(&pods, "a->server", "b->server", "on the network that is left");
}

#[test]
fn a_node_of_another_name_is_not_ready() {
    let mut node = Node::with(Kind::Containerd);
    let pods = simple(&mut node);
    node.policy("default", "from-a", "default/net", &from_a());
    let elsewhere = ["--hostname-override", "elsewhere"];
    for extent in ["--dry-run", "--once"] {
        let errors = node.run_in_vain(&[&[extent], &elsewhere[..]].concat());
        assert!(
            errors.contains("and the cluster has it on node `node-1`"),
            "{errors}"
        );
    }
    node.launch(&elsewhere);
    let status = node.until_status("why it is not", |status| {
        status.pods.as_ref().is_some_and(|pods| !pods.notes.is_empty())
    });
    assert!(!status.ready, "{status:?}");
    let notes = status.pods.unwrap().notes;
    assert!(
        notes[0].contains("and the cluster has it on node `node-1`"),
        "{notes:?}"
    );
    let (code, _) = node.readiness();
    assert_eq!(code, 503);
    drop(pods);
}

/// The uid of a static pod.
const HASH: &str = "d751713988987e9331980363e24189ce";

/// The interface of the server.
const SERVER: Interface<'static> = Interface {
    network: "default/net",
    name: "net1",
    addresses: &["2.2.5.11/24", "2001:db8::11/64"],
};

/// The sandbox of a pod ends, and another one begins with the uid that `told` makes of the pod's.
fn made_anew(kind: Kind, told: impl Fn(&str) -> String) {
    let mut node = Node::with(kind);
    let mut pods = simple(&mut node);
    node.policy("default", "from-a", "default/net", &from_a());
    node.start(&[]);
    node.until_enforced();
    holds(&pods, "a->server", "b->server", "at first");
    let server = pods.remove("server").unwrap();
    node.stop(&server);
    let listed = node.api.list("/api/v1/pods");
    let of_server = listed
        .iter()
        .find(|pod| pod["metadata"]["name"] == "server")
        .unwrap();
    let uid = of_server["metadata"]["uid"].as_str().unwrap();
    let uid = told(uid);
    if uid == HASH {
        let annotations = json!({"kubernetes.io/config.hash": HASH});
        let path = "/api/v1/namespaces/default/pods";
        node.api
            .patch(path, "server", &json!({"metadata": {"annotations": annotations}}));
    }
    let again = node.sandbox("default", "server", &uid, &[SERVER]);
    let id = again.sandbox.clone();
    pods.insert("server".to_owned(), again);
    forget_neighbours(&pods);
    node.until("rules in the new sandbox", |status| {
        let mut sandboxes = status.sandboxes.iter();
        sandboxes.any(|sandbox| sandbox.sandbox == id && sandbox.changed.is_some())
    });
    holds(&pods, "a->server", "b->server", "in the new sandbox");
}

fn agents_come_and_go(kind: Kind) {
    let mut node = Node::with(kind);
    let pods = simple(&mut node);
    let server = &pods["server"];
    for (name, number) in [("server", 11), ("b", 13)] {
        nft(&pods[name], &replaced::table(number));
    }
    expect(&pods, &["a->server a->b"], false, "with the rules of others");
    node.policy("default", "from-a", "default/net", &from_a());
    let plan = node.run(&["--dry-run"]);
    assert!(
        plan.contains("# pod default/server, sandbox") && plan.contains("cnp-"),
        "{plan}"
    );
    assert!(plan.contains("delete table inet multi_networkpolicy"), "{plan}");
    assert!(table(server).contains("comment \"MultiNetworkPolicy\""));
    node.run(&["--once"]);
    holds(&pods, "a->server a->b", "b->server", "after --once");
    assert_eq!(table(&pods["b"]), "", "a table of no policy is left");
    let made = table(server);

    node.start(&[]);
    node.until_enforced();
    let status = node.until("a quiet agent", |_| true);
    assert!(status.sandboxes[0].changed.is_none(), "{status:#?}");
    node.stop_agent();
    assert_eq!(table(server), made);
    holds(&pods, "a->server", "b->server", "without an agent");
    // What happens without an agent is made up for.
    node.delete_policy("default", "from-a");
    node.policy(
        "default",
        "from-b",
        "default/net",
        &json!({"podSelector": labelled("name", "c"), "ingress": [{"from": named(&["b"])}]}),
    );
    node.start(&[]);
    node.until_enforced();
    expect(&pods, &["a->server b->server b->c"], true, "with the new agent");
    expect(&pods, &["a->c"], false, "with the new agent");
    assert_eq!(table(server), "");
    assert_ne!(made, "");

    node.kill();
    let foreign = "table inet foreign { chain input { type filter hook input priority 10; tcp dport 9 drop; }; }; \
        table ip multi_networkpolicy { }";
    for name in ["b", "c"] {
        nft(&pods[name], foreign);
    }
    assert!(nft(&pods["c"], "list tables").contains("table inet multi_networkpolicy"));
    let removed = node.run(&["--cleanup"]);
    assert_eq!(removed, "removed table `inet multi_networkpolicy` from 1 pods\n");
    expect(&pods, &["a->c b->c"], true, "after --cleanup");
    expect(&pods, &["a->c:9 a->b:9"], false, "by what others have beside it");
    for name in ["b", "c"] {
        let left = nft(&pods[name], "list tables");
        assert_eq!(
            left, "table inet foreign\ntable ip multi_networkpolicy\n",
            "in {name}"
        );
    }
}
