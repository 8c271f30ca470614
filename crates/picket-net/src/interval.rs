//! Sets of integers as sorted, disjoint, non-adjacent inclusive intervals.

/// An integer type whose values [`IntervalSet`] can hold.
pub trait Bound: Copy + Ord + std::fmt::Debug + std::hash::Hash {
    /// The smallest value.
    const MIN: Self;
    /// The largest value.
    const MAX: Self;
    /// The next larger value, or `None` above [`Bound::MAX`].
    fn successor(self) -> Option<Self>;
    /// The next smaller value, or `None` below [`Bound::MIN`].
    fn predecessor(self) -> Option<Self>;
}

macro_rules! bound {
    ($($integer:ty),*) => {$(
        impl Bound for $integer {
            const MIN: Self = <$integer>::MIN;
            const MAX: Self = <$integer>::MAX;
            fn successor(self) -> Option<Self> { self.checked_add(1) }
            fn predecessor(self) -> Option<Self> { self.checked_sub(1) }
        }
    )*};
}
bound!(u8, u16, u32, u128);

/// An inclusive, non-empty interval `first..=last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interval<T> {
    first: T,
    last: T,
}

impl<T: Bound> Interval<T> {
    /// Every value of `T`.
    pub const ALL: Self = Self {
        first: T::MIN,
        last: T::MAX,
    };

    /// The interval from `first` to `last`, or `None` when `last` is below `first`.
    pub fn new(first: T, last: T) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// The interval that holds only `value`.
    pub const fn single(value: T) -> Self {
        Self {
            first: value,
            last: value,
        }
    }

    /// The smallest member.
    pub fn first(&self) -> T {
        self.first
    }

    /// The largest member.
    pub fn last(&self) -> T {
        self.last
    }

    /// Whether `value` is a member.
    pub fn contains(&self, value: T) -> bool {
        self.first <= value && value <= self.last
    }

    /// The members in both intervals.
    pub fn overlap(&self, other: &Self) -> Option<Self> {
        Self::new(self.first.max(other.first), self.last.min(other.last))
    }
}

impl Interval<u16> {
    /// Every value but 0.
    pub(crate) const ABOVE_ZERO: Self = Self {
        first: 1,
        last: u16::MAX,
    };
}

/// One set has many intervals and another few where it has more than this for each of theirs.
const MANY: usize = 16;

/// A set of integers: sorted, disjoint, non-adjacent inclusive intervals.
///
/// All operations are linear in the number of intervals, [`IntervalSet::contains`] is logarithmic, and so is
/// [`IntervalSet::intersection`] for each of few intervals with a set of many.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntervalSet<T>(Vec<Interval<T>>);

impl<T> Default for IntervalSet<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> IntervalSet<T> {
    /// No value.
    pub const EMPTY: Self = Self(Vec::new());
}

impl<T: Bound> IntervalSet<T> {
    /// No value.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Every value of `T`.
    pub fn all() -> Self {
        Self(vec![Interval::ALL])
    }

    /// Whether the set has no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set holds every value of `T`.
    pub fn is_all(&self) -> bool {
        self.0 == [Interval::ALL]
    }

    /// The maximal intervals, ascending.
    pub fn intervals(&self) -> &[Interval<T>] {
        &self.0
    }

    /// The smallest member.
    pub fn first(&self) -> Option<T> {
        self.0.first().map(Interval::first)
    }

    /// Whether `value` is a member.
    pub fn contains(&self, value: T) -> bool {
        let after = self.0.partition_point(|interval| interval.first <= value);
        after
            .checked_sub(1)
            .and_then(|at| self.0.get(at))
            .is_some_and(|interval| interval.contains(value))
    }

    /// Whether every member of `other` is a member.
    pub fn contains_all(&self, other: &Self) -> bool {
        other.difference(self).is_empty()
    }

    /// Whether the sets share a member.
    pub fn overlaps(&self, other: &Self) -> bool {
        !self.intersection(other).is_empty()
    }

    /// Adds `value`; says whether it was new. Constant time when `value` is above every member.
    pub fn insert(&mut self, value: T) -> bool {
        let after = self.0.partition_point(|interval| interval.first <= value);
        let before = after.checked_sub(1);
        if before
            .and_then(|at| self.0.get(at))
            .is_some_and(|interval| interval.contains(value))
        {
            return false;
        }
        let joins_before =
            before.filter(|&at| self.0.get(at).and_then(|left| left.last.successor()) == Some(value));
        let joins_after = self.0.get(after).and_then(|right| right.first.predecessor()) == Some(value);
        match (joins_before, joins_after) {
            (Some(at), true) => {
                let right = self.0.remove(after);
                if let Some(left) = self.0.get_mut(at) {
                    left.last = right.last;
                }
            }
            (Some(at), false) => {
                if let Some(left) = self.0.get_mut(at) {
                    left.last = value;
                }
            }
            (None, true) => {
                if let Some(right) = self.0.get_mut(after) {
                    right.first = value;
                }
            }
            (None, false) => self.0.insert(after, Interval::single(value)),
        }
        true
    }

