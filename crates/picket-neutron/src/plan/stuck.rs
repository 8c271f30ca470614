//! What waits for ports that cannot be changed.
//!
//! A port that keeps a group that it should lose goes on lending its addresses to the rules about the group, and goes on allowing
//! what the rules of the group say. So it is not enough to do everything else: what is new may meet what stays, and let something
//! pass that passes neither before nor by the policies. Here that is found and taken out of what is wanted. What there is in the
//! end is then within what passes before and what the policies let pass, and [the order](super) keeps every moment within what
//! passes before and in the end.
//!
//! For that it is enough that
//!
//! - each end lets pass at most what it does before or by the policies, and
//! - where both ends of a connection with such a port change (they *cross*), each lets pass at most what it does before.
//!
//! A port that has no groups at all before is another thing: it is that of a new pod. What the others may exchange with it is for
//! them to say. Otherwise one port that cannot be changed would keep every new pod from sending anything.
//!
//! What is new is taken out fact by fact: a rule, a group of a port, an address of an address group. Rules that nobody can read are
//! taken to mean no group of ours.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use picket_net::{AddressSet, Prefix, TrafficSet};
use picket_policy::{Direction, ObjectRef};

use super::half::Half;
use super::installed::{Id, Installed, InstalledRule};
use super::judge::plain;
use super::keys::Keys;
use super::transition::{Transition, addresses_of};
use super::{Held, Wanted};
use crate::model::{Name, Objects, Remote, SecurityGroupRule};
use crate::traffic::of_rule;

/// What is not done now.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The groups that a port gets instead of those that it should have.
    pub(super) ports: BTreeMap<Id, BTreeSet<Name>>,
    /// The groups of which something is missing, and those that a port should have and does not get.
    pub(super) groups: BTreeSet<Name>,
    /// The ports that had groups and get none.
    pub(super) emptied: BTreeSet<Id>,
}

/// Of what something is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    Before,
    /// What the policies say.
    Wanted,
    /// Both of them together.
    Either,
}

/// Groups, rules and addresses of a state.
#[derive(Clone, Debug, Default)]
struct State {
    /// The groups of the ends, in their order.
    ends: Vec<BTreeSet<Name>>,
    rules: BTreeMap<Name, BTreeSet<InstalledRule>>,
    addresses: BTreeMap<Name, BTreeSet<Prefix>>,
    /// What rules about a group mean.
    members: BTreeMap<Name, AddressSet>,
}

/// Ports that have the same groups before, and should have the same.
struct End {
    ports: Vec<Id>,
    addresses: AddressSet,
    is_stuck: bool,
    /// Whether it never had groups.
    is_new: bool,
}

/// Something that a rule of a group lets an end do.
struct Grant<'s> {
    group: &'s Name,
    rule: &'s SecurityGroupRule,
    addresses: AddressSet,
    traffic: TrafficSet,
}

/// Something new that is not done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fact {
    Has(Name, SecurityGroupRule),
    Holds(usize, Name),
    Lists(Name),
}

struct Scene {
    ends: Vec<End>,
    before: State,
    wanted: State,
    now: State,
    halves: BTreeMap<(usize, Direction, At), Half>,
    /// The addresses with which an end crosses.
    crossing: BTreeMap<(usize, Direction), AddressSet>,
}

/// Takes out of `possible` what must wait, and says which ports get what instead of what they should have.
pub(super) fn wait(
    installed: &Installed,
    wanted: &Wanted<'_>,
    keys: &Keys,
    possible: &mut Cow<'_, Objects>,
) -> Waiting {
    if wanted.held.ports.is_empty() {
        return Waiting::default();
    }
    let mut scene = Scene::of(installed, wanted, keys, possible);
    let ends = scene.ends.iter().enumerate();
    let stale = ends.filter(|(at, end)| end.is_stuck && scene.loses(*at));
    let stale: BTreeSet<usize> = stale.map(|(at, _)| at).collect();
    if stale.is_empty() {
        return Waiting::default();
    }
    let unfit = scene.unfit(&stale, pending(installed, wanted, possible));
    scene.settle(&stale);
    let mut waiting = scene.told(possible.to_mut());
    waiting.groups.extend(unfit);
    waiting
}

