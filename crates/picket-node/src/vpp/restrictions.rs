//! How many pods of the node policies restrict, and which policies these are, kept while both change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_engine::{Change, Delta, PodState, Program, SubjectId};
use picket_policy::{Direction, ObjectRef};

use crate::status::Pods;

/// What restricts the pods of a node.
#[derive(Debug, Default)]
pub(crate) struct Restrictions {
    node: String,
    /// Whether all of this is known: otherwise it is worked out from nothing.
    is_known: bool,
    pods: Pods,
    subjects: BTreeMap<SubjectId, Subject>,
    /// The subjects of which other pods, or other policies, may be there now.
    changed: BTreeSet<SubjectId>,
    /// Because of how many subjects each policy counts.
    policies: BTreeMap<ObjectRef, usize>,
    /// The same, as it is told.
    told: Option<Arc<[String]>>,
}

/// Pods of the node to which the same applies in one direction.
#[derive(Debug, Default)]
struct Subject {
    /// How many there are.
    pods: usize,
    /// Because of which packets of theirs can be dropped.
    policies: Vec<ObjectRef>,
}

impl Restrictions {
    pub(crate) fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            ..Self::default()
        }
    }

    /// Learns what changed in the program.
    pub(crate) fn note(&mut self, delta: &Delta) {
        if !self.is_known {
            return;
        }
        for Change { before, after, .. } in &delta.pods {
            // One that goes on is never counted as none.
            for (state, comes) in [(after, true), (before, false)] {
                if let Some(state) = state
                    && state.node.as_deref() == Some(&self.node)
                {
                    self.count(state, comes);
                }
            }
        }
        let others = delta.subjects.added.iter().chain(&delta.subjects.removed);
        let others = others.chain(&delta.changed_subjects).copied();
        self.changed
            .extend(others.filter(|subject| self.subjects.contains_key(subject)));
    }

    fn count(&mut self, state: &PodState, comes: bool) {
        let own = Direction::BOTH.map(|direction| state.subject(direction));
        let is_restricted = own.iter().any(Option::is_some);
        step(&mut self.pods.all, comes);
        if is_restricted {
            step(&mut self.pods.restricted, comes);
        }
        for subject in own.into_iter().flatten() {
            step(&mut self.subjects.entry(subject).or_default().pods, comes);
            self.changed.insert(subject);
        }
    }

    /// Lets all of it be worked out from nothing.
    pub(crate) fn forget(&mut self) {
        *self = Self::new(&self.node);
    }

    /// How many pods are restricted now, and the policies because of which packets of theirs can be dropped. All changes of the
    /// program since the last time must have been noted.
    pub(crate) fn advance(&mut self, program: &Program) -> (Pods, Arc<[String]>) {
        if !self.is_known {
            self.is_known = true;
            for pod in program.pods_on(&self.node) {
                if !pod.is_managed() {
                    continue;
                }
                let own = Direction::BOTH.map(|direction| pod.subject(direction));
                self.pods.all += 1;
                self.pods.restricted += usize::from(own.iter().any(Option::is_some));
                for subject in own.into_iter().flatten() {
                    self.subjects.entry(subject).or_default().pods += 1;
                    self.changed.insert(subject);
                }
            }
        }
        for subject in std::mem::take(&mut self.changed) {
            self.look(subject, program);
        }
        let policies = &self.policies;
        let told = self
            .told
            .get_or_insert_with(|| policies.keys().map(ObjectRef::to_string).collect());
        (self.pods, Arc::clone(told))
    }

    /// Which policies count because of a subject.
    fn look(&mut self, subject: SubjectId, program: &Program) {
        let Some(known) = self.subjects.get_mut(&subject) else {
            return;
        };
        let now: BTreeSet<_> = match known.pods {
            0 => BTreeSet::new(),
            _ => program
                .deciding_policies(subject)
                .map(|policy| policy.object.clone())
                .collect(),
        };
        let before = std::mem::replace(&mut known.policies, now.iter().cloned().collect());
        if known.pods == 0 {
            self.subjects.remove(&subject);
        }
        for policy in now {
            let count = self.policies.entry(policy).or_default();
            *count += 1;
            if *count == 1 {
                self.told = None;
            }
        }
        for policy in before {
            if let Some(count) = self.policies.get_mut(&policy) {
                *count -= 1;
                if *count == 0 {
                    self.policies.remove(&policy);
                    self.told = None;
                }
            }
        }
    }
}

/// One more, or one less.
fn step(count: &mut usize, comes: bool) {
    *count = match comes {
        true => *count + 1,
        false => count.saturating_sub(1),
    };
}
