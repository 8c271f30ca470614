//! How it goes: what is in force, since when, and what is not and why.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use picket_node::{Finding, KindStatus};
use picket_source::Health;
use serde::{Deserialize, Serialize};

use crate::lease::Lease;

/// How it goes with a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The version of picket.
    pub version: String,
    /// What no other controller is called.
    pub identity: String,
    /// When it started.
    pub started: Timestamp,
    /// Whether the policies have been in force once since it leads, but for what cannot be changed; of one that waits, whether it could
    /// take over.
    pub ready: bool,
    /// Who leads.
    pub lease: LeaseStatus,
    /// How following the cluster goes, by resource.
    pub source: BTreeMap<String, KindStatus>,
    /// When all that the cloud has was last read.
    pub synchronized: Option<Timestamp>,
    /// When the cloud was last known to have what the policies say.
    pub current: Option<Timestamp>,
    /// Why the cloud cannot be read, or used at all.
    pub trouble: Option<String>,
    /// How many steps are still to be done.
    pub steps: usize,
    /// How many steps undid what others had changed.
    pub repaired: u64,
    /// What cannot be changed; everything else goes on.
    pub failures: Vec<FailureStatus>,
    /// The pods that have no port yet.
    pub pending: Vec<String>,
    /// The pods at a port of which no group counts, or groups of others do.
    pub unenforced: Vec<UnenforcedPort>,
    /// What else people should know: what the cloud cannot say or has no room for.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Every policy.
    pub policies: Vec<PolicyState>,
    /// Every group of peers or of addresses, which policies share.
    #[serde(default)]
    pub shared: Vec<SharedGroup>,
    /// What is wrong with objects of the cluster.
    pub findings: Vec<Finding>,
}

/// Who leads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseStatus {
    /// Whether this controller does.
    pub leads: bool,
    /// Who does, as far as it is known.
    pub leader: Option<String>,
    /// How long no other can, where this one does.
    pub remaining_seconds: u64,
    /// Why the API server does not say who does.
    pub trouble: Option<String>,
}

/// Something that cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureStatus {
    /// The group, or the pod with the port.
    pub object: String,
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub why: String,
}

/// A pod at a port of which its groups are not all that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnenforcedPort {
    /// The pod.
    pub pod: String,
    /// Why.
    pub why: String,
}

/// How far a policy is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyState {
    /// The policy, as in `NetworkPolicy shop/web`.
    pub policy: String,
    /// Its `metadata.generation` when it was read; none for policies of files.
    pub observed_generation: Option<i64>,
    /// Whether it is in force as it was read, for all pods that have a port.
    pub ready: bool,
    /// How many pods it has a say about.
    pub pods: usize,
    /// How many of them have no port yet.
    pub pending: usize,
    /// Why it is not in force, or not for all.
    pub failures: Vec<String>,
}

/// A group that stands for peers or addresses, and whom it is there for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedGroup {
    /// What it is called in the cloud.
    pub group: String,
    /// The policies that are about it, as in `NetworkPolicy shop/web`.
    pub users: Vec<String>,
}

/// The status of a running controller, which its threads share.
#[derive(Clone)]
pub(crate) struct Shared {
    status: Arc<Mutex<Status>>,
    health: Health,
    lease: Lease,
}

impl Shared {
    pub(crate) fn new(identity: &str, health: Health, lease: Lease) -> Self {
        let status = Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            identity: identity.to_owned(),
            started: Timestamp::now(),
            ..Status::default()
        };
        Self {
            status: Arc::new(Mutex::new(status)),
            health,
            lease,
        }
    }

    /// The status, to change it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it goes now.
    pub(crate) fn status(&self) -> Status {
        let kinds = self.health.kinds();
        let source: BTreeMap<_, KindStatus> = kinds
            .iter()
            .map(|(kind, health)| (kind.clone(), health.into()))
            .collect();
        let status = self.lock().clone();
        let leads = self.lease.term().is_some();
        let is_known = !source.is_empty() && source.values().all(|kind| kind.complete);
        let leader = self.lease.leader();
        Status {
            // Who waits could take over once it knows the cluster.
            ready: if leads {
                status.ready
            } else {
                is_known && leader.is_some()
            },
            lease: LeaseStatus {
                leads,
                leader,
                remaining_seconds: self.lease.remaining().as_secs(),
                trouble: self.lease.trouble(),
            },
            source,
            ..status
        }
    }
}
