//! Policies that the kernel does not take in a sandbox, and what holds there in their place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use picket_nftables::client::SyncError;
use picket_policy::{NetworkName, ObjectRef, Policy};
use picket_source::ObjectVersion;

use super::blame::Suspect;
use crate::retry::Retry;

/// What a policy says on each network.
pub(super) type Said = BTreeMap<NetworkName, Arc<Policy>>;

/// What holds in the place of policies.
pub(super) type Substitutes = BTreeMap<ObjectRef, Substitute>;

/// What holds in the place of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Substitute {
    /// What it said when it was in force last, and in which version that was read.
    Former(Said, Option<ObjectVersion>),
    /// It allows nothing, since it was not in force before.
    Closed,
}

/// The policies that are held back.
#[derive(Clone, Default)]
pub(super) struct Held {
    policies: BTreeMap<ObjectRef, HeldBack>,
    /// When to try again to have them in force.
    retry: Option<Retry>,
}

#[derive(Clone)]
struct HeldBack {
    /// What it says, which was refused.
    says: Said,
    substitute: Substitute,
    why: String,
}

impl Held {
    /// The policies that are held back.
    pub(super) fn policies(&self) -> impl Iterator<Item = &ObjectRef> {
        self.policies.keys()
    }

    /// Whether a policy is.
    pub(super) fn holds(&self, policy: &ObjectRef) -> bool {
        self.policies.contains_key(policy)
    }

    /// Why they are, policy by policy.
    pub(super) fn why(&self) -> Option<String> {
        let held = self.policies.iter();
        let whys: Vec<_> = held
            .map(|(policy, held)| format!("{policy}: {}", held.why))
            .collect();
        (!whys.is_empty()).then(|| whys.join("; "))
    }

    /// Why one is, if it is.
    pub(super) fn why_of(&self, policy: &ObjectRef) -> Option<String> {
        self.policies.get(policy).map(|held| held.why.clone())
    }

    /// What holds in their place.
    pub(super) fn substitutes(&self) -> Substitutes {
        let held = self.policies.iter();
        held.map(|(policy, held)| (policy.clone(), held.substitute.clone()))
            .collect()
    }

    /// The policies that are as they were, as suspects themselves.
    pub(super) fn as_before(&self) -> impl Iterator<Item = Suspect> {
        let held = self.policies.iter();
        let former = held.filter(|(_, held)| matches!(held.substitute, Substitute::Former(..)));
        former.map(|(policy, held)| Suspect {
            policy: policy.clone(),
            says: held.says.clone(),
            substitute: Substitute::Closed,
            before: Some(held.substitute.clone()),
            former: None,
        })
    }

    /// Lets something else hold in the place of a policy that is held back.
    pub(super) fn hold_as(&mut self, policy: &ObjectRef, substitute: Substitute) {
        if let Some(held) = self.policies.get_mut(policy) {
            held.substitute = substitute;
        }
    }

    /// Holds a policy back that says what was refused.
    pub(super) fn hold(&mut self, policy: ObjectRef, says: Said, substitute: Substitute, error: &SyncError) {
        let why = error.to_string();
        let held = HeldBack {
            says,
            substitute,
            why,
        };
        self.policies.insert(policy, held);
    }

    /// Lets a policy be as it should.
    pub(super) fn release(&mut self, policy: &ObjectRef) {
        self.policies.remove(policy);
    }

    /// Lets those be as they should that do not say any more what was refused.
    pub(super) fn release_changed(&mut self, says: impl Fn(&ObjectRef) -> Said) {
        self.policies.retain(|policy, held| held.says == says(policy));
    }

    /// Forgets those that are closed and do not apply any more.
    pub(super) fn retain_applying(&mut self, policies: &[ObjectRef]) {
        self.policies.retain(|policy, held| {
            matches!(held.substitute, Substitute::Former(..)) || policies.contains(policy)
        });
    }

    /// Whether it is time to try those again that are held back. If so none is held back any more.
    pub(super) fn retries(&mut self, now: Instant) -> bool {
        let is_due = !self.policies.is_empty() && self.retry.is_some_and(|retry| retry.at <= now);
        if is_due {
            self.policies.clear();
        }
        is_due
    }

    /// Has the time come already to try again.
    #[cfg(test)]
    pub(super) fn hurry(&mut self) {
        self.retry.iter_mut().for_each(Retry::hurry);
    }

    /// Everything is in force but these policies.
    pub(super) fn settle(&mut self, now: Instant) {
        if self.policies.is_empty() {
            self.retry = None;
        } else if self.retry.is_none_or(|retry| retry.at <= now) {
            self.retry = Some(Retry::after(self.retry, now));
        }
    }
}
