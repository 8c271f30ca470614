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
