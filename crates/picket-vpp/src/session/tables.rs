//! The rules of a node, table by table as they were made.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use picket_policy::ObjectRef;

use super::change::{Change, Turn};
use super::model::{SessionRule, SessionRules};
use crate::work::looked_at;

/// The rules of a node by what each is about. What has not changed is the same in memory as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// What each pod may open, in its application namespace; in the order of addition.
    pub local: BTreeMap<ObjectRef, Arc<[SessionRule]>>,
    /// What the global table says about each address of a pod to which not everything may be opened; in the order of addition.
    pub global: BTreeMap<IpAddr, Arc<[SessionRule]>>,
}

impl Tables {
    /// Takes in what has changed.
    pub fn advance(&mut self, change: &Change) {
        follow(&mut self.local, &change.local);
        follow(&mut self.global, &change.global);
    }
}

/// Takes in these turns.
fn follow<K: Clone + Ord>(tables: &mut BTreeMap<K, Arc<[SessionRule]>>, turns: &BTreeMap<K, Turn>) {
    for (key, turn) in turns {
        match &turn.now {
            Some(rules) => drop(tables.insert(key.clone(), Arc::clone(rules))),
            None => drop(tables.remove(key)),
        }
    }
}

impl From<&Tables> for SessionRules {
    fn from(tables: &Tables) -> Self {
        let each = tables.local.values().chain(tables.global.values());
        looked_at(each.map(|rules| rules.len()).sum());
        let local = tables.local.iter();
        Self {
            local: local.map(|(pod, rules)| (pod.clone(), rules.to_vec())).collect(),
            global: tables.global.values().flat_map(|rules| rules.to_vec()).collect(),
        }
    }
}
