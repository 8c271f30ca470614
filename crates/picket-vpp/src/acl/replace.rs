//! Which lists are replaced where they are.
//!
//! One message gives a list of VPP's other rules, at all interfaces that have it; another list takes a message for each of
//! them. But VPP keeps sessions then, where an interface that gets another list forgets its own; and a session is of both ways
//! through its interface, so that what one list has let in has one as soon as it was answered past another that reflects. So a
//! list becomes another where it is only if that lets pass whatever this one did.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::model::{AclAction, AclRule, Tag};
use super::plan::{Handle, Operation, Planner};

/// Operations by place.
type Places = BTreeSet<usize>;

impl Planner<'_> {
    /// Replaces lists where they are, which no interface has any more after these operations: what makes that so, with what of
    /// these must come before it. What is left of these comes after it. `uses` says how often interfaces have a list.
    pub(super) fn replace(
        &mut self,
        sets: &mut Vec<Operation>,
        uses: impl Fn(u32) -> usize,
    ) -> Vec<Operation> {
        // Who loses each list, and who gets which one in its stead and changes in nothing else.
        let mut losing: BTreeMap<u32, (usize, Places)> = BTreeMap::new();
        let mut changing: BTreeMap<(u32, Tag), Places> = BTreeMap::new();
        // What some get as it is must stay what it is.
        let mut wanted = BTreeSet::new();
        for (place, set) in sets.iter().enumerate() {
            wanted.extend(known(set));
            for index in self.lost(set) {
                let (count, places) = losing.entry(index).or_default();
                *count += 1;
                places.insert(place);
            }
            if let Some(change) = self.only_change(set) {
                changing.entry(change).or_default().insert(place);
            }
        }
        let mut changing: Vec<_> = changing.into_iter().collect();
        changing.sort_by_key(|(_, places)| Reverse(places.len()));
        let (mut chosen, mut taken) = (BTreeMap::new(), BTreeSet::new());
        for ((index, tag), places) in changing {
            let Some((_, all)) = losing.get(&index).filter(|(count, _)| *count == uses(index)) else {
                continue;
            };
            let is_free = !wanted.contains(&index) && !taken.contains(&index);
            if is_free && !chosen.contains_key(&tag) && self.lets_as_much_pass(index, &tag) {
                // An interface that gets something else would have the new list meanwhile.
                let before: Places = all.difference(&places).copied().collect();
                taken.insert(index);
                chosen.insert(tag, (index, places, before));
            }
        }
        self.carry_out(sets, chosen)
    }

    /// The operations for lists that become others, each with who needs nothing else and who must have something else before.
    fn carry_out(
        &mut self,
        sets: &mut Vec<Operation>,
        chosen: BTreeMap<Tag, (u32, Places, Places)>,
    ) -> Vec<Operation> {
        let (mut needless, mut first, mut operations) = (Places::new(), Places::new(), Vec::new());
        for (tag, (index, places, before)) in &chosen {
            let mut before_it = before.iter().filter_map(|&place| sets.get(place));
            let waits = before_it.any(|set| made(set).any(|made| chosen.contains_key(made)));
            if !waits && let Some(acl) = self.created.remove(tag) {
                needless.extend(places);
                first.extend(before);
                operations.push(Operation::Replace { index: *index, acl });
            }
        }
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (place, set) in std::mem::take(sets).into_iter().enumerate() {
            match () {
                () if needless.contains(&place) => {}
                () if first.contains(&place) => before.push(set),
                () => after.push(set),
            }
        }
        *sets = after;
        before.extend(operations);
        before
    }

    /// The lists that an interface does not have any more after an operation, each as often as it has it.
    fn lost(&self, set: &Operation) -> impl Iterator<Item = u32> {
        let before = match set {
            Operation::Set { interface, .. } => self.installed.interfaces.get(interface),
            _ => None,
        };
        let before = before
            .into_iter()
            .flat_map(|lists| lists.input.iter().chain(&lists.output));
        let kept: BTreeSet<_> = known(set).collect();
        before.copied().filter(move |index| !kept.contains(index))
    }

    /// The one list that an interface loses by an operation, with the one that it gets in all places of that.
    fn only_change(&self, set: &Operation) -> Option<(u32, Tag)> {
        let Operation::Set {
            interface,
            input,
            output,
        } = set
        else {
            return None;
        };
        let before = self.installed.interfaces.get(interface)?;
        let mut change = None;
        for (before, after) in [(&before.input, input), (&before.output, output)] {
            if before.len() != after.len() {
                return None;
            }
            for (&index, handle) in before.iter().zip(after) {
                match handle {
                    Handle::Installed(same) if *same == index => {}
                    Handle::Created(tag) if change.is_none_or(|known| known == (index, tag)) => {
                        change = Some((index, tag));
                    }
                    _ => return None,
                }
            }
        }
        change.map(|(index, tag)| (index, tag.clone()))
    }

    /// Whether the other list lets pass whatever a list does.
    fn lets_as_much_pass(&self, index: u32, tag: &Tag) -> bool {
        let (before, after) = (self.installed.acls.get(&index), self.created.get(tag));
        before
            .zip(after)
            .is_some_and(|(before, after)| lets_as_much_pass(&before.rules, &after.rules))
    }
}

/// The lists that an interface gets by an operation.
fn handles(set: &Operation) -> impl Iterator<Item = &Handle> {
    let handles = match set {
        Operation::Set { input, output, .. } => [&**input, output],
        _ => [&[][..]; 2],
    };
    handles.into_iter().flatten()
}

/// Those that VPP has already.
fn known(set: &Operation) -> impl Iterator<Item = u32> {
    handles(set).filter_map(|handle| match handle {
        Handle::Installed(index) => Some(*index),
        Handle::Created(_) => None,
    })
}

/// Those that it takes for made.
fn made(set: &Operation) -> impl Iterator<Item = &Tag> {
    handles(set).filter_map(|handle| match handle {
        Handle::Created(tag) => Some(tag),
        Handle::Installed(_) => None,
    })
}

/// Whether other rules let pass whatever some rules do, and reflect what these reflect, as far as can be seen without looking at
/// packets.
///
/// What has no ports meets rules about ports too, so that these do not keep rules apart.
fn lets_as_much_pass(before: &[AclRule], after: &[AclRule]) -> bool {
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
            let mut deciding = before.iter().filter(|rule| match rule.action {
                AclAction::Deny => new.is_part_of(rule),
                AclAction::Permit | AclAction::PermitReflect => rule.may_meet(new),
            });
            deciding.next().is_some_and(|rule| rule.action == AclAction::Deny)
        }
        AclAction::Permit => {
            let mut stronger = before.iter().filter(|rule| rule.action > new.action);
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
        let mut deciding = after
            .iter()
            .filter(|(other, kept)| match other.action >= rule.action {
                true => rule.is_part_of(other),
                false => *kept > Some(place) && rule.may_meet(other),
            });
        deciding
            .next()
            .is_some_and(|(other, _)| other.action >= rule.action)
    })
}

impl AclRule {
    /// Whether everything that it matches another matches too.
    fn is_part_of(&self, other: &Self) -> bool {
        let within = |(first, last): (u16, u16), outer: (u16, u16)| outer.0 <= first && last <= outer.1;
        other.source.contains_prefix(&self.source)
            && other.destination.contains_prefix(&self.destination)
            && (other.protocol == 0
                || other.protocol == self.protocol
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
