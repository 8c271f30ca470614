//! Prefixes that decide about addresses that nobody has: the longest one that holds an address does.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use picket_engine::Identity;
use picket_net::Prefix;

/// The prefixes of one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Regions {
    /// Outer ones before those within them.
    identities: BTreeMap<Prefix, Identity>,
    by_identity: BTreeMap<Identity, BTreeSet<Prefix>>,
    /// How many there are of each length.
    lengths: BTreeMap<u8, usize>,
}

impl Regions {
    /// A prefix has an identity now, or with `None` it does not decide any more.
    pub(super) fn set(&mut self, prefix: Prefix, now: Option<Identity>) {
        let before = match now {
            Some(now) => self.identities.insert(prefix, now),
            None => self.identities.remove(&prefix),
        };
        if let Some(before) = before
            && let Some(prefixes) = self.by_identity.get_mut(&before)
        {
            prefixes.remove(&prefix);
            if prefixes.is_empty() {
                self.by_identity.remove(&before);
            }
        }
        if let Some(now) = now {
            self.by_identity.entry(now).or_default().insert(prefix);
        }
        let count = self.lengths.entry(prefix.length()).or_default();
        match (before, now) {
            (None, Some(_)) => *count += 1,
            (Some(_), None) => *count = count.saturating_sub(1),
            _ => {}
        }
        if *count == 0 {
            self.lengths.remove(&prefix.length());
        }
    }

    /// The identity of the longest prefix around another, which may be that itself.
    pub(crate) fn around(&self, prefix: &Prefix) -> Option<Identity> {
        let lengths = self.lengths.range(..=prefix.length()).rev();
        let mut around = lengths.filter_map(|(&length, _)| Prefix::new(prefix.first(), length));
        around.find_map(|around| self.identities.get(&around).copied())
    }

    /// Whether this prefix is one of them.
    pub(crate) fn has(&self, prefix: &Prefix) -> bool {
        self.identities.contains_key(prefix)
    }

    /// The prefixes with an identity.
    pub(crate) fn with(&self, identity: Identity) -> impl Iterator<Item = Prefix> {
        self.by_identity.get(&identity).into_iter().flatten().copied()
    }

    /// The longest prefixes within another, but not those within these.
    pub(crate) fn right_within(&self, outer: Prefix) -> impl Iterator<Item = (Prefix, Identity)> {
        // Behind a prefix come those within it, and behind its last address those beside it.
        let mut after = outer;
        std::iter::from_fn(move || {
            let mut following = self.identities.range((Bound::Excluded(after), Bound::Unbounded));
            let found = following
                .next()
                .filter(|(prefix, _)| outer.contains_prefix(prefix));
            let (&prefix, &identity) = found?;
            after = Prefix::host(prefix.last());
            Some((prefix, identity))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_are_found_by_what_is_around_and_within() {
        let mut regions = Regions::default();
        let prefixes = [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.0.0.0/16",
            "10.0.0.0/24",
            "10.0.1.1/32",
            "10.9.0.0/16",
            "10.255.255.255/32",
            "11.0.0.0/8",
            "255.255.255.255/32",
        ];
        for (number, text) in (1..).zip(prefixes) {
            regions.set(prefix(text), Some(Identity::from_number(number)));
        }
        let around = |regions: &Regions, text: &str| regions.around(&prefix(text)).map(Identity::number);
        for (text, expected) in [
            ("10.0.0.7/32", 4),
            ("10.0.0.0/23", 3),
            ("10.0.1.1/32", 5),
            ("10.0.0.0/15", 2),
            ("12.0.0.0/8", 1),
        ] {
            assert_eq!(around(&regions, text), Some(expected), "{text}");
        }
        let within = |regions: &Regions, text: &str| -> Vec<u32> {
            let within = regions.right_within(prefix(text));
            within.map(|(_, identity)| identity.number()).collect()
        };
        assert_eq!(within(&regions, "0.0.0.0/0"), [2, 8, 9]);
        assert_eq!(within(&regions, "10.0.0.0/8"), [3, 6, 7]);
        assert_eq!(within(&regions, "10.0.0.0/16"), [4, 5]);
        assert!(within(&regions, "11.0.0.0/8").is_empty());
        regions.set(prefix("10.0.0.0/16"), None);
        assert_eq!(within(&regions, "10.0.0.0/8"), [4, 5, 6, 7]);
        assert_eq!(around(&regions, "10.0.0.0/16"), Some(2));
        regions.set(prefix("11.0.0.0/8"), Some(Identity::from_number(2)));
        assert_eq!(regions.with(Identity::from_number(2)).count(), 2);
        assert_eq!(regions.with(Identity::from_number(8)).count(), 0);
    }
}
