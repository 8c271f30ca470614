//! From changes and their moments to steps.

use std::collections::{BTreeMap, BTreeSet};

use picket_net::Prefix;

use super::Wanted;
use super::installed::{Id, Installed, InstalledRule};
use super::judge::plain;
use super::keys::Keys;
use super::order::{Order, When};
use super::step::{Handle, MOST_RULES, Step};
use super::transition::{Sides, Transition};
use crate::model::{Name, Remote, SecurityGroupRule};

/// When a step is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Groups are made.
    Create,
    /// What those that no port has should not have goes. Where that cannot be done, nothing else is begun.
    Clear,
    /// Those that no port has are filled.
    Fill,
    Phase(When),
    /// Those that no port has any more are as they should be.
    Tidy,
    DeleteGroups,
    DeleteAddressGroups,
}

pub(super) struct Emitter<'t> {
    installed: &'t Installed,
    wanted: &'t Wanted<'t>,
    keys: &'t Keys,
    transition: &'t Transition,
    steps: BTreeMap<Stage, Vec<Step>>,
}

impl<'t> Emitter<'t> {
    pub(super) fn new(
        installed: &'t Installed,
        wanted: &'t Wanted<'t>,
        keys: &'t Keys,
        transition: &'t Transition,
    ) -> Self {
        Self {
            installed,
            wanted,
            keys,
            transition,
            steps: BTreeMap::new(),
        }
    }

    pub(super) fn stages(mut self) -> Vec<Vec<Step>> {
        let mut order = Order::of(self.transition);
        self.groups(&mut order);
        self.address_groups(&mut order);
        self.ports(&mut order);
        self.deletions();
        self.steps.into_values().collect()
    }

    fn add(&mut self, stage: Stage, step: Step) {
        self.steps.entry(stage).or_default().push(step);
    }

    fn groups(&mut self, order: &mut Order<'t>) {
        for (name, group) in &self.wanted.objects.security_groups {
            let (description, tags) = (group.description.clone(), group.tags.clone());
            match self.keys.groups.get(name) {
                None => {
                    let name = name.clone();
                    let step = Step::CreateGroup {
                        name,
                        description,
                        tags,
                    };
                    self.add(Stage::Create, step);
                }
                Some(id) => self.describe(id, description, tags),
            }
            self.rules(name, order);
        }
    }

    fn describe(&mut self, id: &Id, description: String, tags: BTreeSet<smol_str::SmolStr>) {
        let Some(known) = self.installed.security_groups.get(id) else {
            return;
        };
        let group = || id.clone();
        if known.description != description {
            let group = group();
            self.add(Stage::Create, Step::SetDescription { group, description });
        }
        if known.tags != tags {
            let group = group();
            self.add(Stage::Create, Step::SetTags { group, tags });
        }
    }

    fn rules(&mut self, name: &'t Name, order: &mut Order<'t>) {
        let mut ids: BTreeMap<InstalledRule, BTreeSet<Id>> = BTreeMap::new();
        let id = self.keys.groups.get(name);
        let known = id.and_then(|id| self.installed.security_groups.get(id));
        for (id, rule) in known.into_iter().flat_map(|group| &group.rules) {
            ids.entry(self.keys.rule(rule)).or_default().insert(id.clone());
        }
        let wanted = self.wanted.objects.security_groups.get(name);
        let wanted = wanted.into_iter().flat_map(|group| group.rules.iter().cloned());
        let sides = Sides {
            before: ids.keys().cloned().collect(),
            after: wanted.map(InstalledRule::Known).collect(),
        };
        let transition = self.transition;
        let changes = sides.by_time(|rule, comes| match outside(&transition.held, name, comes) {
            Some(stage) => stage,
            None => {
                let rules = transition.groups.get(name);
                let known =
                    rules.and_then(|rules| rules.each().into_iter().find_map(|rules| rules.get(rule)));
                let when = known.map(|rule| order.rule(name, rule, comes));
                when.map_or(Stage::Tidy, Stage::Phase)
            }
        });
        for ((stage, comes), rules) in changes {
            let doomed = rules.iter().filter_map(|rule| ids.get(*rule)).flatten().cloned();
            match (comes, id) {
                (true, _) => self.create_rules(stage, name, rules.iter().filter_map(|rule| plain(rule))),
                (false, Some(id)) => self.delete_rules(stage, id, doomed),
                (false, None) => {}
            }
        }
        let twice = sides.after.iter().filter_map(|rule| ids.get(rule));
        let twice: BTreeSet<_> = twice.flat_map(|ids| ids.iter().skip(1).cloned()).collect();
        if let Some(id) = id {
            self.delete_rules(Stage::Tidy, id, twice);
        }
    }

