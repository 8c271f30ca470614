//! Identities that no side tells apart, in groups.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use picket_engine::IdentitySet;
use rustc_hash::{FxHashMap, FxHashSet};

use super::class::NOBODY;
use super::restrict::hash_of;

/// The number of a side in signatures.
pub(super) type SideKey = u32;

/// What is allowed with some identities. It may be long, and is looked up often: its hash is worked out once.
#[derive(Clone, Debug)]
pub(super) struct Signature {
    hash: u64,
    /// At which sides, and which class of traffic. Ascending, and no side twice.
    allowed: Arc<[(SideKey, u32)]>,
}

impl Signature {
    fn new(allowed: Vec<(SideKey, u32)>) -> Self {
        Self {
            hash: hash_of(&allowed),
            allowed: allowed.into(),
        }
    }

    /// At which sides anything is allowed, and which class of traffic.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SideKey, u32)> + '_ {
        self.allowed.iter().copied()
    }
}

impl PartialEq for Signature {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && (Arc::ptr_eq(&self.allowed, &other.allowed) || self.allowed == other.allowed)
    }
}

impl Eq for Signature {}

impl Hash for Signature {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// All identities with which anything is allowed, in groups of the same signature.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    signatures: FxHashMap<u32, Signature>,
    members: FxHashMap<Signature, BTreeSet<u32>>,
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
        let kept = signature.into_iter().flat_map(Signature::iter);
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
        let mut seen: FxHashSet<Signature> = FxHashSet::default();
        let mut touched: Vec<(Signature, Option<u32>)> = Vec::new();
        let mut touch = |groups: &Self, signature: &Signature| {
            if seen.insert(signature.clone()) {
                touched.push((signature.clone(), groups.class_of(signature)));
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
            if now.as_slice() == before.as_ref().map_or(&[][..], |before| &before.allowed) {
                continue;
            }
            moved.identities.insert(identity);
            if let Some(before) = before {
                touch(self, &before);
                self.signatures.remove(&identity);
                self.leave(&before, identity);
            }
            if !now.is_empty() {
                let now = Signature::new(now);
                touch(self, &now);
                let (shared, _) = self.members.get_key_value(&now).unzip();
                let shared = shared.cloned().unwrap_or(now);
                self.members.entry(shared.clone()).or_default().insert(identity);
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
                .extend(before.map(|class| (signature.clone(), class)));
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
