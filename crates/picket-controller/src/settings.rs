//! What a controller is to do.

use std::time::Duration;

use picket_cluster::Semantics;
use picket_neutron::Options;
use picket_node::{Listen, Source};

use crate::{LeaseSettings, PublishSettings};

/// What a controller is to do, and where.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who says what the cluster is.
    pub source: Source,
    /// What this controller is called; what no other is called is made of it.
    pub name: String,
    /// The Lease that it shares with others; without, it shares its work with nobody.
    pub lease: Option<LeaseSettings>,
    /// How policies are read where Kubernetes leaves a choice.
    pub semantics: Semantics,
    /// What groups depend on besides the policies.
    pub options: Options,
    /// When things happen.
    pub timing: Timing,
    /// How many steps are done at once.
    pub at_once: usize,
    /// What to write into the cluster, if anything.
    pub publish: Option<PublishSettings>,
    /// How often to ask which kinds of objects the cluster serves.
    pub discover_every: Duration,
    /// Where to answer those who ask how it goes.
    pub listen: Listen,
}

/// When things happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a call to the cloud may take.
    pub call: Duration,
    /// How long nothing more may change until what has changed is enforced.
    pub quiet: Duration,
    /// How long to wait at most until something is enforced because more and more changes.
    pub patience: Duration,
    /// How often to read everything that the cloud has, and to repair what others have changed.
    pub resync: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            call: Duration::from_secs(15),
            quiet: Duration::from_millis(100),
            patience: Duration::from_secs(1),
            resync: Duration::from_secs(600),
        }
    }
}
