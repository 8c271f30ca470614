//! What is said of the rules in one sandbox.

use std::collections::BTreeSet;
use std::sync::Arc;

use picket_policy::ObjectRef;

use super::Place;
use crate::pods::network::Networks;
use crate::pods::status::SandboxStatus;
use crate::pods::trace::{End, Scene};
use crate::versions::{PolicyVersions, Readings};

impl Place {
    /// How it goes; `None` where there is nothing to say.
    pub(in crate::pods) fn status(&self, readings: &Readings) -> Option<SandboxStatus> {
        let desired = self.desired.as_ref();
        let waiting = match (&self.failure, desired) {
            (Some(failure), _) => failure.waiting.clone(),
            (None, Some(desired)) if self.kept.is_some() => desired.policies.clone(),
            (None, _) => self.with_held(desired.into_iter().flat_map(|desired| &desired.closed)),
        };
        let failure = self.failure.as_ref().map(|failure| failure.why.clone());
        let kept = self.kept.as_ref();
        let kept = kept.map(|why| format!("rules from before this agent stay: {why}"));
        let unsaid = desired.and_then(|desired| desired.trouble.clone());
        let troubles: Vec<_> = self.held.why().into_iter().chain(unsaid).collect();
        let trouble = (!troubles.is_empty()).then(|| troubles.join("; "));
        let policies = self.in_force.as_ref();
        let status = SandboxStatus {
            pod: self.pod(),
            sandbox: self.sandbox.id.to_string(),
            changed: self.changed,
            policies: names(policies.map_or(&[], |in_force| in_force.policies.as_slice())),
            waiting: names(&waiting),
            policy_versions: self.versions(&waiting, readings),
            repaired: self.repaired,
            trouble: failure.or(kept).or(trouble),
            trouble_since: None,
            unlogged: self.log.failure().map(str::to_owned),
        };
        (!status.policies.is_empty() || status.trouble.is_some()).then_some(status)
    }

    /// In which versions the policies that apply or are in force were read and are in force.
    fn versions(&self, waiting: &[ObjectRef], readings: &Readings) -> Vec<PolicyVersions> {
        let desired = self.desired.as_ref();
        let applying = desired.into_iter().flat_map(|desired| &desired.policies);
        let in_force = self.in_force.as_ref();
        let version = |policy: &ObjectRef| in_force.and_then(|in_force| in_force.versions.get(policy));
        let since = |policy: &ObjectRef| in_force.and_then(|in_force| in_force.since.get(policy)).copied();
        let in_force = in_force.into_iter().flat_map(|in_force| &in_force.policies);
        let why = |policy: &ObjectRef| {
            let failure = self.failure.as_ref().map(|failure| failure.why.clone());
            let unsaid = || desired.and_then(|desired| desired.trouble.clone());
            let held = || self.held.why_of(policy);
            let kept = || self.kept.clone();
            failure.or_else(held).or_else(kept).or_else(unsaid)
        };
        let all: BTreeSet<_> = applying.chain(in_force).chain(waiting).collect();
        let shown = all.into_iter().map(|policy| {
            let why = waiting.contains(policy).then(|| why(policy)).flatten();
            readings.show(policy, version(policy).cloned(), since(policy), why)
        });
        shown
            .filter(|shown| shown.read.is_some() || shown.in_force.is_some())
            .collect()
    }

    /// The interfaces of this pod that are ends of a question.
    pub(in crate::pods) fn ends(&self, scene: &Scene, networks: &Networks) -> Vec<End> {
        let Some((pod, desired)) = self.of.as_ref().zip(self.desired.as_ref()) else {
            return Vec::new();
        };
        let all = networks.interfaces(pod);
        let endpoints = scene.snapshot.pods.values();
        let own = endpoints.filter_map(|endpoint| {
            let interface = endpoint.interface.as_ref();
            let interface = interface.filter(|_| *endpoint.whole() == pod.object)?;
            let others = all.iter().filter(|other| **other != interface.name);
            Some(End {
                pod: self.pod(),
                endpoint: endpoint.object.clone(),
                interface: interface.name.clone(),
                others: others.cloned().collect(),
                namespace: Arc::clone(&self.namespace),
                policies: desired.policies.clone(),
                desired: desired.table.clone(),
                narrower: desired.narrower,
                waiting: self.waits(),
            })
        });
        own.collect()
    }

    /// Why the policies, as they are now, are not in force here, if they are not.
    fn waits(&self) -> Option<String> {
        let status = self.status(&Readings::default());
        let waiting = status.filter(|status| !status.waiting.is_empty());
        let why = waiting.and_then(|status| status.trouble);
        why.or_else(|| (!self.settled).then(|| "they are known, and not in force yet".to_owned()))
    }
}

/// Policies as they are shown.
pub(in crate::pods) fn names(policies: &[ObjectRef]) -> Vec<String> {
    policies.iter().map(ObjectRef::to_string).collect()
}
