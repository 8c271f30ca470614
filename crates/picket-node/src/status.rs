//! How it goes: what is in force, since when, and what is not and why.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use jiff::Timestamp;
use picket_policy::{Diagnostic, Direction, ObjectRef, Severity};
use picket_source::{Freshness, Health, KindHealth};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::drops::Dropped;
use crate::pods::PodsStatus;
use crate::versions::{Enforced, PolicyVersions};
use crate::vpp::VppStatus;

/// How it goes with an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The version of picket.
    pub version: String,
    /// The node.
    pub node: String,
    /// When the agent started.
    pub started: Timestamp,
    /// Whether the policies have been in force once since then, with every target and in every pod.
    pub ready: bool,
    /// How following the cluster goes, by resource; `/apis` is about asking which there are.
    pub source: BTreeMap<String, KindStatus>,
    /// How fresh is what was read of etcd, where that is the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reflection: Option<ReflectionStatus>,
    /// What the policies are enforced with: `nftables`, `vpp-acl`, `vpp-session`.
    #[serde(default)]
    pub targets: Vec<String>,
    /// The table of the node.
    pub host: HostStatus,
    /// What is in force in VPP, by target.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vpp: BTreeMap<String, VppStatus>,
    /// What is in force in the pods of the node, where the agent enforces policies there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodsStatus>,
    /// What is wrong with objects of the cluster.
    pub findings: Vec<Finding>,
}

impl Status {
    /// Whether policies are enforced with that; agents that do not say it enforce with nftables.
    pub fn is_with(&self, target: &str) -> bool {
        match self.targets.as_slice() {
            [] => target == "nftables",
            targets => targets.iter().any(|known| known == target),
        }
    }
}

/// How following one kind of objects goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KindStatus {
    /// Whether all of them are known, or were when the server last answered.
    pub complete: bool,
    /// When the server last said something.
    pub heard: Option<Timestamp>,
    /// How often it did not answer, or not as it should.
    pub failures: u64,
    /// Why it says nothing at the moment, if it does not.
    pub trouble: Option<String>,
}

/// How fresh is what was read of etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReflectionStatus {
    /// The revision of etcd up to which everything is known.
    pub revision: i64,
    /// How many revisions there were after that when etcd was last asked.
    pub behind: i64,
    /// What the reflector is called that wrote it.
    pub reflector: Option<String>,
    /// Since which revision that one leads.
    pub epoch: Option<i64>,
    /// When it last said that everything is there.
    pub reflected: Option<Timestamp>,
    /// When it last compared all of etcd with the cluster.
    pub pass: Option<Timestamp>,
}

impl From<Freshness> for ReflectionStatus {
    fn from(freshness: Freshness) -> Self {
        let reflection = freshness.reflection.as_ref();
        Self {
            revision: freshness.revision,
            behind: freshness.behind,
            reflector: reflection.map(|reflection| reflection.reflector.clone()),
            epoch: reflection.map(|reflection| reflection.epoch),
            reflected: reflection.map(|reflection| reflection.time),
            pass: reflection.map(|reflection| reflection.pass),
        }
    }
}

/// What is in force on the cluster network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostStatus {
    /// Whether the policies have been in force once, but for those that are held back.
    #[serde(default)]
    pub ready: bool,
    /// Whether nothing new is forwarded because nobody knows yet what may be.
    pub closed: bool,
    /// Whether the rules from before hold, and nothing new is forwarded from or to pods that these do not know.
    #[serde(default)]
    pub shuts_out_unknown: bool,
    /// When the rules last changed; `None` where they have not since the agent started.
    pub changed: Option<Timestamp>,
    /// When the rules were last known to be what all policies say.
    pub current: Option<Timestamp>,
    /// The `resourceVersion` up to which changes of each resource are in force.
    pub versions: BTreeMap<SmolStr, SmolStr>,
    /// How many pods of the node policies restrict, and how many it has.
    pub pods: Pods,
    /// The policies because of which packets of the node's pods can be dropped.
    pub policies: Vec<String>,
    /// In which versions policies were read and are in force, sorted by kind, namespace and name; without those of files.
    #[serde(default)]
    pub policy_versions: Vec<PolicyVersions>,
    /// What was dropped on the node.
    #[serde(flatten)]
    pub dropped: DropStatus,
    /// Why the policies, as they are now, are not in force; what was in force before still is.
    pub trouble: Option<Trouble>,
    /// How often others had changed the rules, and picket changed them back.
    pub repaired: u64,
    /// The last proof that the rules mean what the policies say.
    pub proof: Option<Proof>,
    /// Past which bridges of the node packets go that no rule sees.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl HostStatus {
    /// Whether every policy is in force as it was read last, and no bridge leads past all of them.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.trouble.is_none()
            && self.notes.is_empty()
            && self.policy_versions.iter().all(PolicyVersions::is_current)
    }
}

