//! What is known of the cluster.

use picket_cluster::{Event, Object, Pod, Store};
use picket_source::Change;
use smol_str::SmolStr;

use super::plugin::Plugins;
use crate::events::Events;
use crate::remarks::Remarks;

/// What is known of the cluster.
pub(super) struct Known {
    node: SmolStr,
    pub(super) store: Store,
    pub(super) plugins: Plugins,
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
            plugins,
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
                    matters |= self.matters(&event);
                    self.store.apply(event);
                }
                matters
            }
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
    use picket_policy::{NetworkName, ObjectRef};
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
