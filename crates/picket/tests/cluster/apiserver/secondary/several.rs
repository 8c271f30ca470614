//! Scenarios with several namespaces and several networks.

use std::net::{IpAddr, UdpSocket};

use picket_net::Family;
use serde_json::{Value, json};

use super::{Case, labelled, named, pod};
use crate::pods::{Interface, Node, Pod, Pods, definitions, expect, ip, once_free, patience, table};

fn namespace(name: &str) -> Value {
    json!({"namespaceSelector": labelled("name", name)})
}

/// Namespaces labelled with their names, and their pods, labelled with their names too.
fn populate(node: &mut Node, namespaces: &[(&str, &[&str])], network: &str) -> Pods {
    let (mut pods, mut number) = (Pods::new(), 10);
    for (name, names) in namespaces {
        node.namespace(name, &json!({"name": name}));
        for pod_name in *names {
            number += 1;
            let (short, role) = pod_name.split_once('+').unwrap_or((pod_name, "other"));
            let labels = json!({"name": short, "role": role});
            pod(
                node,
                &mut pods,
                &format!("{name}/{short}"),
                &labels,
                network,
                number,
            );
        }
    }
    pods
}

#[test]
fn selectors_of_namespaces() {
    let mut node = Node::new();
    let namespaces: [(&str, &[&str]); 2] = [
        ("prod", &["server", "a+allowed", "b"]),
        ("staging", &["c+allowed", "d", "e"]),
    ];
    let pods = populate(&mut node, &namespaces, "default/net");
    node.start(&[]);
    let server = labelled("name", "server");
    let allowed_in_staging =
        json!({"namespaceSelector": labelled("name", "staging"), "podSelector": labelled("role", "allowed")});
    let allowed = json!({"podSelector": labelled("role", "allowed")});
    let mixed = Case {
        name: "mixed-selector-policies",
        policies: vec![
            (
                "prod",
                "both",
                "default/net",
                json!({"podSelector": server, "policyTypes": ["Ingress"], "ingress": [{"from": [allowed_in_staging]}]}),
            ),
            (
                "prod",
                "either",
                "default/net",
                json!({"podSelector": server, "policyTypes": ["Ingress"],
                    "ingress": [{"from": [allowed, namespace("staging")]}]}),
            ),
            (
                "prod",
                "egress",
                "default/net",
                json!({"podSelector": server, "policyTypes": ["Egress"], "egress": [{"to": [allowed_in_staging]}]}),
            ),
        ],
        allowed: &[
            "prod/a->prod/server staging/c->prod/server staging/d->prod/server staging/e->prod/server",
            "prod/server->staging/c",
        ],
        denied: &[
            "prod/b->prod/server prod/server->prod/a prod/server->prod/b prod/server->staging/d",
            "prod/server->staging/e",
        ],
        restricted: &["prod/server"],
    };
    mixed.play(&node, &pods);
    let nowhere = Case {
        name: "ingress-ns-selector-no-pods",
        policies: vec![(
            "prod",
            "nowhere",
            "default/net",
            json!({"podSelector": server, "ingress": [{"from": [{"namespaceSelector": labelled("foo", "bar")}]}]}),
        )],
        allowed: &["prod/server->prod/a prod/server->staging/d"],
        denied: &["prod/a->prod/server staging/d->prod/server"],
        restricted: &["prod/server"],
    };
    nowhere.play(&node, &pods);
}

/// What `a/1` may exchange with two pods of `b`, by a policy for these networks.
fn with_two_of_b(networks: &str) -> Case<'_> {
    let of_b = |name: &str| json!([{"namespaceSelector": labelled("name", "b"), "podSelector": labelled("name", name)}]);
    let spec = json!({"podSelector": labelled("name", "1"), "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": of_b("1")}], "egress": [{"to": of_b("2")}]});
    Case {
        name: "multi-namespace-multinet",
        policies: vec![("a", "policy", networks, spec)],
        allowed: &[
            "b/1->a/1 a/1->b/2 a/2->b/1 a/2->b/2 a/2->c/1 a/2->c/2 b/1->a/2 b/1->b/2 b/1->c/1 b/1->c/2",
        ],
        denied: &["a/1->a/2 a/1->b/1 a/1->c/1 a/1->c/2 a/2->a/1 b/2->a/1 c/1->a/1 c/2->a/1"],
        restricted: &["a/1"],
    }
}

/// In the scenario that this follows each namespace has a network of its own. Here they share one.
#[test]
fn one_network_for_several_namespaces() {
    let mut node = Node::new();
    let two: &[&str] = &["1", "2"];
    let pods = populate(&mut node, &[("a", two), ("b", two), ("c", two)], "default/net");
    node.start(&[]);
    with_two_of_b("default/net,b/other,c/other").play(&node, &pods);
}

