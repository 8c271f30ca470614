//! What is in force in the pods of a node.

use std::collections::BTreeMap;

use jiff::Timestamp;
use picket_source::ObjectVersion;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::status::{DropStatus, Pods};
use crate::versions::PolicyVersions;

/// What is in force in the network namespaces of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodsStatus {
    /// Why the container runtime does not say which sandboxes there are, if it does not.
    pub runtime: Option<String>,
    /// Whether the cluster and its sandboxes have been known once.
    #[serde(default)]
    pub known: bool,
    /// When everything was last known to be what the policies say.
    #[serde(default)]
    pub current: Option<Timestamp>,
    /// In how many pods of the node policies are in force, and how many it has that policies can select.
    #[serde(default)]
    pub pods: Pods,
    /// The `resourceVersion` up to which changes of each resource are in force, but for what troubles sandboxes.
    pub versions: BTreeMap<SmolStr, SmolStr>,
    /// The versions in which policies of secondary networks were read last, whether they apply to a pod here or not; without those
    /// of files.
    #[serde(default)]
    pub read: BTreeMap<String, ObjectVersion>,
    /// The policies of secondary networks of which nobody can tell what they say in the version that was read last, whether they
    /// apply to a pod here or not; without those of files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<PolicyVersions>,
    /// Why files of custom rules are not in force as they are now; what they said before is, or what stands for them.
    pub custom_rules: Vec<String>,
    /// What people may not expect of the networks of pods that policies name: on which of them policies do not hold, and of
    /// which the plugin is not known; sorted.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What was dropped in the pods of the node.
    #[serde(flatten)]
    pub dropped: DropStatus,
    /// The sandboxes to which policies apply, and those where something went wrong; sorted.
    pub sandboxes: Vec<SandboxStatus>,
}

/// What is in force in a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxStatus {
    /// The pod, as in `shop/web`.
    pub pod: String,
    /// The name of the sandbox at the runtime.
    pub sandbox: String,
    /// When its rules last changed; `None` where they have not since the agent came there.
    pub changed: Option<Timestamp>,
    /// The policies that are in force there, on any network, as far as this agent knows it.
    pub policies: Vec<String>,
    /// The policies that are not in force as they now are: they came, changed or went and wait. One that is also in
    /// `policies` is in force as it was.
    #[serde(default)]
    pub waiting: Vec<String>,
    /// In which versions those were read and are in force, sorted by kind, namespace and name; without those of files.
    #[serde(default)]
    pub policy_versions: Vec<PolicyVersions>,
    /// How often others had changed the rules, and picket changed them back.
    pub repaired: u64,
    /// Why something waits, or cannot be enforced as it is; what was in force before is.
    pub trouble: Option<String>,
    /// Since when there is something of that kind.
    #[serde(default)]
    pub trouble_since: Option<Timestamp>,
    /// Why denied connections are not logged, if they are not though they are to be.
    #[serde(default)]
    pub unlogged: Option<String>,
}

impl PodsStatus {
    /// Whether everything is in force as it was read last.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let mut versions = self.sandboxes.iter().flat_map(|sandbox| &sandbox.policy_versions);
        self.is_done() && self.unreadable.is_empty() && versions.all(PolicyVersions::is_current)
    }

    /// Whether everything is in force of which anybody can tell what it says.
    pub(crate) fn is_done(&self) -> bool {
        let mut sandboxes = self.sandboxes.iter();
        let is_done = sandboxes.all(|sandbox| sandbox.trouble.is_none() && sandbox.waiting.is_empty());
        self.runtime.is_none() && self.custom_rules.is_empty() && is_done
    }
}