/// The groups of pods that have no port yet.
fn pending(installed: &Installed, wanted: &Wanted<'_>, objects: &Objects) -> BTreeSet<Name> {
    let is_pending = |pod: &ObjectRef| {
        let mut ports = wanted.ports.get(pod).into_iter().flatten();
        !ports.any(|id| installed.ports.contains_key(id))
    };
    let pods = objects.ports.iter().filter(|(pod, _)| is_pending(pod));
    pods.flat_map(|(_, port)| port.security_groups.iter().cloned())
        .collect()
}

impl Scene {
    fn of(installed: &Installed, wanted: &Wanted<'_>, keys: &Keys, objects: &Objects) -> Self {
        let nothing = Held::default();
        let all = Wanted {
            objects,
            held: &nothing,
            ..*wanted
        };
        let sides = Transition::unsettled(installed, &all, keys);
        let (mut ends, mut before, mut after) = (Vec::new(), State::default(), State::default());
        for class in &sides.classes {
            let (held, has_none) = (wanted.held, class.groups.before.is_empty());
            let (stuck, free): (Vec<_>, Vec<_>) = class.ports.iter().partition(|id| held.ports.contains(*id));
            let is_new = |id: &&Id| has_none && !held.emptied.contains(*id);
            let (new, free): (Vec<_>, Vec<_>) = free.into_iter().partition(is_new);
            for (ports, is_stuck, is_new) in [(stuck, true, false), (free, false, false), (new, false, true)]
            {
                let known = ports.iter().filter_map(|id| installed.ports.get(*id));
                let addresses = known.fold(AddressSet::empty(), |all, port| all.union(&addresses_of(port)));
                if ports.is_empty() {
                    continue;
                }
                ends.push(End {
                    ports: ports.into_iter().cloned().collect(),
                    addresses,
                    is_stuck,
                    is_new,
                });
                before.ends.push(class.groups.before.clone());
                after.ends.push(class.groups.after.clone());
            }
        }
        for (name, rules) in sides.groups {
            before.rules.insert(name.clone(), rules.before);
            after.rules.insert(name, rules.after);
        }
        for (name, addresses) in sides.addresses {
            before.addresses.insert(name.clone(), addresses.before);
            after.addresses.insert(name, addresses.after);
        }
        let mut now = after.clone();
        let stays = now.ends.iter_mut().zip(&before.ends).zip(&ends);
        for ((groups, old), _) in stays.filter(|(_, end)| end.is_stuck) {
            groups.clone_from(old);
        }
        for state in [&mut before, &mut after, &mut now] {
            state.count(&ends);
        }
        Self {
            ends,
            before,
            wanted: after,
            now,
            halves: BTreeMap::new(),
            crossing: BTreeMap::new(),
        }
    }

    /// Whether an end has a group that it should not have.
    fn loses(&self, at: usize) -> bool {
        self.lost(at).next().is_some()
    }

    /// The groups that an end has and should not have.
    fn lost(&self, at: usize) -> impl Iterator<Item = &Name> {
        let before = self.before.of(at);
        before.filter(move |group| !self.wanted.has(at, group))
    }

    /// Works out what is done, and what can be done from there, until that is nothing more. What passes at the end of each round passes
    /// before it or by the policies, and so it does before the first one.
    fn settle(&mut self, stale: &BTreeSet<usize>) {
        let all = self.now.clone();
        let mut left = usize::MAX;
        loop {
            self.cross(stale);
            self.withhold();
            self.keep();
            let still = self.left();
            // What is there may stay, so a round never leaves more than the one before.
            if still == 0 || still >= left {
                return;
            }
            left = still;
            self.before = std::mem::replace(&mut self.now, all.clone());
            self.halves.clear();
            self.crossing.clear();
        }
    }

    /// How much of what is wanted is not done.
    fn left(&self) -> usize {
        let (now, wanted) = (&self.now, &self.wanted);
        let ends = now.ends.iter().zip(&wanted.ends).zip(&self.ends);
        let ends = ends.filter(|(_, end)| !end.is_stuck);
        let groups = ends.map(|((now, wanted), _)| now.symmetric_difference(wanted).count());
        groups.sum::<usize>()
            + missing(&wanted.rules, &now.rules)
            + missing(&wanted.addresses, &now.addresses)
    }