    /// Takes `value` out; says whether it was a member. The nearer it is to the largest member, the faster.
    pub fn remove(&mut self, value: T) -> bool {
        let after = self.0.partition_point(|interval| interval.first <= value);
        let Some(at) = after.checked_sub(1) else {
            return false;
        };
        let Some(&interval) = self.0.get(at).filter(|interval| interval.contains(value)) else {
            return false;
        };
        let left = value
            .predecessor()
            .and_then(|last| Interval::new(interval.first, last));
        let right = value
            .successor()
            .and_then(|first| Interval::new(first, interval.last));
        match (left, right) {
            (None, None) => drop(self.0.remove(at)),
            (Some(rest), None) | (None, Some(rest)) => {
                if let Some(slot) = self.0.get_mut(at) {
                    *slot = rest;
                }
            }
            (Some(left), Some(right)) => drop(self.0.splice(at..=at, [left, right])),
        }
        true
    }

    /// The values in either set.
    pub fn union(&self, other: &Self) -> Self {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut merged = Vec::with_capacity(self.0.len() + other.0.len());
        loop {
            let next = match (ours.peek(), theirs.peek()) {
                (Some(a), Some(b)) if a.first <= b.first => ours.next(),
                (_, Some(_)) => theirs.next(),
                (_, None) => ours.next(),
            };
            let Some(&next) = next else { return Self(merged) };
            push_merging(&mut merged, next);
        }
    }

    /// The values in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let (few, many) = if self.0.len() < other.0.len() {
            (&self.0, &other.0)
        } else {
            (&other.0, &self.0)
        };
        if few.len().saturating_mul(MANY) < many.len() {
            Self::looked_up(few, many)
        } else {
            self.merged(other)
        }
    }

    /// The values in both, each of the few looked up among the many.
    fn looked_up(few: &[Interval<T>], many: &[Interval<T>]) -> Self {
        let (mut rest, mut common) = (many, Vec::new());
        for interval in few {
            let below = rest.partition_point(|one| one.last < interval.first);
            rest = rest.get(below..).unwrap_or_default();
            common.extend(rest.iter().map_while(|one| one.overlap(interval)));
        }
        // INVARIANT: as in `merged`.
        Self(common)
    }

    /// The values in both, by walking through the intervals of both.
    fn merged(&self, other: &Self) -> Self {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = Vec::new();
        while let (Some(a), Some(b)) = (ours.peek(), theirs.peek()) {
            common.extend(a.overlap(b));
            // The interval that ends first can meet nothing further on the other side.
            if a.last < b.last {
                ours.next()
            } else {
                theirs.next()
            };
        }
        // INVARIANT: overlaps of sorted, disjoint, non-adjacent intervals are sorted and disjoint; both inputs leave
        // a gap after each interval, so no two overlaps can touch.
        Self(common)
    }

    /// The values in this set and not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        let mut rest = Vec::with_capacity(self.0.len());
        let mut holes = other.0.iter().peekable();
        for &interval in &self.0 {
            let mut remaining = Some(interval);
            while let (Some(current), Some(hole)) = (remaining, holes.peek()) {
                if hole.last < current.first {
                    holes.next();
                    continue;
                }
                if hole.first > current.last {
                    break;
                }
                rest.extend(
                    hole.first
                        .predecessor()
                        .and_then(|last| Interval::new(current.first, last)),
                );
                remaining = hole
                    .last
                    .successor()
                    .and_then(|first| Interval::new(first, current.last));
            }
            rest.extend(remaining);
        }
        Self(rest)
    }

    /// The values that are not in this set.
    pub fn complement(&self) -> Self {
        Self::all().difference(self)
    }

    /// Every member, ascending. Meant for small sets: the whole of `u128` is one interval.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.0.iter().flat_map(|interval| {
            let last = interval.last;
            std::iter::successors(Some(interval.first), move |&value| {
                value.successor().filter(|&next| next <= last)
            })
        })
    }
}

