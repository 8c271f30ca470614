//! In which phases something may be there: see [the order](super).

use std::collections::{BTreeMap, BTreeSet};

use picket_net::{AddressSet, TrafficSet};
use picket_policy::Direction;

use super::half::Half;
use super::installed::InstalledRule;
use super::transition::{Class, Side, Sides, Transition};
use crate::model::{Name, Remote, SecurityGroupRule};
use crate::traffic::of_rule;

/// A part of the way from before to after. Each ends before the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Narrow,
    Change,
    Widen,
}

/// Something that is there on one side only.
#[derive(Clone, Debug)]
pub(super) enum Fact<'t> {
    /// That the ports of a class have a group.
    Holds(usize, &'t Name),
    /// That a group has a rule.
    Has(&'t Name, &'t InstalledRule),
    /// That an address group has addresses.
    Lists(&'t Name, AddressSet),
}

/// What an end may allow at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Bound {
    Before,
    After,
    /// What it allows before or after.
    Either,
}

/// Something that a fact lets ports of a class do.
type Grant = (usize, Direction, AddressSet, TrafficSet);

/// Rules that are about a group or an address group, and the class of the ports that have them.
type Users<'t> = BTreeMap<&'t Remote, Vec<(usize, &'t SecurityGroupRule)>>;

pub(super) struct Judge<'t> {
    transition: &'t Transition,
    members: BTreeMap<&'t Name, Sides<AddressSet>>,
    users: Sides<Users<'t>>,
    /// The classes with rules that nobody can read and that are there on one side only. They may be about any group.
    unread: Sides<BTreeSet<(usize, Direction)>>,
    /// Ports whose end of a connection changes in a direction while the other end of the same connection changes too.
    crossing: BTreeSet<(usize, Direction)>,
    /// The direction of which nothing changes while the other does, where both ends change.
    firm: Direction,
    halves: BTreeMap<(usize, Direction, Bound), Half>,
}

impl<'t> Judge<'t> {
    pub(super) fn of(transition: &'t Transition) -> Self {
        let mut members: BTreeMap<&Name, Sides<AddressSet>> = BTreeMap::new();
        for class in &transition.classes {
            for name in &class.groups.before {
                let known = members.entry(name).or_default();
                known.before = known.before.union(&class.addresses);
            }
            for name in &class.groups.after {
                let known = members.entry(name).or_default();
                known.after = known.after.union(&class.addresses);
            }
        }
        let mut judge = Self {
            transition,
            members,
            users: Sides {
                before: users(transition, Side::Before),
                after: users(transition, Side::After),
            },
            unread: Sides {
                before: unread(transition, Side::Before),
                after: unread(transition, Side::After),
            },
            crossing: BTreeSet::new(),
            firm: Direction::Egress,
            halves: BTreeMap::new(),
        };
        judge.cross();
        judge
    }

    /// Finds the classes of which both ends of a connection change.
    fn cross(&mut self) {
        let touched = self.touched();
        let changing = |judge: &mut Self, direction| -> Vec<(usize, &'t Class, AddressSet)> {
            let each = touched.iter();
            each.filter_map(|&(at, class)| {
                let peers = judge.changing(at, class, direction);
                (!peers.is_empty()).then_some((at, class, peers))
            })
            .collect()
        };
        let sending = changing(self, Direction::Egress);
        let receiving = changing(self, Direction::Ingress);
        let meets = |class: &Class, peers: &AddressSet| !class.addresses.intersection(peers).is_empty();
        for (from, source, to) in &sending {
            for (at, destination, of) in &receiving {
                let is_one_port = from == at && source.ports.len() == 1;
                if !is_one_port && meets(destination, to) && meets(source, of) {
                    self.crossing.insert((*from, Direction::Egress));
                    self.crossing.insert((*at, Direction::Ingress));
                }
            }
        }
        let ports = |direction: Direction| -> usize {
            let each = sending.iter().chain(&receiving);
            let crossing = each.filter(|(at, ..)| self.crossing.contains(&(*at, direction)));
            crossing.map(|(_, class, _)| class.ports.len()).sum()
        };
        if ports(Direction::Ingress) < ports(Direction::Egress) {
            self.firm = Direction::Ingress;
        }
    }

    /// The classes that may allow something else after than before.
    fn touched(&self) -> Vec<(usize, &'t Class)> {
        let transition = self.transition;
        let differs = |remote: &Remote| match remote {
            Remote::Anyone | Remote::Prefix(_) => false,
            Remote::Group(name) => {
                let known = self.members.get(name);
                known.is_some_and(|sides| sides.before != sides.after)
            }
            Remote::AddressGroup(name) => {
                let known = transition.addresses.get(name);
                known.is_some_and(|sides| sides.before != sides.after)
            }
        };
        let is_touched = |name: &Name| {
            transition.groups.get(name).is_some_and(|rules| {
                let mut known = rules.before.iter().filter_map(plain);
                rules.before != rules.after || known.any(|rule| differs(&rule.remote))
            })
        };
        let touched: BTreeSet<_> = transition.groups.keys().filter(|name| is_touched(name)).collect();
        let classes = transition.classes.iter().enumerate();
        classes
            .filter(|(_, class)| {
                let groups = &class.groups;
                groups.before != groups.after || groups.before.iter().any(|name| touched.contains(name))
            })
            .collect()
    }

