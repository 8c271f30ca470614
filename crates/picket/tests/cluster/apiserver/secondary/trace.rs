//! What `picket trace` says of pods is what the policies say, and what the rules in each of the two pods do.

use std::net::{TcpListener, TcpStream};

use picket_nftables::render::documented;
use serde_json::{Value, json};

use super::super::agent::expect_schema_of;
use super::super::never_open::steal;
use super::{labelled, named, simple};
use crate::pods::{Interface, Node, Pods, expect, once_free};

/// The answer in JSON, and the status.
fn traced(node: &Node, from: &str, to: &str, more: &[&str]) -> (Value, i32) {
    let ran = node.asked_by(&[&["trace", from, to, "5555", "-o", "json"], more].concat());
    assert_eq!(ran.stderr, "");
    let json = ran.json();
    expect_schema_of("trace", &json);
    (json, ran.status)
}

/// Where each packet is judged, and what the policies and the kernel say: as in `default/b output accept accept`.
fn judged(trace: &Value) -> Vec<String> {
    let word = |packet: &Value, field: &str| packet[field].as_str().unwrap().to_owned();
    let packets = trace["packets"].as_array().unwrap().iter();
    packets
        .map(|packet| {
            ["pod", "path", "policies", "kernel"]
                .map(|field| word(packet, field))
                .join(" ")
        })
        .collect()
}

/// The same, each for both families, IPv4 first.
fn both(judged: &[&str]) -> Vec<String> {
    judged
        .iter()
        .flat_map(|one| [(*one).to_owned(), (*one).to_owned()])
        .collect()
}

fn from_a() -> Value {
    json!({"podSelector": labelled("name", "server"), "ingress": [{"from": named(&["a"])}]})
}

#[test]
fn a_connection_is_traced_through_the_rules_of_both_pods() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&[]);
    node.policy("default", "from-a", "default/net", &from_a());
    node.until_enforced();
    expect(&pods, &["b->server"], false, "for a counter");
    let (denied, status) = traced(&node, "default/b", "default/server", &[]);
    assert_eq!(status, 0, "{denied}");
    assert_eq!(
        judged(&denied),
        both(&["default/b output accept accept", "default/server input drop drop"])
    );
    assert_eq!(denied["here"], json!(["default/b", "default/server"]));
    assert_eq!(denied["network"], "default/net");
    assert_eq!(denied["explanation"]["verdict"], "deny");
    let packet = &denied["packets"][2];
    for (field, expected) in [
        ("source", "2.2.5.13"),
        ("destination", "2.2.5.11"),
        ("interface", "net1"),
    ] {
        assert_eq!(packet[field], expected, "{packet}");
    }
    assert!(packet["place"].is_string(), "{packet}");
    let counter = &packet["counters"][0];
    assert_eq!(
        (&counter["policy"], &counter["direction"]),
        (&json!("MultiNetworkPolicy default/from-a"), &json!("ingress"))
    );
    assert!(counter["packets"].as_u64() > Some(0), "{packet}");
    assert_eq!(denied["connections"], json!([]));

    // Of what is allowed there is a connection, once it is one.
    let target = (pods["server"].addresses[0], 5555);
    let listener = once_free(|| pods["server"].inside.run(|| TcpListener::bind(target)).unwrap());
    let client = pods["a"]
        .inside
        .run(|| TcpStream::connect(target))
        .unwrap()
        .unwrap();
    let (allowed, status) = traced(&node, "default/a", "default/server", &[]);
    assert_eq!(status, 0, "{allowed}");
    assert_eq!(
        judged(&allowed),
        both(&[
            "default/a output accept accept",
            "default/server input accept accept"
        ])
    );
    assert_eq!(allowed["connections"][0]["answered"], true, "{allowed}");
    drop((listener, client));
    let ran = node.asked_by(&["trace", "default/a", "default/server", "5555"]);
    for part in [
        "MultiNetworkPolicy default/from-a",
        "node node-1, network default/net:",
        "2.2.5.12 → 2.2.5.11 (input of net1 in default/server): the policies say accept, the kernel does accept, as they say",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    // Of somebody who is no pod only the pod is here.
    let (outside, status) = traced(&node, "2.2.5.99", "default/server", &[]);
    assert_eq!(
        (judged(&outside), status),
        (vec!["default/server input drop drop".to_owned()], 0)
    );
    assert_eq!(outside["here"], json!(["default/server"]));
}

