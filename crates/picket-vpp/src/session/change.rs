//! What has changed of the rules of a node.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use picket_policy::ObjectRef;

use super::edit::Edit;
use super::model::SessionRule;
use super::plan::{Plan, between, of_edit};
use super::tables::Tables;

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

    /// From before this to after another that follows it; `None` where both are the same.
    fn then(&self, later: &Self) -> Option<Self> {
        Self::between(self.before.clone(), later.now.clone())
    }

    /// Whether the one was made from the other, so that what goes and what comes is known, and all else need not be looked at.
    pub fn is_edit(&self) -> bool {
        self.edit.is_some()
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

    /// From one state to another.
    pub fn between(before: &Tables, now: &Tables) -> Self {
        Self {
            local: turns(&before.local, &now.local),
            global: turns(&before.global, &now.global),
        }
    }

    /// This, and then another.
    pub fn then(&mut self, later: &Self) {
        join(&mut self.local, &later.local);
        join(&mut self.global, &later.global);
    }
}

/// From some tables to others.
fn turns<K: Clone + Ord>(
    before: &BTreeMap<K, Arc<[SessionRule]>>,
    now: &BTreeMap<K, Arc<[SessionRule]>>,
) -> BTreeMap<K, Turn> {
    let keys = before.keys().chain(now.keys());
    let turns = keys.filter_map(|key| {
        let turn = Turn::between(before.get(key).cloned(), now.get(key).cloned());
        Some((key.clone(), turn?))
    });
    turns.collect()
}

/// These turns, and then others.
fn join<K: Clone + Ord>(turns: &mut BTreeMap<K, Turn>, later: &BTreeMap<K, Turn>) {
    for (key, turn) in later {
        let whole = match turns.remove(key) {
            Some(before) => before.then(turn),
            None => Some(turn.clone()),
        };
        turns.extend(whole.map(|whole| (key.clone(), whole)));
    }
}