    /// The addresses with which ports of a class may allow something else after than before.
    fn changing(&mut self, at: usize, class: &Class, direction: Direction) -> AddressSet {
        let strange = |side| strange(self.transition, class, side);
        if strange(Side::Before) != strange(Side::After) {
            return AddressSet::all();
        }
        let before = self.half(at, direction, Bound::Before).clone();
        before.differing(self.half(at, direction, Bound::After))
    }

    /// From which phase on something new may be there.
    pub(super) fn appears(&mut self, fact: &Fact<'t>) -> Phase {
        let grants = self.grants(fact, Side::Before);
        for phase in [Phase::Narrow, Phase::Change] {
            let allowed = |judge: &mut Self, (at, direction): (usize, Direction)| {
                let is_bound = phase == Phase::Narrow || direction == judge.firm;
                match is_bound && judge.crossing.contains(&(at, direction)) {
                    true => Bound::Before,
                    false => Bound::Either,
                }
            };
            let mut each = grants.iter();
            if each.all(|grant| {
                let bound = allowed(self, (grant.0, grant.1));
                self.covers(grant, bound)
            }) {
                return phase;
            }
        }
        Phase::Widen
    }

    /// Until which phase something that is to go may be there.
    pub(super) fn disappears(&mut self, fact: &Fact<'t>) -> Phase {
        let grants = self.grants(fact, Side::After);
        if grants.iter().all(|grant| self.covers(grant, Bound::After)) {
            return Phase::Widen;
        }
        let (crossing, firm) = (self.crossing.clone(), self.firm);
        let mut bound = grants
            .iter()
            .filter(|(at, direction, ..)| *direction == firm && crossing.contains(&(*at, firm)));
        match bound.all(|grant| self.covers(grant, Bound::After)) {
            true => Phase::Change,
            false => Phase::Narrow,
        }
    }

    /// Whether ports of a class allow some of what a rule does, on a side.
    pub(super) fn allows_any(&mut self, at: usize, rule: &SecurityGroupRule, side: Side) -> bool {
        let addresses = self.remote(rule, &[Side::Before, Side::After]);
        let bound = match side {
            Side::Before => Bound::Before,
            Side::After => Bound::After,
        };
        let half = self.half(at, rule.direction, bound);
        half.meets(&addresses, &of_rule(rule.protocol, rule.ports))
    }

    fn covers(&mut self, (at, direction, addresses, traffic): &Grant, bound: Bound) -> bool {
        self.half(*at, *direction, bound).covers(addresses, traffic)
    }

    fn half(&mut self, at: usize, direction: Direction, bound: Bound) -> &Half {
        let key = (at, direction, bound);
        if !self.halves.contains_key(&key) {
            let sides = match bound {
                Bound::Before => &[Side::Before][..],
                Bound::After => &[Side::After],
                Bound::Either => &[Side::Before, Side::After],
            };
            let half = Half::of(sides.iter().flat_map(|&side| self.allowed(at, direction, side)));
            self.halves.insert(key, half);
        }
        self.halves.entry(key).or_insert_with(|| Half::of([]))
    }

    /// What is known to be allowed.
    fn allowed(&self, at: usize, direction: Direction, side: Side) -> Vec<(AddressSet, TrafficSet)> {
        let class = self.transition.classes.get(at);
        let names = class.into_iter().flat_map(|class| class.groups.of(side));
        let rules = names.filter_map(|name| self.transition.groups.get(name));
        let rules = rules.flat_map(|rules| rules.of(side)).filter_map(plain);
        let mut by_traffic: BTreeMap<TrafficSet, AddressSet> = BTreeMap::new();
        for rule in rules.filter(|rule| rule.direction == direction) {
            let known = by_traffic.entry(of_rule(rule.protocol, rule.ports)).or_default();
            *known = known.union(&self.remote(rule, &[side]));
        }
        let allowed = by_traffic.into_iter();
        allowed.map(|(traffic, addresses)| (addresses, traffic)).collect()
    }