/// What rules have dropped, and what they let pass only because policies are audited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DropStatus {
    /// Because of which policies packets were dropped, the most first.
    #[serde(default)]
    pub drops: Vec<Drop>,
    /// The policies that are only audited, with what passed because of that.
    #[serde(default)]
    pub audited: Vec<Drop>,
    /// TCP packets that were dropped because they belong to no known connection and begin none.
    #[serde(default)]
    pub dropped_mid_stream: u64,
    /// Packets that were dropped because their source cannot be where they came from: on a node the way back to it leads
    /// elsewhere, in a pod it is the pod itself.
    #[serde(default)]
    pub dropped_spoofed: u64,
}

impl From<Dropped> for DropStatus {
    fn from(dropped: Dropped) -> Self {
        Self {
            audited: dropped.audited.iter().cloned().map(Drop::from).collect(),
            dropped_mid_stream: dropped.mid_stream.unwrap_or_default(),
            dropped_spoofed: dropped.spoofed.unwrap_or_default(),
            drops: dropped.most().into_iter().map(Drop::from).collect(),
        }
    }
}

/// Packets that were dropped, or would have been, and that a policy may be why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Drop {
    /// The policy, as in `NetworkPolicy shop/web`.
    pub policy: String,
    /// `ingress` or `egress`.
    pub direction: String,
    /// How many since its counter was made.
    pub packets: u64,
}

impl From<(ObjectRef, Direction, u64)> for Drop {
    fn from((policy, direction, packets): (ObjectRef, Direction, u64)) -> Self {
        Self {
            policy: policy.to_string(),
            direction: direction.to_string(),
            packets,
        }
    }
}

/// Pods of the node that policies can apply to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pods {
    /// All of them.
    pub all: usize,
    /// Those to which a policy applies.
    pub restricted: usize,
}

/// Why policies are not in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trouble {
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub why: String,
    /// The policies that changed since the rules were last what the policies say, and pods and namespaces because of which they are not.
    pub waiting: Vec<String>,
}

/// What was found when the rules in the kernel were held against the policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proof {
    /// When.
    pub when: Timestamp,
    /// Whether they mean the same.
    pub proved: bool,
    /// How long it took, in milliseconds.
    pub milliseconds: u64,
}

/// Something that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The object, as in `NetworkPolicy shop/web`.
    pub object: String,
    /// `error`, `warning` or `note`.
    pub severity: String,
    /// The code that `docs/diagnostics.md` explains.
    pub code: String,
    /// The path of the field, as in `spec.ingress[0].ports[1].endPort`; empty for the whole object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// What is wrong.
    pub message: String,
}

impl Finding {
    /// What is said of an object.
    #[must_use]
    pub fn new(object: &ObjectRef, diagnostic: &Diagnostic) -> Self {
        Self {
            object: object.to_string(),
            severity: match diagnostic.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Note => "note",
            }
            .to_owned(),
            code: diagnostic.code.0.to_owned(),
            field: diagnostic.field.clone(),
            message: diagnostic.message.clone(),
        }
    }
}

impl From<&KindHealth> for KindStatus {
    fn from(health: &KindHealth) -> Self {
        Self {
            complete: health.complete,
            heard: health.heard.and_then(timestamp),
            failures: health.failures,
            trouble: health.trouble.clone(),
        }
    }
}

/// A time as it is shown; `None` for one in the far past or future.
fn timestamp(time: SystemTime) -> Option<Timestamp> {
    Timestamp::try_from(time).ok()
}

/// The status of a running agent, which its threads share.
#[derive(Clone)]
pub(crate) struct Shared {
    status: Arc<Mutex<Status>>,
    enforced: Arc<Mutex<Enforced>>,
    health: Health,
}

impl Shared {
    pub(crate) fn new(node: &str, health: Health) -> Self {
        let status = Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: node.to_owned(),
            started: Timestamp::now(),
            ..Status::default()
        };
        Self {
            status: Arc::new(Mutex::new(status)),
            enforced: Arc::default(),
            health,
        }
    }

    /// The status, to change it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In which versions policies are in force on the node, to change it.
    pub(crate) fn enforced(&self) -> MutexGuard<'_, Enforced> {
        self.enforced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it goes now.
    pub(crate) fn status(&self) -> Status {
        let kinds = self.health.kinds();
        let source = kinds.iter().map(|(kind, health)| (kind.clone(), health.into()));
        let mut status = self.lock().clone();
        status.host.policy_versions = self.enforced().shown();
        Status {
            source: source.collect(),
            reflection: self.health.freshness().map(ReflectionStatus::from),
            ready: status.ready && status.vpp.values().all(|vpp| vpp.ready),
            ..status
        }
    }
}
