//! Which lists are replaced where they are.
//!
//! One message gives a list of VPP's other rules, at all interfaces that have it; another list takes a message for each of
//! them. But VPP keeps sessions then, where an interface that gets another list forgets its own; and a session is of both ways
//! through its interface, so that what one list has let in has one as soon as it was answered past another that reflects. So a
//! list becomes another where it is only if that lets pass whatever this one did.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::cut::drops_no_more;
use super::model::{AclAction, AclRule, Tag};
use super::plan::{Changes, Handle, Planner, Turn};
use crate::peers::alike_ends;
use crate::work::looked_at;

/// Interfaces that turn, by place, ascending.
type Places = Vec<usize>;

/// The lists that are to become others, by the names of these.
type Chosen<'t> = BTreeMap<&'t Tag, u32>;

/// Which lists interfaces lose as they turn, and which may become others where they are.
struct Candidates<'t, 'a> {
    turns: &'t [Turn<'a>],
    /// How often each list is lost, and in which turns.
    losing: FxHashMap<u32, (usize, Places)>,
    /// Of each turn, the lists that would have to become others so that nothing else is needed; none where that cannot be.
    becoming: Vec<Vec<(u32, &'t Tag)>>,
    /// Lists that no interface gets that is given its lists anew.
    spent: BTreeSet<Tag>,
}

impl<'a> Planner<'a> {
    /// Replaces lists where they are, which no interface has any more after these turns: those of them that make that so come
    /// first, and what is left of them last. `uses` says how often interfaces have a list.
    pub(super) fn replace(&mut self, turns: Vec<Turn<'a>>, uses: impl Fn(u32) -> usize) -> Changes<'a> {
        let candidates = self.candidates(&turns, uses);
        let chosen = candidates.chosen();
        let places = 0..turns.len();
        let needless: BTreeSet<_> = places
            .filter(|place| candidates.is_needless(*place, &chosen))
            .collect();
        let before = chosen
            .values()
            .flat_map(|index| candidates.before(*index, &chosen));
        let first: BTreeSet<_> = before.collect();
        let chosen = chosen.into_iter().map(|(tag, index)| (tag.clone(), index));
        let chosen: Vec<_> = chosen.collect();
        let spent = candidates.spent;
        let mut changes = Changes::default();
        for (tag, index) in chosen {
            let acl = self.created.remove(&tag);
            changes.replaced.extend(acl.map(|acl| (index, acl)));
        }
        let turns = turns.into_iter().enumerate();
        for (place, mut turn) in turns.filter(|(place, _)| !needless.contains(place)) {
            self.leave_out_spent(&mut turn, &spent);
            match first.contains(&place) {
                true => changes.first.push(turn),
                false => changes.last.push(turn),
            }
        }
        self.created.retain(|tag, _| !spent.contains(tag));
        changes
    }

    fn candidates<'t>(&self, turns: &'t [Turn<'a>], uses: impl Fn(u32) -> usize) -> Candidates<'t, 'a> {
        let mut losing: FxHashMap<u32, (usize, Places)> = FxHashMap::default();
        // What some get as it is must stay what it is.
        let mut wanted = FxHashSet::default();
        for (place, turn) in turns.iter().enumerate() {
            wanted.extend(turn.kept());
            for index in turn.lost() {
                let (count, places) = losing.entry(index).or_default();
                *count += 1;
                if places.last() != Some(&place) {
                    places.push(place);
                }
            }
        }
        let is_able = |&(index, tag): &(u32, &Tag)| {
            let lost = losing.get(&index).map(|(count, _)| *count);
            lost == Some(uses(index)) && !wanted.contains(&index) && self.lets_as_much_pass(index, tag)
        };
        let mut able: FxHashMap<(u32, &Tag), bool> = FxHashMap::default();
        let becoming = turns.iter().map(|turn| {
            let all = turn.becoming();
            let mut each = all.iter();
            let are_able = each.all(|change| *able.entry(*change).or_insert_with(|| is_able(change)));
            if are_able { all } else { Vec::new() }
        });
        let becoming = becoming.collect();
        let spent = self.created.values().filter(|acl| acl.is_spent());
        Candidates {
            turns,
            losing,
            becoming,
            spent: spent.map(|acl| acl.tag.clone()).collect(),
        }
    }

    /// Whether the other list lets pass whatever a list does.
    fn lets_as_much_pass(&self, index: u32, tag: &Tag) -> bool {
        let (before, after) = (self.installed.acls.get(&index), self.created.get(tag));
        before
            .zip(after)
            .is_some_and(|(before, after)| match before.is_cut() && after.is_cut() {
                true => drops_no_more(before, after),
                false => lets_as_much_pass(&before.rules, &after.rules),
            })
    }
}

impl<'t> Candidates<'t, '_> {
    /// Those that most need, each as one other; without those that would have to wait.
    fn chosen(&self) -> Chosen<'t> {
        let mut changing: BTreeMap<(u32, &Tag), usize> = BTreeMap::new();
        for change in self.becoming.iter().flatten() {
            *changing.entry(*change).or_default() += 1;
        }
        let mut changing: Vec<_> = changing.into_iter().collect();
        changing.sort_by_key(|(_, count)| Reverse(*count));
        let (mut chosen, mut taken) = (Chosen::new(), BTreeSet::new());
        for ((index, tag), _) in changing {
            if !chosen.contains_key(tag) && taken.insert(index) {
                chosen.insert(tag, index);
            }
        }
        loop {
            let needless = (0..self.turns.len()).filter(|place| self.is_needless(*place, &chosen));
            let needless = needless.flat_map(|place| self.becoming.get(place).into_iter().flatten());
            let useful: BTreeSet<_> = needless.map(|(index, _)| *index).collect();
            let own = chosen.iter().filter(|(tag, index)| {
                !useful.contains(index) || self.waits(**index, &chosen, |made| made == **tag)
            });
            let mut waiting: BTreeSet<_> = own.map(|(_, index)| *index).collect();
            if waiting.is_empty() {
                // Only those that can become others are waited for.
                let others = chosen.values().copied();
                let others =
                    others.filter(|index| self.waits(*index, &chosen, |made| chosen.contains_key(made)));
                waiting = others.collect();
            }
            if waiting.is_empty() {
                return chosen;
            }
            chosen.retain(|_, index| !waiting.contains(index));
        }
    }

    /// Whether an interface needs nothing else then.
    fn is_needless(&self, place: usize, chosen: &Chosen<'_>) -> bool {
        let becoming = self.becoming.get(place).filter(|becoming| !becoming.is_empty());
        becoming.is_some_and(|all| all.iter().all(|(index, tag)| chosen.get(tag) == Some(index)))
    }

    /// The interfaces that get something else in the place of a list: they would have what it becomes, unless they turn before.
    fn before(&self, index: u32, chosen: &Chosen<'_>) -> Places {
        let places = self.losing.get(&index).map(|(_, places)| places.iter());
        let others = places.into_iter().flatten().copied();
        others.filter(|place| !self.is_needless(*place, chosen)).collect()
    }

    /// Whether one of these gets such a list.
    fn waits(&self, index: u32, chosen: &Chosen<'_>, is_such: impl Fn(&Tag) -> bool) -> bool {
        let places = self.before(index, chosen);
        let mut turns = places.iter().filter_map(|&place| self.turns.get(place));
        turns.any(|turn| {
            turn.made()
                .any(|made| is_such(made) && !self.spent.contains(made))
        })
    }
}

