//! Policies of secondary networks, enforced in the pods of a node with real sandboxes.

mod chains;
mod changes;
mod containers;
mod custom_rules;
mod cut;
mod definitions;
mod denied;
mod drops;
mod failures;
mod forged;
mod hostile;
mod icmp;
mod kinds;
pub(super) mod links;
mod namespaces;
mod never_open;
mod plugins;
mod runtimes;
mod several;
mod single;
mod trace;

use serde_json::{Value, json};

use crate::pods::{Interface, Node, Pods, expect, table};

/// A policy: its namespace, name, networks and `spec`.
type Policy<'a> = (&'a str, &'a str, &'a str, Value);

/// What must happen with packets.
struct Case<'a> {
    name: &'a str,
    policies: Vec<Policy<'a>>,
    allowed: &'a [&'a str],
    denied: &'a [&'a str],
    /// The pods that get a table, and no others.
    restricted: &'a [&'a str],
}

impl Case<'_> {
    /// Everything arrives, then what the policies allow, then everything again: what is denied was not deaf, and what was
    /// there goes.
    fn play(&self, node: &Node, pods: &Pods) {
        let all = [self.allowed, self.denied].concat();
        expect(pods, &all, true, &format!("before {}", self.name));
        for (namespace, name, networks, spec) in &self.policies {
            node.policy(namespace, name, networks, spec);
        }
        node.until_enforced();
        expect(pods, self.denied, false, &format!("in {}", self.name));
        expect(pods, self.allowed, true, &format!("in {}", self.name));
        for (name, pod) in pods {
            let restricted = self.restricted.contains(&name.as_str());
            assert_eq!(
                !table(pod).is_empty(),
                restricted,
                "{}: the table of {name}",
                self.name
            );
        }
        for (namespace, name, ..) in &self.policies {
            node.delete_policy(namespace, name);
        }
        node.until(&format!("an end of {}", self.name), |status| {
            status.sandboxes.is_empty()
        });
        expect(pods, &all, true, &format!("after {}", self.name));
        for (name, pod) in pods {
            assert_eq!(table(pod), "", "{}: the table of {name}", self.name);
        }
    }
}

/// A pod on one network with an address of each family, which end with `number`; its namespace and name are its name here.
fn pod(node: &mut Node, pods: &mut Pods, name: &str, labels: &Value, network: &str, number: u8) {
    let (namespace, short) = name.split_once('/').unwrap_or(("default", name));
    let (v4, v6) = (format!("2.2.5.{number}/24"), format!("2001:db8::{number}/64"));
    let interface = Interface {
        network,
        name: "net1",
        addresses: &[&v4, &v6],
    };
    let pod = node.pod(namespace, short, labels, &[interface]);
    pods.insert(name.to_owned(), pod);
}

/// Pods `server`, `a`, `b`, `c`, `d` with the addresses 11 to 15 of one network, labelled with their names; `a` and `c` with
/// a role.
pub(crate) fn simple(node: &mut Node) -> Pods {
    let mut pods = Pods::new();
    for (name, number) in ["server", "a", "b", "c", "d"].iter().zip(11..) {
        let role = if ["a", "c"].contains(name) {
            "allowed"
        } else {
            "other"
        };
        let labels = json!({"name": name, "role": role});
        pod(node, &mut pods, name, &labels, "default/net", number);
    }
    pods
}

/// What arrives, and what does not.
fn holds(pods: &Pods, allowed: &str, denied: &str, when: &str) {
    expect(pods, &[allowed], true, when);
    expect(pods, &[denied], false, when);
}

/// The selector of pods with a label.
fn labelled(key: &str, value: &str) -> Value {
    json!({"matchLabels": {key: value}})
}

/// Peers: pods of the own namespace by their names.
pub(crate) fn named(names: &[&str]) -> Value {
    let peers: Vec<_> = names
        .iter()
        .map(|name| json!({"podSelector": labelled("name", name)}))
        .collect();
    json!(peers)
}