    /// Of the groups of new ports those by which these would exchange something with a port that keeps what it should lose: groups that
    /// mean what it keeps, and groups that this means.
    fn unfit(&self, stale: &BTreeSet<usize>, pending: BTreeSet<Name>) -> BTreeSet<Name> {
        let kept: BTreeSet<_> = stale.iter().flat_map(|at| self.lost(*at)).collect();
        let meant: BTreeSet<_> = kept.iter().flat_map(|name| self.about(name)).collect();
        let mut unfit = pending;
        unfit.retain(|name| meant.contains(name) || self.about(name).any(|group| kept.contains(group)));
        unfit
    }

    /// The groups that rules of a group are about, or are to be.
    fn about(&self, name: &Name) -> impl Iterator<Item = &Name> {
        self.before.about(name).chain(self.now.about(name))
    }

    /// What an end lets pass.
    fn half(&mut self, end: usize, direction: Direction, at: At) -> &Half {
        let states = match at {
            At::Before => vec![&self.before],
            At::Wanted => vec![&self.wanted],
            At::Either => vec![&self.before, &self.wanted],
        };
        self.halves.entry((end, direction, at)).or_insert_with(|| {
            let grants = states.iter().flat_map(|state| state.grants(end, direction));
            Half::of(grants.map(|grant| (grant.addresses, grant.traffic)))
        })
    }

    /// The addresses with which an end lets something else pass by the policies than before.
    fn changing(&mut self, end: usize, direction: Direction) -> AddressSet {
        if self.before.strange(end) != self.wanted.strange(end) {
            return AddressSet::all();
        }
        let before = self.half(end, direction, At::Before).clone();
        before.differing(self.half(end, direction, At::Wanted))
    }

    /// Finds the ends that cross with one that is stale, or with another that has an address of such a one.
    fn cross(&mut self, stale: &BTreeSet<usize>) {
        let of_stale = stale.iter().filter_map(|at| self.ends.get(*at));
        let known = of_stale.fold(AddressSet::empty(), |all, end| all.union(&end.addresses));
        let all: Vec<_> = self
            .ends
            .iter()
            .map(|end| (end.addresses.clone(), end.ports.len()))
            .collect();
        for (at, (addresses, count)) in all.iter().enumerate() {
            if !stale.contains(&at) && addresses.intersection(&known).is_empty() {
                continue;
            }
            for direction in Direction::BOTH {
                let changing = self.changing(at, direction);
                for (other, (others, _)) in all.iter().enumerate() {
                    let is_alone = other == at && *count == 1;
                    if is_alone || self.is_new(other) || others.intersection(&changing).is_empty() {
                        continue;
                    }
                    let theirs = self.changing(other, direction.opposite());
                    if !theirs.intersection(addresses).is_empty() {
                        self.crosses(at, direction, others);
                        self.crosses(other, direction.opposite(), addresses);
                    }
                }
            }
        }
    }

    fn crosses(&mut self, end: usize, direction: Direction, with: &AddressSet) {
        let known = self.crossing.entry((end, direction)).or_default();
        *known = known.union(with);
    }

    fn is_new(&self, at: usize) -> bool {
        self.ends.get(at).is_some_and(|end| end.is_new)
    }

    /// Whether an end may let all of this pass.
    fn may(
        &mut self,
        end: usize,
        direction: Direction,
        addresses: &AddressSet,
        traffic: &TrafficSet,
    ) -> bool {
        if !self.half(end, direction, At::Either).covers(addresses, traffic) {
            return false;
        }
        let crossing = self.crossing.get(&(end, direction));
        let with = crossing
            .map(|with| with.intersection(addresses))
            .unwrap_or_default();
        self.half(end, direction, At::Before).covers(&with, traffic)
    }

    /// Takes out what is new until every end lets pass only what it may.
    fn withhold(&mut self) {
        loop {
            let now = std::mem::take(&mut self.now);
            let mut facts = BTreeSet::new();
            for end in 0..self.ends.len() {
                for direction in Direction::BOTH {
                    for grant in now.grants(end, direction) {
                        if !self.may(end, direction, &grant.addresses, &grant.traffic) {
                            facts.extend(self.new_in((end, direction), &grant, &now));
                        }
                    }
                }
            }
            self.now = now;
            let mut has_changed = false;
            for fact in facts {
                has_changed |= self.take_out(fact);
            }
            if !has_changed {
                return;
            }
            self.now.count(&self.ends);
        }
    }