impl Turn<'_> {
    /// The lists that the interface does not have any more, each as often as it has it.
    fn lost(&self) -> impl Iterator<Item = u32> {
        let mut kept: Vec<_> = self.kept().collect();
        kept.sort_unstable();
        let before = self.before.indices();
        before.filter(move |index| kept.binary_search(index).is_err())
    }

    /// The lists that it loses, each with the one that it gets in all places of that; none where it gets them in other places.
    fn becoming(&self) -> Vec<(u32, &Tag)> {
        let ways = [
            (&self.before.input, &self.input),
            (&self.before.output, &self.output),
        ];
        if ways.iter().any(|(before, after)| before.len() != after.len()) {
            return Vec::new();
        }
        let mut changes: Vec<(u32, &Tag)> = Vec::new();
        for (&index, handle) in ways.iter().flat_map(|(before, after)| before.iter().zip(*after)) {
            match handle {
                Handle::Installed(same) if *same == index => {}
                Handle::Created(tag) if changes.contains(&(index, tag)) => {}
                Handle::Created(tag)
                    if !changes
                        .iter()
                        .any(|(known, other)| *known == index || *other == tag) =>
                {
                    changes.push((index, tag));
                }
                _ => return Vec::new(),
            }
        }
        changes
    }

    /// Those of the lists that it gets that are made for it.
    fn made(&self) -> impl Iterator<Item = &Tag> {
        self.handles().filter_map(|handle| match handle {
            Handle::Created(tag) => Some(tag),
            Handle::Installed(_) => None,
        })
    }
}

