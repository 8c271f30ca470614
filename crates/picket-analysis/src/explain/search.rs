//! The smallest change after which a verdict is the other one.
//!
//! Every way that is named has been tried: applied to what the ends see of the cluster, and judged again.

use std::slice;

use picket_cluster::{Flow, Semantics, Snapshot, Verdict};
use picket_policy::Direction;

use super::change::Change;
use super::miss::End;
use super::tiers::{Judged, judge};
use super::{candidate, deny};

/// Changes that make a verdict the other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flip {
    /// The fewest changes that do it, all of which are needed.
    pub changes: Vec<Change>,
    /// Other ways, each complete and of the same number of changes, or at the other end.
    pub others: Vec<Vec<Change>>,
}

/// How many other ways are named.
const OTHERS: usize = 3;

/// One connection, and what its ends see of the cluster.
#[derive(Clone, Copy)]
pub(super) struct Trial<'a> {
    pub(super) semantics: &'a Semantics,
    pub(super) flow: &'a Flow,
}

impl Trial<'_> {
    fn end<'b>(&'b self, scene: &'b Snapshot, direction: Direction) -> End<'b> {
        End {
            scene,
            semantics: self.semantics,
            flow: self.flow,
            direction,
        }
    }

    fn allows(&self, scene: &Snapshot, direction: Direction) -> bool {
        judge(&self.end(scene, direction)).verdict.is_allow()
    }

    fn verdict(&self, scene: &Snapshot) -> Verdict {
        Verdict::from_allowed(
            Direction::BOTH
                .into_iter()
                .all(|direction| self.allows(scene, direction)),
        )
    }

    /// The smallest change after which the connection is judged otherwise; `None` when none that policies or labels
    /// can make does it.
    pub(super) fn flip(&self, scene: &Snapshot) -> Option<Flip> {
        let mut ways = match self.verdict(scene) {
            Verdict::Deny => self.ways_to_allow(scene),
            Verdict::Allow => self.ways_to_deny(scene),
        };
        if ways.is_empty() {
            return None;
        }
        let changes = ways.remove(0);
        ways.retain(|way| way.len() <= changes.len() || is_about_rules(&changes) != is_about_rules(way));
        ways.truncate(OTHERS);
        Some(Flip {
            changes,
            others: ways,
        })
    }

    /// Complete ways, the best first.
    fn ways_to_allow(&self, scene: &Snapshot) -> Vec<Vec<Change>> {
        let denying = Direction::BOTH
            .into_iter()
            .rev()
            .filter(|&direction| !self.allows(scene, direction));
        let denying: Vec<_> = denying.collect();
        let Some((&first, rest)) = denying.split_first() else {
            return Vec::new();
        };
        let mut single = Vec::new();
        let mut partial = Vec::new();
        for &direction in &denying {
            for change in self.candidates(scene, direction) {
                if single.len() > OTHERS {
                    break;
                }
                let changed = after(scene, slice::from_ref(&change));
                if self.verdict(&changed).is_allow() {
                    single.push(vec![change]);
                } else if direction == first && partial.len() <= OTHERS && self.allows(&changed, direction) {
                    partial.push((change, changed));
                }
            }
        }
        if !single.is_empty() {
            single.dedup();
            return single;
        }
        let Some(&second) = rest.first() else {
            return Vec::new();
        };
        self.pairs(partial, second)
    }

    /// Changes at both ends: every one of the first end with the best at the second, and the first with every other.
    fn pairs(&self, partial: Vec<(Change, Snapshot)>, second: Direction) -> Vec<Vec<Change>> {
        let mut ways = Vec::new();
        for (change, changed) in partial {
            let wanted = if ways.is_empty() { OTHERS } else { 1 };
            let completing = self
                .candidates(&changed, second)
                .into_iter()
                .filter(|other| self.verdict(&after(&changed, slice::from_ref(other))).is_allow());
            ways.extend(completing.take(wanted).map(|other| vec![change.clone(), other]));
        }
        ways
    }

    fn candidates(&self, scene: &Snapshot, direction: Direction) -> Vec<Change> {
        let end = self.end(scene, direction);
        candidate::to_allow(&end, &judge(&end))
    }

    /// Ways for each end at which policies can deny, the one with the fewest changes first.
    fn ways_to_deny(&self, scene: &Snapshot) -> Vec<Vec<Change>> {
        let ends = Direction::BOTH.map(|direction| {
            let end = self.end(scene, direction);
            let judged: Judged<'_> = judge(&end);
            deny::to_deny(&end, &judged)
        });
        let mut ways: Vec<_> = ends.into_iter().flatten().collect();
        ways.retain(|way| !self.verdict(&after(scene, way)).is_allow());
        ways.sort_by_key(|way| (!is_about_rules(way), way.len()));
        ways
    }
}

/// Whether the way goes by what is already written.
fn is_about_rules(way: &[Change]) -> bool {
    !way.iter().any(|change| matches!(change, Change::AddPolicy(_)))
}

/// What the ends see of the cluster after all of the changes.
pub(super) fn after(scene: &Snapshot, changes: &[Change]) -> Snapshot {
    let mut changed = scene.clone();
    for change in changes {
        change.apply(&mut changed);
    }
    changed
}
