//! Policies of secondary networks that a user makes to get at others: each is enforced or named, and all others are enforced.

mod names;
mod networks;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use super::{labelled, named, pod, simple};
use crate::agents::get;
use crate::apiserver::follow::serve_alone;
use crate::apiserver::hostile::{ANNOTATIONS, QUOTES};
use crate::pods::{Node, Pods, expect, table};

/// The server may be reached from a pod at ports.
fn server_from(pod: &str, ports: &[usize]) -> Value {
    json!({"podSelector": labelled("name", "server"), "ingress": [from(pod, ports)]})
}

/// A rule: from a pod at ports.
fn from(pod: &str, ports: &[usize]) -> Value {
    let ports: Vec<_> = ports.iter().map(|port| json!({"port": port})).collect();
    json!({"from": named(&[pod]), "ports": ports})
}

/// Five thousand blocks of both families that hold each other, with holes, and of the pods only `d` is in one and in no hole.
fn blocks() -> Value {
    let mut from = vec![
        json!({"ipBlock": {"cidr": "2.2.0.0/16", "except": ["2.2.4.0/22", "2.2.5.12/32"]}}),
        json!({"ipBlock": {"cidr": "2.2.5.15/32"}}),
        json!({"ipBlock": {"cidr": "2001:db8::/32", "except": ["2001:db8::/48", "2001:db8::12/128"]}}),
        json!({"ipBlock": {"cidr": "2001:db8::15/128"}}),
    ];
    from.extend((0..4996u32).map(|number| {
        let (length, bits) = (8 + number % 23, number.wrapping_mul(0x9e37_79b9));
        let v4 = Ipv4Addr::from_bits((0xac00_0000 | bits >> 8) >> (32 - length) << (32 - length));
        let v6 = 0xfd00_0db8 << 96 | u128::from(bits) << 64;
        let v6 = Ipv6Addr::from_bits(v6 >> (96 - length) << (96 - length));
        match number % 2 {
            0 => json!({"cidr": format!("{v4}/{length}"), "except": [format!("{v4}/{}", length + 2)]}),
            _ => json!({"cidr": format!("{v6}/{}", 32 + length), "except": [format!("{v6}/{}", 34 + length)]}),
        }
    }).map(|block| json!({"ipBlock": block})));
    json!({"podSelector": labelled("name", "c"), "ingress": [{"from": from, "ports": [{"port": 7002}]}]})
}

/// A policy as nobody should write one.
fn create(node: &Node, name: &str, annotations: &Value, spec: &Value) {
    let path = "/apis/k8s.cni.cncf.io/v1beta1/namespaces/default/multi-networkpolicies";
    let object = json!({
        "apiVersion": "k8s.cni.cncf.io/v1beta1",
        "kind": "MultiNetworkPolicy",
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    });
    node.api.create(path, &object);
}

/// Waits until what is in force in every pod has been proved from then on; nothing was ever refuted.
fn until_proved(node: &Node) {
    let pods = u64::try_from(node.until_enforced().sandboxes.len()).unwrap();
    let proved = node.proofs("proved");
    // They take turns, and one may just be going on.
    node.until("proofs", |_| node.proofs("proved") > proved + pods);
    assert_eq!(node.proofs("refuted"), 0);
}

/// Nothing that the agent says moves a cursor or begins a line.
fn expect_readable(node: &Node) {
    let (_, metrics) = get(&node.folder.path().join("socket"), "/metrics");
    let status = node.status(&[]).stdout;
    assert!(!status.is_empty());
    for text in [status, node.log(), metrics] {
        let lines = text.lines();
        let misread = lines.filter(|line| line.contains(char::is_control) || line.starts_with("flush"));
        assert_eq!(misread.collect::<Vec<_>>(), [""; 0], "{text}");
    }
}

/// A policy of others, who must not notice any of it.
fn others(node: &Node) {
    let spec = json!({"podSelector": labelled("name", "a"), "ingress": [{"from": named(&["b"])}]});
    node.policy("default", "others", "default/net", &spec);
}

