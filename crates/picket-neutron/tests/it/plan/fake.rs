//! A Neutron that carries out steps, and refuses what Neutron refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_neutron::plan::{
    ForeignGroups, Handle, Held, Id, Installed, InstalledAddressGroup, InstalledGroup, InstalledPort,
    InstalledRule, Plan, Step, Wanted, plan,
};
use picket_neutron::{AddressGroup, Objects, Port, Remote, SecurityGroup, SecurityGroupRule};
use picket_policy::ObjectRef;
use smol_str::{SmolStr, format_smolstr};

#[derive(Clone, Debug, Default)]
pub(crate) struct Fake {
    pub(crate) installed: Installed,
    /// What rules that picket never writes mean, by id.
    pub(crate) hidden: BTreeMap<Id, SecurityGroupRule>,
    /// The addresses of nodes.
    pub(crate) nodes: BTreeSet<IpAddr>,
    /// The ids of the groups that the steps of a plan created, by name.
    created: BTreeMap<SmolStr, Id>,
    next: u32,
}

/// The port of a pod: one for each, called as the pod is.
pub(crate) fn port_of(pod: &ObjectRef) -> Id {
    format_smolstr!("{}.{}.{}", pod.kind, pod.namespace, pod.name)
}

impl Fake {
    pub(crate) fn id(&mut self, of: &str) -> Id {
        self.next += 1;
        format_smolstr!("{of}-{}", self.next)
    }

    /// A port as clouds make it: with these groups.
    pub(crate) fn add_port(&mut self, id: &Id, fixed_ips: BTreeSet<IpAddr>, groups: &[Id]) {
        let port = InstalledPort {
            fixed_ips,
            allowed_address_pairs: BTreeSet::new(),
            security_groups: groups.iter().cloned().collect(),
            revision: 1,
            device_owner: "compute:nova".into(),
            port_security_enabled: true,
            vnic_type: "normal".into(),
            tags: BTreeSet::new(),
        };
        self.installed.ports.insert(id.clone(), port);
    }

    pub(crate) fn add_group(&mut self, name: &str, tags: &[&str]) -> Id {
        let id = self.id("group");
        let group = InstalledGroup {
            name: name.into(),
            description: String::new(),
            tags: tags.iter().map(|tag| (*tag).into()).collect(),
            revision: 1,
            stateful: true,
            rules: BTreeMap::new(),
        };
        self.installed.security_groups.insert(id.clone(), group);
        id
    }

    /// Adds a rule in which names are ids.
    pub(crate) fn add_rule(&mut self, group: &Id, rule: SecurityGroupRule) -> Id {
        let id = self.id("rule");
        let group = self.group(group);
        group.rules.insert(id.clone(), InstalledRule::Known(rule));
        id
    }

    /// Adds a rule that picket never writes, and that means `rule`.
    pub(crate) fn add_strange(&mut self, group: &Id, rule: SecurityGroupRule) {
        let id = self.id("rule");
        let strange = InstalledRule::Other(Some(rule.direction));
        self.group(group).rules.insert(id.clone(), strange);
        self.hidden.insert(id, rule);
    }

    pub(crate) fn group(&mut self, id: &Id) -> &mut InstalledGroup {
        let group = self.installed.security_groups.get_mut(id);
        group.unwrap_or_else(|| panic!("no group {id}"))
    }

    /// Deletes a group as somebody with all rights can: with the rules about it, and from ports.
    pub(crate) fn lose_group(&mut self, id: &Id) {
        for port in self.installed.ports.values_mut() {
            port.security_groups.remove(id);
        }
        self.delete_group(id);
    }

    fn delete_group(&mut self, id: &Id) {
        let mut ports = self.installed.ports.values();
        assert!(
            !ports.any(|port| port.security_groups.contains(id)),
            "{id} is in use"
        );
        assert!(
            self.installed.security_groups.remove(id).is_some(),
            "no group {id}"
        );
        let is_about = |rule: &SecurityGroupRule| rule.remote == Remote::Group(id.clone());
        for group in self.installed.security_groups.values_mut() {
            let hidden = &self.hidden;
            group.rules.retain(|rule_id, rule| match rule {
                InstalledRule::Known(rule) => !is_about(rule),
                InstalledRule::Other(_) => !hidden.get(rule_id).is_some_and(is_about),
            });
        }
    }

