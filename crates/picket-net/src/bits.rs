//! Sets of small integers as the 64-bit words that hold any.

/// A set of small integers, quick to cut where many are near each other: the intersection of two sets of a thousand
/// neighbours is sixteen operations.
///
/// Where members come in long runs, [`IntervalSet`](crate::IntervalSet) is smaller.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitSet {
    /// Each word that is not zero with its place, ascending.
    words: Vec<(u32, u64)>,
}

impl BitSet {
    /// The set without members.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|(_, word)| word.count_ones() as usize)
            .sum()
    }

    /// The smallest member.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.words.first().map(|&word| lowest(word))
    }

    /// The largest member.
    #[must_use]
    pub fn last(&self) -> Option<u32> {
        let &(place, word) = self.words.last()?;
        Some(place * 64 + (63 - word.leading_zeros()))
    }

    /// Whether `member` is one.
    #[must_use]
    pub fn contains(&self, member: u32) -> bool {
        let at = self
            .words
            .binary_search_by_key(&(member / 64), |&(place, _)| place);
        let word = at.ok().and_then(|at| self.words.get(at));
        word.is_some_and(|&(_, word)| word & bit(member) != 0)
    }

    /// Every member, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words
            .iter()
            .flat_map(|&(place, word)| Members { place, word })
    }

    /// Puts in a member that is larger than every one so far; any other leaves the set as it was.
    ///
    /// Building a set that way takes no search.
    pub fn push(&mut self, member: u32) {
        match self.words.last_mut() {
            Some((place, word)) if *place == member / 64 => {
                if bit(member) > *word {
                    *word |= bit(member);
                }
            }
            Some((place, _)) if *place > member / 64 => {}
            _ => self.words.push((member / 64, bit(member))),
        }
    }

    /// Puts in every member of `other`.
    pub fn extend(&mut self, other: &Self) {
        for &(place, more) in &other.words {
            match self.words.binary_search_by_key(&place, |&(place, _)| place) {
                Ok(at) => {
                    if let Some((_, word)) = self.words.get_mut(at) {
                        *word |= more;
                    }
                }
                Err(at) => self.words.insert(at, (place, more)),
            }
        }
    }

    /// The members of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut common = self.common(other);
        let Some(first) = common.next() else {
            return Self::empty();
        };
        let mut words = Vec::with_capacity(self.words.len().min(other.words.len()));
        words.push(first);
        words.extend(common);
        Self { words }
    }

    /// The members that `other` does not have.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut others = other.words.iter().peekable();
        let mut words = Vec::with_capacity(self.words.len());
        words.extend(self.words.iter().filter_map(|&(place, word)| {
            while others.next_if(|other| other.0 < place).is_some() {}
            let left = match others.peek() {
                Some(&&(there, other)) if there == place => word & !other,
                _ => word,
            };
            (left != 0).then_some((place, left))
        }));
        Self { words }
    }

    /// Whether every member of `other` is one.
    #[must_use]
    pub fn contains_all(&self, other: &Self) -> bool {
        let mut common = self.common(other);
        other.words.iter().all(|&word| common.next() == Some(word))
    }

    /// The smallest member of both.
    #[must_use]
    pub fn first_common(&self, other: &Self) -> Option<u32> {
        self.common(other).next().map(lowest)
    }

    /// The words of the members of both.
    fn common<'s>(&'s self, other: &'s Self) -> impl Iterator<Item = (u32, u64)> + 's {
        let (few, many) = if self.words.len() <= other.words.len() {
            (self, other)
        } else {
            (other, self)
        };
        let from = few.words.first().map_or(0, |&(first, _)| {
            many.words.partition_point(|&(place, _)| place < first)
        });
        let mut many = many.words.get(from..).unwrap_or_default().iter().peekable();
        few.words.iter().filter_map(move |&(place, word)| {
            while many.next_if(|other| other.0 < place).is_some() {}
            let &&(there, other) = many.peek()?;
            (there == place && word & other != 0).then_some((place, word & other))
        })
    }
}

impl FromIterator<u32> for BitSet {
    fn from_iter<I: IntoIterator<Item = u32>>(members: I) -> Self {
        let mut members: Vec<u32> = members.into_iter().collect();
        members.sort_unstable();
        let mut set = Self::empty();
        for member in members {
            set.push(member);
        }
        set
    }
}

/// The members of one word.
struct Members {
    place: u32,
    word: u64,
}

impl Iterator for Members {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.word == 0 {
            return None;
        }
        let member = lowest((self.place, self.word));
        self.word &= self.word - 1;
        Some(member)
    }
}

fn bit(member: u32) -> u64 {
    1 << (member % 64)
}

fn lowest((place, word): (u32, u64)) -> u32 {
    place * 64 + word.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::BitSet;

    fn members() -> impl Strategy<Value = BTreeSet<u32>> {
        let near = 0..300_u32;
        let far = prop_oneof![Just(u32::MAX), Just(u32::MAX - 63), 5_000..5_200_u32];
        prop::collection::btree_set(prop_oneof![4 => near, 1 => far], 0..80)
    }

    fn set(members: &BTreeSet<u32>) -> BitSet {
        members.iter().copied().collect()
    }

    proptest! {
        #[test]
        fn sets_are_what_ordered_sets_are(one in members(), other in members(), asked: u32) {
            let (a, b) = (set(&one), set(&other));
            prop_assert_eq!(&a.iter().collect::<BTreeSet<_>>(), &one);
            prop_assert_eq!(a.len(), one.len());
            prop_assert_eq!(a.is_empty(), one.is_empty());
            prop_assert_eq!(a.first(), one.first().copied());
            prop_assert_eq!(a.last(), one.last().copied());
            prop_assert_eq!(a.contains(asked), one.contains(&asked));
            prop_assert!(one.iter().all(|&member| a.contains(member)));
            let both: BTreeSet<u32> = one.intersection(&other).copied().collect();
            prop_assert_eq!(a.intersection(&b), set(&both));
            prop_assert_eq!(a.first_common(&b), both.first().copied());
            let mut either = a.clone();
            either.extend(&b);
            prop_assert_eq!(either, set(&one.union(&other).copied().collect()));
            prop_assert_eq!(a.difference(&b), set(&one.difference(&other).copied().collect()));
            prop_assert_eq!(a.contains_all(&b), one.is_superset(&other));
            prop_assert!(a.contains_all(&a.intersection(&b)));
            prop_assert_eq!(a == b, one == other);
        }

        #[test]
        fn whatever_is_not_larger_is_not_pushed(one in members(), more: u32) {
            let mut pushed = set(&one);
            pushed.push(more);
            let mut expected = one.clone();
            if one.last().is_none_or(|&last| last < more) {
                expected.insert(more);
            }
            prop_assert_eq!(pushed, set(&expected));
        }
    }
}
