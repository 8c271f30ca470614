//! The lists of a node while they change, and what of them has.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::model::{Acl, Acls, InterfaceLists, Tag};

/// What has changed of the lists of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Lists that were not there before.
    pub created: BTreeMap<Tag, Arc<Acl>>,
    /// Lists that are not there any more.
    pub removed: BTreeMap<Tag, Arc<Acl>>,
    /// Interfaces that have other lists now, by name; with `None` those that are gone.
    pub interfaces: BTreeMap<SmolStr, Option<InterfaceLists>>,
}

impl Change {
    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// From one state to another.
    pub fn between(before: &Acls, now: &Acls) -> Self {
        let without = |one: &Acls, other: &Acls| {
            let gone = one.acls.iter().filter(|(tag, _)| !other.acls.contains_key(*tag));
            gone.map(|(tag, acl)| (tag.clone(), Arc::clone(acl))).collect()
        };
        let names = before.interfaces.keys().chain(now.interfaces.keys());
        let changed = names.filter(|name| before.interfaces.get(*name) != now.interfaces.get(*name));
        let interfaces = changed.map(|name| (name.clone(), now.interfaces.get(name).cloned()));
        Self {
            created: without(now, before),
            removed: without(before, now),
            interfaces: interfaces.collect(),
        }
    }
}

/// The lists of a node, each with how many places have it.
#[derive(Clone, Debug, Default)]
pub(super) struct Register {
    acls: Acls,
    uses: FxHashMap<Tag, usize>,
    change: Change,
}

impl Register {
    /// The lists.
    pub(super) fn acls(&self) -> &Acls {
        &self.acls
    }

    /// The same, for good.
    pub(super) fn into_acls(self) -> Acls {
        self.acls
    }

    /// One more place has a list, and one less another.
    pub(super) fn replace(&mut self, before: Option<&Arc<Acl>>, now: Option<&Arc<Acl>>) {
        if before.map(|acl| &acl.tag) == now.map(|acl| &acl.tag) {
            return;
        }
        if let Some(acl) = now {
            let uses = self.uses.entry(acl.tag.clone()).or_default();
            *uses += 1;
            if *uses == 1 {
                // One that had just gone never went.
                let back = self.change.removed.remove(&acl.tag);
                if back.is_none() {
                    self.change.created.insert(acl.tag.clone(), Arc::clone(acl));
                }
                let acl = back.unwrap_or_else(|| Arc::clone(acl));
                self.acls.acls.insert(acl.tag.clone(), acl);
            }
        }
        if let Some(acl) = before
            && let Some(uses) = self.uses.get_mut(&acl.tag)
        {
            *uses = uses.saturating_sub(1);
            if *uses == 0 {
                self.uses.remove(&acl.tag);
                let gone = self.acls.acls.remove(&acl.tag);
                if self.change.created.remove(&acl.tag).is_none() {
                    self.change
                        .removed
                        .extend(gone.map(|gone| (acl.tag.clone(), gone)));
                }
            }
        }
    }

    /// An interface has these lists now, or with `None` it is gone.
    pub(super) fn set(&mut self, name: &SmolStr, lists: Option<InterfaceLists>) {
        if self.acls.interfaces.get(name) == lists.as_ref() {
            return;
        }
        match &lists {
            Some(lists) => drop(self.acls.interfaces.insert(name.clone(), lists.clone())),
            None => drop(self.acls.interfaces.remove(name)),
        }
        self.change.interfaces.insert(name.clone(), lists);
    }

    /// What has changed since the last time.
    pub(super) fn take(&mut self) -> Change {
        std::mem::take(&mut self.change)
    }
}