    fn create_rules<'r>(
        &mut self,
        stage: Stage,
        name: &Name,
        rules: impl IntoIterator<Item = &'r SecurityGroupRule>,
    ) {
        let rules: Vec<_> = rules.into_iter().cloned().collect();
        for some in rules.chunks(MOST_RULES) {
            let group = self.keys.handle(name);
            let rules = some.iter().cloned().collect();
            self.add(stage, Step::CreateRules { group, rules });
        }
    }

    fn delete_rules(&mut self, stage: Stage, group: &Id, rules: impl IntoIterator<Item = Id>) {
        let rules: Vec<_> = rules.into_iter().collect();
        for some in rules.chunks(MOST_RULES) {
            let (group, rules) = (group.clone(), some.iter().cloned().collect());
            self.add(stage, Step::DeleteRules { group, rules });
        }
    }

    fn address_groups(&mut self, order: &mut Order<'t>) {
        for (name, wanted) in &self.wanted.objects.address_groups {
            let addresses = wanted.addresses.clone();
            let Some(id) = self.keys.address_groups.get(name) else {
                let name = name.clone();
                self.add(Stage::Create, Step::CreateAddressGroup { name, addresses });
                continue;
            };
            let known = self.installed.address_groups.get(id);
            let sides = Sides {
                before: known.map(|group| group.addresses.clone()).unwrap_or_default(),
                after: addresses,
            };
            self.addresses((name, id), &sides, order);
        }
    }

    fn addresses(
        &mut self,
        (name, id): (&'t Name, &Id),
        sides: &Sides<BTreeSet<Prefix>>,
        order: &mut Order<'t>,
    ) {
        let come: BTreeSet<_> = sides.added().copied().collect();
        let go: BTreeSet<_> = sides.removed().copied().collect();
        for (prefixes, comes) in [(come, true), (go, false)] {
            if prefixes.is_empty() {
                continue;
            }
            let stage = outside(&self.transition.meant, name, comes);
            let stage = stage.unwrap_or_else(|| Stage::Phase(order.addresses(name, &prefixes, comes)));
            let (group, addresses) = (id.clone(), prefixes);
            let step = match comes {
                true => Step::AddAddresses { group, addresses },
                false => Step::RemoveAddresses { group, addresses },
            };
            self.add(stage, step);
        }
    }

    fn ports(&mut self, order: &mut Order<'t>) {
        for (at, class) in self.transition.classes.iter().enumerate() {
            let calls = order.calls(at, class);
            for (number, (when, groups)) in calls.into_iter().enumerate() {
                let groups: BTreeSet<Handle> = groups.iter().map(|name| self.keys.handle(name)).collect();
                for port in &class.ports {
                    let known = self.installed.ports.get(port).filter(|_| number == 0);
                    let step = Step::UpdatePort {
                        port: port.clone(),
                        groups: groups.clone(),
                        revision: known.map(|port| port.revision),
                    };
                    self.add(Stage::Phase(when), step);
                }
            }
        }
        for steps in self.steps.values_mut() {
            steps.sort();
        }
    }

    fn deletions(&mut self) {
        let is_held = |id: &&Id| self.transition.held.after.contains(&self.keys.group(id));
        let (kept, doomed): (BTreeSet<&Id>, BTreeSet<&Id>) = self.keys.orphans.iter().partition(is_held);
        let groups = self.installed.security_groups.iter();
        // What is about an address group in a group of others is not ours to delete.
        let others = groups.filter(|(id, _)| {
            let wanted = &self.wanted.objects.security_groups;
            kept.contains(id) || !doomed.contains(id) && !wanted.contains_key(&self.keys.group(id))
        });
        let rules = others.flat_map(|(_, group)| group.rules.values().filter_map(plain));
        let meant: BTreeSet<_> = rules.map(|rule| &rule.remote).collect();
        let addresses = self.keys.orphan_addresses.iter();
        let addresses: Vec<_> = addresses
            .filter(|id| !meant.contains(&Remote::AddressGroup((*id).clone())))
            .map(|id| Step::DeleteAddressGroup(id.clone()))
            .collect();
        for id in doomed {
            self.add(Stage::DeleteGroups, Step::DeleteGroup(id.clone()));
        }
        for step in addresses {
            self.add(Stage::DeleteAddressGroups, step);
        }
    }
}

/// Where the rules of a group, or the addresses of an address group, come or go if what uses them does so on one side only.
fn outside(used: &Sides<BTreeSet<Name>>, name: &Name, comes: bool) -> Option<Stage> {
    match (used.before.contains(name), used.after.contains(name)) {
        (false, _) if comes => Some(Stage::Fill),
        (false, _) => Some(Stage::Clear),
        (true, false) => Some(Stage::Tidy),
        (true, true) => None,
    }
}
