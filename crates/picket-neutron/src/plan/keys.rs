//! Which of the groups that there are stand for which that are wanted.

use std::collections::{BTreeMap, BTreeSet};

use smol_str::format_smolstr;

use super::Wanted;
use super::installed::{Id, Installed, InstalledRule};
use super::step::Handle;
use crate::model::{Name, Remote, SecurityGroupRule};

/// One name for each group: that which is wanted, or for any other one its id behind a `#`, which no wanted name has without a
/// slash.
#[derive(Debug, Default)]
pub(super) struct Keys {
    by_id: BTreeMap<Id, Name>,
    addresses_by_id: BTreeMap<Id, Name>,
    /// The groups that are there and wanted, by name.
    pub(super) groups: BTreeMap<Name, Id>,
    /// The address groups that are there and wanted, by name.
    pub(super) address_groups: BTreeMap<Name, Id>,
    /// Groups of ours that nobody wants.
    pub(super) orphans: BTreeSet<Id>,
    /// Address groups of ours that nobody wants.
    pub(super) orphan_addresses: BTreeSet<Id>,
}

impl Keys {
    pub(super) fn of(installed: &Installed, wanted: &Wanted<'_>) -> Self {
        let mut keys = Self::default();
        let named = installed.groups_of(wanted.cluster);
        for (id, group) in &installed.security_groups {
            if !group.belongs_to(wanted.cluster) {
                continue;
            }
            let is_wanted = wanted.objects.security_groups.contains_key(&group.name);
            if is_wanted && named.get(&group.name) == Some(id) {
                keys.groups.insert(group.name.clone(), id.clone());
                keys.by_id.insert(id.clone(), group.name.clone());
            } else {
                keys.orphans.insert(id.clone());
            }
        }
        let prefix = format!("{}/addresses/", wanted.cluster);
        for (id, group) in &installed.address_groups {
            let is_wanted = wanted.objects.address_groups.contains_key(&group.name);
            if is_wanted && !keys.address_groups.contains_key(&group.name) {
                keys.address_groups.insert(group.name.clone(), id.clone());
                keys.addresses_by_id.insert(id.clone(), group.name.clone());
            } else if group.name.starts_with(&prefix) {
                keys.orphan_addresses.insert(id.clone());
            }
        }
        keys
    }

    /// What a group is called here.
    pub(super) fn group(&self, id: &Id) -> Name {
        let known = self.by_id.get(id).cloned();
        known.unwrap_or_else(|| format_smolstr!("#{id}"))
    }

    /// What an address group is called here.
    pub(super) fn address_group(&self, id: &Id) -> Name {
        let known = self.addresses_by_id.get(id).cloned();
        known.unwrap_or_else(|| format_smolstr!("#{id}"))
    }

    /// A rule in which names stand for ids.
    pub(super) fn rule(&self, rule: &InstalledRule) -> InstalledRule {
        let InstalledRule::Known(rule) = rule else {
            return rule.clone();
        };
        InstalledRule::Known(SecurityGroupRule {
            remote: match &rule.remote {
                Remote::Group(id) => Remote::Group(self.group(id)),
                Remote::AddressGroup(id) => Remote::AddressGroup(self.address_group(id)),
                remote => remote.clone(),
            },
            ..rule.clone()
        })
    }

    /// What a step calls a group.
    pub(super) fn handle(&self, name: &Name) -> Handle {
        match (self.groups.get(name), name.strip_prefix('#')) {
            (Some(id), _) => Handle::Installed(id.clone()),
            (None, Some(id)) => Handle::Installed(id.into()),
            (None, None) => Handle::Created(name.clone()),
        }
    }
}
