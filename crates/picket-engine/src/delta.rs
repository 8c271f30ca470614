//! What an event changed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_cluster::Addresses;
use picket_net::Prefix;
use picket_policy::{Direction, ObjectRef};
use smol_str::SmolStr;

use crate::atom::Holder;
use crate::slab::PodId;
use crate::universal::Reach;
use crate::{Identity, SubjectId};

/// What one event changed in a [`crate::Program`]. Every list is sorted and without repetitions.
///
/// What a subject allows has changed exactly when the subject is in `subjects`, or towards identities in `identities`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Addresses of pods and nodes that came, went, or have another identity now.
    pub addresses: Vec<Change<IpAddr, Identity>>,
    /// Prefixes that came, went, or whose addresses of nobody have another identity now; the longest prefix decides.
    pub prefixes: Vec<Change<Prefix, Identity>>,
    /// Identities that came and went.
    pub identities: Comings<Identity>,
    /// Subjects that came and went.
    pub subjects: Comings<SubjectId>,
    /// Subjects that were there before and whose policies say something else now.
    pub changed_subjects: Vec<SubjectId>,
    /// Pods of which something changed that a dataplane must know.
    pub pods: Vec<Change<ObjectRef, PodState>>,
    /// Nodes that came or went, or whose addresses changed.
    pub nodes: Vec<SmolStr>,
    /// Services that came or went, or that have other addresses now.
    pub services: Vec<ObjectRef>,
    /// Policies that came or went, or that say something else now.
    pub policies: Vec<ObjectRef>,
}

impl Delta {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One thing before and after; `None` where it did not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<K, V> {
    /// What changed.
    pub key: K,
    /// What it was.
    pub before: Option<V>,
    /// What it is.
    pub after: Option<V>,
}

/// What came and what went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comings<T> {
    /// Those that are new.
    pub added: Vec<T>,
    /// Those that are gone.
    pub removed: Vec<T>,
}

impl<T> Default for Comings<T> {
    fn default() -> Self {
        Self {
            added: Vec::new(),
            removed: Vec::new(),
        }
    }
}

/// What a dataplane must know of a pod that policies can apply to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodState {
    /// The node it runs on.
    pub node: Option<SmolStr>,
    /// Its addresses.
    pub addresses: Addresses,
    /// What applies to it in each direction; see [`PodState::subject`].
    pub(crate) subjects: [Option<SubjectId>; 2],
}

impl PodState {
    /// What applies to it in one direction; `None` when nothing does.
    pub fn subject(&self, direction: Direction) -> Option<SubjectId> {
        let [ingress, egress] = self.subjects;
        match direction {
            Direction::Ingress => ingress,
            Direction::Egress => egress,
        }
    }
}

/// An address as it was when the event touched it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub(crate) address: IpAddr,
    pub(crate) before: Option<Identity>,
    /// Who had it and has it still, if this touch gave that one another identity.
    pub(crate) holder: Option<Holder>,
}

/// How things were when the event began, for those that it touched.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    /// Whether changes are recorded: not while compiling from nothing.
    pub(crate) recording: bool,
    /// In the order in which they were touched; the first touch of an address says what it was.
    pub(crate) addresses: Vec<Touch>,
    pub(crate) prefixes: BTreeMap<Prefix, Option<Identity>>,
    pub(crate) identities: Tally<Identity>,
    pub(crate) subjects: Tally<SubjectId>,
    pub(crate) changed_subjects: BTreeSet<SubjectId>,
    /// Which other subjects changed, by what makes them.
    pub(crate) universal: Vec<Reach>,
    pub(crate) pods: BTreeMap<PodId, (ObjectRef, Option<PodState>)>,
    pub(crate) nodes: BTreeSet<SmolStr>,
    pub(crate) services: BTreeSet<ObjectRef>,
    pub(crate) policies: BTreeSet<ObjectRef>,
}

/// What came and went so far; what came and went again never was.
#[derive(Clone, Debug)]
pub(crate) struct Tally<T> {
    added: BTreeSet<T>,
    removed: BTreeSet<T>,
}

impl<T> Default for Tally<T> {
    fn default() -> Self {
        Self {
            added: BTreeSet::new(),
            removed: BTreeSet::new(),
        }
    }
}

impl<T: Ord + Copy> Tally<T> {
    pub(crate) fn add(&mut self, key: T) {
        self.added.insert(key);
    }

    pub(crate) fn remove(&mut self, key: T) {
        if !self.added.remove(&key) {
            self.removed.insert(key);
        }
    }

    pub(crate) fn is_new(&self, key: T) -> bool {
        self.added.contains(&key)
    }

    pub(crate) fn finish(self) -> Comings<T> {
        Comings {
            added: self.added.into_iter().collect(),
            removed: self.removed.into_iter().collect(),
        }
    }
}
