//! How it goes with a target of VPP.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::status::{Pods, Trouble};
use crate::versions::PolicyVersions;

/// How it goes with a target of VPP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VppStatus {
    /// Whether the policies have been in force there once.
    pub ready: bool,
    /// Whether VPP answers.
    pub connected: bool,
    /// How often a connection to VPP has ended.
    pub disconnects: u64,
    /// When what VPP has was last changed.
    pub changed: Option<Timestamp>,
    /// When it was last known to be what the policies say.
    pub current: Option<Timestamp>,
    /// The `resourceVersion` up to which changes of each resource are in force.
    pub versions: BTreeMap<SmolStr, SmolStr>,
    /// How many pods of the node policies restrict, and how many it has.
    pub pods: Pods,
    /// The policies because of which packets of the node's pods can be dropped.
    pub policies: Vec<String>,
    /// What VPP has for each pod: its interfaces.
    pub interfaces: BTreeMap<String, Vec<String>>,
    /// What VPP has for each pod whose sockets are its own: the indices of its application namespaces.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub namespaces: BTreeMap<String, Vec<u32>>,
    /// The interfaces that connect the node with the rest of the world.
    pub uplinks: Vec<String>,
    /// The interfaces that look like those of pods, while no pod is known that has them: nothing passes there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// The tables of session rules by which nothing may be opened yet, as the cluster is not known, or VPP has not all of its rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<String>,
    /// The pods for which VPP has nothing yet.
    pub pending: Vec<PendingPod>,
    /// What others have put there, which stays, and what that means.
    pub foreign: Vec<String>,
    /// What is denied although the policies allow it, as VPP has no room for more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub narrower: Vec<String>,
    /// The policies of which nobody can tell what they say in the version that was read last, as what they said before is in
    /// force; without those of files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<PolicyVersions>,
    /// Why the policies, as they are now, are not in force.
    pub trouble: Option<Trouble>,
}

/// A pod for which VPP has nothing yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingPod {
    /// The pod, as in `shop/web`.
    pub pod: String,
    /// Whether policies keep it from something.
    pub restricted: bool,
    /// What is missing.
    pub why: String,
}

impl VppStatus {
    /// Whether all policies are in force as they were read last, as far as VPP has what they are about.
    pub fn is_well(&self) -> bool {
        self.ready && self.connected && self.trouble.is_none() && self.unreadable.is_empty()
    }
}
