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
    /// Those of them whose ports lack groups by which rules mean them, and why.
    pub(crate) left_out: BTreeMap<ObjectRef, String>,
    /// Pods without a port.
    pub(crate) pending: BTreeSet<ObjectRef>,
    /// Whether nobody knows what the cloud has, and why.
    pub(crate) everything: Option<String>,
}

/// What a policy is about.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    /// The pods that it has a say about.
    pods: BTreeSet<ObjectRef>,
    /// What of `metadata.generation` it has.
    generation: Option<i64>,
}

/// What each policy is about.
pub(crate) fn extents(
    program: &Program,
    generation: impl Fn(&ObjectRef) -> Option<i64>,
) -> BTreeMap<ObjectRef, Extent> {
    let of_nothing = program.policies().map(|policy| {
        let extent = Extent {
            pods: BTreeSet::new(),
            generation: generation(&policy.object),
        };
        (policy.object.clone(), extent)
    });
    let mut extents: BTreeMap<_, _> = of_nothing.collect();
    for pod in program.pods().filter(PodRef::is_managed) {
        let subjects = Direction::BOTH
            .into_iter()
            .filter_map(|direction| pod.subject(direction));
        for policy in subjects.flat_map(|subject| program.deciding_policies(subject)) {
            if let Some(extent) = extents.get_mut(&policy.object) {
                extent.pods.insert(pod.pod().object.clone());
            }
        }
    }
    extents
}

/// How far each policy is in force.
pub(crate) fn states(
    extents: &BTreeMap<ObjectRef, Extent>,
    rendered: &Rendered,
    troubles: &Troubles,
) -> BTreeMap<ObjectRef, PolicyState> {
    let of_one = groups_of_one(rendered);
    let of_policy = |(policy, extent): (&ObjectRef, &Extent)| {
        let pods = &extent.pods;
        let failures = match &troubles.everything {
            Some(why) => vec![why.clone()],
            None => failures(policy, pods, rendered, &of_one, troubles),
        };
        let state = PolicyState {
            policy: policy.to_string(),
            observed_generation: extent.generation,
            ready: failures.is_empty(),
            pods: pods.len(),
            pending: pods.intersection(&troubles.pending).count(),
            failures,
        };
        (policy.clone(), state)
    };
    extents.iter().map(of_policy).collect()
}

/// Why a policy is not in force for all pods that it has a say about, or lets not all of its peers in.
fn failures(
    policy: &ObjectRef,
    pods: &BTreeSet<ObjectRef>,
    rendered: &Rendered,
    of_one: &BTreeSet<&Name>,
    troubles: &Troubles,
) -> Vec<String> {
    if troubles.groups.is_empty() && troubles.pods.is_empty() {
        return Vec::new();
    }
    let own = rendered.policies.get(policy).into_iter().flatten();
    let groups: BTreeSet<_> = own.chain(groups_of(pods, rendered)).collect();
    let meant: BTreeSet<_> = groups
        .iter()
        .flat_map(|name| meant_by(&rendered.objects, name))
        .collect();
    let groups = groups.union(&meant).filter_map(|name| {
        let why = troubles.groups.get(*name)?;
        Some(format!("group {name}: {why}"))
    });
    let mut troubled: BTreeMap<_, _> = pods
        .iter()
        .filter_map(|pod| troubles.pods.get_key_value(pod))
        .collect();
    if !troubles.left_out.is_empty() {
        let about = groups_about(policy, pods, rendered, of_one);
        let peers: BTreeSet<_> = about.flat_map(|name| meant_by(&rendered.objects, name)).collect();
        let is_meant = |pod: &ObjectRef| groups_of([pod], rendered).any(|name| peers.contains(name));
        troubled.extend(troubles.left_out.iter().filter(|(pod, _)| is_meant(pod)));
    }
    let pods = troubled.into_iter().map(|(pod, why)| format!("{pod}: {why}"));
    groups.chain(pods).collect()
}

/// The groups of pods.
fn groups_of<'a>(
    pods: impl IntoIterator<Item = &'a ObjectRef>,
    rendered: &'a Rendered,
) -> impl Iterator<Item = &'a Name> {
    let ports = pods.into_iter().filter_map(|pod| rendered.objects.ports.get(pod));
    ports.flat_map(|port| &port.security_groups)
}

/// The groups that are of single policies.
fn groups_of_one(rendered: &Rendered) -> BTreeSet<&Name> {
    rendered.policies.values().flatten().collect()
}

/// The groups in which a policy has a say: its own, and those of pods for all of their policies together.
fn groups_about<'a>(
    policy: &ObjectRef,
    pods: &'a BTreeSet<ObjectRef>,
    rendered: &'a Rendered,
    of_one: &BTreeSet<&Name>,
) -> impl Iterator<Item = &'a Name> {
    let own = rendered.policies.get(policy).into_iter().flatten();
    own.chain(groups_of(pods, rendered).filter(|name| !of_one.contains(name)))
}

/// The policies that each group of peers or of addresses is there for: those whose own groups are about it, and those that have a say about
/// pods with a group for all of their policies together that is.
pub(crate) fn users(
    extents: &BTreeMap<ObjectRef, Extent>,
    rendered: &Rendered,
) -> BTreeMap<Name, BTreeSet<ObjectRef>> {
    let of_one = groups_of_one(rendered);
    let mut users: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (policy, extent) in extents {
        let groups: BTreeSet<_> = groups_about(policy, &extent.pods, rendered, &of_one).collect();
        for name in groups
            .into_iter()
            .flat_map(|group| meant_by(&rendered.objects, group))
        {
            users.entry(name.clone()).or_default().insert(policy.clone());
        }
    }
    users
}

/// The groups that rules of a group are about.
fn meant_by<'a>(objects: &'a Objects, name: &Name) -> impl Iterator<Item = &'a Name> {
    let rules = objects.security_groups.get(name).map(|group| &group.rules);
    rules.into_iter().flatten().filter_map(|rule| match &rule.remote {
        Remote::Group(name) | Remote::AddressGroup(name) => Some(name),
        Remote::Anyone | Remote::Prefix(_) => None,
    })
}
