//! What is in force in the pods of a node.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::status::DropStatus;

/// What is in force in the network namespaces of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodsStatus {
    /// Why the container runtime does not say which sandboxes there are, if it does not.
    pub runtime: Option<String>,
    /// The `resourceVersion` up to which changes of each resource are in force, but for what troubles sandboxes.
    pub versions: BTreeMap<SmolStr, SmolStr>,
    /// Why a file of custom rules is not in force as it is now, if one is not; what it said before is.
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
    /// When its rules last changed.
    pub changed: Option<Timestamp>,
    /// The policies that apply to it, on any network.
    pub policies: Vec<String>,
    /// How often others had changed the rules, and picket changed them back.
    pub repaired: u64,
    /// Why not all of this is in force; what was in force before is.
    pub trouble: Option<String>,
    /// Why denied connections are not logged, if they are not though they are to be.
    #[serde(default)]
    pub unlogged: Option<String>,
}

impl PodsStatus {
    /// Whether everything is in force as it should be.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let troubled = self.sandboxes.iter().any(|sandbox| sandbox.trouble.is_some());
        self.runtime.is_none() && self.custom_rules.is_empty() && !troubled
    }
}