/// The configuration of a plugin that brings interfaces onto a link of the node.
fn on_link(link: &str) -> String {
    json!({"cniVersion": "1.0.0", "plugins": [{"type": "macvlan", "master": link}, {"type": "tuning"}]})
        .to_string()
}

/// Each namespace has a network of its own, all on one wire: a policy that names them has peers on each. As their definitions
/// come, change and go, so do the peers.
#[test]
fn a_network_for_each_namespace_on_one_wire() {
    let mut node = Node::new();
    let mut pods = Pods::new();
    for (name, first) in [("a", 11), ("b", 21), ("c", 31)] {
        node.namespace(name, &json!({"name": name}));
        node.define_in(name, "net", &on_link("eth1"));
        for (short, number) in [("1", first), ("2", first + 1)] {
            let labels = json!({"name": short});
            let network = format!("{name}/net");
            pod(
                &mut node,
                &mut pods,
                &format!("{name}/{short}"),
                &labels,
                &network,
                number,
            );
        }
    }
    node.start(&["--verify-interval", "1"]);
    let case = with_two_of_b("net,b/net,c/net");
    case.play(&node, &pods);

    let (_, name, networks, spec) = &case.policies[0];
    node.policy("a", name, networks, spec);
    let (of_b, of_others) = ("b/1->a/1 a/1->b/2", "a/1->a/2 c/1->a/1 a/1->b/1 b/2->a/1");
    let holds = |node: &Node, on_one_wire: bool, when: &str| {
        node.until_enforced();
        expect(&pods, &[of_b], on_one_wire, when);
        expect(&pods, &[of_others], false, when);
    };
    holds(&node, true, "on one wire");
    node.redefine_in("b", "net", &on_link("eth2"));
    holds(&node, false, "on another link");
    node.redefine_in("b", "net", r#"{"type": "macvlan", "master": "eth1"}"#);
    holds(&node, true, "on one wire again");
    node.redefine_in(
        "b",
        "net",
        r#"{"type": "macvlan", "master": "eth1", "linkInContainer": true}"#,
    );
    holds(&node, false, "on a link of the pod");
    node.api.delete(&definitions("b"), "net");
    node.until("a definition less", |status| {
        let mut notes = status.notes.iter();
        notes.any(|note| note.contains("network b/net: policies hold on it, though it has no"))
    });
    holds(&node, false, "without a definition");
    node.define_in("b", "net", &on_link("eth1"));
    holds(&node, true, "with a definition that came");
    let proved = node.proofs("proved");
    node.until("two more proofs", |_| node.proofs("proved") > proved + 1);
    assert_eq!(node.proofs("refuted"), 0);
    // On the wire, but not of the policy.
    node.delete_policy("a", name);
    node.policy("a", name, "net,c/net", spec);
    holds(&node, false, "by a policy that does not name it");
}

#[test]
fn a_production_like_namespace() {
    let mut node = Node::new();
    let namespaces: [(&str, &[&str]); 2] = [
        ("production", &["frontend", "backend", "database", "monitoring"]),
        ("outside", &["external"]),
    ];
    let pods = populate(&mut node, &namespaces, "default/net");
    node.start(&[]);
    let tcp = |ports: &[u16]| {
        ports
            .iter()
            .map(|port| json!({"protocol": "TCP", "port": port}))
            .collect::<Vec<_>>()
    };
    let both = |name: &str, ingress: Value, egress: Value| json!({"podSelector": labelled("name", name), "policyTypes": ["Ingress", "Egress"], "ingress": ingress, "egress": egress});
    let frontend = both(
        "frontend",
        json!([]),
        json!([{"to": named(&["backend"]), "ports": tcp(&[80, 443])}]),
    );
    let backend = both(
        "backend",
        json!([{"from": named(&["frontend"]), "ports": tcp(&[80, 443])}, {"from": named(&["monitoring"]), "ports": tcp(&[8080])}]),
        json!([{"to": named(&["database"]), "ports": tcp(&[3306])}]),
    );
    let database = both(
        "database",
        json!([{"from": named(&["backend"]), "ports": tcp(&[3306])}]),
        json!([]),
    );
    let monitoring = both(
        "monitoring",
        json!([]),
        json!([{"to": named(&["backend"]), "ports": tcp(&[8080])}]),
    );
    let policies = [
        ("frontend", frontend),
        ("backend", backend),
        ("database", database),
        ("monitoring", monitoring),
    ];
    let policies = policies.map(|(name, spec)| ("production", name, "default/net", spec));
    let case = Case {
        name: "production-like-scenarios",
        policies: policies.into(),
        allowed: &[
            "production/frontend->production/backend:80 production/frontend->production/backend:443",
            "production/backend->production/database:3306 production/monitoring->production/backend:8080",
        ],
        denied: &[
            "production/frontend->production/backend:22 production/frontend->production/database:3306",
            "production/monitoring->production/database:3306 outside/external->production/frontend:80",
            "production/backend->outside/external:80 production/monitoring->production/frontend:80",
            "production/frontend->production/monitoring:8080 production/database->production/backend:80",
            "outside/external->production/backend:80",
        ],
        restricted: &[
            "production/frontend",
            "production/backend",
            "production/database",
            "production/monitoring",
        ],
    };
    case.play(&node, &pods);
}

/// The address of a host on `red`, which is 1, or `blue`, which is 2.
fn on(family: Family, network: u8, host: u8) -> IpAddr {
    let text = match family {
        Family::Ipv4 => format!("10.{network}.0.{host}"),
        Family::Ipv6 => format!("fd00:{network}::{host}"),
    };
    text.parse().unwrap()
}

/// Whether what is sent from an address arrives at another, from which there may be no way back.
fn arrives(from: &Pod, own: IpAddr, to: &Pod, at: IpAddr, expected: bool) -> bool {
    let receiver = once_free(|| to.inside.run(|| UdpSocket::bind((at, 5555))).unwrap());
    let sender = from.inside.run(|| UdpSocket::bind((own, 0))).unwrap().unwrap();
    receiver.set_read_timeout(Some(patience(expected))).unwrap();
    sender.send_to(b"x", (at, 5555)).is_ok() && receiver.recv(&mut [0; 8]).is_ok()
}

/// The pods `server` on two networks, `friend` on `red`, and `stranger` on `blue`, who has there what `friend` has on `red` too, and
/// ways between that and the server.
fn on_two_networks(node: &mut Node) -> [Pod; 3] {
    let red = |addresses| Interface {
        network: "default/red",
        name: "net1",
        addresses,
    };
    let blue = |addresses| Interface {
        network: "default/blue",
        name: "net2",
        addresses,
    };
    let of_stranger = ["10.1.0.2/32", "10.2.0.3/24", "fd00:1::2/128", "fd00:2::3/64"];
    let mut pod = |name, interfaces: &[Interface<'_>]| {
        let labels = json!({"name": name});
        node.pod("default", name, &labels, interfaces)
    };
    let server = pod(
        "server",
        &[
            red(&["10.1.0.1/24", "fd00:1::1/64"]),
            blue(&["10.2.0.1/24", "fd00:2::1/64"]),
        ],
    );
    let friend = pod("friend", &[red(&["10.1.0.2/24", "fd00:1::2/64"])]);
    let stranger = pod("stranger", &[blue(&of_stranger)]);
    for family in Family::BOTH {
        let version = if family == Family::Ipv4 { "-4" } else { "-6" };
        let (from, to, on_blue) = (on(family, 1, 2), on(family, 1, 1), on(family, 2, 1));
        for (pod, change) in [
            (&stranger, format!("route add {to} dev net2 src {from}")),
            (
                &server,
                format!("rule add pref 100 from {on_blue} to {from} lookup 100"),
            ),
            (&server, format!("route add {from} dev net2 table 100")),
        ] {
            ip(&pod.inside, &format!("{version} {change}"));
        }
    }
    [server, friend, stranger]
}

/// The same addresses on two networks: what is allowed on one is nobody's on the other.
#[test]
fn two_networks_of_one_pod() {
    let mut node = Node::new();
    let [server, friend, stranger] = on_two_networks(&mut node);
    for (network, link) in [("red", "eth1"), ("blue", "eth2")] {
        node.define(network, &on_link(link));
    }
    node.start(&[]);
    let ingress =
        json!({"podSelector": labelled("name", "server"), "ingress": [{"from": named(&["friend"])}]});
    let egress = json!({"podSelector": labelled("name", "server"), "policyTypes": ["Egress"],
        "egress": [{"to": named(&["friend"])}]});
    // From outside, or to there.
    let passes = |comes: bool, other: &Pod, theirs: IpAddr, own: IpAddr, expected: bool| match comes {
        true => arrives(other, theirs, &server, own, expected),
        false => arrives(&server, own, other, theirs, expected),
    };
    for (name, comes, spec) in [("ingress", true, ingress), ("egress", false, egress)] {
        // The first policy is about red alone.
        for (networks, expected) in [
            ("", true),
            ("default/red", true),
            ("default/red,default/blue", false),
        ] {
            if !networks.is_empty() {
                let policy = format!("{name}-{}", networks.matches("default").count());
                node.policy("default", &policy, networks, &spec);
            }
            node.until_enforced();
            for family in Family::BOTH {
                let when = format!("{family:?} {name} on {networks}\n{}", table(&server));
                let at = |network, host| on(family, network, host);
                assert!(passes(comes, &friend, at(1, 2), at(1, 1), true), "{when}");
                for theirs in [at(1, 2), at(2, 3)] {
                    let passed = passes(comes, &stranger, theirs, at(2, 1), expected);
                    assert_eq!(passed, expected, "{theirs} {when}");
                }
            }
        }
    }
}
