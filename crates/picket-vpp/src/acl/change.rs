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

    /// This, and then another.
    pub fn then(&mut self, later: &Self) {
        for (tag, acl) in &later.removed {
            // One that came and went was never there.
            if self.created.remove(tag).is_none() {
                self.removed.insert(tag.clone(), Arc::clone(acl));
            }
        }
        for (tag, acl) in &later.created {
            if self.removed.remove(tag).is_none() {
                self.created.insert(tag.clone(), Arc::clone(acl));
            }
        }
        let interfaces = later.interfaces.iter();
        self.interfaces
            .extend(interfaces.map(|(name, lists)| (name.clone(), lists.clone())));
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

impl Acls {
    /// Takes in what has changed.
    pub fn advance(&mut self, change: &Change) {
        for tag in change.removed.keys() {
            self.acls.remove(tag);
        }
        let created = change.created.iter();
        self.acls
            .extend(created.map(|(tag, acl)| (tag.clone(), Arc::clone(acl))));
        for (name, lists) in &change.interfaces {
            match lists {
                Some(lists) => drop(self.interfaces.insert(name.clone(), lists.clone())),
                None => drop(self.interfaces.remove(name)),
            }
        }
    }
}

/// The lists of a node, each with how many places have it.
#[derive(Clone, Debug, Default)]
pub(super) struct Register {
    acls: Acls,
    uses: FxHashMap<Tag, usize>,
    change: Change,
    /// The interfaces of the change, of which the last counts that is there twice.
    interfaces: Vec<(SmolStr, Option<InterfaceLists>)>,
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
        match (self.acls.interfaces.get_mut(name), &lists) {
            (None, None) => return,
            (Some(known), Some(lists)) if known == lists => return,
            (Some(known), Some(lists)) => known.clone_from(lists),
            (None, Some(lists)) => drop(self.acls.interfaces.insert(name.clone(), lists.clone())),
            (Some(_), None) => drop(self.acls.interfaces.remove(name)),
        }
        self.interfaces.push((name.clone(), lists));
    }

    /// What has changed since the last time.
    pub(super) fn take(&mut self) -> Change {
        Change {
            interfaces: self.interfaces.drain(..).collect(),
            ..std::mem::take(&mut self.change)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::acl::{AclAction, AclRule, Role};

    /// Some of three interfaces, each with some of two lists.
    fn acls() -> impl Strategy<Value = Acls> {
        let lists = Role::ALL.map(|role| {
            let rule = AclRule::everything(AclAction::Deny, picket_net::Family::Ipv4);
            Acl::new(role, vec![rule])
        });
        prop::collection::vec(prop::option::of(0..4usize), 3).prop_map(move |chosen| {
            let mut acls = Acls::default();
            for (number, chosen) in chosen.into_iter().enumerate() {
                let Some(chosen) = chosen else {
                    continue;
                };
                let tags = lists.iter().take(2).enumerate();
                let tags = tags.filter(|(at, _)| chosen & (1 << at) != 0);
                let input: Vec<_> = tags.map(|(_, acl)| acl.clone()).collect();
                let lists = InterfaceLists {
                    pod: None,
                    input: input.iter().map(|acl| acl.tag.clone()).collect(),
                    output: Vec::new(),
                };
                let each = input.into_iter().map(|acl| (acl.tag.clone(), Arc::new(acl)));
                acls.acls.extend(each);
                acls.interfaces.insert(format!("i{number}").into(), lists);
            }
            acls
        })
    }

    proptest! {
        #[test]
        fn changes_one_after_another_are_one_change(states in prop::collection::vec(acls(), 2..6)) {
            let (first, last) = (&states[0], &states[states.len() - 1]);
            let mut all = Change::default();
            for pair in states.windows(2) {
                all.then(&Change::between(&pair[0], &pair[1]));
            }
            let mut state = first.clone();
            state.advance(&all);
            prop_assert_eq!(&state, last);
            let least = Change::between(first, last);
            prop_assert_eq!((&all.created, &all.removed), (&least.created, &least.removed));
        }
    }
}
