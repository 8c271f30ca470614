//! Subjects: pods to which the same policies apply in one direction.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use picket_cluster::NamedPort;
use picket_policy::{Direction, Tier};
use rustc_hash::FxHashMap;

use crate::Program;
use crate::allow::Allowed;
use crate::policy::Stance;
use crate::slab::{PolicyId, Slab, keys};

keys! {
    /// Pods to which the same policies apply in one direction and, for ingress, whose named ports resolve alike.
    ///
    /// A small integer. A pod to which no policy applies in a direction has none: everything is allowed.
    pub struct SubjectId;
}

impl SubjectId {
    /// The number.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for SubjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether policies of the NetworkPolicy tier isolate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Isolation {
    /// None would.
    None,
    /// Only policies that are audited would.
    Audited,
    /// One does.
    Enforced,
}

impl Isolation {
    pub(crate) fn is_in(self, stance: Stance) -> bool {
        match self {
            Self::None => false,
            Self::Audited => stance == Stance::IfEnforced,
            Self::Enforced => true,
        }
    }

    /// Whether rules of a tier that deny do: custom rules are about isolated pods, and to one that only audited policies would
    /// isolate they deny nothing.
    pub(crate) fn lets_deny(self, tier: Tier, stance: Stance) -> bool {
        tier != Tier::Custom || self.is_in(stance)
    }

    /// Whether a tier can decide, in one stance or the other: isolation is final, and custom rules are about isolated pods.
    pub(crate) fn reaches(self, tier: Tier) -> bool {
        match tier {
            Tier::Admin => true,
            Tier::Custom | Tier::NetworkPolicy => self != Self::None,
            Tier::ClusterDefault | Tier::Baseline => self != Self::Enforced,
        }
    }
}

/// What makes a subject.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SubjectKey {
    pub(crate) direction: Direction,
    pub(crate) isolation: Isolation,
    /// The policies that can decide, but for those about every pod; in the order in which they are judged.
    pub(crate) policies: Box<[PolicyId]>,
    /// Ingress: the pod's ports whose names policies that can decide use.
    pub(crate) ports: Box<[NamedPort]>,
}

#[derive(Debug)]
struct Entry {
    key: SubjectKey,
    /// Groups of pods.
    uses: u32,
    /// Grows whenever a policy of the subject changes.
    revision: u64,
    /// Filled when somebody asks.
    cached: Mutex<Option<Cached>>,
}

impl Clone for Entry {
    fn clone(&self) -> Self {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            key: self.key.clone(),
            cached: Mutex::new(cached.clone()),
            ..*self
        }
    }
}

#[derive(Clone, Debug)]
struct Cached {
    revision: u64,
    /// The revision of the policies about every pod.
    universal: u64,
    epoch: u64,
    allowed: Allowed,
}

/// All subjects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subjects {
    entries: Slab<SubjectId, Entry>,
    by_key: FxHashMap<SubjectKey, SubjectId>,
}

impl Subjects {
    pub(crate) fn find(&self, key: &SubjectKey) -> Option<SubjectId> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn key(&self, id: SubjectId) -> Option<&SubjectKey> {
        self.entries.get(id).map(|entry| &entry.key)
    }

    pub(crate) fn uses(&self, id: SubjectId) -> u32 {
        self.entries.get(id).map_or(0, |entry| entry.uses)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SubjectId, &SubjectKey)> {
        self.entries.iter().map(|(id, entry)| (id, &entry.key))
    }

    /// Counts one more group; says whether it is the first.
    pub(crate) fn acquire(&mut self, key: SubjectKey) -> (SubjectId, bool) {
        if let Some(id) = self.find(&key) {
            self.entries[id].uses += 1;
            return (id, false);
        }
        let id = self.entries.insert(Entry {
            key: key.clone(),
            uses: 1,
            revision: 0,
            cached: Mutex::default(),
        });
        self.by_key.insert(key, id);
        (id, true)
    }

    /// Counts one group less; says whether it was the last.
    pub(crate) fn release(&mut self, id: SubjectId) -> bool {
        self.entries[id].uses -= 1;
        if self.entries[id].uses > 0 {
            return false;
        }
        if let Some(entry) = self.entries.retire(id) {
            self.by_key.remove(&entry.key);
        }
        true
    }

    /// Lets the numbers of subjects that are gone be used again.
    pub(crate) fn recycle(&mut self) {
        self.entries.recycle();
    }

    /// Makes a subject with all its groups another one.
    pub(crate) fn rename(&mut self, id: SubjectId, key: SubjectKey) {
        self.by_key.insert(key.clone(), id);
        let before = std::mem::replace(&mut self.entries[id].key, key);
        self.by_key.remove(&before);
        self.touch(id);
    }

    /// Notes that a policy of the subject changed.
    pub(crate) fn touch(&mut self, id: SubjectId) {
        self.entries[id].revision += 1;
    }

    /// What a subject allows; the same allocation as long as that does not change.
    pub(crate) fn allowed(&self, id: SubjectId, program: &Program) -> Option<Allowed> {
        let entry = self.entries.get(id)?;
        let epoch = program.identities.epoch();
        let universal = program.universal.revision(entry.key.direction);
        let mut cached = entry.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let known = cached
            .as_ref()
            .filter(|cached| cached.revision == entry.revision && cached.universal == universal);
        let now = match known.zip(known.and_then(|known| program.identities.since(known.epoch))) {
            Some((known, touched)) if touched.is_empty() => return Some(known.allowed.clone()),
            Some((known, touched)) => known.allowed.patched(program, &entry.key, &touched),
            None => {
                let now = Allowed::of(program, &entry.key);
                let before = cached.as_ref().map(|cached| &cached.allowed);
                before.filter(|before| **before == now).cloned().unwrap_or(now)
            }
        };
        *cached = Some(Cached {
            revision: entry.revision,
            universal,
            epoch,
            allowed: now.clone(),
        });
        Some(now)
    }
}
