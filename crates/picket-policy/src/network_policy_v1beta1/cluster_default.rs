//! The cluster default, which the proposal leaves to the cluster.

use serde::{Deserialize, Serialize};

use crate::{
    Action, List, Mode, NamespaceScope, Networks, ObjectRef, PodSelector, Policy, Position, Rule, Selector,
    Side, Tier,
};

/// What a pod may receive when its namespace says nothing about isolation, and no policy of another dialect isolates it.
///
/// As the pseudo-code of the proposal has it: `return clusterDefault(traffic, pod)` comes before the traffic of the
/// kubelet and before any rule, so that neither matters to a namespace without isolation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClusterDefault {
    /// Everything, which is the proposal's own default.
    #[default]
    Allow,
    /// Nothing, not from the pod's own node either.
    Deny,
}

impl ClusterDefault {
    /// The default as a policy about every pod; `None` where it restricts nothing.
    pub fn policy(self) -> Option<Policy> {
        if self == Self::Allow {
            return None;
        }
        let everything = Rule {
            index: 0,
            position: Position::unknown(),
            action: Action::Deny,
            peers: List::Absent,
            ports: List::Absent,
        };
        Some(Policy {
            object: ObjectRef::new("ClusterDefault", "", "deny"),
            position: Position::unknown(),
            mode: Mode::Enforce,
            tier: Tier::ClusterDefault,
            priority: 0,
            networks: Networks::Cluster,
            subject: PodSelector {
                namespaces: NamespaceScope::Matching(Selector::everything()),
                pods: Selector::everything(),
            },
            ingress: Side {
                isolates: false,
                rules: vec![everything],
            },
            egress: Side::default(),
        })
    }
}