    /// All that a fact can let ports do: with everything that there is on either side besides, where others of these facts are
    /// not looked at by themselves, and with what there is on `side` otherwise.
    fn grants(&self, fact: &Fact<'t>, side: Side) -> Vec<Grant> {
        match fact {
            Fact::Holds(at, name) => {
                let rules = self.transition.groups.get(*name);
                let rules = rules.into_iter().flat_map(Sides::either);
                let own = rules.flat_map(|rule| self.granted(rule));
                let own = own.map(|(direction, addresses, traffic)| (*at, direction, addresses, traffic));
                let class = self.transition.classes.get(*at);
                let addresses = class.map(|class| class.addresses.clone()).unwrap_or_default();
                let lent = self.lent(&Remote::Group((*name).clone()), &addresses, side);
                own.chain(lent).collect()
            }
            Fact::Has(name, rule) => {
                let classes = self.transition.classes.iter().enumerate();
                let holders = classes.filter(|(_, class)| class.groups.of(side).contains(*name));
                let granted = self.granted(rule);
                holders
                    .flat_map(|(at, _)| {
                        let granted = granted.iter().cloned();
                        granted
                            .map(move |(direction, addresses, traffic)| (at, direction, addresses, traffic))
                    })
                    .collect()
            }
            Fact::Lists(name, addresses) => {
                self.lent(&Remote::AddressGroup((*name).clone()), addresses, side)
            }
        }
    }

    /// What addresses are let by rules about what they belong to.
    fn lent(&self, remote: &Remote, addresses: &AddressSet, side: Side) -> Vec<Grant> {
        let users = self.users.of(side).get(remote);
        let users = users.into_iter().flatten();
        let lent = users.map(|(at, rule)| {
            let addresses = addresses.of_family(rule.ethertype);
            (*at, rule.direction, addresses, of_rule(rule.protocol, rule.ports))
        });
        let unread = self.unread.of(side).iter();
        let unread = unread.map(|&(at, direction)| (at, direction, addresses.clone(), TrafficSet::all()));
        lent.chain(unread).collect()
    }

    /// What a rule can allow at most.
    fn granted(&self, rule: &InstalledRule) -> Vec<(Direction, AddressSet, TrafficSet)> {
        let everything = |direction| (direction, AddressSet::all(), TrafficSet::all());
        match rule {
            InstalledRule::Known(rule) => {
                let addresses = self.remote(rule, &[Side::Before, Side::After]);
                vec![(rule.direction, addresses, of_rule(rule.protocol, rule.ports))]
            }
            InstalledRule::Other(Some(direction)) => vec![everything(*direction)],
            InstalledRule::Other(None) => Direction::BOTH.map(everything).into(),
        }
    }

    /// Whom a rule is about.
    fn remote(&self, rule: &SecurityGroupRule, sides: &[Side]) -> AddressSet {
        let all = match &rule.remote {
            Remote::Anyone => AddressSet::all(),
            Remote::Prefix(prefix) => AddressSet::from(*prefix),
            Remote::Group(name) => {
                let members = self.members.get(name);
                let members = members
                    .into_iter()
                    .flat_map(|known| sides.iter().map(|&side| known.of(side)));
                members.fold(AddressSet::empty(), |all, some| all.union(some))
            }
            Remote::AddressGroup(name) => {
                let group = self.transition.addresses.get(name);
                let prefixes = group
                    .into_iter()
                    .flat_map(|group| sides.iter().flat_map(|&side| group.of(side)));
                prefixes.map(|prefix| prefix.range()).collect()
            }
        };
        all.of_family(rule.ethertype)
    }
}

fn users(transition: &Transition, side: Side) -> Users<'_> {
    let mut users = Users::new();
    for (at, class) in transition.classes.iter().enumerate() {
        let groups = class.groups.of(side).iter();
        let rules = groups.filter_map(|name| transition.groups.get(name));
        for rule in rules.flat_map(|rules| rules.of(side)).filter_map(plain) {
            if matches!(rule.remote, Remote::Group(_) | Remote::AddressGroup(_)) {
                users.entry(&rule.remote).or_default().push((at, rule));
            }
        }
    }
    users
}

/// The rules of a class that nobody can read, with the groups that have them.
fn strange<'t>(
    transition: &'t Transition,
    class: &'t Class,
    side: Side,
) -> BTreeSet<(&'t Name, &'t InstalledRule)> {
    let names = class.groups.of(side).iter();
    let rules = names.flat_map(|name| {
        let rules = transition.groups.get(name);
        let rules = rules.into_iter().flat_map(move |rules| rules.of(side));
        rules.map(move |rule| (name, rule))
    });
    rules.filter(|(_, rule)| plain(rule).is_none()).collect()
}

/// The classes with rules that nobody can read on this side and that are not there on the other one.
fn unread(transition: &Transition, side: Side) -> BTreeSet<(usize, Direction)> {
    let classes = transition.classes.iter().enumerate();
    let unread = classes.flat_map(|(at, class)| {
        let others = strange(transition, class, side.other());
        let own = strange(transition, class, side).into_iter();
        own.filter(move |rule| !others.contains(rule))
            .flat_map(move |(_, rule)| {
                let directions = match rule {
                    InstalledRule::Other(Some(direction)) => vec![*direction],
                    _ => Direction::BOTH.to_vec(),
                };
                directions.into_iter().map(move |direction| (at, direction))
            })
    });
    unread.collect()
}

pub(super) fn plain(rule: &InstalledRule) -> Option<&SecurityGroupRule> {
    match rule {
        InstalledRule::Known(rule) => Some(rule),
        InstalledRule::Other(_) => None,
    }
}
