//! What has changed of the rules of a node.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use picket_policy::ObjectRef;

use super::edit::Edit;
use super::model::SessionRule;
use super::plan::{Plan, between, of_edit};

/// What was there, and what is there now. The two are not the same.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The rules before, in the order of addition; `None` where there was no table.
    pub before: Option<Arc<[SessionRule]>>,
    /// The rules now; `None` where there is no table any more.
    pub now: Option<Arc<[SessionRule]>>,
    /// What goes and what comes, where the one was made from the other.
    edit: Option<Edit>,
}

impl Turn {
    /// From the one to the other, if these are not the same.
    pub(super) fn between(
        before: Option<Arc<[SessionRule]>>,
        now: Option<Arc<[SessionRule]>>,
    ) -> Option<Self> {
        (before != now).then_some(Self {
            before,
            now,
            edit: None,
        })
    }

    /// The same where the one was made from the other in this way.
    pub(super) fn of_edit([before, now]: [Option<Arc<[SessionRule]>>; 2], edit: Edit) -> Self {
        Self {
            before,
            now,
            edit: Some(edit),
        }
    }

    /// The operations by which a table that has just the rules of before gets those of now.
    pub fn plan(&self) -> Plan {
        let [before, now] = [&self.before, &self.now].map(|rules| rules.as_deref().unwrap_or_default());
        match &self.edit {
            Some(edit) => of_edit(edit, before),
            None => between(before, now),
        }
    }
}

/// What has changed of the rules of a node. What is named is not what it was.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The tables of pods.
    pub local: BTreeMap<ObjectRef, Turn>,
    /// The rules about addresses of pods in the global table.
    pub global: BTreeMap<IpAddr, Turn>,
}

impl Change {
    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.local.is_empty() && self.global.is_empty()
    }
}