fn expect_others(pods: &Pods) {
    expect(pods, &["b->a"], true, "with the policy of others");
    expect(pods, &["c->a"], false, "with the policy of others");
}

#[test]
fn what_is_huge_is_enforced() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&["--verify-interval", "1"]);
    others(&node);
    let ports: Vec<_> = (0..10_000).map(|number| 20_000 + 2 * number).collect();
    let longest = ["n".repeat(63), "a".repeat(63), "m".repeat(63), "e".repeat(61)].join(".");
    node.policy("default", "ports", "default/net", &server_from("a", &ports));
    node.policy("default", "blocks", "default/net", &blocks());
    node.policy("default", &longest, "default/net", &server_from("b", &[7001]));
    let note = QUOTES.repeat((ANNOTATIONS - 1000) / QUOTES.len());
    let annotations = json!({"k8s.v1.cni.cncf.io/policy-for": "default/net", "note": note});
    create(&node, "noted", &annotations, &server_from("b", &[7003]));
    let networks: Vec<_> = (0..20_000).map(|number| format!("net{number:05}")).collect();
    let networks = format!("{},net,{}", networks.join(","), networks.join(" , "));
    create(
        &node,
        "everywhere",
        &json!({"k8s.v1.cni.cncf.io/policy-for": &networks[..ANNOTATIONS - 1000]}),
        &server_from("b", &[7004]),
    );
    create(
        &node,
        "nowhere",
        &json!({"k8s.v1.cni.cncf.io/policy-for": ",".repeat(ANNOTATIONS - 1000)}),
        &server_from("b", &[7005]),
    );
    // A megabyte the server itself refuses, by name.
    let policies = "/apis/k8s.cni.cncf.io/v1beta1/namespaces/default/multi-networkpolicies";
    let million = json!({
        "apiVersion": "k8s.cni.cncf.io/v1beta1",
        "kind": "MultiNetworkPolicy",
        "metadata": {"name": "million", "annotations": {"k8s.v1.cni.cncf.io/policy-for": "n,".repeat(500_000)}},
        "spec": server_from("b", &[7006]),
    });
    let refused = node.api.try_create(policies, &million).unwrap_err();
    assert!(refused.message.contains("metadata.annotations"), "{refused:?}");
    let status = json!([{"name": "default/net", "interface": "n".repeat(1_000_000), "ips": []}]).to_string();
    let status = json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/network-status": status}}});
    let refused = node
        .api
        .try_patch("/api/v1/namespaces/default/pods", "d", None, &status);
    let refused = refused.unwrap_err();
    assert!(refused.message.contains("metadata.annotations"), "{refused:?}");
    until_proved(&node);
    expect(
        &pods,
        &["a->server:20000 a->server:39998 d->c:7002 b->server:7001 b->server:7003 b->server:7004"],
        true,
        "with all that is huge",
    );
    expect(
        &pods,
        &[
            "a->server:20001 a->server:udp/20000 b->server:20000 a->server:7001 b->server:7005",
            "a->c:7002 b->c:7002 server->c:7002 d->c:7003",
        ],
        false,
        "with all that is huge",
    );
    expect_others(&pods);
    let status = node.until("the policies of the server", |_| true);
    let of_server = status
        .sandboxes
        .iter()
        .find(|sandbox| sandbox.pod == "default/server");
    let policies = &of_server.unwrap().policies;
    assert!(
        policies.contains(&format!("MultiNetworkPolicy default/{longest}")),
        "{policies:?}"
    );
    assert_eq!(policies.len(), 4, "{policies:?}");
    assert!(status.is_well(), "{status:#?}");
    // It is wrong a quarter of a million times.
    let found = node.findings().into_iter();
    let found = found.filter(|object| object == "MultiNetworkPolicy default/nowhere");
    assert_eq!(found.count(), 100);
    expect_readable(&node);
}

