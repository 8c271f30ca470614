//! The shortest names for some endpoints.

use std::collections::BTreeMap;

use picket_engine::Program;
use picket_net::{AddressSet, Family, Prefix};

use super::super::choose::families_of;
use super::super::world::{Is, World, bit};
use super::yaml;

/// Names endpoints of a world.
pub(super) struct Describer<'w> {
    world: &'w World<'w>,
    program: &'w Program,
    /// What names more than one member: namespaces, then workloads and nodes, each with its members.
    groups: Vec<(String, Vec<usize>)>,
    external: Vec<usize>,
}

impl<'w> Describer<'w> {
    pub(super) fn new(world: &'w World<'w>, program: &'w Program) -> Self {
        let mut namespaces: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut others: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut external = Vec::new();
        for (at, member) in world.members.iter().enumerate() {
            match &member.is {
                Is::Pod(pod) => {
                    namespaces
                        .entry(format!("{}/*", pod.object.namespace))
                        .or_default()
                        .push(at);
                    if let Some(owner) = &member.owner {
                        others.entry(owner.clone()).or_default().push(at);
                    }
                }
                Is::Node(name, _) => others.entry(format!("node/{name}")).or_default().push(at),
                Is::External(_) => external.push(at),
            }
        }
        let groups = namespaces.into_iter().chain(others).collect();
        Self {
            world,
            program,
            groups,
            external,
        }
    }

    /// Which members have a family.
    pub(super) fn everything(&self, family: Option<Family>) -> Vec<bool> {
        let members = self.world.members.iter();
        let has = members.map(|member| member.families & families_of(family) != 0);
        has.collect()
    }

    /// Which members of a family are not the only destination, or of one kind with all of them.
    pub(super) fn senders(&self, destinations: &[usize], family: Option<Family>) -> Vec<bool> {
        let mut senders = self.everything(family);
        for (from, is_sender) in self.world.members.iter().zip(&mut senders) {
            let mut to = destinations.iter().filter_map(|&at| self.world.members.get(at));
            // Two pods without a family in common are a pair between which nothing can pass.
            *is_sender &= to.any(|to| {
                let pods = from.pod().is_some() && to.pod().is_some();
                World::is_pair(from, to) && (pods || from.families & to.families != 0)
            });
        }
        senders
    }

    /// Whether there is a sender, other than some, that a policy could keep from a destination.
    pub(super) fn can_be_kept_out(&self, senders: &[bool], but: &[usize], destinations: &[usize]) -> bool {
        let members = self.world.members.iter().zip(senders).enumerate();
        let mut others = members.filter(|(at, (_, is_sender))| **is_sender && but.binary_search(at).is_err());
        others.any(|(_, (from, _))| {
            let mut to = destinations.iter().filter_map(|&at| self.world.members.get(at));
            to.any(|to| {
                let is_pair = World::is_pair(from, to) && from.families & to.families != 0;
                is_pair && !World::is_beyond_policies(from, to)
            })
        })
    }

    /// Names for `members`. Whatever is not `meant` may be named with them: it makes no difference.
    pub(super) fn ends(&self, members: &[usize], meant: &[bool]) -> Vec<String> {
        let mut left = vec![false; self.world.members.len()];
        for &at in members {
            left.get_mut(at).into_iter().for_each(|left| *left = true);
        }
        if left.iter().zip(meant).all(|(left, meant)| *left || !meant) {
            return vec!["any".to_owned()];
        }
        let mut named = Vec::new();
        let is = |marks: &[bool], at: usize| marks.get(at).copied().unwrap_or(false);
        for (name, group) in &self.groups {
            let mut own = group.iter().filter(|&&at| is(meant, at)).peekable();
            if own.peek().is_some() && own.all(|&at| is(&left, at)) {
                named.push(yaml::scalar(name));
                for &at in group {
                    left.get_mut(at).into_iter().for_each(|left| *left = false);
                }
            }
        }
        let outside: Vec<_> = self
            .external
            .iter()
            .copied()
            .filter(|&at| is(&left, at))
            .collect();
        let all = self.external.iter().filter(|&&at| is(meant, at)).count();
        named.extend(self.outside(&outside, all));
        let rest = self.world.members.iter().zip(left).filter(|(_, left)| *left);
        named.extend(rest.filter_map(|(member, _)| match &member.is {
            Is::Node(name, address) => Some(yaml::scalar(&format!("{name}@{address}"))),
            Is::Pod(_) => Some(yaml::scalar(&member.id)),
            Is::External(_) => None,
        }));
        named
    }

    /// A name for some of the `all` addresses outside.
    fn outside(&self, own: &[usize], all: usize) -> Option<String> {
        match own.len() {
            0 => None,
            some if some == all => Some("external".to_owned()),
            _ => {
                let regions: Vec<_> = own.iter().map(|&at| self.region(at)).collect();
                let region: AddressSet = regions.iter().flat_map(AddressSet::ranges).collect();
                Some(written(&region))
            }
        }
    }

    /// The addresses of an external member, and the pods and nodes among them: `external` leaves them out itself.
    fn region(&self, at: usize) -> AddressSet {
        let Some(member) = self.world.members.get(at) else {
            return AddressSet::empty();
        };
        let class = self.world.class(member.class);
        let family = Family::BOTH
            .into_iter()
            .find(|family| member.families & bit(*family) != 0);
        let Some((class, family)) = class.zip(family) else {
            return AddressSet::empty();
        };
        let regions = class
            .identities(family)
            .iter()
            .map(|&identity| self.program.region(identity));
        regions
            .fold(AddressSet::empty(), |all, one| all.union(&one))
            .of_family(family)
    }
}

/// Addresses outside as an end: by their prefixes, or by those of all others where these are fewer.
fn written(region: &AddressSet) -> String {
    let (mut within, mut except) = (Vec::new(), Vec::new());
    for family in Family::BOTH {
        let own = region.of_family(family);
        if own.is_empty() {
            continue;
        }
        let whole = Prefix::all(family);
        let prefixes = |set: &AddressSet| {
            set.ranges()
                .flat_map(|range| range.prefixes())
                .collect::<Vec<_>>()
        };
        let (own, others) = (
            prefixes(&own),
            prefixes(&AddressSet::from(whole.range()).difference(&own)),
        );
        if others.len() < own.len() {
            within.push(whole);
            except.extend(others);
        } else {
            within.extend(own);
        }
    }
    let list = |prefixes: &[Prefix]| {
        let all: Vec<_> = prefixes
            .iter()
            .map(|prefix| yaml::scalar(&prefix.to_string()))
            .collect();
        format!("[{}]", all.join(", "))
    };
    if except.is_empty() {
        format!("{{external: {}}}", list(&within))
    } else {
        format!("{{external: {}, except: {}}}", list(&within), list(&except))
    }
}
