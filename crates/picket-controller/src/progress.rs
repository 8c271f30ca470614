//! How far each policy is in force.

use std::collections::{BTreeMap, BTreeSet};

use picket_engine::{PodRef, Program};
use picket_neutron::{Name, Objects, Remote, Rendered};
use picket_policy::{Direction, ObjectRef};

use crate::status::PolicyState;

/// What is not as it should be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Troubles {
    /// Groups that are not as they should be, and why.
    pub(crate) groups: BTreeMap<Name, String>,
    /// Pods with a port that is not as it should be, and why.
    pub(crate) pods: BTreeMap<ObjectRef, String>,
    /// Pods without a port.
    pub(crate) pending: BTreeSet<ObjectRef>,
    /// Whether nobody knows what the cloud has, and why.
    pub(crate) everything: Option<String>,
}

/// The pods that each policy has a say about.
pub(crate) fn covered(program: &Program) -> BTreeMap<ObjectRef, BTreeSet<ObjectRef>> {
    let mut covered: BTreeMap<_, BTreeSet<_>> = program
        .policies()
        .map(|policy| (policy.object.clone(), BTreeSet::new()))
        .collect();
    for pod in program.pods().filter(PodRef::is_managed) {
        let subjects = Direction::BOTH
            .into_iter()
            .filter_map(|direction| pod.subject(direction));
        for policy in subjects.flat_map(|subject| program.deciding_policies(subject)) {
            covered
                .entry(policy.object.clone())
                .or_default()
                .insert(pod.pod().object.clone());
        }
    }
    covered
}

/// How far each policy is in force.
pub(crate) fn states(
    program: &Program,
    rendered: &Rendered,
    troubles: &Troubles,
    generation: impl Fn(&ObjectRef) -> Option<i64>,
) -> BTreeMap<ObjectRef, PolicyState> {
    let of_policy = |(policy, pods): (ObjectRef, BTreeSet<ObjectRef>)| {
        let failures = match &troubles.everything {
            Some(why) => vec![why.clone()],
            None => failures(&policy, &pods, rendered, troubles),
        };
        let state = PolicyState {
            policy: policy.to_string(),
            observed_generation: generation(&policy),
            ready: failures.is_empty(),
            pods: pods.len(),
            pending: pods.intersection(&troubles.pending).count(),
            failures,
        };
        (policy, state)
    };
    covered(program).into_iter().map(of_policy).collect()
}

/// Why a policy is not in force for all pods that it has a say about.
fn failures(
    policy: &ObjectRef,
    pods: &BTreeSet<ObjectRef>,
    rendered: &Rendered,
    troubles: &Troubles,
) -> Vec<String> {
    let own = rendered.policies.get(policy).into_iter().flatten();
    let of_pods = pods
        .iter()
        .filter_map(|pod| rendered.objects.ports.get(pod))
        .flat_map(|port| &port.security_groups);
    let groups: BTreeSet<_> = own.chain(of_pods).collect();
    let meant: BTreeSet<_> = groups
        .iter()
        .flat_map(|name| meant_by(&rendered.objects, name))
        .collect();
    let groups = groups.union(&meant).filter_map(|name| {
        let why = troubles.groups.get(*name)?;
        Some(format!("group {name}: {why}"))
    });
    let pods = pods.iter().filter_map(|pod| {
        let why = troubles.pods.get(pod)?;
        Some(format!("{pod}: {why}"))
    });
    groups.chain(pods).collect()
}

/// The groups that rules of a group are about.
fn meant_by<'a>(objects: &'a Objects, name: &Name) -> impl Iterator<Item = &'a Name> {
    let rules = objects.security_groups.get(name).map(|group| &group.rules);
    rules.into_iter().flatten().filter_map(|rule| match &rule.remote {
        Remote::Group(name) | Remote::AddressGroup(name) => Some(name),
        Remote::Anyone | Remote::Prefix(_) => None,
    })
}