    /// What is new in something that an end lets pass: that of it on which the least besides depends.
    fn new_in(
        &mut self,
        (end, direction): (usize, Direction),
        grant: &Grant<'_>,
        now: &State,
    ) -> BTreeSet<Fact> {
        let (group, rule) = (grant.group, grant.rule);
        let known = self.before.rules.get(group);
        let is_new = !known.is_some_and(|rules| rules.contains(&InstalledRule::Known(rule.clone())));
        let gets = !self.before.has(end, group);
        match &rule.remote {
            Remote::Group(_) if is_new => [Fact::Has(group.clone(), rule.clone())].into(),
            _ if gets => [Fact::Holds(end, group.clone())].into(),
            _ if is_new => [Fact::Has(group.clone(), rule.clone())].into(),
            Remote::Group(peers) => {
                let mut found = BTreeSet::new();
                for at in 0..self.ends.len() {
                    let gets = now.has(at, peers) && !self.before.has(at, peers);
                    let addresses = self
                        .ends
                        .get(at)
                        .map(|end| end.addresses.of_family(rule.ethertype));
                    if gets && !self.may(end, direction, &addresses.unwrap_or_default(), &grant.traffic) {
                        found.insert(Fact::Holds(at, peers.clone()));
                    }
                }
                found
            }
            Remote::AddressGroup(name) => [Fact::Lists(name.clone())].into(),
            Remote::Anyone | Remote::Prefix(_) => BTreeSet::new(),
        }
    }

    /// Whether it was there.
    fn take_out(&mut self, fact: Fact) -> bool {
        match fact {
            Fact::Has(group, rule) => {
                let rules = self.now.rules.get_mut(&group);
                rules.is_some_and(|rules| rules.remove(&InstalledRule::Known(rule)))
            }
            Fact::Holds(end, group) => {
                let groups = self.now.ends.get_mut(end);
                groups.is_some_and(|groups| groups.remove(&group))
            }
            Fact::Lists(name) => {
                let known = self.before.addresses.get(&name).cloned().unwrap_or_default();
                let addresses = self.now.addresses.get_mut(&name);
                addresses.is_some_and(|addresses| {
                    let count = addresses.len();
                    addresses.retain(|prefix| known.contains(prefix));
                    addresses.len() < count
                })
            }
        }
    }

    /// Leaves groups to ports that do not get something new, where these let pass only what passes before and by the policies: it may
    /// be what the new would let pass too.
    fn keep(&mut self) {
        let now = self.now.clone();
        let meant = now.meant();
        for at in 0..self.ends.len() {
            let is_stuck = self.ends.get(at).is_some_and(|end| end.is_stuck);
            if is_stuck || now.ends.get(at) == self.wanted.ends.get(at) {
                continue;
            }
            let lost: BTreeSet<Name> = self.lost(at).cloned().collect();
            for name in lost.difference(&meant) {
                if self.is_harmless(at, name, &now)
                    && let Some(groups) = self.now.ends.get_mut(at)
                {
                    groups.insert(name.clone());
                }
            }
        }
    }

    /// Whether the rules of a group let an end do something, and all of that is what it may do before and by the policies.
    fn is_harmless(&mut self, at: usize, name: &Name, now: &State) -> bool {
        let rules = now.rules.get(name);
        let all_read = rules.is_some_and(|rules| rules.iter().all(|rule| plain(rule).is_some()));
        let each = Direction::BOTH.into_iter().flat_map(|direction| {
            let grants = now.granted(name, direction);
            grants.map(move |grant| (direction, grant))
        });
        // A rule about a group that no port has does nothing, and goes with that group.
        let each: Vec<_> = each.filter(|(_, grant)| !grant.addresses.is_empty()).collect();
        all_read
            && !each.is_empty()
            && each.into_iter().all(|(direction, grant)| {
                [At::Before, At::Wanted].into_iter().all(|side| {
                    let half = self.half(at, direction, side);
                    half.covers(&grant.addresses, &grant.traffic)
                })
            })
    }

