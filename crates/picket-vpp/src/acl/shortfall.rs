//! What policies ask for that VPP's ACL plugin cannot do.

use std::collections::BTreeSet;

use picket_dataplane::Shortfall;
use picket_engine::{Program, SubjectId};
use picket_net::{PortRange, Protocol};
use picket_policy::{Direction, List, ObjectRef, Policy, PortMatch};

use crate::proof;

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