/// Appends `next`, whose first member is not below that of any interval present, joining what overlaps or touches.
fn push_merging<T: Bound>(intervals: &mut Vec<Interval<T>>, next: Interval<T>) {
    match intervals.last_mut() {
        Some(last) if last.last.successor().is_none_or(|after| next.first <= after) => {
            last.last = last.last.max(next.last);
        }
        _ => intervals.push(next),
    }
}

impl<T: Bound> From<Interval<T>> for IntervalSet<T> {
    fn from(interval: Interval<T>) -> Self {
        Self(vec![interval])
    }
}

impl<T: Bound> FromIterator<Interval<T>> for IntervalSet<T> {
    fn from_iter<I: IntoIterator<Item = Interval<T>>>(intervals: I) -> Self {
        let mut sorted: Vec<_> = intervals.into_iter().collect();
        sorted.sort_unstable();
        let mut merged = Vec::with_capacity(sorted.len());
        for interval in sorted {
            push_merging(&mut merged, interval);
        }
        Self(merged)
    }
}

impl<T: Bound> FromIterator<T> for IntervalSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        values.into_iter().map(Interval::single).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn members() -> impl Strategy<Value = BTreeSet<u8>> {
        prop::collection::btree_set(prop_oneof![0u8..24, 240u8..=255, any::<u8>()], 0..40)
    }

    fn set(members: &BTreeSet<u8>) -> IntervalSet<u8> {
        members.iter().copied().collect()
    }

    fn is_canonical(set: &IntervalSet<u8>) -> bool {
        set.intervals()
            .windows(2)
            .all(|pair| pair[0].last.checked_add(1).is_some_and(|gap| gap < pair[1].first))
            && set
                .intervals()
                .iter()
                .all(|interval| interval.first <= interval.last)
    }

    proptest! {
        #[test]
        fn operations_agree_with_sets_of_single_values(a in members(), b in members()) {
            let (left, right) = (set(&a), set(&b));
            let all: BTreeSet<u8> = (0..=255).collect();
            for (result, expected) in [
                (left.union(&right), a.union(&b).copied().collect()),
                (left.intersection(&right), a.intersection(&b).copied().collect()),
                (left.difference(&right), a.difference(&b).copied().collect::<BTreeSet<u8>>()),
                (left.complement(), all.difference(&a).copied().collect()),
            ] {
                prop_assert!(is_canonical(&result));
                prop_assert_eq!(result, set(&expected));
            }
            prop_assert_eq!(left.contains_all(&right), a.is_superset(&b));
            prop_assert_eq!(left.overlaps(&right), !a.is_disjoint(&b));
            prop_assert_eq!(left.iter().collect::<BTreeSet<_>>(), a);
        }

        #[test]
        fn looking_few_intervals_up_finds_what_walking_through_all_does(
            a in members(),
            b in prop::collection::btree_set(any::<u8>(), 0..160),
            few in prop::collection::vec((any::<u8>(), 0u8..40), 0..4),
        ) {
            let (left, right) = (set(&a), set(&b));
            let common = set(&a.intersection(&b).copied().collect());
            prop_assert_eq!(&IntervalSet::looked_up(&left.0, &right.0), &common);
            prop_assert_eq!(&IntervalSet::looked_up(&right.0, &left.0), &common);
            let few = few.into_iter().map(|(first, more)| Interval { first, last: first.saturating_add(more) });
            let few: IntervalSet<u8> = few.collect();
            let common = set(&b.into_iter().filter(|&value| few.contains(value)).collect());
            prop_assert_eq!(&few.intersection(&right), &common);
            prop_assert_eq!(&right.intersection(&few), &common);
        }

        #[test]
        fn inserting_and_removing_agree_with_sets_of_single_values(
            mut expected in members(), steps in prop::collection::vec((any::<bool>(), any::<u8>()), 0..60)
        ) {
            let mut actual = set(&expected);
            for (insert, value) in steps {
                if insert {
                    prop_assert_eq!(actual.insert(value), expected.insert(value));
                } else {
                    prop_assert_eq!(actual.remove(value), expected.remove(&value));
                }
                prop_assert!(is_canonical(&actual));
                prop_assert_eq!(&actual, &set(&expected));
                prop_assert_eq!(actual.contains(value), expected.contains(&value));
            }
        }
    }

    #[test]
    fn the_ends_of_the_range_are_ordinary_values() {
        let everything = IntervalSet::<u128>::all();
        assert!(everything.complement().is_empty());
        assert!(IntervalSet::<u128>::empty().complement().is_all());
        assert!(everything.contains(u128::MAX) && everything.contains(0));
    }
}
