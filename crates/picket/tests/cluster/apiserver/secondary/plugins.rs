//! Networks whose plugin policies do not hold on, and those of which it is not known.

use serde_json::json;

use super::super::agent::expect_schema;
use super::super::events::events_on;
use super::failures::object;
use super::{named, pod, simple};
use crate::objects::KINDS;
use crate::pods::{DEFINITIONS, Node, Pods, expect, table};

const MACVLAN: &str = r#"{"cniVersion": "1.0.0", "plugins": [{"type": "macvlan"}, {"type": "tuning"}]}"#;
const BRIDGE: &str = r#"{"cniVersion": "0.3.1", "type": "bridge"}"#;

/// What the agent says once everything is enforced.
fn notes(node: &Node) -> Vec<String> {
    node.until_enforced().notes
}

/// Pods on `default/net`, and `e` and `f` on `default/other`, with a policy for both networks: only `a` may begin anything.
fn populate(node: &mut Node) -> Pods {
    let mut pods = simple(node);
    for (name, number) in [("e", 16), ("f", 17)] {
        pod(
            node,
            &mut pods,
            name,
            &json!({"name": name}),
            "default/other",
            number,
        );
    }
    let from_a = json!({"podSelector": {}, "ingress": [{"from": named(&["a"])}]});
    node.policy("default", "from-a", "default/net,default/other", &from_a);
    pods
}

#[test]
fn policies_hold_on_networks_of_the_plugins_in_the_list_and_of_those_not_known() {
    let mut node = Node::new();
    let pods = populate(&mut node);
    node.define("other", BRIDGE);
    node.start(&[]);
    let said = notes(&node);
    assert_eq!(said.len(), 2, "{said:#?}");
    assert!(
        said[0].contains("network default/net: policies hold on it, though it has no"),
        "{said:#?}"
    );
    assert!(
        said[1].contains("network default/other: no policy holds on it, since its plugin `bridge`"),
        "{said:#?}"
    );
    expect(&pods, &["a->server e->f f->e"], true, "without a definition");
    expect(&pods, &["b->server"], false, "without a definition");
    assert_eq!(table(&pods["e"]), "");
    let text = node.status(&[]);
    assert_eq!(text.status, 0, "{}", text.stderr);
    assert!(
        text.stdout.contains("note: network default/other"),
        "{}",
        text.stdout
    );
    expect_schema(&node.status(&["-o", "json"]).json());
    let (version, kind, path) = KINDS[13];
    let policy = object(&node, version, kind, path, "from-a");
    node.until("an Event", |_| !events_on(&node.api, &policy).is_empty());
    let [event] = events_on(&node.api, &policy).try_into().unwrap();
    let told = event["message"].as_str().unwrap();
    assert!(
        told.contains("network default/other: no policy holds on it"),
        "{event}"
    );

    node.define("net", MACVLAN);
    let said = notes(&node);
    assert!(said.len() == 1 && said[0].contains("default/other"), "{said:#?}");
    expect(&pods, &["b->server"], false, "with a definition that came");
    node.redefine("other", MACVLAN);
    assert_eq!(notes(&node), Vec::<String>::new());
    expect(&pods, &["b->server e->f"], false, "with both of the plugin");
    node.redefine("net", BRIDGE);
    assert!(notes(&node)[0].contains("default/net"));
    expect(
        &pods,
        &["b->server"],
        true,
        "when the definition is of another plugin",
    );
    expect(&pods, &["e->f"], false, "beside one of another plugin");
    assert_eq!(table(&pods["server"]), "");
    node.redefine("net", r#"{"type": "bridge", "Type": "macvlan"}"#);
    assert!(notes(&node)[0].contains("names no plugin that can be read"));
    expect(&pods, &["b->server e->f"], false, "when nobody can read it");
}

#[test]
fn the_list_is_what_it_is_set_to_and_a_definition_that_goes_opens_nothing() {
    let mut node = Node::new();
    let pods = populate(&mut node);
    node.define("other", BRIDGE);
    node.define("net", MACVLAN);
    node.start(&["--network-plugins", "ipvlan,bridge"]);
    assert!(notes(&node)[0].contains("its plugin `macvlan` is not in"));
    expect(&pods, &["b->server"], true, "without macvlan");
    expect(&pods, &["e->f"], false, "with bridge");
    node.api.delete(DEFINITIONS, "net");
    node.until("a definition less", |status| {
        status
            .notes
            .iter()
            .any(|note| note.contains("has no NetworkAttachmentDefinition"))
    });
    expect(&pods, &["b->server e->f"], false, "when the definition is gone");
    node.kill();
    node.define("net", MACVLAN);
    node.start(&["--network-plugins=macvlan,bridge"]);
    assert_eq!(notes(&node), Vec::<String>::new());
    expect(&pods, &["b->server e->f"], false, "with both");
    expect(&pods, &["a->server"], true, "with both");
}
