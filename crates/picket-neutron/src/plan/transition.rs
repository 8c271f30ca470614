//! What there is and what there is to be, as two sides of one thing.

use std::collections::{BTreeMap, BTreeSet};

use picket_net::{AddressSet, Prefix};
use picket_policy::ObjectRef;

use super::installed::{Id, Installed, InstalledPort, InstalledRule};
use super::keys::Keys;
use super::lending::Lending;
use super::step::Finding;
use super::stuck::Waiting;
use super::{ForeignGroups, Wanted};
use crate::model::{Name, Remote};

/// When.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Before,
    After,
}

impl Side {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Before => Self::After,
            Self::After => Self::Before,
        }
    }
}

/// The same before and after.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sides<T> {
    pub(super) before: T,
    pub(super) after: T,
}

impl<T> Sides<T> {
    pub(super) fn of(&self, side: Side) -> &T {
        match side {
            Side::Before => &self.before,
            Side::After => &self.after,
        }
    }

    /// Both.
    pub(super) fn each(&self) -> [&T; 2] {
        [&self.before, &self.after]
    }
}

impl<T: Ord> Sides<BTreeSet<T>> {
    pub(super) fn added(&self) -> impl Iterator<Item = &T> {
        self.after.difference(&self.before)
    }

    pub(super) fn removed(&self) -> impl Iterator<Item = &T> {
        self.before.difference(&self.after)
    }

    pub(super) fn either(&self) -> impl Iterator<Item = &T> {
        self.before.union(&self.after)
    }

    /// What comes (`true`) and what goes, by when it does.
    pub(super) fn by_time<W: Ord>(
        &self,
        mut when: impl FnMut(&T, bool) -> W,
    ) -> BTreeMap<(W, bool), BTreeSet<&T>> {
        let mut found: BTreeMap<_, BTreeSet<&T>> = BTreeMap::new();
        let come = self.added().map(|one| (one, true));
        let go = self.removed().map(|one| (one, false));
        for (one, comes) in come.chain(go) {
            let key = (when(one, comes), comes);
            found.entry(key).or_default().insert(one);
        }
        found
    }
}

/// Ports that have the same groups before, and the same after.
#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    pub(super) groups: Sides<BTreeSet<Name>>,
    pub(super) ports: Vec<Id>,
    pub(super) addresses: AddressSet,
}

/// Both sides of everything.
///
/// Rules of a group that no port has yet, and of one that none has any more, count for nothing: they are the same on both
/// sides here, and so are the addresses of an address group that no rule of a group in use is about on one side.
#[derive(Debug, Default)]
pub(super) struct Transition {
    pub(super) groups: BTreeMap<Name, Sides<BTreeSet<InstalledRule>>>,
    pub(super) addresses: BTreeMap<Name, Sides<BTreeSet<Prefix>>>,
    pub(super) classes: Vec<Class>,
    /// The groups that a port has.
    pub(super) held: Sides<BTreeSet<Name>>,
    /// The address groups that rules of those are about.
    pub(super) meant: Sides<BTreeSet<Name>>,
    pub(super) findings: Vec<Finding>,
}

impl Transition {
    pub(super) fn of(installed: &Installed, wanted: &Wanted<'_>, keys: &Keys, waiting: &Waiting) -> Self {
        let mut transition = Self::filled(installed, wanted, keys, waiting);
        transition.settle();
        transition
    }

    /// The same, where also what counts for nothing is on either side as it is there.
    pub(super) fn unsettled(installed: &Installed, wanted: &Wanted<'_>, keys: &Keys) -> Self {
        Self::filled(installed, wanted, keys, &Waiting::default())
    }

    fn filled(installed: &Installed, wanted: &Wanted<'_>, keys: &Keys, waiting: &Waiting) -> Self {
        let mut transition = Self::default();
        transition.fill_groups(installed, wanted, keys);
        transition.fill_classes(installed, wanted, keys, waiting);
        transition
    }

    fn fill_groups(&mut self, installed: &Installed, wanted: &Wanted<'_>, keys: &Keys) {
        for (id, group) in &installed.security_groups {
            let rules: BTreeSet<_> = group.rules.values().map(|rule| keys.rule(rule)).collect();
            let sides = Sides {
                before: rules.clone(),
                after: rules,
            };
            self.groups.insert(keys.group(id), sides);
        }
        for (name, group) in &wanted.objects.security_groups {
            let rules = group.rules.iter().cloned().map(InstalledRule::Known);
            self.groups.entry(name.clone()).or_default().after = rules.collect();
        }
        for (id, group) in &installed.address_groups {
            let sides = Sides {
                before: group.addresses.clone(),
                after: group.addresses.clone(),
            };
            self.addresses.insert(keys.address_group(id), sides);
        }
        for (name, group) in &wanted.objects.address_groups {
            self.addresses.entry(name.clone()).or_default().after = group.addresses.clone();
        }
    }

