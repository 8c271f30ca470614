//! Definitions of networks that a user makes to get at others: policies hold on each such network, those whose plugin nobody can
//! tell are named, and others notice none of it.

use picket_testing::apiserver::Server;
use picket_testing::runtime::Kind;
use serde_json::{Value, json};

use super::super::definitions::{MACVLAN, expect_none, probe};
use super::super::{labelled, named, simple};
use super::{create, expect_readable, until_proved};
use crate::apiserver::hostile::QUOTES;
use crate::objects::define_all_but;
use crate::pods::{DEFINITIONS, Interface, Node, Pods, expect};

/// How many bytes etcd takes at once, and a few less.
const LARGEST: usize = 1_500_000;

/// Values of `spec`, and whether they name the plugin `macvlan`.
fn specs() -> Vec<(&'static str, Value, bool)> {
    let brackets = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = format!("{}7{}", "{\"type\":".repeat(100_000), "}".repeat(100_000));
    let large = "x".repeat(LARGEST - 1000);
    let many = r#",{"type": "tuning"}"#.repeat(10_000);
    let texts = [
        ("no JSON", "macvlan".to_owned(), false),
        ("quotes", QUOTES.to_owned(), false),
        ("what breaks off", r#"{"type": "macvlan""#.to_owned(), false),
        ("two", format!("{MACVLAN}{MACVLAN}"), false),
        ("nothing", String::new(), false),
        ("no type", "{}".to_owned(), false),
        ("an empty type", r#"{"type": ""}"#.to_owned(), false),
        ("a number for a type", r#"{"type": 7}"#.to_owned(), false),
        ("a list of types", r#"{"type": ["bridge"]}"#.to_owned(), false),
        (
            "two types",
            r#"{"type": "macvlan", "type": "bridge"}"#.to_owned(),
            false,
        ),
        (
            "two cases",
            r#"{"type": "macvlan", "TYPE": "bridge"}"#.to_owned(),
            false,
        ),
        (
            "a long type",
            json!({"type": "b".repeat(100_000)}).to_string(),
            false,
        ),
        ("no plugins", r#"{"plugins": []}"#.to_owned(), false),
        ("a number for plugins", r#"{"plugins": 7}"#.to_owned(), false),
        (
            "a number for a plugin",
            r#"{"plugins": [7, {"type": "bridge"}]}"#.to_owned(),
            false,
        ),
        (
            "a plugin without a type",
            r#"{"plugins": [{}, {"type": "bridge"}]}"#.to_owned(),
            false,
        ),
        (
            "a type beside plugins",
            r#"{"type": "bridge", "plugins": [{"type": "macvlan"}]}"#.to_owned(),
            false,
        ),
        (
            "many plugins",
            format!(r#"{{"plugins": [{{"type": "macvlan"}}{many}]}}"#),
            true,
        ),
        (
            "much text",
            format!(r#"{{"note": "{large}", "type": "macvlan"}}"#),
            true,
        ),
        ("nothing but text", large, false),
        ("nothing but brackets", brackets(500_000), false),
        (
            "brackets before the type",
            format!(r#"{{"note": {}, "type": "macvlan"}}"#, brackets(500_000)),
            true,
        ),
        ("types of types", objects, false),
        (
            "the type in other letters",
            r#"{"\u0074ype": "mac\u0076lan"}"#.to_owned(),
            true,
        ),
    ];
    let texts = texts
        .into_iter()
        .map(|(what, text, known)| (what, json!({"config": text}), known));
    let others = [
        ("no configuration", json!({}), false),
        ("a number for it", json!({"config": 7}), false),
        ("an object for it", json!({"config": {"type": "bridge"}}), false),
        ("a number for all", json!(7), false),
        ("nothing at all", Value::Null, false),
    ];
    texts.chain(others).collect()
}

/// Pods `e` and `f` on two networks of which the names are as strange as they may be, each with a definition.
fn strange(node: &mut Node, pods: &mut Pods) -> [String; 2] {
    let longest = ["n".repeat(63), "e".repeat(63), "t".repeat(63), "s".repeat(61)].join(".");
    let names = ["0".to_owned(), longest];
    for name in &names {
        node.define(name, MACVLAN);
    }
    let [one, other] = names.clone().map(|name| format!("default/{name}"));
    for (name, number) in [("e", 16), ("f", 17)] {
        let addresses = ["3.3.1", "3.3.2"].map(|network| format!("{network}.{number}/24"));
        let interfaces = [
            Interface {
                network: &one,
                name: "net1",
                addresses: &[&addresses[0]],
            },
            Interface {
                network: &other,
                name: "net2",
                addresses: &[&addresses[1]],
            },
        ];
        let pod = node.pod("default", name, &json!({"name": name}), &interfaces);
        pods.insert(name.to_owned(), pod);
    }
    names
}

#[test]
fn policies_hold_whatever_a_definition_says_and_others_notice_nothing() {
    // With its schema the server takes texts alone.
    let mut node = Node::without_kinds(Server::start(), Kind::Containerd);
    define_all_but(&node.api, "NetworkAttachmentDefinition");
    let mut pods = simple(&mut node);
    let names = strange(&mut node, &mut pods);
    node.define("net", MACVLAN);
    // One of another namespace says nothing of this one.
    node.namespace("x", &json!({}));
    node.define_in("x", "net", r#"{"type": "bridge"}"#);
    node.start(&["--verify-interval", "1"]);
    let from_a = json!({"podSelector": labelled("name", "server"), "ingress": [{"from": named(&["a"])}]});
    node.policy("default", "from-a", "default/net", &from_a);
    let annotations = json!({"k8s.v1.cni.cncf.io/policy-for": names.join(",")});
    create(
        &node,
        "others",
        &annotations,
        &json!({"podSelector": labelled("name", "e"), "ingress": []}),
    );
    assert_eq!(node.until_enforced().notes, Vec::<String>::new());
    expect(&pods, &["b->server f->e"], false, "at first");
    let mut denied = probe(&pods, "b", "server");
    denied.extend(probe(&pods, "f", "e"));
    for (what, spec, known) in specs() {
        node.api.replace_spec(DEFINITIONS, "net", &spec);
        let notes = node.until_enforced().notes;
        let is_named = notes
            .iter()
            .any(|note| note.contains("network default/net: policies hold on it"));
        assert!(is_named != known && notes.len() < 2, "{what}: {notes:#?}");
        expect(&pods, &["a->server e->f"], true, what);
    }
    let larger = json!({"spec": {"config": "x".repeat(LARGEST + 200_000)}});
    let refused = node.api.try_patch(DEFINITIONS, "net", None, &larger).unwrap_err();
    assert!(refused.message.contains("too large"), "{}", refused.message);
    until_proved(&node);
    expect_none(denied);
    expect_readable(&node);
}
