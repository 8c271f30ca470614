//! When each change is made, in as few calls for each port as the phases leave.

use std::collections::{BTreeMap, BTreeSet};

use picket_net::{AddressSet, Prefix};

use super::judge::{Fact, Judge, Phase, plain};
use super::transition::{Class, Side, Transition};
use crate::model::{Name, Remote};

/// A step of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    /// Rules, addresses and peers come.
    Make,
    /// Ports get other rules.
    Swap,
    /// Rules, addresses and peers go.
    Break,
}

/// When something is done.
pub(super) type When = (Phase, Turn);

/// The groups that the ports of a class get, each time.
pub(super) type Calls = BTreeMap<When, BTreeSet<Name>>;

/// One group of a port that comes or goes, and from when to when it may.
struct Window<'t> {
    name: &'t Name,
    comes: bool,
    first: When,
    last: When,
}

pub(super) struct Order<'t> {
    transition: &'t Transition,
    judge: Judge<'t>,
    /// The groups by new rules about which something goes on passing.
    newly_meant: BTreeSet<&'t Name>,
    /// The groups by old rules about which something passes that will go on.
    no_more_meant: BTreeSet<&'t Name>,
    /// Whether all is done by one call.
    is_one_call: bool,
}

impl<'t> Order<'t> {
    pub(super) fn of(transition: &'t Transition) -> Self {
        let mut judge = Judge::of(transition);
        let newly_meant = relied_on(transition, &mut judge, Side::After);
        let no_more_meant = relied_on(transition, &mut judge, Side::Before);
        let changing = transition
            .classes
            .iter()
            .filter(|class| class.groups.before != class.groups.after);
        let ports: usize = changing.map(|class| class.ports.len()).sum();
        let same_rules = transition
            .groups
            .values()
            .all(|rules| rules.before == rules.after);
        let same_addresses = transition.addresses.values().all(|all| all.before == all.after);
        Self {
            transition,
            judge,
            newly_meant,
            no_more_meant,
            is_one_call: ports == 1 && same_rules && same_addresses,
        }
    }

    /// When each of the rules of a group that come or go does.
    pub(super) fn rule(&mut self, name: &'t Name, rule: &'t super::InstalledRule, comes: bool) -> When {
        let fact = Fact::Has(name, rule);
        match comes {
            true => (self.judge.appears(&fact), Turn::Make),
            false => (self.judge.disappears(&fact), Turn::Break),
        }
    }

    /// When addresses of an address group come or go.
    pub(super) fn addresses<'p>(
        &mut self,
        name: &'t Name,
        prefixes: impl IntoIterator<Item = &'p Prefix>,
        comes: bool,
    ) -> When {
        let all: AddressSet = prefixes.into_iter().map(|prefix| prefix.range()).collect();
        let fact = Fact::Lists(name, all);
        match comes {
            true => (self.judge.appears(&fact), Turn::Make),
            false => (self.judge.disappears(&fact), Turn::Break),
        }
    }

    /// What is done with each port of a class.
    pub(super) fn calls(&mut self, at: usize, class: &'t Class) -> Calls {
        if class.groups.before == class.groups.after {
            return Calls::new();
        }
        if self.is_one_call {
            let when = (Phase::Narrow, Turn::Swap);
            return [(when, class.groups.after.clone())].into();
        }
        let mut windows: Vec<_> = class.groups.added().map(|name| self.coming(at, name)).collect();
        windows.extend(class.groups.removed().map(|name| self.going(at, name)));
        let times = times(&mut windows);
        let mut groups = class.groups.before.clone();
        let mut calls = Calls::new();
        for &when in &times {
            let is_due = |window: &&Window<'_>| window.time(&times) == Some(when);
            for window in windows.iter().filter(is_due) {
                match window.comes {
                    true => groups.insert(window.name.clone()),
                    false => groups.remove(window.name),
                };
            }
            calls.insert(when, groups.clone());
        }
        calls
    }

    fn coming(&mut self, at: usize, name: &'t Name) -> Window<'t> {
        let phase = self.judge.appears(&Fact::Holds(at, name));
        let (turn, last) = match self.has_rules(name) {
            true => (Turn::Swap, (Phase::Widen, Turn::Swap)),
            // Before rules about it count.
            false if self.newly_meant.contains(name) => (Turn::Make, (phase, Turn::Make)),
            false => (Turn::Make, (Phase::Widen, Turn::Break)),
        };
        Window {
            name,
            comes: true,
            first: (phase, turn),
            last,
        }
    }

    fn going(&mut self, at: usize, name: &'t Name) -> Window<'t> {
        let phase = self.judge.disappears(&Fact::Holds(at, name));
        let (first, turn) = match self.has_rules(name) {
            true => ((Phase::Narrow, Turn::Swap), Turn::Swap),
            // When no rule about it counts any more.
            false if self.no_more_meant.contains(name) => ((phase, Turn::Break), Turn::Break),
            false => ((Phase::Narrow, Turn::Make), Turn::Break),
        };
        Window {
            name,
            comes: false,
            first,
            last: (phase, turn),
        }
    }

    fn has_rules(&self, name: &Name) -> bool {
        let rules = self.transition.groups.get(name);
        rules.is_some_and(|rules| rules.each().iter().any(|rules| !rules.is_empty()))
    }
}

impl Window<'_> {
    /// What comes does as early as it may, and what goes as late.
    fn time(&self, times: &BTreeSet<When>) -> Option<When> {
        let mut within = times.range(self.first..=self.last);
        match self.comes {
            true => within.next().copied(),
            false => within.next_back().copied(),
        }
    }
}

/// The fewest times of which each window has one.
fn times(windows: &mut [Window<'_>]) -> BTreeSet<When> {
    windows.sort_by_key(|window| std::cmp::Reverse(window.first));
    let mut times = BTreeSet::new();
    for window in windows {
        if times.range(window.first..=window.last).next().is_none() {
            times.insert(window.first);
        }
    }
    times
}

/// The groups about which rules count for a port on this side alone, if what these let pass is allowed on the other side too in some
/// way: then peers must be there while these rules count.
fn relied_on<'t>(transition: &'t Transition, judge: &mut Judge<'t>, side: Side) -> BTreeSet<&'t Name> {
    let mut found = BTreeSet::new();
    for (at, class) in transition.classes.iter().enumerate() {
        for name in class.groups.of(side) {
            let was_held = class.groups.of(side.other()).contains(name);
            let Some(rules) = transition.groups.get(name) else {
                continue;
            };
            if was_held && rules.before == rules.after {
                continue;
            }
            let others = rules.of(side.other());
            let own = rules
                .of(side)
                .iter()
                .filter(|rule| !was_held || !others.contains(*rule));
            for rule in own.filter_map(plain) {
                if let Remote::Group(group) = &rule.remote
                    && !found.contains(group)
                    && judge.allows_any(at, rule, side.other())
                {
                    found.insert(group);
                }
            }
        }
    }
    found
}
