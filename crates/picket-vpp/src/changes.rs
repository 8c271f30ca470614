//! What has happened to a program since something was worked out from it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_engine::{Delta, Identity, SubjectId};
use picket_net::Prefix;
use picket_policy::ObjectRef;
use smol_str::SmolStr;

/// What may not be as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// The identities that addresses of pods and nodes have now.
    pub(crate) addresses: BTreeMap<IpAddr, Option<Identity>>,
    /// The identities that prefixes have now.
    pub(crate) prefixes: BTreeMap<Prefix, Option<Identity>>,
    /// Whether identities came or went.
    pub(crate) identities: bool,
    /// Subjects that came or went, or whose policies say something else.
    pub(crate) subjects: BTreeSet<SubjectId>,
    /// Pods, wherever they are.
    pub(crate) pods: BTreeSet<ObjectRef>,
    /// Nodes.
    pub(crate) nodes: BTreeSet<SmolStr>,
    /// Whether services have other addresses.
    pub(crate) services: bool,
}

impl Changes {
    /// Takes in what one event changed, which matters to `node` or, with `None`, to one node that runs every pod.
    pub(crate) fn note(&mut self, delta: &Delta, node: Option<&SmolStr>) {
        let addresses = delta.addresses.iter();
        self.addresses
            .extend(addresses.map(|change| (change.key, change.after)));
        let prefixes = delta.prefixes.iter();
        self.prefixes
            .extend(prefixes.map(|change| (change.key, change.after)));
        self.identities |= !delta.identities.added.is_empty() || !delta.identities.removed.is_empty();
        let subjects = delta.subjects.added.iter().chain(&delta.subjects.removed);
        self.subjects.extend(subjects.chain(&delta.changed_subjects));
        let own = delta.pods.iter().filter(|change| {
            let mut states = change.before.iter().chain(&change.after);
            states.any(|pod| node.is_none() || pod.node.as_ref() == node)
        });
        self.pods.extend(own.map(|change| change.key.clone()));
        self.nodes.extend(delta.nodes.iter().cloned());
        self.services |= !delta.services.is_empty();
    }
}