    /// Takes what is not done out of what is wanted.
    fn told(self, possible: &mut Objects) -> Waiting {
        let mut waiting = Waiting::default();
        for (name, group) in &mut possible.security_groups {
            let count = group.rules.len();
            let now = self.now.rules.get(name);
            let is_now = |rule: &SecurityGroupRule| {
                now.is_some_and(|rules| rules.contains(&InstalledRule::Known(rule.clone())))
            };
            group.rules.retain(is_now);
            if group.rules.len() < count {
                waiting.groups.insert(name.clone());
            }
        }
        for (name, group) in &mut possible.address_groups {
            let count = group.addresses.len();
            let now = self.now.addresses.get(name);
            group
                .addresses
                .retain(|prefix| now.is_some_and(|all| all.contains(prefix)));
            if group.addresses.len() < count {
                waiting.groups.insert(name.clone());
            }
        }
        let sides = self.now.ends.into_iter().zip(self.wanted.ends);
        for (end, (now, wanted)) in self.ends.into_iter().zip(sides) {
            if end.is_stuck || now == wanted {
                continue;
            }
            waiting.groups.extend(wanted.difference(&now).cloned());
            if now.is_empty() && !end.is_new {
                waiting.emptied.extend(end.ports.iter().cloned());
            }
            for port in end.ports {
                waiting.ports.insert(port, now.clone());
            }
        }
        waiting
    }
}

impl State {
    fn of(&self, end: usize) -> impl Iterator<Item = &Name> {
        self.ends.get(end).into_iter().flatten()
    }

    fn has(&self, end: usize, group: &Name) -> bool {
        self.ends.get(end).is_some_and(|groups| groups.contains(group))
    }

    /// Works out whom rules about groups mean.
    fn count(&mut self, ends: &[End]) {
        self.members.clear();
        for (groups, end) in self.ends.iter().zip(ends) {
            for name in groups {
                let known = self.members.entry(name.clone()).or_default();
                *known = known.union(&end.addresses);
            }
        }
    }

    /// All that rules let an end do.
    fn grants(&self, end: usize, direction: Direction) -> impl Iterator<Item = Grant<'_>> {
        self.of(end).flat_map(move |group| self.granted(group, direction))
    }

    /// All that the rules of a group let do.
    fn granted<'s>(&'s self, group: &'s Name, direction: Direction) -> impl Iterator<Item = Grant<'s>> {
        let rules = self.rules.get(group).into_iter().flatten().filter_map(plain);
        let rules = rules.filter(move |rule| rule.direction == direction);
        rules.map(move |rule| Grant {
            group,
            rule,
            addresses: self.remote(rule),
            traffic: of_rule(rule.protocol, rule.ports),
        })
    }

    /// Whom a rule is about.
    fn remote(&self, rule: &SecurityGroupRule) -> AddressSet {
        let all = match &rule.remote {
            Remote::Anyone => AddressSet::all(),
            Remote::Prefix(prefix) => AddressSet::from(*prefix),
            Remote::Group(name) => self.members.get(name).cloned().unwrap_or_default(),
            Remote::AddressGroup(name) => {
                let prefixes = self.addresses.get(name).into_iter().flatten();
                prefixes.map(|prefix| prefix.range()).collect()
            }
        };
        all.of_family(rule.ethertype)
    }

    /// The groups that rules are about.
    fn meant(&self) -> BTreeSet<Name> {
        let names = self.rules.keys();
        names.flat_map(|name| self.about(name)).cloned().collect()
    }

    /// The groups that rules of a group are about.
    fn about(&self, name: &Name) -> impl Iterator<Item = &Name> {
        let rules = self.rules.get(name).into_iter().flatten().filter_map(plain);
        rules.filter_map(|rule| match &rule.remote {
            Remote::Group(name) => Some(name),
            _ => None,
        })
    }

    /// The rules of an end that nobody can read.
    fn strange(&self, end: usize) -> BTreeSet<(&Name, &InstalledRule)> {
        let rules = self.of(end).flat_map(|name| {
            let rules = self.rules.get(name).into_iter().flatten();
            rules.map(move |rule| (name, rule))
        });
        rules.filter(|(_, rule)| plain(rule).is_none()).collect()
    }
}

/// How much of what groups are to have they do not have.
fn missing<T: Ord>(wanted: &BTreeMap<Name, BTreeSet<T>>, now: &BTreeMap<Name, BTreeSet<T>>) -> usize {
    let of_each = wanted.iter().map(|(name, wanted)| match now.get(name) {
        Some(now) => wanted.difference(now).count(),
        None => wanted.len(),
    });
    of_each.sum()
}
