//! What is in force in numbers, on the node or in its pods.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::status::{Pods, Status};
use crate::versions::PolicyVersions;

/// The numbers of a status, of whichever the agent enforces.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Overview {
    /// When everything was last known to be what the policies say.
    pub(crate) current: Option<Timestamp>,
    /// The policies that are not in force as they now are.
    pub(crate) waiting: BTreeSet<String>,
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
            let (host, vpp) = (&status.host, || status.vpp.values());
            let troubles = vpp().filter_map(|vpp| vpp.trouble.as_ref());
            let troubles = host.trouble.iter().chain(troubles);
            let unreadable = vpp().flat_map(|vpp| &vpp.unreadable);
            return Self {
                current: host.current,
                waiting: waiting(
                    troubles.flat_map(|trouble| &trouble.waiting),
                    host.policy_versions.iter().chain(unreadable),
                ),
                pods: host.pods,
                policies: host.policies.len(),
                custom_rules: 0,
            };
        };
        let sandboxes = || pods.sandboxes.iter();
        let policies: BTreeSet<_> = sandboxes().flat_map(|sandbox| &sandbox.policies).collect();
        Self {
            current: pods.current,
            waiting: waiting(
                sandboxes().flat_map(|sandbox| &sandbox.waiting),
                sandboxes()
                    .flat_map(|sandbox| &sandbox.policy_versions)
                    .chain(&pods.unreadable),
            ),
            pods: pods.pods,
            policies: policies.len(),
            custom_rules: pods.custom_rules.len(),
        }
    }
}

/// The policies that wait, or are in force in another version than was read last.
fn waiting<'s>(
    waiting: impl Iterator<Item = &'s String>,
    versions: impl IntoIterator<Item = &'s PolicyVersions>,
) -> BTreeSet<String> {
    let versions = versions.into_iter().filter(|versions| !versions.is_current());
    let others = versions.map(|versions| &versions.policy);
    waiting.chain(others).cloned().collect()
}

#[cfg(test)]
mod tests {
    use picket_source::ObjectVersion;

    use crate::metrics::Metrics;
    use crate::pods::{PodsStatus, SandboxStatus};
    use crate::status::{HostStatus, Trouble};
    use crate::vpp::VppStatus;

    use super::*;

    fn sandbox(policies: &[&str], waiting: &[&str]) -> SandboxStatus {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        SandboxStatus {
            policies: owned(policies),
            waiting: owned(waiting),
            ..SandboxStatus::default()
        }
    }

    /// The versions of a policy of which the first is in force.
    fn versions(policy: &str, read: i64) -> PolicyVersions {
        let version = |generation| ObjectVersion {
            generation: Some(generation),
            ..ObjectVersion::default()
        };
        PolicyVersions {
            policy: policy.to_owned(),
            read: Some(version(read)),
            in_force: Some(version(1)),
            since: None,
            why: None,
        }
    }

    #[test]
    fn policies_wait_once_whether_refused_or_unreadable() {
        let trouble = Trouble {
            since: Timestamp::UNIX_EPOCH,
            why: String::new(),
            waiting: vec!["a".to_owned(), "b".to_owned()],
        };
        let policy_versions = vec![versions("b", 2), versions("c", 2), versions("d", 1)];
        for (trouble, waiting) in [(None, 2), (Some(trouble), 3)] {
            let status = Status {
                host: HostStatus {
                    trouble,
                    policy_versions: policy_versions.clone(),
                    ..HostStatus::default()
                },
                ..Status::default()
            };
            assert_eq!(Overview::from(&status).waiting.len(), waiting);
            assert!(!status.host.is_well());
        }
    }

    #[test]
    fn policies_wait_once_whichever_target_they_are_not_in_force_with() {
        let trouble = |waiting: &str| Trouble {
            since: Timestamp::UNIX_EPOCH,
            why: String::new(),
            waiting: vec![waiting.to_owned()],
        };
        let vpp = |waiting| VppStatus {
            ready: true,
            connected: true,
            unreadable: vec![versions("a", 2)],
            trouble: Some(trouble(waiting)),
            ..VppStatus::default()
        };
        let status = Status {
            host: HostStatus {
                policy_versions: vec![versions("a", 2), versions("b", 2), versions("c", 1)],
                ..HostStatus::default()
            },
            vpp: [
                ("vpp-acl".to_owned(), vpp("b")),
                ("vpp-session".to_owned(), vpp("d")),
            ]
            .into(),
            ..Status::default()
        };
        assert_eq!(Overview::from(&status).waiting.len(), 3);
        let unreadable = VppStatus {
            trouble: None,
            ..vpp("")
        };
        assert!(!unreadable.is_well());
        let read = VppStatus {
            unreadable: Vec::new(),
            ..unreadable
        };
        assert!(read.is_well());
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
                SandboxStatus {
                    policy_versions: vec![versions("a", 2), versions("b", 1)],
                    ..sandbox(&["a", "b"], &[])
                },
                sandbox(&["b", "c"], &["b", "MultiNetworkPolicy x/d"]),
                sandbox(&[], &["MultiNetworkPolicy x/d"]),
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
            "picket_policies_waiting 3",
            "picket_policy_waiting{kind=\"MultiNetworkPolicy\",namespace=\"x\",name=\"d\"} 1",
            "picket_pods 5",
            "picket_pods_restricted 2",
            "picket_policies 3",
            "picket_custom_rules_waiting 1",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
        }
    }

    #[test]
    fn no_more_than_a_hundred_policies_that_wait_are_named_and_none_that_waits_no_more() {
        let metrics = Metrics::default();
        let named = |waiting: Vec<String>| {
            let trouble = Trouble {
                since: Timestamp::UNIX_EPOCH,
                why: String::new(),
                waiting,
            };
            let host = HostStatus {
                trouble: Some(trouble),
                ..HostStatus::default()
            };
            let status = Status {
                host,
                ..Status::default()
            };
            let text = metrics.text(&status, None).unwrap();
            let lines = text
                .lines()
                .filter(|line| line.starts_with("picket_policy_waiting{"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let many = (0..150).map(|number| format!("NetworkPolicy x/p{number}"));
        assert_eq!(named(many.collect()).len(), 100);
        let of_cluster = "ClusterNetworkPolicy a".to_owned();
        assert_eq!(
            named(vec![of_cluster]),
            ["picket_policy_waiting{kind=\"ClusterNetworkPolicy\",namespace=\"\",name=\"a\"} 1"]
        );
    }
}