    fn fill_classes(&mut self, installed: &Installed, wanted: &Wanted<'_>, keys: &Keys, waiting: &Waiting) {
        let mut owners: BTreeMap<&Id, &ObjectRef> = BTreeMap::new();
        for pod in wanted.objects.ports.keys() {
            let ports = wanted.ports.get(pod).into_iter().flatten();
            let known: Vec<_> = ports.filter(|id| installed.ports.contains_key(*id)).collect();
            if known.is_empty() {
                self.findings.push(Finding::Pending { pod: pod.clone() });
            }
            for port in known {
                owners.entry(port).or_insert(pod);
            }
        }
        let lending = Lending::of(installed, wanted, &owners);
        let mut classes: BTreeMap<Sides<BTreeSet<Name>>, Class> = BTreeMap::new();
        for (id, port) in &installed.ports {
            let mut groups = self.groups_of((id, port), owners.get(id).copied(), keys, &lending, wanted);
            if let Some(instead) = waiting.ports.get(id) {
                groups.after.clone_from(instead);
            }
            let class = classes.entry(groups.clone()).or_default();
            class.groups = groups;
            class.ports.push(id.clone());
            class.addresses = class.addresses.union(&addresses_of(port));
        }
        self.classes = classes.into_values().collect();
    }

    fn groups_of(
        &mut self,
        (id, port): (&Id, &InstalledPort),
        pod: Option<&ObjectRef>,
        keys: &Keys,
        lending: &Lending<'_>,
        wanted: &Wanted<'_>,
    ) -> Sides<BTreeSet<Name>> {
        let before: BTreeSet<_> = port.security_groups.iter().map(|id| keys.group(id)).collect();
        let is_foreign = |id: &&Id| !keys.orphans.contains(*id) && !keys.groups.contains_key(&keys.group(id));
        let foreign: BTreeSet<Id> = port.security_groups.iter().filter(is_foreign).cloned().collect();
        let kept = || foreign.iter().map(|id| keys.group(id));
        for id in &foreign {
            // What cannot be read may allow anything.
            let unknown = || Sides {
                before: [InstalledRule::Other(None)].into(),
                after: [InstalledRule::Other(None)].into(),
            };
            self.groups.entry(keys.group(id)).or_insert_with(unknown);
        }
        let after = match pod {
            _ if !port.port_security_enabled || wanted.held.ports.contains(id) => before.clone(),
            None => kept().collect(),
            Some(pod) => {
                let known = |name: &&Name| wanted.objects.security_groups.contains_key(*name);
                let groups = wanted.objects.ports.get(pod).map(|port| &port.security_groups);
                let mut after: BTreeSet<_> = groups.into_iter().flatten().filter(known).cloned().collect();
                let addresses = lending.take_from(&mut after, pod, port);
                if !addresses.is_empty() {
                    let (pod, port) = (pod.clone(), id.clone());
                    let found = Finding::SharedAddresses { pod, port, addresses };
                    self.findings.push(found);
                }
                if wanted.foreign_groups == ForeignGroups::Refuse {
                    after.extend(kept());
                }
                after
            }
        };
        if let Some(pod) = pod {
            self.look_at((id, port), pod, (wanted, lending), foreign);
        }
        Sides { before, after }
    }

    fn look_at(
        &mut self,
        (id, of): (&Id, &InstalledPort),
        pod: &ObjectRef,
        (wanted, lending): (&Wanted<'_>, &Lending<'_>),
        groups: BTreeSet<Id>,
    ) {
        let pairs: BTreeSet<_> = lending.strangers(of, pod).copied().collect();
        let (pod, port) = (pod.clone(), id.clone());
        if !of.port_security_enabled {
            self.findings.push(Finding::PortSecurityOff { pod, port });
            return;
        }
        if !pairs.is_empty() {
            let (pod, port) = (pod.clone(), port.clone());
            self.findings.push(Finding::AddressPairs { pod, port, pairs });
        }
        if !wanted.enforced_vnic_types.contains(&of.vnic_type) {
            let (pod, port, vnic_type) = (pod.clone(), port.clone(), of.vnic_type.clone());
            self.findings.push(Finding::VnicType { pod, port, vnic_type });
        }
        if wanted.foreign_groups == ForeignGroups::Refuse && !groups.is_empty() {
            self.findings.push(Finding::ForeignGroups { pod, port, groups });
        }
    }

    fn settle(&mut self) {
        for class in &self.classes {
            self.held.before.extend(class.groups.before.iter().cloned());
            self.held.after.extend(class.groups.after.iter().cloned());
        }
        for (name, rules) in &mut self.groups {
            if !self.held.before.contains(name) {
                rules.before = rules.after.clone();
            } else if !self.held.after.contains(name) {
                rules.after = rules.before.clone();
            }
        }
        self.meant = Sides {
            before: self.address_groups(Side::Before),
            after: self.address_groups(Side::After),
        };
        for (name, addresses) in &mut self.addresses {
            if !self.meant.before.contains(name) {
                addresses.before = addresses.after.clone();
            } else if !self.meant.after.contains(name) {
                addresses.after = addresses.before.clone();
            }
        }
    }

    fn address_groups(&self, side: Side) -> BTreeSet<Name> {
        let held = self.held.of(side).iter().filter_map(|name| self.groups.get(name));
        let rules = held.flat_map(|rules| rules.of(side));
        let meant = rules.filter_map(|rule| match rule {
            InstalledRule::Known(rule) => match &rule.remote {
                Remote::AddressGroup(name) => Some(name.clone()),
                _ => None,
            },
            InstalledRule::Other(_) => None,
        });
        meant.collect()
    }
}

/// What rules about the groups of a port mean: also what it may send from besides its own.
pub(super) fn addresses_of(port: &InstalledPort) -> AddressSet {
    let pairs = port.allowed_address_pairs.iter();
    let pairs: AddressSet = pairs.map(|prefix| prefix.range()).collect();
    pairs.union(&port.fixed_ips.iter().copied().collect())
}
