//! What an agent is to do.

use std::time::Duration;

use picket_cluster::Semantics;
use picket_dataplane::EstablishedConnections;
use picket_linux::share_memory;
use picket_source::{Directory, Etcd, Kube};
use smol_str::SmolStr;

use crate::{Listen, VppSettings};

/// What an agent is to do, and where.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who says what the cluster is.
    pub source: Source,
    /// The name of the node that it runs on.
    pub node: SmolStr,
    /// Whether to enforce them with nftables.
    pub nftables: bool,
    /// What to enforce with VPP, if anything.
    pub vpp: Option<VppSettings>,
    /// How policies are read where Kubernetes leaves a choice.
    pub semantics: Semantics,
    /// What pods may do until the cluster is known.
    pub until_synced: UntilSynced,
    /// Whether to forward nothing of pods with addresses that they cannot have.
    pub anti_spoof: bool,
    /// What to do with established connections that a change denies: [`EstablishedConnections::Cut`] or
    /// [`EstablishedConnections::Keep`].
    pub established: EstablishedConnections,
    /// Whether to keep others from changing the table, where the kernel can.
    pub hold: bool,
    /// How many objects, rules and elements one transaction makes at most, of those that nothing leads to yet.
    pub portion: usize,
    /// How often to prove that what the kernel has is what the policies say.
    pub verify_every: Duration,
    /// How often to ask which kinds of objects the cluster serves.
    pub discover_every: Duration,
    /// The netlink group by which the kernel tells which packets are denied, if that is to be logged.
    pub log_denied: Option<u16>,
    /// Whether to write Events on objects that cannot be read or enforced, where the API server is the source.
    pub events: bool,
    /// Where to answer those who ask how it goes.
    pub listen: Listen,
}

/// Who says what the cluster is.
#[derive(Clone, Debug)]
pub enum Source {
    /// Its API server.
    Kube(Kube),
    /// An etcd, in which a reflector keeps what the API server says.
    Etcd(Etcd),
    /// Manifests in files.
    Directory(Directory),
}

impl Source {
    /// Settles where threads that begin from now on take memory from. What a cluster says one thread reads, and a place that all
    /// share keeps the least; files are read by several, which would wait for each other there.
    pub(crate) fn settle_memory(&self) {
        match self {
            Self::Kube(_) | Self::Etcd(_) => share_memory(),
            Self::Directory(_) => {}
        }
    }
}

/// What pods may do that the rules in force do not know, until the cluster is known for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UntilSynced {
    /// On a node without rules nothing new is forwarded; on one with rules from before nothing new from or to pods that they
    /// do not know. Connections that are established go on.
    #[default]
    Deny,
    /// Everything.
    Allow,
}
