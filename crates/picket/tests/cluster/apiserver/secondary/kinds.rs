//! Kinds of secondary networks that are defined, and go, while an agent runs.

use picket_node::PodsStatus;
use picket_testing::apiserver::Server;
use picket_testing::runtime::Kind;
use serde_json::json;

use super::{holds, labelled, named, simple};
use crate::objects::{KINDS, define, undefine};
use crate::pods::{Node, expect, table};

/// Whether a note about the network says this.
fn notes(status: &PodsStatus, what: &str) -> bool {
    status.notes.iter().any(|note| note.contains(what))
}

#[test]
fn kinds_that_are_defined_while_an_agent_runs_are_enforced_until_they_are_gone() {
    let mut node = Node::without_kinds(Server::start(), Kind::Containerd);
    let pods = simple(&mut node);
    node.start(&[]);
    expect(&pods, &["b->server"], true, "without the kind");
    let spec = json!({"podSelector": labelled("name", "server"), "ingress": [{"from": named(&["a"])}]});
    for time in ["for the first time", "once more"] {
        define(&node.api, KINDS[13]);
        node.policy("default", "from-a", "default/net", &spec);
        let status = node.until("a policy of the new kind", |status| !status.sandboxes.is_empty());
        assert!(
            notes(&status, "has no NetworkAttachmentDefinition"),
            "{status:#?}"
        );
        holds(&pods, "a->server", "b->server", time);

        define(&node.api, KINDS[12]);
        node.define("net", r#"{"type": "bridge"}"#);
        node.until("a plugin of others", |status| {
            notes(status, "its plugin `bridge` is not in")
        });
        expect(&pods, &["b->server"], true, "on a network of another plugin");
        undefine(&node.api, KINDS[12]);
        node.until("no definition", |status| {
            notes(status, "has no NetworkAttachmentDefinition")
        });
        holds(
            &pods,
            "a->server",
            "b->server",
            "when the definition and its kind are gone",
        );

        undefine(&node.api, KINDS[13]);
        node.until("no policy", |status| {
            status.sandboxes.is_empty() && status.read.is_empty()
        });
        expect(&pods, &["b->server"], true, "when the kind is gone");
        assert_eq!(table(&pods["server"]), "");
    }
}
