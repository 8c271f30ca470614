//! Which subjects name an identity, without asking all of them.

use std::collections::BTreeSet;

use picket_engine::{Identity, SubjectId};
use rustc_hash::FxHashMap;

use super::said::Said;
use crate::place::Moves;
use crate::work::looked_at;

/// Subjects by the identities that they say something of.
#[derive(Debug, Default)]
pub(super) struct Naming {
    by_identity: FxHashMap<Identity, BTreeSet<SubjectId>>,
    /// Those that name too many.
    broad: BTreeSet<SubjectId>,
}

/// A subject that names more is asked every time.
const MOST: usize = 64;

impl Naming {
    /// A subject says this.
    pub(super) fn add(&mut self, subject: SubjectId, said: &Said) {
        let Some(named) = said.named(MOST) else {
            self.broad.insert(subject);
            return;
        };
        for identity in named {
            self.by_identity.entry(identity).or_default().insert(subject);
        }
    }

    /// A subject does not say this any more.
    pub(super) fn remove(&mut self, subject: SubjectId, said: &Said) {
        self.broad.remove(&subject);
        for identity in said.named(MOST).into_iter().flatten() {
            let Some(subjects) = self.by_identity.get_mut(&identity) else {
                continue;
            };
            subjects.remove(&subject);
            if subjects.is_empty() {
                self.by_identity.remove(&identity);
            }
        }
    }

    /// The subjects that name any of these identities, and those that may.
    pub(super) fn of(&self, moves: &Moves) -> BTreeSet<SubjectId> {
        let identities = moves.iter().flat_map(|&(before, now)| [before, now]);
        let naming = identities.filter_map(|identity| self.by_identity.get(&identity));
        let subjects = naming.flatten().chain(&self.broad);
        subjects.inspect(|_| looked_at(1)).copied().collect()
    }
}
