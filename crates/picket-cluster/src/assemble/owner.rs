//! Who belongs to whom.

use std::collections::{BTreeMap, BTreeSet};

use picket_policy::ObjectRef;

use super::Candidate;
use crate::Owner;

/// The ownership of all pods and workloads of the input.
pub(super) struct Owners {
    /// The controller of everything that is owned.
    controller: BTreeMap<ObjectRef, Owner>,
    /// Everything that owns something, by kind, namespace and name.
    owning: BTreeSet<ObjectRef>,
}

impl Owners {
    pub(super) fn of(pods: &[Candidate]) -> Self {
        let mut owners = Self {
            controller: BTreeMap::new(),
            owning: BTreeSet::new(),
        };
        for Candidate { object, written } in pods {
            if let Some(controller) = written.owners.first() {
                owners.controller.insert(object.clone(), controller.clone());
            }
            let owning = written.owners.iter().map(|owner| of_owner(object, owner));
            owners.owning.extend(owning);
        }
        owners
    }

    /// Whether it is a pod, or a workload that stands for its pods.
    pub(super) fn has_endpoint(&self, candidate: &Candidate) -> bool {
        let Candidate { object, written } = candidate;
        let stands_for_its_pods =
            !self.owning.contains(object) && written.owners.is_empty() && !written.scaled_to_zero;
        object.kind == "Pod" || stands_for_its_pods
    }

    /// The owner of the owner, as far as the input has them.
    pub(super) fn top(&self, candidate: &Candidate) -> Option<Owner> {
        let mut top = self.controller.get(&candidate.object)?;
        let mut seen = BTreeSet::new();
        loop {
            let object = of_owner(&candidate.object, top);
            match self.controller.get(&object) {
                // Owners that own each other end where they began.
                Some(above) if seen.insert(object) => top = above,
                _ => return Some(top.clone()),
            }
        }
    }
}

/// An owner as an object. Owners live in the namespace of what they own.
fn of_owner(owned: &ObjectRef, owner: &Owner) -> ObjectRef {
    ObjectRef::new(&owner.kind, &owned.namespace, &owner.name)
}
