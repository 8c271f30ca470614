//! What is wanted without what cannot be made.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::Wanted;
use super::installed::{Installed, InstalledRule};
use super::judge::plain;
use super::keys::Keys;
use super::transition::Transition;
use crate::model::{Name, Objects, Remote};

/// What is wanted, without what cannot be made: of groups that are there, what they have.
pub(super) fn possible<'w>(installed: &Installed, wanted: &Wanted<'w>, keys: &Keys) -> Cow<'w, Objects> {
    let held = &wanted.held.groups;
    if held.is_empty() && wanted.held.removals.is_empty() {
        return Cow::Borrowed(wanted.objects);
    }
    let is_missing =
        |name: &&Name| !keys.groups.contains_key(*name) && !keys.address_groups.contains_key(*name);
    let mut missing: BTreeSet<Name> = held.iter().filter(is_missing).cloned().collect();
    if !wanted.held.removals.is_empty() {
        let used = used(installed, wanted, keys);
        missing.extend(wanted.held.removals.difference(&used).cloned());
    }
    let mut possible = without(wanted.objects, &missing);
    for name in held {
        let id = keys.groups.get(name);
        let known = id.and_then(|id| installed.security_groups.get(id));
        if let (Some(group), Some(known)) = (possible.security_groups.get_mut(name), known) {
            let rules: BTreeSet<_> = known.rules.values().map(|rule| keys.rule(rule)).collect();
            group
                .rules
                .retain(|rule| rules.contains(&InstalledRule::Known(rule.clone())));
            group.description.clone_from(&known.description);
            group.tags.clone_from(&known.tags);
        }
        let id = keys.address_groups.get(name);
        let known = id.and_then(|id| installed.address_groups.get(id));
        if let (Some(group), Some(known)) = (possible.address_groups.get_mut(name), known) {
            group.addresses.retain(|prefix| known.addresses.contains(prefix));
        }
    }
    Cow::Owned(possible)
}

/// The groups that ports have and go on having, and the address groups that rules of these are and will be about. A group that no port
/// has may go out of the rules of others: nobody is in it.
fn used(installed: &Installed, wanted: &Wanted<'_>, keys: &Keys) -> BTreeSet<Name> {
    let sides = Transition::unsettled(installed, wanted, keys);
    let classes = sides.classes.iter().map(|class| &class.groups);
    let kept = classes.flat_map(|groups| groups.before.intersection(&groups.after));
    let mut used: BTreeSet<Name> = kept.cloned().collect();
    let rules = used.iter().filter_map(|name| sides.groups.get(name));
    let rules = rules.flat_map(|rules| rules.before.intersection(&rules.after));
    let meant = rules.filter_map(plain).filter_map(|rule| match &rule.remote {
        Remote::AddressGroup(name) => Some(name.clone()),
        _ => None,
    });
    let meant: BTreeSet<_> = meant.collect();
    used.extend(meant);
    used
}

/// `wanted` without some groups and address groups, as those that a quota forbids: ports do not get them, and no rule is
/// about them. So less passes, and never more.
pub fn without(wanted: &Objects, names: &BTreeSet<Name>) -> Objects {
    let mut left = wanted.clone();
    left.security_groups.retain(|name, _| !names.contains(name));
    left.address_groups.retain(|name, _| !names.contains(name));
    for group in left.security_groups.values_mut() {
        group.rules.retain(|rule| match &rule.remote {
            Remote::Anyone | Remote::Prefix(_) => true,
            Remote::Group(name) | Remote::AddressGroup(name) => !names.contains(name),
        });
    }
    for port in left.ports.values_mut() {
        port.security_groups.retain(|name| !names.contains(name));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Port, SecurityGroup, SecurityGroupRule};
    use picket_net::Family;
    use picket_policy::{Direction, ObjectRef};

    #[test]
    fn nothing_is_about_a_group_that_cannot_be_made() {
        let mut wanted = Objects::default();
        let rule = SecurityGroupRule {
            direction: Direction::Ingress,
            ethertype: Family::Ipv4,
            protocol: None,
            ports: None,
            remote: Remote::Group("peers".into()),
        };
        let rules = [rule].into();
        let group = SecurityGroup {
            rules,
            ..SecurityGroup::default()
        };
        wanted.security_groups.insert("policy".into(), group);
        wanted
            .security_groups
            .insert("peers".into(), SecurityGroup::default());
        let port = Port {
            security_groups: ["policy".into(), "peers".into()].into(),
            ..Port::default()
        };
        let pod = ObjectRef::new("Pod", "x", "web");
        wanted.ports.insert(pod.clone(), port);
        let left = without(&wanted, &["peers".into()].into());
        assert_eq!(left.ports[&pod].security_groups, ["policy".into()].into());
        assert!(left.security_groups["policy"].rules.is_empty());
        assert_eq!(left.security_groups.len(), 1);
    }
}
