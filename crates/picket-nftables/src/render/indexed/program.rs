//! What a compiled cluster means for one node.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_engine::{IdentitySet, Program, SubjectId};
use picket_net::TrafficSet;
use picket_policy::{Action, Direction, Policy};

use super::view::{LocalSide, NodeView, Role, regions};

impl NodeView {
    /// What `node` must know; with `None`, what one node that runs every pod must know.
    pub(super) fn of(program: &Program, node: Option<&str>) -> Self {
        let mut view = Self {
            sides: sides(program, node),
            endpoints: BTreeMap::new(),
            regions: Vec::new(),
        };
        if view.sides.is_empty() {
            return view;
        }
        let pods = program.pods().filter(|pod| !pod.pod().finished);
        let pods = pods.flat_map(|pod| pod.pod().addresses.iter().collect::<Vec<_>>());
        let nodes = program.nodes().flat_map(|node| node.addresses.iter().copied());
        view.endpoints = pods
            .chain(nodes)
            .map(|address| (address, program.identity_of(address).number()))
            .collect();
        let prefixes = program.prefixes();
        view.regions = regions(
            prefixes
                .into_iter()
                .map(|(prefix, identity)| (prefix, identity.number())),
        );
        view
    }
}

/// What restricts the pods of a node. Pods that are restricted alike share a side.
fn sides(program: &Program, node: Option<&str>) -> Vec<LocalSide> {
    let mut subjects: BTreeMap<(Role, IpAddr), BTreeSet<Option<SubjectId>>> = BTreeMap::new();
    for pod in program.pods().filter(|pod| pod.is_managed()) {
        if node.is_some() && pod.pod().node.as_deref() != node {
            continue;
        }
        for address in pod.pod().addresses.iter() {
            for role in Role::ALL {
                let of_address = subjects.entry((role, address)).or_default();
                of_address.insert(pod.subject(role.direction()));
            }
        }
    }
    let mut alike: BTreeMap<(Role, Vec<SubjectId>), BTreeSet<IpAddr>> = BTreeMap::new();
    for ((role, address), subjects) in subjects {
        let subjects = subjects.into_iter().flatten().collect();
        alike.entry((role, subjects)).or_default().insert(address);
    }
    let sides = alike
        .into_iter()
        .filter_map(|((role, subjects), addresses)| side(program, role, &subjects, addresses));
    united(sides)
}

/// What restricts the pods to which all of `subjects` apply; `None` when nothing does.
fn side(
    program: &Program,
    role: Role,
    subjects: &[SubjectId],
    addresses: BTreeSet<IpAddr>,
) -> Option<LocalSide> {
    let allowed = subjects
        .iter()
        .map(|&subject| match role {
            Role::Egress | Role::Ingress => program.allow_set(subject),
            Role::OwnNode | Role::FromOwnNode => program.own_node_allow_set(subject),
        })
        .filter(|allowed| !allowed.is_everything())
        .map(|allowed| allowed.entries().to_vec())
        .reduce(|one, other| intersection(&one, &other))?;
    let direction = role.direction();
    let denying = subjects
        .iter()
        .flat_map(|&subject| program.deciding_policies(subject))
        .filter(|policy| can_deny(policy, direction))
        .map(|policy| policy.object.clone())
        .collect();
    Some(LocalSide {
        role,
        subject: subjects.iter().map(|subject| subject.number()).collect(),
        addresses,
        allowed,
        denying,
    })
}

/// What two subjects both allow.
fn intersection(
    one: &[(TrafficSet, IdentitySet)],
    other: &[(TrafficSet, IdentitySet)],
) -> Vec<(TrafficSet, IdentitySet)> {
    let mut both: BTreeMap<TrafficSet, IdentitySet> = BTreeMap::new();
    for (traffic, peers) in one {
        for (other_traffic, other_peers) in other {
            let (traffic, peers) = (
                traffic.intersection(other_traffic),
                peers.intersection(other_peers),
            );
            if !traffic.is_empty() && !peers.is_empty() {
                let present = both.entry(traffic).or_default();
                *present = present.union(&peers);
            }
        }
    }
    both.into_iter().collect()
}

/// Whether packets can be dropped because of this policy.
pub fn can_deny(policy: &Policy, direction: Direction) -> bool {
    let side = policy.side(direction);
    side.isolates || side.rules.iter().any(|rule| rule.action == Action::Deny)
}

/// Puts sides that say the same together.
fn united(sides: impl Iterator<Item = LocalSide>) -> Vec<LocalSide> {
    let mut united: Vec<LocalSide> = Vec::new();
    let mut known = BTreeMap::new();
    for side in sides {
        let content = (side.role, side.allowed.clone(), side.denying.clone());
        let at = *known.entry(content).or_insert(united.len());
        match united.get_mut(at) {
            Some(first) => first.addresses.extend(side.addresses),
            None => united.push(side),
        }
    }
    united
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_subjects_allow_together_what_both_allow() {
        let tcp = TrafficSet::from(picket_net::Protocol::TCP);
        let peers = |numbers: &[u32]| numbers.iter().copied().collect::<IdentitySet>();
        let one = [(tcp.clone(), peers(&[1, 2])), (TrafficSet::all(), peers(&[3, 4]))];
        let other = [(TrafficSet::all(), peers(&[2, 3]))];
        let both = [(tcp, peers(&[2])), (TrafficSet::all(), peers(&[3]))];
        let found = intersection(&one, &other);
        assert_eq!(found.len(), 2);
        assert!(both.iter().all(|entry| found.contains(entry)));
    }
}