/// Rules that are to be more than they are.
fn rules() -> Vec<(&'static str, Value)> {
    let peer = |peer: Value| json!({"from": [peer]});
    let block = |block: Value| peer(json!({"ipBlock": block}));
    let port = |port: Value| json!({"ports": [port]});
    vec![
        ("protocol", port(json!({"protocol": QUOTES, "port": 80}))),
        (
            "protocol-inside",
            port(json!({"protocol": format!("TCP{QUOTES}"), "port": 80})),
        ),
        ("port", port(json!({"port": QUOTES}))),
        ("end", port(json!({"port": 80, "endPort": -7}))),
        ("end-before", port(json!({"port": 80, "endPort": 79}))),
        ("end-of-name", port(json!({"port": "http", "endPort": 8090}))),
        (
            "key",
            peer(json!({"podSelector": {"matchLabels": {QUOTES: "a"}}})),
        ),
        (
            "value",
            peer(json!({"podSelector": {"matchLabels": {"name": QUOTES}}})),
        ),
        (
            "namespace",
            peer(json!({"namespaceSelector": {"matchLabels": {QUOTES: QUOTES}}})),
        ),
        (
            "operator",
            peer(json!({"podSelector": {"matchExpressions": [{"key": "name", "operator": QUOTES}]}})),
        ),
        (
            "values",
            peer(json!({"podSelector": {"matchExpressions": [
            {"key": "name", "operator": "NotIn", "values": [QUOTES]}]}})),
        ),
        ("cidr", block(json!({"cidr": format!("0.0.0.0/0{QUOTES}")}))),
        ("except", block(json!({"cidr": "0.0.0.0/0", "except": [QUOTES]}))),
    ]
}