#[test]
fn what_is_not_in_force_in_a_pod_is_told_and_what_rules_do_instead() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    let rules = node.file("rules", "ip saddr 2.2.5.14 tcp dport 5555 accept\n");
    node.start(&[
        "--table-owner",
        "everybody",
        "--custom-v4-ingress-rule-file",
        &rules,
    ]);
    node.policy("default", "from-a", "default/net", &from_a());
    node.until_enforced();
    // Custom rules are judged before policies.
    let (custom, status) = traced(&node, "default/c", "default/server", &[]);
    assert_eq!(status, 0, "{custom}");
    assert_eq!(
        judged(&custom)[2..],
        [
            "default/server input accept accept",
            "default/server input drop drop"
        ]
    );
    let thief = steal(&pods["server"].inside, &documented::table_name());
    node.delete_policy("default", "from-a");
    let other = json!({"podSelector": labelled("name", "server"), "ingress": [{"from": named(&["b"])}]});
    node.policy("default", "from-b", "default/net", &other);
    node.until("a refusal", |status| !status.is_well());
    node.until("the other policy", |status| {
        let sandbox = status
            .sandboxes
            .iter()
            .find(|sandbox| sandbox.pod == "default/server");
        sandbox.is_some_and(|sandbox| sandbox.waiting.len() == 2)
    });
    let (waiting, status) = traced(&node, "default/b", "default/server", &[]);
    assert_eq!(status, 1, "{waiting}");
    assert_eq!(
        judged(&waiting),
        both(&[
            "default/b output accept accept",
            "default/server input accept drop"
        ])
    );
    let why = waiting["waiting"].as_str().unwrap();
    let parts = ["default/server: ", "another program holds the table"];
    assert!(parts.iter().all(|part| why.contains(part)), "{why}");
    expect(&pods, &["b->server"], false, "by the rules of before");
    drop(thief);
    node.until("another attempt", picket_node::PodsStatus::is_well);
    let (well, status) = traced(&node, "default/b", "default/server", &[]);
    assert_eq!((well["waiting"].is_null(), status), (true, 0), "{well}");
    expect(&pods, &["b->server"], true, "in the end");
}

#[test]
fn which_network_is_meant_is_asked_where_it_can_be_several() {
    let mut node = Node::new();
    let mut pods = Pods::new();
    for (name, number) in [("one", 21), ("two", 22)] {
        let addresses = ["2.2.5", "2.2.6"].map(|prefix| format!("{prefix}.{number}/24"));
        let [first, second] = addresses.each_ref().map(|address| [address.as_str()]);
        let interface = |network, name, addresses| Interface {
            network,
            name,
            addresses,
        };
        let interfaces = [
            interface("default/net", "net1", first.as_slice()),
            interface("default/other", "net2", second.as_slice()),
        ];
        let pod = node.pod("default", name, &json!({"name": name}), &interfaces);
        pods.insert(name.to_owned(), pod);
    }
    node.start(&[]);
    let closed = json!({"podSelector": labelled("name", "two"), "ingress": []});
    node.policy("default", "closed", "default/net", &closed);
    let open = json!({"podSelector": labelled("name", "two"), "ingress": [{}]});
    node.policy("default", "open", "default/other", &open);
    node.until_enforced();
    let which = node.asked_by(&["trace", "default/one", "default/two", "5555"]);
    assert_eq!(which.status, 2);
    let told = "that may be about the networks `default/net`, `default/other`: say which with `--network`";
    assert!(which.stderr.contains(told), "{}", which.stderr);
    for (network, verdict) in [("default/net", "drop"), ("default/other", "accept")] {
        let (trace, status) = traced(&node, "default/one", "default/two", &["--network", network]);
        assert_eq!((&trace["network"], status), (&json!(network), 0));
        let input = format!("default/two input {verdict} {verdict}");
        assert_eq!(
            judged(&trace),
            ["default/one output accept accept".to_owned(), input]
        );
    }
    // An address says which.
    let (trace, _) = traced(&node, "default/one", "2.2.6.22", &[]);
    assert_eq!(trace["network"], "default/other");
    for (arguments, why) in [
        (["default/one", "default/nobody", "default/net"], "default/nobody"),
        (
            ["default/one", "default/two", "default/third"],
            "no policies on a network `default/third`",
        ),
    ] {
        let [from, to, network] = arguments;
        let ran = node.asked_by(&["trace", from, to, "5555", "--network", network]);
        assert!(ran.status == 2 && ran.stderr.contains(why), "{}", ran.stderr);
    }
}
