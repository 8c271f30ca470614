//! The shortest names for some endpoints.

use std::collections::{BTreeMap, BTreeSet};

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

    /// Every member that has a family.
    pub(super) fn everything(&self, family: Option<Family>) -> BTreeSet<usize> {
        let members = self.world.members.iter().enumerate();
        let has = members.filter(|(_, member)| member.families & families_of(family) != 0);
        has.map(|(at, _)| at).collect()
    }

    /// Every member of a family that is not the only destination, or of one kind with all of them.
    pub(super) fn senders(&self, destinations: &[usize], family: Option<Family>) -> BTreeSet<usize> {
        let mut everything = self.everything(family);
        everything.retain(|&source| {
            let Some(from) = self.world.members.get(source) else {
                return false;
            };
            let mut to = destinations.iter().filter_map(|&at| self.world.members.get(at));
            // Two pods without a family in common are a pair between which nothing can pass.
            to.any(|to| {
                let pods = from.pod().is_some() && to.pod().is_some();
                World::is_pair(from, to) && (pods || from.families & to.families != 0)
            })
        });
        everything
    }

    /// Whether there is a sender, other than some, that a policy could keep from a destination.
    pub(super) fn can_be_kept_out(
        &self,
        senders: &BTreeSet<usize>,
        but: &[usize],
        destinations: &[usize],
    ) -> bool {
        let mut others = senders.iter().filter(|at| but.binary_search(at).is_err());
        others.any(|&source| {
            let Some(from) = self.world.members.get(source) else {
                return false;
            };
            let mut to = destinations.iter().filter_map(|&at| self.world.members.get(at));
            to.any(|to| {
                let is_pair = World::is_pair(from, to) && from.families & to.families != 0;
                is_pair && !World::is_beyond_policies(from, to)
            })
        })
    }

    /// Names for `members`. Whatever is not in `meant` may be named with them: it makes no difference.
    pub(super) fn ends(&self, members: &[usize], meant: &BTreeSet<usize>) -> Vec<String> {
        let mut left: BTreeSet<usize> = members.iter().copied().collect();
        if meant.iter().all(|at| left.contains(at)) {
            return vec!["any".to_owned()];
        }
        let mut named = Vec::new();
        for (name, group) in &self.groups {
            let mut own = group.iter().filter(|at| meant.contains(at)).peekable();
            if own.peek().is_some() && own.all(|at| left.contains(at)) {
                named.push(yaml::scalar(name));
                group.iter().for_each(|at| {
                    left.remove(at);
                });
            }
        }
        named.extend(self.outside(&mut left, meant));
        let rest = left.into_iter().filter_map(|at| self.world.members.get(at));
        named.extend(rest.map(|member| match &member.is {
            Is::Node(name, address) => yaml::scalar(&format!("{name}@{address}")),
            Is::Pod(_) | Is::External(_) => yaml::scalar(&member.id),
        }));
        named
    }

    /// A name for the addresses outside that are left, which it takes away.
    fn outside(&self, left: &mut BTreeSet<usize>, meant: &BTreeSet<usize>) -> Option<String> {
        let own: Vec<_> = self
            .external
            .iter()
            .copied()
            .filter(|at| left.remove(at))
            .collect();
        let all = self.external.iter().filter(|at| meant.contains(at)).count();
        match own.len() {
            0 => None,
            some if some == all => Some("external".to_owned()),
            _ => {
                let regions = own.iter().map(|&at| self.region(at));
                let region = regions.fold(AddressSet::empty(), |all, one| all.union(&one));
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
