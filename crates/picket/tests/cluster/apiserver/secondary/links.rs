//! An interface that is made of two links: what the links are is nothing to a policy, which names the interface.

use picket_linux::NetworkNamespace;
use serde_json::json;

use super::{Case, labelled, named, pod};
use crate::pods::{Node, Pod, Pods, ip, place_of};

const BOND: &str = r#"{"cniVersion": "1.0.0", "plugins": [{"type": "bond"}, {"type": "tuning"}]}"#;

/// Pods `a`, `b` and `c`, of which [`joined`] makes the interface, and an agent that knows the plugin.
fn populate(node: &mut Node) -> Pods {
    let mut pods = Pods::new();
    node.define("bond-nad", BOND);
    for (name, number) in [("a", 11), ("b", 12), ("c", 13)] {
        let labels = json!({"name": name});
        pod(node, &mut pods, name, &labels, "default/bond-nad", number);
    }
    node.start(&["--network-plugins", "macvlan,bond"]);
    pods
}

/// A namespace with cables into which pods are plugged, each a bridge.
fn cables(names: &[&str]) -> NetworkNamespace {
    let switch = NetworkNamespace::create().unwrap();
    for name in names {
        ip(&switch, &format!("link add {name} type bridge"));
        ip(&switch, &format!("link set {name} up"));
    }
    switch
}

/// Makes `net1` of a pod anew, as what `kind` says of two links that end at cables.
fn joined(pod: &Pod, number: u8, kind: &str, switch: &NetworkNamespace, cables: [&str; 2]) {
    let inside = &pod.inside;
    ip(inside, "link delete net1");
    ip(inside, &format!("link add net1 type {kind}"));
    for (link, cable) in ["link1", "link2"].into_iter().zip(cables) {
        let end = format!("{}{link}", pod.name);
        let place = place_of(inside);
        ip(
            switch,
            &format!("link add {end} type veth peer name {link} netns {place}"),
        );
        ip(switch, &format!("link set {end} master {cable} up"));
        ip(inside, &format!("link set {link} master net1"));
        ip(inside, &format!("link set {link} up"));
    }
    ip(inside, &format!("-4 address add 2.2.5.{number}/24 dev net1"));
    ip(
        inside,
        &format!("-6 address add 2001:db8::{number}/64 dev net1 nodad"),
    );
    ip(inside, "link set net1 up");
}

/// The scenario; in that of the replaced program, nothing of `c` reaches `a` by another reason than the policy.
fn play(node: &Node, pods: &Pods, name: &str) {
    let spec = json!({"podSelector": labelled("name", "a"),
        "ingress": [{"from": named(&["b"])}], "egress": [{"to": named(&["c"])}]});
    let case = Case {
        name,
        policies: vec![("default", "bonded", "default/bond-nad", spec)],
        allowed: &["b->a a->c b->c c->b"],
        denied: &["c->a a->b"],
        restricted: &["a"],
    };
    case.play(node, pods);
}

#[test]
fn two_links_as_one_interface() {
    // Each pod is plugged in twice, and no way leads in a circle: `b` comes to `a` by the one link and `c` by the other, and
    // what `b` and `c` say to each other passes through the bridge in `a`.
    let mut node = Node::new();
    let pods = populate(&mut node);
    let switch = cables(&["left", "right", "far-left", "far-right"]);
    for (name, number, cables) in [
        ("a", 11, ["left", "right"]),
        ("b", 12, ["left", "far-left"]),
        ("c", 13, ["far-right", "right"]),
    ] {
        joined(&pods[name], number, "bridge", &switch, cables);
    }
    play(&node, &pods, "bridged-links");
}

/// With the device that the scenario is about, which not every kernel has.
pub(in crate::apiserver) fn bonded() {
    let mut node = Node::new();
    let pods = populate(&mut node);
    let switch = cables(&["left", "right"]);
    for (name, number) in [("a", 11), ("b", 12), ("c", 13)] {
        joined(
            &pods[name],
            number,
            "bond mode active-backup miimon 100",
            &switch,
            ["left", "right"],
        );
    }
    play(&node, &pods, "bond-cni");
}
