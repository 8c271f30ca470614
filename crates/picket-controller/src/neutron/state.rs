//! What Neutron has, kept as it is after each step.

use std::collections::BTreeMap;

use picket_neutron::Name;
use picket_neutron::client::{AddressGroup, Port, Quota, Rule, SecurityGroup};
use picket_neutron::plan::{Id, Installed, InstalledAddressGroup, InstalledGroup, InstalledPort, Step};
use smol_str::SmolStr;

use super::step::NeutronStep;

/// What Neutron has.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) cluster: SmolStr,
    pub(super) installed: Installed,
    /// The ports as they were read last.
    pub(super) ports: BTreeMap<Id, Port>,
    /// The groups of ours by name.
    pub(super) groups: BTreeMap<Name, Id>,
    /// The address groups that steps created.
    pub(super) created: BTreeMap<Name, Id>,
    /// Whether there are address groups at all.
    pub(super) has_address_groups: bool,
    /// What is not seen for want of extensions, for people.
    pub(super) unseen: Vec<String>,
    /// What the project may have, where Neutron says it.
    pub(super) quotas: BTreeMap<SmolStr, Quota>,
    /// How many groups and rules of ours there were when that was read.
    pub(super) counted: (usize, usize),
}

/// What Neutron says of a step that it has done.
#[derive(Clone, Debug)]
pub enum Done {
    /// The group that was made or described.
    Group(SecurityGroup),
    /// The address group as it is now.
    AddressGroup(AddressGroup),
    /// Rules that were added to a group.
    Rules(Id, Vec<Rule>),
    /// The port as it is now.
    Port(Box<Port>),
    /// Nothing.
    Nothing,
}

impl State {
    pub(super) fn add_group(&mut self, group: SecurityGroup) {
        let rules = group.rules.into_iter().map(|rule| (rule.id, rule.rule));
        let installed = InstalledGroup {
            name: group.name,
            description: group.description,
            tags: group.tags,
            revision: revision(group.revision_number),
            stateful: group.stateful,
            rules: rules.collect(),
        };
        self.installed.security_groups.insert(group.id, installed);
    }

    pub(super) fn add_address_group(&mut self, group: AddressGroup) {
        let installed = InstalledAddressGroup {
            name: group.name,
            addresses: group.addresses,
        };
        self.installed.address_groups.insert(group.id, installed);
    }

    pub(super) fn add_port(&mut self, port: Port) {
        let installed = InstalledPort {
            fixed_ips: port.fixed_ips.clone(),
            allowed_address_pairs: port.allowed_address_pairs.clone(),
            security_groups: port.security_groups.clone(),
            revision: revision(port.revision_number),
            device_owner: port.device_owner.clone(),
            port_security_enabled: port.port_security_enabled,
            vnic_type: port.vnic_type.clone(),
            tags: port.tags.clone(),
        };
        self.installed.ports.insert(port.id.clone(), installed);
        self.ports.insert(port.id.clone(), port);
    }

    /// Works out again which groups of ours there are.
    pub(super) fn name_groups(&mut self) {
        self.groups = self.installed.groups_of(&self.cluster);
    }

    /// Counts the groups of ours, and their rules.
    pub(super) fn count(&mut self) {
        let ours = self.groups.values();
        let ours = ours.filter_map(|id| self.installed.security_groups.get(id));
        let rules = ours.map(|group| group.rules.len());
        self.counted = (self.groups.len(), rules.sum());
    }

    /// Notes a step that was done.
    pub(super) fn note(&mut self, step: &NeutronStep, done: Done) {
        match done {
            Done::Group(group) => {
                self.add_group(group);
                self.name_groups();
            }
            Done::AddressGroup(group) => {
                self.created.insert(group.name.clone(), group.id.clone());
                self.add_address_group(group);
            }
            Done::Rules(group, rules) => {
                if let Some(group) = self.installed.security_groups.get_mut(&group) {
                    group
                        .rules
                        .extend(rules.into_iter().map(|rule| (rule.id, rule.rule)));
                }
            }
            Done::Port(port) => self.add_port(*port),
            Done::Nothing => self.note_quietly(&step.step),
        }
    }

    fn note_quietly(&mut self, step: &Step) {
        match step {
            Step::SetTags { group, tags } => {
                if let Some(group) = self.installed.security_groups.get_mut(group) {
                    group.tags.clone_from(tags);
                }
            }
            Step::DeleteRules { group, rules } => {
                if let Some(group) = self.installed.security_groups.get_mut(group) {
                    group.rules.retain(|id, _| !rules.contains(id));
                }
            }
            Step::DeleteGroup(id) => {
                self.installed.security_groups.remove(id);
                // Neutron deletes the rules about it too.
                for group in self.installed.security_groups.values_mut() {
                    group.rules.retain(|_, rule| !is_about(rule, id));
                }
                self.name_groups();
            }
            Step::DeleteAddressGroup(id) => {
                self.installed.address_groups.remove(id);
                self.created.retain(|_, created| created != id);
            }
            _ => {}
        }
    }
}

fn is_about(rule: &picket_neutron::plan::InstalledRule, group: &Id) -> bool {
    let remote = rule.known().map(|rule| &rule.remote);
    remote == Some(&picket_neutron::Remote::Group(group.clone()))
}

/// Neutron without `standard-attr-revisions` does not count.
fn revision(number: Option<i64>) -> u64 {
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}
