//! What is known of the cluster.

use picket_cluster::{Event, Store};
use picket_source::Change;

use super::plugin::Plugins;
use crate::events::Events;
use crate::remarks::Remarks;

/// What is known of the cluster.
pub(super) struct Known {
    pub(super) store: Store,
    pub(super) plugins: Plugins,
    /// Whether everything was known once.
    pub(super) is_complete: bool,
    pub(super) remarks: Remarks,
}

impl Known {
    /// Nothing yet.
    pub(super) fn new(plugins: Plugins, events: Events) -> Self {
        Self {
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
                for event in events {
                    self.is_complete |= event == Event::InitDone;
                    self.remarks.readings.note(&event);
                    self.store.apply(event);
                }
                true
            }
        }
    }
}