    /// Looks at what there is, and plans.
    pub(crate) fn plan(&mut self, objects: &Objects, foreign_groups: ForeignGroups) -> Plan {
        self.plan_without(objects, foreign_groups, &Held::default())
    }

    /// The same where some things cannot be changed.
    pub(crate) fn plan_without(
        &mut self,
        objects: &Objects,
        foreign_groups: ForeignGroups,
        held: &Held,
    ) -> Plan {
        let ports = objects
            .ports
            .keys()
            .map(|pod| (pod.clone(), [port_of(pod)].into()));
        self.created.clear();
        let wanted = Wanted {
            objects,
            ports: &ports.collect(),
            cluster: "picket",
            foreign_groups,
            enforced_vnic_types: &["normal".into()].into(),
            nodes: &self.nodes,
            held,
        };
        plan(&self.installed, &wanted)
    }

    /// Carries out all of a plan.
    pub(crate) fn carry_out_all(&mut self, plan: &Plan) {
        for step in plan.steps() {
            self.carry_out(plan, step);
        }
    }

    fn resolve(&self, handle: &Handle) -> Id {
        match handle {
            Handle::Installed(id) => id.clone(),
            Handle::Created(name) => self.created[name].clone(),
        }
    }

    fn with_ids(&self, plan: &Plan, rule: &SecurityGroupRule) -> SecurityGroupRule {
        let id = |ids: &BTreeMap<SmolStr, Id>, name: &SmolStr| {
            let known = ids.get(name).or_else(|| self.created.get(name));
            known.unwrap_or_else(|| panic!("no group {name}")).clone()
        };
        let remote = match &rule.remote {
            Remote::Group(name) => Remote::Group(id(&plan.groups, name)),
            Remote::AddressGroup(name) => Remote::AddressGroup(id(&plan.address_groups, name)),
            remote => remote.clone(),
        };
        SecurityGroupRule {
            remote,
            ..rule.clone()
        }
    }

    pub(crate) fn carry_out(&mut self, plan: &Plan, step: &Step) {
        match step {
            Step::CreateGroup {
                name,
                description,
                tags,
            } => {
                let id = self.add_group(name, &[]);
                let group = self.group(&id);
                (group.description, group.tags) = (description.clone(), tags.clone());
                assert!(self.created.insert(name.clone(), id).is_none(), "{name}");
            }
            Step::CreateAddressGroup { name, addresses } => {
                let id = self.id("addresses");
                let group = InstalledAddressGroup {
                    name: name.clone(),
                    addresses: addresses.clone(),
                };
                self.installed.address_groups.insert(id.clone(), group);
                assert!(self.created.insert(name.clone(), id).is_none(), "{name}");
            }
            Step::SetDescription { group, description } => {
                self.group(group).description.clone_from(description);
            }
            Step::SetTags { group, tags } => self.group(group).tags.clone_from(tags),
            Step::CreateRules { group, rules } => {
                assert!(rules.len() <= 100 && !rules.is_empty());
                let id = self.resolve(group);
                for rule in rules {
                    let rule = self.with_ids(plan, rule);
                    let known = InstalledRule::Known(rule.clone());
                    let mut others = self.group(&id).rules.values();
                    assert!(!others.any(|other| *other == known), "{rule:?} is there");
                    self.add_rule(&id, rule);
                }
            }
            Step::DeleteRules { group, rules } => {
                for rule in rules {
                    let known = self.group(group).rules.remove(rule);
                    assert!(known.is_some(), "no rule {rule}");
                }
            }
            Step::AddAddresses { group, addresses } => {
                let known = self.installed.address_groups.get_mut(group);
                known.expect("an address group").addresses.extend(addresses);
            }
            Step::RemoveAddresses { group, addresses } => {
                let known = self.installed.address_groups.get_mut(group);
                let known = known.expect("an address group");
                known.addresses.retain(|address| !addresses.contains(address));
            }
            Step::UpdatePort {
                port,
                groups,
                revision,
            } => {
                let groups: BTreeSet<_> = groups.iter().map(|group| self.resolve(group)).collect();
                for group in &groups {
                    assert!(
                        self.installed.security_groups.contains_key(group),
                        "no group {group}"
                    );
                }
                let port = self.installed.ports.get_mut(port).expect("a port");
                assert!(port.port_security_enabled, "no groups without port security");
                assert!(revision.is_none_or(|revision| revision == port.revision));
                assert_ne!(port.security_groups, groups, "nothing changes");
                (port.security_groups, port.revision) = (groups, port.revision + 1);
            }
            Step::DeleteGroup(id) => self.delete_group(id),
            Step::DeleteAddressGroup(id) => {
                let groups = self.installed.security_groups.values();
                let is_about = |rule: &InstalledRule| match rule {
                    InstalledRule::Known(rule) => rule.remote == Remote::AddressGroup(id.clone()),
                    InstalledRule::Other(_) => false,
                };
                let mut rules = groups.flat_map(|group| group.rules.values());
                assert!(!rules.any(is_about), "{id} is in use");
                assert!(self.installed.address_groups.remove(id).is_some(), "{id}");
            }
        }
    }

