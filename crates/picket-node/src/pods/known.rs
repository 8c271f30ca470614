//! What is known of the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use picket_cluster::{Event, Object, Pod, Snapshot, Store};
use picket_policy::ObjectRef;
use picket_source::Change;
use smol_str::SmolStr;

use super::plugin::Plugins;
use super::touched::Touched;
use crate::events::Events;
use crate::remarks::Remarks;

/// What is known of the cluster.
pub(super) struct Known {
    node: SmolStr,
    pub(super) store: Store,
    /// The pods of this node.
    here: BTreeSet<ObjectRef>,
    pub(super) plugins: Plugins,
    /// What may have changed since somebody last took this.
    pub(super) touched: Touched,
    /// Whether everything was known once.
    pub(super) is_complete: bool,
    pub(super) remarks: Remarks,
}

impl Known {
    /// Nothing yet on this node.
    pub(super) fn new(node: &SmolStr, plugins: Plugins, events: Events) -> Self {
        Self {
            node: node.clone(),
            store: Store::new(),
            here: BTreeSet::new(),
            plugins,
            touched: Touched::Anything,
            is_complete: false,
            remarks: Remarks::new(events),
        }
    }

    /// Takes in a change; whether something else may have to be enforced.
    pub(super) fn take(&mut self, change: Change) -> bool {
        match change {
            Change::Diagnosis(object, diagnostics) => {
                self.remarks.diagnose(object, diagnostics);
                false
            }
            Change::Reached { kind, version } => {
                self.remarks.versions.insert(kind, version);
                false
            }
            Change::Version(policy, version) => {
                self.remarks.readings.read(policy, version);
                false
            }
            Change::Plugin(network, plugin) => {
                self.plugins.learn(network, plugin);
                true
            }
            Change::Events(events) => {
                let mut matters = false;
                for event in events {
                    self.is_complete |= event == Event::InitDone;
                    self.remarks.readings.note(&event);
                    if self.matters(&event) {
                        matters = true;
                        self.touched.note(&event);
                    }
                    self.place(&event);
                    self.store.apply(event);
                }
                matters
            }
        }
    }

    /// The pods of this node that policies can select, in the order of their objects.
    pub(super) fn pods_here<'s>(&self, snapshot: &'s Snapshot) -> impl Iterator<Item = &'s Arc<Pod>> {
        let here = self.here.iter().filter_map(|pod| snapshot.pods.get(pod));
        here.filter(|pod| pod.is_managed())
    }

    /// Notes who is on this node. Those that a list did not name are gone, but may be noted.
    fn place(&mut self, event: &Event) {
        match event {
            Event::Apply(Object::Pod(pod)) if pod.node.as_ref() == Some(&self.node) => {
                self.here.insert(pod.object.clone());
            }
            Event::Apply(Object::Pod(pod)) => drop(self.here.remove(&pod.object)),
            Event::Delete(object) => drop(self.here.remove(object)),
            Event::InitDone => {
                let snapshot = self.store.snapshot();
                self.here.retain(|pod| snapshot.pods.contains_key(pod));
            }
            Event::Init | Event::Apply(_) => {}
        }
    }

    /// Whether something else may have to be enforced because of this: not where it is about a pod of another node that is on no
    /// secondary network and was on none, as most pods are.
    fn matters(&self, event: &Event) -> bool {
        let concerns = |pod: &Pod| pod.node.as_ref() == Some(&self.node) || !pod.attachments.is_empty();
        let (object, now) = match event {
            Event::Apply(Object::Pod(pod)) => (&pod.object, Some(pod)),
            Event::Delete(object) if object.kind == "Pod" => (object, None),
            _ => return true,
        };
        let snapshot = self.store.snapshot();
        let before = snapshot.pods.get(object);
        before.into_iter().chain(now).any(|pod| concerns(pod))
    }
}

#[cfg(test)]
mod tests {
    use picket_cluster::{Attachment, Namespace};
    use picket_policy::NetworkName;
    use picket_testing::build::pod;

    use super::*;
    use crate::Extent;
    use crate::metrics::Metrics;

    /// A pod that is on a node, and on a secondary network or not.
    fn pod_on(node: &str, is_attached: bool) -> Pod {
        let mut pod = pod("x/p").on(node).build();
        pod.attachments.extend(is_attached.then(|| Attachment {
            network: NetworkName::parse("x/net", "x").unwrap(),
            interface: "net1".into(),
            addresses: ["10.1.0.1".parse().unwrap()].into_iter().collect(),
            synthetic: false,
        }));
        pod
    }

    fn apply(pod: Pod) -> Event {
        Event::Apply(Object::from(pod))
    }

    #[test]
    fn what_happens_to_pods_of_others_matters_where_they_are_or_were_on_a_network() {
        let delete = |uid: &str| {
            Event::Delete(ObjectRef {
                uid: uid.into(),
                ..pod_on("here", false).object
            })
        };
        let (own, own_attached) = (pod_on("here", false), pod_on("here", true));
        let (other, other_attached) = (pod_on("there", false), pod_on("there", true));
        let rows = [
            ("one comes", None, apply(other.clone()), false),
            ("one goes", Some(&other), delete(""), false),
            ("one changes", Some(&other), apply(other.clone()), false),
            (
                "one comes on a network",
                None,
                apply(other_attached.clone()),
                true,
            ),
            (
                "one comes onto a network",
                Some(&other),
                apply(other_attached.clone()),
                true,
            ),
            (
                "one leaves its last network",
                Some(&other_attached),
                apply(other.clone()),
                true,
            ),
            ("one on a network goes", Some(&other_attached), delete(""), true),
            // There is none such, and what is there stays.
            (
                "one of another uid goes",
                Some(&other_attached),
                delete("another"),
                false,
            ),
            ("an own one comes", None, apply(own.clone()), true),
            ("an own one changes", Some(&own), apply(own.clone()), true),
            ("an own one goes", Some(&own), delete(""), true),
            ("one moves here", Some(&other), apply(own.clone()), true),
            ("one moves away", Some(&own), apply(other.clone()), true),
            (
                "one on a network moves away",
                Some(&own_attached),
                apply(other_attached.clone()),
                true,
            ),
            (
                "a namespace comes",
                None,
                Event::Apply(Object::Namespace(Namespace::implied("y"))),
                true,
            ),
            ("a list begins", None, Event::Init, true),
        ];
        for (what, before, event, matters) in rows {
            let events = Events::start(&crate::testing::settings(), Extent::Once, &Metrics::default());
            let mut known = Known::new(&"here".into(), Plugins::new(&[]), events.unwrap());
            known.take(Change::Events(before.cloned().map(apply).into_iter().collect()));
            assert_eq!(known.take(Change::Events(vec![event])), matters, "{what}");
        }
    }
}
