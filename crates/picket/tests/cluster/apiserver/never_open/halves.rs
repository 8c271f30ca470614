//! Changes of which the kernel takes the first transaction and refuses the next, which is too large where the agent is.

use picket_net::Family;
use picket_nftables::client::{Client, Observed};
use picket_nftables::render::indexed;
use picket_node::Trouble;
use picket_testing::confined::many_blocks_of;
use serde_json::{Value, json};

use super::happenings::Happenings;
use super::{POLICIES, numbered};
use crate::objects::network_policy;
use crate::watched::flows::until;
use crate::watched::oracle::Change;
use crate::watched::policy;

/// What changes, beside many blocks of addresses that come. Pods that had a chain together have others then, which are made
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shape {
    /// The pods that a policy is about.
    Subject,
    /// And its ports.
    Ports,
    /// And its peers, by their addresses.
    Peers,
    /// The labels of a pod.
    Labels,
    /// The pods that a policy is about, and the policy goes while it is refused.
    Gone,
}

impl Shape {
    pub(super) const ALL: [Self; 5] = [Self::Subject, Self::Ports, Self::Peers, Self::Labels, Self::Gone];
}

/// What was seen of a change.
#[derive(Debug)]
pub(super) struct Half {
    /// How many transactions there were, after which the table is what it was.
    pub(super) transactions: u32,
    /// How many packets were sent while it was tried.
    pub(super) packets: usize,
}

/// What a policy says before and after a change, and with so few blocks that the kernel takes it.
struct Specs {
    before: Value,
    after: Option<Value>,
    few: Value,
}

impl Happenings<'_> {
    /// The kernel refuses half of a change whenever it is tried; then the change is a smaller one.
    pub(super) fn refuse_the_rest(&mut self, shape: Shape, family: Family) -> Half {
        self.count += 1;
        let specs = self.specs(shape, family);
        let manifest = |spec: &Value| network_policy("x", &format!("large-{}", self.count), spec);
        let [before, few] = [&specs.before, &specs.few].map(manifest);
        let after = specs.after.as_ref().map(manifest);
        let other = network_policy(
            "x",
            &format!("other-{}", self.count),
            &about(&json!({}), &[space("z")], &self.ports()),
        );

        self.need(false);
        let object = self.put(&before);
        self.settle();
        self.watched.oracle.divide();
        self.live.until_calm();
        let mut reader = Client::open(self.live.node()).unwrap();
        let (generation, table) = reader.read(&indexed::table_name()).unwrap();
        let sent = self.watched.flows.total();
        match &after {
            Some(after) => self.say(after, "is another, and about many blocks"),
            None => self.set_team("x/c", "red"),
        }
        let title = match shape {
            Shape::Labels => "Pod x/c".to_owned(),
            _ => object.to_string(),
        };
        let is_refused = |trouble: &Trouble| {
            trouble.why.contains("could not be sent") && trouble.waiting == [title.clone()]
        };
        self.agent.until("a refusal", |status| {
            status.host.trouble.as_ref().is_some_and(is_refused)
        });
        let transactions = self.half_made_and_undone(generation, &table);
        self.watched.flows.until_sent(200);
        let packets = self.watched.flows.total() - sent;
        let other = self.put(&other).to_string();
        self.agent
            .until("another policy", |status| status.host.policies.contains(&other));

        match shape {
            Shape::Gone => self.remove(&object),
            _ => self.say(&few, "is not about the blocks"),
        }
        self.until_all_is_in_force();
        self.prove();
        Half {
            transactions,
            packets,
        }
    }

    fn specs(&self, shape: Shape, family: Family) -> Specs {
        let (cidr, except) = many_blocks_of(family);
        let blocks = json!({"ipBlock": {"cidr": cidr, "except": except}});
        let named = |name: &str| json!({"matchLabels": {"pod": name}});
        let [ports, others] = [numbered(1000, 1001), numbered(1002, 1002)];
        let at = |id: &str| {
            let address = self.homes[id].of(family).unwrap();
            json!({"ipBlock": {"cidr": format!("{address}/{}", if family == Family::Ipv4 { 32 } else { 128 })}})
        };
        let change = |before: Value, pods: &Value, peer: Value, ports: &Value| Specs {
            before,
            after: Some(about(pods, &[peer.clone(), blocks.clone()], ports)),
            few: about(pods, &[peer], ports),
        };
        let (all, y) = (json!({}), || space("y"));
        match shape {
            Shape::Subject | Shape::Gone => {
                change(about(&named("none"), &[y()], &ports), &named("c"), y(), &ports)
            }
            Shape::Ports => change(about(&all, &[y()], &ports), &named("c"), y(), &others),
            Shape::Peers => change(about(&all, &[at("y/a")], &ports), &named("c"), at("z/b"), &ports),
            Shape::Labels => {
                let red = json!({"matchLabels": {"team": "red"}});
                Specs {
                    before: about(&red, &[y(), blocks], &ports),
                    after: None,
                    few: about(&red, &[y()], &ports),
                }
            }
        }
    }

    /// A policy that is there says this.
    fn say(&mut self, manifest: &Value, what: &str) {
        let says = policy(manifest);
        let object = says.object.clone();
        self.watched
            .begins(format!("{object} {what}"), Change::Policy(says));
        let operations = json!([{"op": "replace", "path": "/spec", "value": manifest["spec"]}]);
        self.live.api.patch_by(POLICIES, &object.name, &operations);
        self.touched.insert(POLICIES);
    }

    /// Waits until transactions have been made, after which the table is what it was; how many.
    fn half_made_and_undone(&self, generation: u32, before: &Observed) -> u32 {
        let mut client = Client::open(self.live.node()).unwrap();
        until("half of the change, and the way back", || {
            client.generation().unwrap() > generation + 1
        });
        let mut seen = 0;
        until("the table as it was", || {
            let (now, table) = client.read(&indexed::table_name()).unwrap();
            seen = now - generation;
            table == *before
        });
        seen
    }
}

/// What lets peers reach ports of pods.
fn about(pods: &Value, from: &[Value], ports: &Value) -> Value {
    json!({"podSelector": pods, "ingress": [{"from": from, "ports": ports}]})
}

/// The pods of a namespace.
fn space(name: &str) -> Value {
    json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}})
}