/// Whether other rules let pass whatever some rules do, and reflect what these reflect, as far as can be seen without looking at
/// packets.
///
/// What has no ports meets rules about ports too, so that these do not keep rules apart.
fn lets_as_much_pass(before: &[AclRule], after: &[AclRule]) -> bool {
    looked_at(before.len() + after.len());
    // Most rules stand at the ends, as they did.
    let [first, last] = alike_ends(before, after);
    let [was, is] = [before, after].map(|rules| rules.get(first..rules.len() - last).unwrap_or_default());
    let places: FxHashMap<_, _> = was.iter().zip(first..).collect();
    let places = (0..first)
        .map(Some)
        .chain(is.iter().map(|rule| places.get(rule).copied()))
        .chain((before.len() - last..before.len()).map(Some));
    let after: Vec<_> = after.iter().zip(places).collect();
    let kept = || after.iter().filter_map(|(_, place)| *place);
    if !kept().is_sorted() {
        return false;
    }
    let mut new = after.iter().filter(|(_, place)| place.is_none());
    let takes_nothing = |new: &AclRule| match new.action {
        // All of it was denied, as part of a wider rule.
        AclAction::Deny => {
            let each = before.iter().inspect(|_| looked_at(1));
            let mut deciding = each.filter(|rule| match rule.action {
                AclAction::Deny => new.is_part_of(rule),
                AclAction::Permit | AclAction::PermitReflect => rule.may_meet(new),
            });
            deciding.next().is_some_and(|rule| rule.action == AclAction::Deny)
        }
        AclAction::Permit => {
            let each = before.iter().inspect(|_| looked_at(1));
            let mut stronger = each.filter(|rule| rule.action > new.action);
            !stronger.any(|rule| rule.may_meet(new))
        }
        AclAction::PermitReflect => true,
    };
    if !new.all(|(rule, _)| takes_nothing(rule)) {
        return false;
    }
    let kept: FxHashSet<_> = kept().collect();
    let gone = before.iter().zip(0..).filter(|(_, place)| !kept.contains(place));
    let mut gone = gone.filter(|(rule, _)| rule.action != AclAction::Deny);
    gone.all(|(rule, place)| {
        // What stood behind it may get its packets now; what is new or stood before it takes none from it.
        let mut deciding = after.iter().inspect(|_| looked_at(1)).filter(|(other, kept)| {
            match other.action >= rule.action {
                true => rule.is_part_of(other),
                false => *kept > Some(place) && rule.may_meet(other),
            }
        });
        deciding
            .next()
            .is_some_and(|(other, _)| other.action >= rule.action)
    })
}

impl AclRule {
    /// Whether everything that it matches another matches too.
    pub(super) fn is_part_of(&self, other: &Self) -> bool {
        let within = |(first, last): (u16, u16), outer: (u16, u16)| outer.0 <= first && last <= outer.1;
        other.source.contains_prefix(&self.source)
            && other.destination.contains_prefix(&self.destination)
            && (other.protocol == 0
                || other.protocol == self.protocol
                    && (other.tcp_flags == (0, 0) || other.tcp_flags == self.tcp_flags)
                    && within(self.first, other.first)
                    && within(self.second, other.second))
    }

