//! What became of connections, in numbers.

use std::collections::BTreeMap;

use super::connections::{Side, Talk};

/// Of so many records that came one may be excused.
const OF_WHICH_ONE_IS_EXCUSED: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// How many records of each end came at the other.
    came: BTreeMap<Side, usize>,
    /// How often a connection was cut that had carried something, by who had said that.
    cut: BTreeMap<Talk, usize>,
    /// How often one was seen to go on through changes that allow it.
    kept: BTreeMap<Talk, usize>,
    /// How many records came that nothing allows, of connections that there were without rules.
    pub(super) left: usize,
    /// How many connections that are denied were asked for when there were rules again, and before what is denied was cut.
    pub(super) refused: usize,
}

impl Tally {
    pub(super) fn came(&mut self, by: Side, records: usize) {
        *self.came.entry(by).or_default() += records;
    }

    pub(super) fn cut(&mut self, talk: Talk, had_carried: bool) {
        *self.cut.entry(talk).or_default() += usize::from(had_carried);
    }

    pub(super) fn kept(&mut self, talk: Talk, through_changes: bool) {
        *self.kept.entry(talk).or_default() += usize::from(through_changes);
    }

    /// Holds that enough was seen of every kind, and that hardly anything was excused.
    pub(crate) fn assert_enough(&self, cut: usize, kept: usize) {
        for talk in Talk::ALL {
            let seen = |times: &BTreeMap<Talk, usize>| times.get(&talk).copied().unwrap_or_default();
            assert!(
                seen(&self.cut) >= cut && seen(&self.kept) >= kept,
                "{talk:?}: {self:?}"
            );
        }
        for side in Side::BOTH {
            let came = self.came.get(&side).copied().unwrap_or_default();
            assert!(came > 1000, "{side:?}: {self:?}");
        }
        let all: usize = self.came.values().sum();
        assert!(self.left < all / OF_WHICH_ONE_IS_EXCUSED, "{self:?}");
        assert!(self.refused > 0, "{self:?}");
    }
}