#[test]
fn what_is_written_to_be_misread_is_a_name_or_an_error() {
    let mut node = Node::new();
    let mut pods = simple(&mut node);
    node.namespace("x", &json!({}));
    pod(
        &mut node,
        &mut pods,
        "x/e",
        &json!({"name": "e"}),
        "default/net",
        16,
    );
    node.start(&["--verify-interval", "1"]);
    others(&node);
    let mut wrong = BTreeSet::new();
    let mut allowed = String::new();
    for ((name, rule), port) in rules().into_iter().zip(7000..) {
        let spec = json!({"podSelector": labelled("name", "server"), "ingress": [rule, from("b", &[port])]});
        node.policy("default", name, "default/net", &spec);
        wrong.insert(format!("MultiNetworkPolicy default/{name}"));
        allowed += &format!("b->server:{port} ");
    }
    for ((name, mut rule), port) in rules().into_iter().zip(7300..) {
        if let Some(peers) = rule["from"].as_array().cloned() {
            rule = json!({"to": peers});
        }
        let to = json!({"to": named(&["b"]), "ports": [{"port": port}]});
        let spec = json!({"podSelector": labelled("name", "server"), "policyTypes": ["Egress"], "egress": [rule, to]});
        node.policy("default", &format!("{name}-egress"), "default/net", &spec);
        wrong.insert(format!("MultiNetworkPolicy default/{name}-egress"));
        allowed += &format!("server->b:{port} ");
    }
    // A direction that nobody knows may be any.
    let types = json!({"podSelector": labelled("name", "server"), "policyTypes": [QUOTES], "egress": [{}], "ingress": [{}]});
    node.policy("default", "types", "default/net", &types);
    wrong.insert("MultiNetworkPolicy default/types".to_owned());
    // Whom these are about nobody can say: whoever may be meant is isolated, and nobody elsewhere.
    for (name, selector) in [
        ("whose-key", json!({"matchLabels": {QUOTES: "e"}})),
        ("whose-value", json!({"matchLabels": {"name": QUOTES}})),
    ] {
        let spec = json!({"podSelector": selector, "ingress": [{}]});
        node.policy("x", name, "default/net", &spec);
        wrong.insert(format!("MultiNetworkPolicy x/{name}"));
    }
    // What names a network counts, and nothing else does.
    let networks = format!("{QUOTES},default/net,default/{QUOTES}");
    node.policy("default", "networks", &networks, &server_from("c", &[7100]));
    node.policy(
        "default",
        "nowhere",
        QUOTES,
        &json!({"podSelector": labelled("name", "d"), "ingress": []}),
    );
    wrong.extend(["networks", "nowhere"].map(|name| format!("MultiNetworkPolicy default/{name}")));
    until_proved(&node);
    expect(
        &pods,
        &[&allowed, "c->server:7100 c->d x/e->d"],
        true,
        "with all that is misread",
    );
    expect(
        &pods,
        &[
            "a->server b->server a->server:7000 b->server:80 d->server:80 c->server:7000 b->server:7100 d->x/e",
            "server->a server->b server->a:7300 server->b:80 server->d:7300",
        ],
        false,
        "with all that is misread",
    );
    expect_others(&pods);
    assert_eq!(table(&pods["d"]), "");
    let found = node.findings().into_iter();
    let found: BTreeSet<_> = found.filter(|object| object.starts_with("Multi")).collect();
    assert_eq!(found, wrong);
    expect_readable(&node);

    // What is no interface beside its own takes nothing from a pod, and of others nobody notices; whatever it asked for.
    let strange = [
        json!({"name": QUOTES, "interface": "net7", "ips": ["2.2.5.12"]}),
        json!({"name": "default/net", "interface": ""}),
        json!({"name": "default/net", "interface": 7}),
        json!({"name": "default/net", "interface": "\"net0"}),
    ];
    for strange in strange {
        let own = json!({"name": "default/net", "interface": "net1", "ips": ["2.2.5.16", "2001:db8::16"]});
        let status = json!([&strange, own, json!({"name": 7})]).to_string();
        let annotations =
            json!({"k8s.v1.cni.cncf.io/network-status": status, "k8s.v1.cni.cncf.io/networks": QUOTES});
        let annotations = json!({"metadata": {"annotations": annotations}});
        node.api.patch("/api/v1/namespaces/x/pods", "e", &annotations);
        node.until_enforced();
        let about = format!("beside {strange}");
        expect(&pods, &[&allowed], true, &about);
        expect(&pods, &["a->server d->x/e"], false, &about);
        expect_others(&pods);
    }
    assert!(node.findings().contains(&"Pod x/e".to_owned()));

    // The other version of the kind says the same of all of them.
    serve_alone(&node.api, "v1beta2");
    let path = "/apis/k8s.cni.cncf.io/v1beta2/namespaces/default/multi-networkpolicies";
    let mut second = server_from("d", &[7200]);
    second["ingress"][0]["ports"][0]["protocol"] = format!("TCP{QUOTES}").into();
    node.api.create(
        path,
        &json!({
            "apiVersion": "k8s.cni.cncf.io/v1beta2",
            "kind": "MultiNetworkPolicy",
            "metadata": {"name": "second", "annotations": {"k8s.v1.cni.cncf.io/policy-for": "default/net"}},
            "spec": second,
        }),
    );
    wrong.insert("MultiNetworkPolicy default/second".to_owned());
    node.until("the other version", |status| {
        let is_read = status.read.contains_key("MultiNetworkPolicy default/second");
        let found = node.findings();
        is_read && wrong.iter().all(|object| found.contains(object))
    });
    let found = node.findings().into_iter();
    let found: BTreeSet<_> = found.filter(|object| object.starts_with("Multi")).collect();
    assert_eq!(found, wrong);
    expect(&pods, &[&allowed, "c->server:7100"], true, "in the other version");
    expect(
        &pods,
        &["a->server d->server:7200 d->x/e"],
        false,
        "in the other version",
    );
    expect_others(&pods);
    expect_readable(&node);
}
