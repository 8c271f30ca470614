//! What Neutron calls what is wanted.

use std::collections::{BTreeMap, BTreeSet};

use super::installed::{Id, Installed, InstalledRule};
use super::keys::Keys;
use super::{ForeignGroups, Held, Wanted};
use crate::model::{Name, Objects, SecurityGroupRule};

/// The ids of groups, address groups and rules that are wanted and there.
#[derive(Debug)]
pub struct Ids<'a> {
    installed: &'a Installed,
    keys: Keys,
}

impl<'a> Ids<'a> {
    /// Of what there is, those that stand for `objects`, all groups of which have the tag `cluster`.
    pub fn of(installed: &'a Installed, objects: &Objects, cluster: &str) -> Self {
        let wanted = Wanted {
            objects,
            ports: &BTreeMap::new(),
            cluster,
            foreign_groups: ForeignGroups::default(),
            enforced_vnic_types: &BTreeSet::new(),
            nodes: &BTreeSet::new(),
            held: &Held::default(),
        };
        let keys = Keys::of(installed, &wanted);
        Self { installed, keys }
    }

    /// That of a group.
    pub fn group(&self, name: &Name) -> Option<&Id> {
        self.keys.groups.get(name)
    }

    /// That of an address group.
    pub fn address_group(&self, name: &Name) -> Option<&Id> {
        self.keys.address_groups.get(name)
    }

    /// That of a rule of a group, whichever way its fields are written there.
    pub fn rule(&self, group: &Name, rule: &SecurityGroupRule) -> Option<&Id> {
        let rules = &self.installed.security_groups.get(self.group(group)?)?.rules;
        let wanted = InstalledRule::Known(rule.clone());
        let mut all = rules.iter();
        all.find_map(|(id, there)| (self.keys.rule(there) == wanted).then_some(id))
    }
}
