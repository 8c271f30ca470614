//! How many packets were dropped in pods because of which policy.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use picket_linux::NetworkNamespace;
use picket_linux::runtime::SandboxId;
use picket_nftables::client::Counters;
use picket_nftables::model::Name;
use picket_nftables::render::documented;
use picket_nftables::render::drops::{audit_counter_name, counter_name, mid_stream_counter, spoofed_counter};
use picket_policy::{Direction, ObjectRef};

use crate::drops::Dropped;

/// Adds up the counters of all pods. What pods had counted that are gone stays in the sums as long as the policies are in
/// force somewhere.
#[derive(Clone, Default)]
pub(super) struct Drops(Arc<Mutex<Sums>>);

#[derive(Default)]
struct Sums {
    places: BTreeMap<SandboxId, Place>,
    by_policy: BTreeMap<(ObjectRef, Direction), u64>,
    audited: BTreeMap<(ObjectRef, Direction), u64>,
    mid_stream: u64,
    spoofed: u64,
}

/// A restricted sandbox.
pub(super) struct Place {
    namespace: Arc<NetworkNamespace>,
    policies: Vec<ObjectRef>,
    /// What its counters said last.
    read: BTreeMap<Name, u64>,
}

impl Place {
    pub(super) fn new(namespace: Arc<NetworkNamespace>, policies: Vec<ObjectRef>) -> Self {
        Self {
            namespace,
            policies,
            read: BTreeMap::new(),
        }
    }
}

impl Drops {
    /// These sandboxes are restricted now.
    pub(super) fn now_of(&self, places: BTreeMap<SandboxId, Place>) {
        let sums = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::replace(&mut sums.places, places);
        for (sandbox, place) in &mut sums.places {
            // A sandbox keeps its namespace.
            place.read = before.remove(sandbox).map(|known| known.read).unwrap_or_default();
        }
        // A namespace that is held here is there, whoever has left it.
        before.values_mut().for_each(|place| sums.count(place));
        let places = &sums.places;
        let is_in_force = |policy: &ObjectRef| places.values().any(|place| place.policies.contains(policy));
        for counted in [&mut sums.by_policy, &mut sums.audited] {
            counted.retain(|(policy, _), _| is_in_force(policy));
        }
    }

    /// What was dropped until now.
    pub(super) fn read(&self) -> Dropped {
        let sums = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut places = std::mem::take(&mut sums.places);
        places.values_mut().for_each(|place| sums.count(place));
        sums.places = places;
        let listed = |counted: &BTreeMap<(ObjectRef, Direction), u64>| {
            let counted = counted.iter();
            counted
                .map(|((policy, direction), packets)| (policy.clone(), *direction, *packets))
                .collect()
        };
        Dropped {
            by_policy: listed(&sums.by_policy),
            audited: listed(&sums.audited),
            mid_stream: Some(sums.mid_stream),
            spoofed: Some(sums.spoofed),
            ..Dropped::default()
        }
    }
}

impl Sums {
    /// Adds what the counters of a sandbox have counted since they were read. What cannot be read counts as it did.
    fn count(&mut self, place: &mut Place) {
        let counters = Counters::open(&place.namespace, documented::table_name());
        let counted = match counters.and_then(|mut counters| counters.packets_of(place.counters())) {
            Ok(counted) => counted,
            Err(error) => return tracing::debug!(%error, "the counters of a pod cannot be read"),
        };
        self.mid_stream += place.grown(&counted, &mid_stream_counter()).unwrap_or_default();
        self.spoofed += place.grown(&counted, &spoofed_counter()).unwrap_or_default();
        for policy in &place.policies {
            for direction in Direction::BOTH {
                for (sums, counter) in [
                    (&mut self.by_policy, counter_name(policy, direction)),
                    (&mut self.audited, audit_counter_name(policy, direction)),
                ] {
                    if let Some(grown) = place.grown(&counted, &counter) {
                        *sums.entry((policy.clone(), direction)).or_default() += grown;
                    }
                }
            }
        }
        place.read = counted;
    }
}

impl Place {
    /// The counters that count here. Who may change rules in the pod may have made any number of others.
    fn counters(&self) -> impl Iterator<Item = Name> {
        let of_policies = self.policies.iter().flat_map(|policy| {
            let of_direction = |direction| {
                [
                    counter_name(policy, direction),
                    audit_counter_name(policy, direction),
                ]
            };
            Direction::BOTH.into_iter().flat_map(of_direction)
        });
        [mid_stream_counter(), spoofed_counter()]
            .into_iter()
            .chain(of_policies)
    }

    /// How much a counter has grown since it was read; `None` where there is none. One that is less was made anew.
    fn grown(&self, counted: &BTreeMap<Name, u64>, name: &Name) -> Option<u64> {
        let now = *counted.get(name)?;
        let before = self.read.get(name).copied().unwrap_or_default();
        Some(now.checked_sub(before).unwrap_or(now))
    }
}
