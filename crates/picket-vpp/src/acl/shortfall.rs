//! What policies ask for that VPP's ACL plugin cannot do.

use std::collections::BTreeSet;

use picket_dataplane::Shortfall;
use picket_engine::{Delta, Program, SubjectId};
use picket_net::{PortRange, Protocol};
use picket_policy::{Direction, List, ObjectRef, Policy, PortMatch};

use crate::proof;

/// What lists cannot say of policies, kept while these change.
#[derive(Debug, Default)]
pub struct Shortfalls {
    /// The policies about some ports of SCTP, mostly none; `None` where nobody has looked yet.
    about_ports: Option<BTreeSet<ObjectRef>>,
    changed: Vec<ObjectRef>,
}

impl Shortfalls {
    /// Learns what changed in the program.
    pub fn note(&mut self, delta: &Delta) {
        // Where nobody has looked all will be looked at.
        if self.about_ports.is_some() {
            self.changed.extend(delta.policies.iter().cloned());
        }
    }

    /// Lets all policies be looked at.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// What [`shortfalls`] are now. All changes of the program since the last time must have been noted.
    pub fn advance(&mut self, program: &Program, node: Option<&str>) -> Vec<Shortfall> {
        let is_about = |policy: &Policy| {
            Direction::BOTH
                .into_iter()
                .any(|direction| is_about_ports(policy, direction))
        };
        let changed = std::mem::take(&mut self.changed);
        let about_ports = match &mut self.about_ports {
            Some(known) => {
                for policy in changed {
                    match program.policy(&policy).is_some_and(|policy| is_about(policy)) {
                        true => known.insert(policy),
                        false => known.remove(&policy),
                    };
                }
                known
            }
            unknown @ None => {
                let all = program.policies().filter(|policy| is_about(policy));
                unknown.insert(all.map(|policy| policy.object.clone()).collect())
            }
        };
        match about_ports.is_empty() {
            true => Vec::new(),
            false => shortfalls(program, node),
        }
    }
}

/// The policies of pods of a node, or with `None` of every pod, that are about some ports of SCTP. The plugin reads none: to
/// it every packet of SCTP has port 0, which no such rule allows.
pub fn shortfalls(program: &Program, node: Option<&str>) -> Vec<Shortfall> {
    let mut found: BTreeSet<(&ObjectRef, Direction)> = BTreeSet::new();
    for direction in Direction::BOTH {
        // Mostly there is none, and then nothing else has to be looked at.
        if !program.policies().any(|policy| is_about_ports(policy, direction)) {
            continue;
        }
        let pods = proof::pods(program, node);
        let subjects: BTreeSet<_> = pods.iter().filter_map(|pod| pod.subject(direction)).collect();
        for subject in subjects {
            let policies = program.deciding_policies(subject);
            let about_ports = policies.filter(|policy| is_about_ports(policy, direction));
            let about_ports: Vec<_> = about_ports.map(|policy| (&policy.object, direction)).collect();
            if !about_ports.is_empty() && tells_ports_apart(program, subject) {
                found.extend(about_ports);
            }
        }
    }
    let shortfall = |(policy, direction): (&ObjectRef, Direction)| Shortfall {
        target: "vpp-acl",
        policy: policy.clone(),
        direction,
        what: format!("{policy} ({direction}) has rules about some ports of SCTP"),
        instead: "VPP's ACL plugin reads no ports of SCTP: where some are allowed and not all, none is"
            .to_owned(),
    };
    found.into_iter().map(shortfall).collect()
}

/// Whether some ports of SCTP are allowed to somebody and others are not.
fn tells_ports_apart(program: &Program, subject: SubjectId) -> bool {
    [program.allow_set(subject), program.own_node_allow_set(subject)]
        .iter()
        .flat_map(|allowed| allowed.entries())
        .filter_map(|(traffic, _)| traffic.ports(Protocol::SCTP))
        .any(|ports| !ports.is_all())
}

/// Whether a policy has a rule about ports of SCTP that are not all of them.
fn is_about_ports(policy: &Policy, direction: Direction) -> bool {
    let is_some = |port: &PortMatch| match port {
        PortMatch::Protocol(_) => false,
        PortMatch::Range(protocol, ports) => *protocol == Protocol::SCTP && *ports != PortRange::ALL,
        PortMatch::Named { protocol, .. } => protocol.is_none_or(|protocol| protocol == Protocol::SCTP),
    };
    let rules = &policy.side(direction).rules;
    rules.iter().any(|rule| match &rule.ports {
        List::Absent => false,
        List::Items(ports) => ports.iter().any(is_some),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_of_changes_as_long_as_nobody_has_looked() {
        let mut shortfalls = Shortfalls::default();
        shortfalls.note(&Delta {
            policies: vec![ObjectRef::new("NetworkPolicy", "x", "a")],
            ..Delta::default()
        });
        assert_eq!(shortfalls.changed, []);
    }
}
