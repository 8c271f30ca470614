//! Which lists are replaced where they are.
//!
//! One message gives a list of VPP's other rules, at all interfaces that have it; another list takes a message for each of
//! them. But VPP keeps sessions then, where an interface that gets another list forgets its own; and a session is of both ways
//! through its interface, so that what one list has let in has one as soon as it was answered past another that reflects. So a
//! list becomes another where it is only if that lets pass whatever this one did.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::model::{AclAction, AclRule, Role, Tag};
use super::plan::{Changes, Handle, Planner, Turn};
use crate::work::looked_at;

/// Interfaces that turn, by place, ascending.
type Places = Vec<usize>;

/// A list that is to become another, with the places of those that need nothing else then, and of those that must have
/// something else before.
struct Chosen {
    index: u32,
    needless: Places,
    before: Places,
}

impl<'a> Planner<'a> {
    /// Replaces lists where they are, which no interface has any more after these turns: those of them that make that so come
    /// first, and what is left of them last. `uses` says how often interfaces have a list.
    pub(super) fn replace(&mut self, turns: Vec<Turn<'a>>, uses: impl Fn(u32) -> usize) -> Changes<'a> {
        // Who loses each list, and who gets which one in its stead and changes in nothing else.
        let mut losing: FxHashMap<u32, (usize, Places)> = FxHashMap::default();
        let mut changing: BTreeMap<(u32, &Tag), Places> = BTreeMap::new();
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
            if let Some(change) = turn.only_change() {
                changing.entry(change).or_default().push(place);
            }
        }
        let mut changing: Vec<_> = changing.into_iter().collect();
        changing.sort_by_key(|(_, places)| Reverse(places.len()));
        let (mut chosen, mut taken) = (BTreeMap::new(), BTreeSet::new());
        for ((index, tag), needless) in changing {
            let Some((_, all)) = losing.get(&index).filter(|(count, _)| *count == uses(index)) else {
                continue;
            };
            let is_free = !wanted.contains(&index) && !taken.contains(&index);
            if is_free && !chosen.contains_key(tag) && self.lets_as_much_pass(index, tag) {
                // An interface that gets something else would have the new list meanwhile.
                let before = all.iter().copied();
                let before = before.filter(|place| needless.binary_search(place).is_err());
                let before = before.collect();
                taken.insert(index);
                chosen.insert(
                    tag.clone(),
                    Chosen {
                        index,
                        needless,
                        before,
                    },
                );
            }
        }
        self.carry_out(turns, &chosen)
    }

    /// The changes where lists become others.
    fn carry_out(&mut self, turns: Vec<Turn<'a>>, chosen: &BTreeMap<Tag, Chosen>) -> Changes<'a> {
        let mut changes = Changes::default();
        let (mut needless, mut first) = (BTreeSet::<usize>::new(), BTreeSet::<usize>::new());
        for (tag, list) in chosen {
            let mut before_it = list.before.iter().filter_map(|&place| turns.get(place));
            let waits = before_it.any(|turn| turn.made().any(|made| chosen.contains_key(made)));
            if !waits && let Some(acl) = self.created.remove(tag) {
                needless.extend(&list.needless);
                first.extend(&list.before);
                changes.replaced.push((list.index, acl));
            }
        }
        for (place, turn) in turns.into_iter().enumerate() {
            match () {
                () if needless.contains(&place) => {}
                () if first.contains(&place) => changes.first.push(turn),
                () => changes.last.push(turn),
            }
        }
        changes
    }

    /// Whether the other list lets pass whatever a list does.
    fn lets_as_much_pass(&self, index: u32, tag: &Tag) -> bool {
        let (before, after) = (self.installed.acls.get(&index), self.created.get(tag));
        before
            .zip(after)
            .is_some_and(|(before, after)| lets_as_much_pass(&before.rules, &after.rules))
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

    /// The one list that it loses, with the one that it gets in all places of that; what was cut there is remembered of the
    /// interface, and not of a list.
    fn only_change(&self) -> Option<(u32, &Tag)> {
        let mut change = None;
        for (before, after) in [
            (&self.before.input, &self.input),
            (&self.before.output, &self.output),
        ] {
            if before.len() != after.len() {
                return None;
            }
            for (&index, handle) in before.iter().zip(after) {
                match handle {
                    Handle::Installed(same) if *same == index => {}
                    Handle::Created(tag) if tag.is_for(Role::Cut) => return None,
                    Handle::Created(tag) if change.is_none_or(|known| known == (index, tag)) => {
                        change = Some((index, tag));
                    }
                    _ => return None,
                }
            }
        }
        change
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
    let places: FxHashMap<_, _> = before.iter().zip(0_usize..).collect();
    let after: Vec<_> = after
        .iter()
        .map(|rule| (rule, places.get(rule).copied()))
        .collect();
    let kept = || after.iter().filter_map(|(_, place)| *place);
    if places.len() < before.len() || !kept().is_sorted() {
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
