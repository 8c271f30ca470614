//! What is in force in numbers, on the node or in its pods.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::status::{Pods, Status};

/// The numbers of a status, of whichever the agent enforces.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Overview {
    /// When everything was last known to be what the policies say.
    pub(crate) current: Option<Timestamp>,
    /// How many policies are not in force as they now are.
    pub(crate) waiting: usize,
    /// The pods of the node.
    pub(crate) pods: Pods,
    /// How many policies are in force.
    pub(crate) policies: usize,
    /// How many files of custom rules are not in force as they now are.
    pub(crate) custom_rules: usize,
}

impl From<&Status> for Overview {
    fn from(status: &Status) -> Self {
        let Some(pods) = &status.pods else {
            let host = &status.host;
            return Self {
                current: host.current,
                waiting: host.trouble.as_ref().map_or(0, |trouble| trouble.waiting.len()),
                pods: host.pods,
                policies: host.policies.len(),
                custom_rules: 0,
            };
        };
        let sandboxes = || pods.sandboxes.iter();
        let waiting: BTreeSet<_> = sandboxes().flat_map(|sandbox| &sandbox.waiting).collect();
        let policies: BTreeSet<_> = sandboxes().flat_map(|sandbox| &sandbox.policies).collect();
        Self {
            current: pods.current,
            waiting: waiting.len(),
            pods: pods.pods,
            policies: policies.len(),
            custom_rules: pods.custom_rules.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::Metrics;
    use crate::pods::{PodsStatus, SandboxStatus};

    use super::*;

    fn sandbox(policies: &[&str], waiting: &[&str]) -> SandboxStatus {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        SandboxStatus {
            policies: owned(policies),
            waiting: owned(waiting),
            ..SandboxStatus::default()
        }
    }

    #[test]
    fn metrics_say_what_is_in_force_in_pods() {
        let pods = PodsStatus {
            current: Some(Timestamp::from_second(7).unwrap()),
            pods: Pods {
                all: 5,
                restricted: 2,
            },
            custom_rules: vec!["`v4`: line 1".to_owned()],
            sandboxes: vec![
                sandbox(&["a", "b"], &[]),
                sandbox(&["b", "c"], &["b", "d"]),
                sandbox(&[], &["d"]),
            ],
            ..PodsStatus::default()
        };
        let status = Status {
            pods: Some(pods),
            ..Status::default()
        };
        let text = Metrics::default().text(&status, None).unwrap();
        for line in [
            "picket_current_timestamp_seconds 7",
            "picket_policies_waiting 2",
            "picket_pods 5",
            "picket_pods_restricted 2",
            "picket_policies 3",
            "picket_custom_rules_waiting 1",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
        }
    }
}
