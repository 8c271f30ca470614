//! Pods in which not all is in force, and since when. What lasts is told as an Event.

use std::collections::BTreeMap;

use jiff::Timestamp;
use picket_linux::runtime::{Sandbox, SandboxId};
use picket_policy::ObjectRef;

use super::status::SandboxStatus;
use crate::events::{Events, Reason};

/// What is wrong in sandboxes.
pub(super) struct Troubles {
    events: Events,
    lasting: BTreeMap<SandboxId, Trouble>,
}

struct Trouble {
    since: Timestamp,
    /// What there is an Event about.
    told: Option<String>,
}

impl Troubles {
    /// Nothing yet.
    pub(super) fn new(events: Events) -> Self {
        Self {
            events,
            lasting: BTreeMap::new(),
        }
    }

    /// This is how it goes in all sandboxes of which there is something to say.
    pub(super) fn now<'s>(&mut self, sandboxes: impl Iterator<Item = (&'s Sandbox, &'s SandboxStatus)>) {
        let mut before = std::mem::take(&mut self.lasting);
        for (sandbox, status) in sandboxes {
            let Some(why) = &status.trouble else {
                continue;
            };
            let mut trouble = before.remove(&sandbox.id).unwrap_or_else(|| Trouble {
                since: Timestamp::now(),
                told: None,
            });
            if trouble.told.as_ref() != Some(why) && Events::matters(trouble.since) {
                self.events.tell(&pod(sandbox), Reason::NotInForce, why);
                trouble.told = Some(why.clone());
            }
            self.lasting.insert(sandbox.id.clone(), trouble);
        }
    }
}

/// The pod of a sandbox. A static pod has the uid by which `kubectl describe` looks for its Events.
fn pod(sandbox: &Sandbox) -> ObjectRef {
    ObjectRef {
        uid: sandbox.pod_uid.as_str().into(),
        ..ObjectRef::new("Pod", &sandbox.namespace, &sandbox.name)
    }
}
