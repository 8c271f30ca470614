//! Identities that no side tells apart, in groups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_engine::IdentitySet;

use super::class::NOBODY;

/// The number of a side in signatures.
pub(super) type SideKey = u32;

/// What is allowed with some identities: at which sides, and which class of traffic. Ascending, and no side twice.
pub(super) type Signature = Arc<[(SideKey, u32)]>;

/// All identities with which anything is allowed, in groups of the same signature.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    signatures: BTreeMap<u32, Signature>,
    members: BTreeMap<Signature, BTreeSet<u32>>,
}

/// What changes for identities.
#[derive(Debug, Default)]
pub(super) struct Patches(BTreeMap<u32, Patch>);

/// What changes for one identity.
#[derive(Debug, Default)]
struct Patch {
    /// Whether what was allowed before counts no more.
    anew: bool,
    /// The class of traffic that is allowed at sides now, where that changed; of one side the last counts. Ascending if it
    /// is anew.
    sides: Vec<(SideKey, Option<u32>)>,
}

/// What has changed of groups.
#[derive(Debug, Default)]
pub(super) struct Moved {
    /// The groups that are gone or have another class now, with the class that they had.
    pub(super) before: Vec<(Signature, u32)>,
    /// The groups that are new or had another class, with the class that they have.
    pub(super) after: Vec<(Signature, u32)>,
    /// The identities that may have another class now.
    pub(super) identities: BTreeSet<u32>,
}

impl Patches {
    /// Of the identity only this counts: the class of traffic that is allowed at sides, ascending.
    pub(super) fn anew(&mut self, identity: u32, allowed: Vec<(SideKey, u32)>) {
        let sides = allowed.into_iter().map(|(side, traffic)| (side, Some(traffic)));
        self.0.insert(
            identity,
            Patch {
                anew: true,
                sides: sides.collect(),
            },
        );
    }

    /// This class of traffic is allowed with an identity at a side.
    fn allow(&mut self, identity: u32, side: SideKey, traffic: u32) {
        let patch = self.0.entry(identity).or_default();
        patch.sides.push((side, Some(traffic)));
    }

    /// A side allowed something, and allows something else now; for those of `identities`.
    pub(super) fn side(
        &mut self,
        side: SideKey,
        before: &[(u32, &IdentitySet)],
        now: &[(u32, &IdentitySet)],
        identities: &IdentitySet,
    ) {
        let allowed_with = |list: &[(u32, &IdentitySet)], class: u32| {
            let found = list.iter().find(|(other, _)| *other == class);
            found.map_or_else(IdentitySet::empty, |(_, peers)| peers.intersection(identities))
        };
        for &(class, _) in before {
            let left = allowed_with(before, class).difference(&allowed_with(now, class));
            for identity in left.iter() {
                self.0.entry(identity).or_default().sides.push((side, None));
            }
        }
        for &(class, _) in now {
            let entered = allowed_with(now, class).difference(&allowed_with(before, class));
            for identity in entered.iter() {
                self.allow(identity, side, class);
            }
        }
    }
}

impl Patch {
    /// What is allowed after it.
    fn over(self, signature: Option<&Signature>) -> Vec<(SideKey, u32)> {
        if self.anew {
            let allowed = self.sides.into_iter();
            return allowed
                .filter_map(|(side, traffic)| Some((side, traffic?)))
                .collect();
        }
        let kept = signature.into_iter().flat_map(|old| old.iter().copied());
        let mut sides: BTreeMap<SideKey, u32> = kept.collect();
        for (side, traffic) in self.sides {
            match traffic {
                Some(traffic) => sides.insert(side, traffic),
                None => sides.remove(&side),
            };
        }
        sides.into_iter().collect()
    }
}

impl Groups {
    /// The class of an identity: the number of the lowest in its group, so that one more in it renumbers nobody.
    pub(super) fn class(&self, identity: u32) -> u32 {
        let signature = self.signatures.get(&identity);
        signature.map_or(NOBODY, |signature| self.class_of(signature).unwrap_or(NOBODY))
    }

    fn class_of(&self, signature: &Signature) -> Option<u32> {
        self.members.get(signature)?.first().map(|lowest| lowest + 1)
    }

    /// Changes what is allowed with identities, and forgets those that are gone.
    pub(super) fn advance(&mut self, patches: Patches, gone: &IdentitySet) -> Moved {
        let mut moved = Moved::default();
        let mut touched: BTreeMap<Signature, Option<u32>> = BTreeMap::new();
        let mut touch = |groups: &Self, signature: &Signature| {
            if !touched.contains_key(signature) {
                touched.insert(Arc::clone(signature), groups.class_of(signature));
            }
        };
        for identity in gone.iter() {
            if let Some(signature) = self.signatures.remove(&identity) {
                touch(self, &signature);
                self.leave(&signature, identity);
            }
            moved.identities.insert(identity);
        }
        for (identity, patch) in patches.0 {
            let before = self.signatures.get(&identity).cloned();
            let now = patch.over(before.as_ref());
            if now.as_slice() == before.as_deref().unwrap_or_default() {
                continue;
            }
            moved.identities.insert(identity);
            if let Some(before) = before {
                touch(self, &before);
                self.signatures.remove(&identity);
                self.leave(&before, identity);
            }
            if !now.is_empty() {
                let now = Signature::from(now);
                touch(self, &now);
                let (shared, _) = self.members.get_key_value(&now).unzip();
                let shared = shared.map_or_else(|| Arc::clone(&now), Arc::clone);
                self.members
                    .entry(Arc::clone(&shared))
                    .or_default()
                    .insert(identity);
                self.signatures.insert(identity, shared);
            }
        }
        for (signature, before) in touched {
            let now = self.class_of(&signature);
            if now == before {
                continue;
            }
            if now.is_some() {
                moved
                    .identities
                    .extend(self.members.get(&signature).into_iter().flatten());
            }
            moved
                .before
                .extend(before.map(|class| (Arc::clone(&signature), class)));
            moved.after.extend(now.map(|class| (signature, class)));
        }
        moved
    }

    fn leave(&mut self, signature: &Signature, identity: u32) {
        if let Some(members) = self.members.get_mut(signature) {
            members.remove(&identity);
            if members.is_empty() {
                self.members.remove(signature);
            }
        }
    }
}