    /// Whether some packet may match both, if only one that has no ports.
    fn may_meet(&self, other: &Self) -> bool {
        let touch = |one: &picket_net::Prefix, other: &picket_net::Prefix| {
            one.contains_prefix(other) || other.contains_prefix(one)
        };
        touch(&self.source, &other.source)
            && touch(&self.destination, &other.destination)
            && (self.protocol == 0 || other.protocol == 0 || self.protocol == other.protocol)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule((action, source, protocol, ports): (AclAction, &str, u8, (u16, u16))) -> AclRule {
        AclRule {
            action,
            source: source.parse().unwrap(),
            destination: "0.0.0.0/0".parse().unwrap(),
            protocol,
            first: (0, u16::MAX),
            second: ports,
            tcp_flags: (0, 0),
        }
    }

    fn rules() -> impl Strategy<Value = Vec<AclRule>> {
        const ACTIONS: [AclAction; 3] = [AclAction::Deny, AclAction::Permit, AclAction::PermitReflect];
        const SOURCES: [&str; 5] = [
            "10.0.0.0/32",
            "10.0.0.1/32",
            "10.0.0.0/31",
            "10.0.0.2/32",
            "10.0.0.0/24",
        ];
        const PORTS: [(u16, u16); 4] = [(80, 80), (443, 443), (80, 443), (0, u16::MAX)];
        let (action, source) = (prop::sample::select(&ACTIONS), prop::sample::select(&SOURCES));
        let (protocol, ports) = (prop::sample::select(&[0, 6, 17]), prop::sample::select(&PORTS));
        prop::collection::vec((action, source, protocol, ports).prop_map(rule), 0..7)
    }

    /// What some rules do with a packet; one without ports has those of none.
    fn decide(rules: &[AclRule], (source, protocol, port): (u8, u8, Option<u16>)) -> AclAction {
        let matches = |rule: &&AclRule| {
            let is_of = |port: u16| (rule.second.0..=rule.second.1).contains(&port);
            rule.source.contains([10, 0, 0, source].into())
                && (rule.protocol == 0 || rule.protocol == protocol && port.is_none_or(is_of))
        };
        rules
            .iter()
            .find(matches)
            .map_or(AclAction::Deny, |rule| rule.action)
    }

    /// Takes rules away and adds others, as the numbers say.
    fn edited(before: &[AclRule], gone: u8, new: &[(AclRule, usize)]) -> Vec<AclRule> {
        let kept = before.iter().zip(0..).filter(|(_, at)| gone & (1 << at) == 0);
        let mut after: Vec<_> = kept.map(|(rule, _)| *rule).collect();
        for (rule, at) in new {
            after.insert(at % (after.len() + 1), *rule);
        }
        after
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn what_passes_does_where_that_can_be_seen(
            before in rules(),
            gone in any::<u8>().prop_map(|bits| bits & bits.rotate_left(3)),
            new in rules(),
            places in prop::collection::vec(0..8_usize, 7),
        ) {
            let new: Vec<_> = new.into_iter().take(2).zip(places).collect();
            let after = edited(&before, gone, &new);
            if lets_as_much_pass(&before, &after) {
                for source in 0..4 {
                    for protocol in [1, 6, 17] {
                        for port in [None, Some(80), Some(100), Some(443), Some(500)] {
                            let [was, is] = [&before, &after].map(|rules| decide(rules, (source, protocol, port)));
                            prop_assert!(was <= is, "{source} {protocol} {port:?}: {before:?} {after:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn rules_that_let_more_pass_are_known() {
        use AclAction::{Deny, Permit, PermitReflect};
        const ALL: (u16, u16) = (0, u16::MAX);
        let one = (PermitReflect, "10.0.0.1/32", 6, (80, 80));
        let denied = (Deny, "10.0.0.1/32", 0, ALL);
        let rest = (PermitReflect, "10.0.0.0/24", 0, ALL);
        for (before, after, expected) in [
            (&[][..], &[][..], true),
            (&[denied, rest], &[rest], true),
            (&[rest], &[denied, rest], false),
            // A pod that may send something here, and that is gone or may send everything.
            (&[one, denied, rest], &[rest], true),
            (&[one, denied, rest], &[denied, rest], false),
            (&[denied, rest], &[one, denied, rest], true),
            (
                &[denied, rest],
                &[(Permit, one.1, one.2, one.3), denied, rest],
                false,
            ),
            // Another port beside one, and instead of it.
            (
                &[one, denied],
                &[(PermitReflect, one.1, 6, (80, 81)), denied],
                true,
            ),
            (
                &[one, denied],
                &[(PermitReflect, one.1, 6, (81, 81)), denied],
                false,
            ),
            (&[one, denied], &[denied, one], false),
            // One of two pods of which the addresses are written as one.
            (&[(Deny, "10.0.0.0/31", 0, ALL), rest], &[denied, rest], true),
            (
                &[one, (Deny, "10.0.0.0/31", 0, ALL), rest],
                &[denied, rest],
                false,
            ),
            // Sessions that are missing afterwards, and some that are missing now.
            (&[denied, rest], &[denied, (Permit, rest.1, 0, ALL)], false),
            (&[denied, (Permit, rest.1, 0, ALL)], &[denied, rest], true),
        ] {
            let [before, after] =
                [before, after].map(|rules| rules.iter().copied().map(rule).collect::<Vec<_>>());
            assert_eq!(
                lets_as_much_pass(&before, &after),
                expected,
                "{before:?} {after:?}"
            );
        }
    }
}