    /// What there is, with ids in the place of names, and ports in that of pods.
    pub(crate) fn objects(&self) -> Objects {
        let mut objects = Objects::default();
        for (id, group) in &self.installed.security_groups {
            let rules = group.rules.iter().filter_map(|(id, rule)| match rule {
                InstalledRule::Known(rule) => Some(rule),
                InstalledRule::Other(_) => self.hidden.get(id),
            });
            let group = SecurityGroup {
                rules: rules.cloned().collect(),
                ..SecurityGroup::default()
            };
            objects.security_groups.insert(id.clone(), group);
        }
        for (id, group) in &self.installed.address_groups {
            let addresses = group.addresses.clone();
            objects
                .address_groups
                .insert(id.clone(), AddressGroup { addresses });
        }
        for (id, port) in &self.installed.ports {
            let of = Port {
                fixed_ips: port.fixed_ips.clone(),
                security_groups: port.security_groups.clone(),
            };
            objects.ports.insert(ObjectRef::new("Port", "", id), of);
        }
        objects
    }

    /// What picket keeps there, by name, on ports of pods.
    pub(crate) fn kept(&self, pods: impl IntoIterator<Item = ObjectRef>) -> Objects {
        let name = |id: &Id| self.installed.security_groups[id].name.clone();
        let mut objects = Objects::default();
        for group in self.installed.security_groups.values() {
            if !group.tags.contains("picket") {
                continue;
            }
            let rules = group.rules.values().map(|rule| match rule {
                InstalledRule::Known(rule) => SecurityGroupRule {
                    remote: match &rule.remote {
                        Remote::Group(id) => Remote::Group(name(id)),
                        Remote::AddressGroup(id) => {
                            Remote::AddressGroup(self.installed.address_groups[id].name.clone())
                        }
                        remote => remote.clone(),
                    },
                    ..rule.clone()
                },
                InstalledRule::Other(_) => panic!("a strange rule in a group of ours"),
            });
            let kept = SecurityGroup {
                description: group.description.clone(),
                tags: group.tags.clone(),
                rules: rules.collect(),
            };
            let before = objects.security_groups.insert(group.name.clone(), kept);
            assert!(before.is_none(), "two groups {}", group.name);
        }
        for group in self.installed.address_groups.values() {
            let addresses = group.addresses.clone();
            let before = objects
                .address_groups
                .insert(group.name.clone(), AddressGroup { addresses });
            assert!(before.is_none(), "two address groups {}", group.name);
        }
        for pod in pods {
            let port = &self.installed.ports[&port_of(&pod)];
            let of = Port {
                fixed_ips: port.fixed_ips.clone(),
                security_groups: port.security_groups.iter().map(name).collect(),
            };
            objects.ports.insert(pod, of);
        }
        objects
    }
}
