//! What has changed of the rules of a node.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use picket_policy::ObjectRef;

use super::model::SessionRule;

/// Rules in the order of addition, before and now; `None` where there was no table, or is none any more.
pub type Turn = [Option<Arc<[SessionRule]>>; 2];

/// What has changed of the rules of a node. What is named is not what it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
