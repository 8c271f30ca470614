//! Groups: pods of one namespace, or their interfaces on one network, with the same labels and ports, which policies tell apart
//! only by address.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use hashbrown::HashTable;
use picket_cluster::NamedPort;
use picket_policy::{Labels, NetworkName};
use rustc_hash::{FxBuildHasher, FxHashMap};
use smol_str::SmolStr;

use crate::label::Anchor;
use crate::multimap::{MultiMap, insert_sorted, remove_sorted};
use crate::slab::{GroupId, Key, NamespaceId, NodeId, PodId, Slab};
use crate::subject::SubjectId;

/// What the members of a group have in common.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Everything that is neither a managed pod nor a node.
    External,
    Node(NodeId),
    Pods {
        namespace: NamespaceId,
        /// The secondary network; `None` on the cluster network.
        network: Option<NetworkName>,
        labels: Labels,
        ports: Arc<[NamedPort]>,
    },
}

impl Kind {
    /// The secondary network of pods that are interfaces.
    pub(crate) fn network(&self) -> Option<&NetworkName> {
        match self {
            Self::Pods { network, .. } => network.as_ref(),
            Self::External | Self::Node(_) => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) kind: Kind,
    /// Sorted.
    pub(crate) pods: Vec<PodId>,
    /// Ingress and egress.
    pub(crate) subjects: [Option<SubjectId>; 2],
}

impl Group {
    /// The named ports of its pods.
    pub(crate) fn ports(&self) -> &[NamedPort] {
        match &self.kind {
            Kind::Pods { ports, .. } => ports,
            Kind::External | Kind::Node(_) => &[],
        }
    }
}

/// All groups, indexed by what makes them.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    entries: Slab<GroupId, Group>,
    table: HashTable<u32>,
    pub(crate) by_label: MultiMap<Anchor, GroupId>,
    /// By name, then by port.
    by_port: FxHashMap<SmolStr, BTreeMap<NamedPort, Vec<GroupId>>>,
}

impl Groups {
    /// The group of external addresses.
    pub(crate) const EXTERNAL: GroupId = GroupId(0);

    pub(crate) fn new() -> Self {
        let mut groups = Self {
            entries: Slab::default(),
            table: HashTable::new(),
            by_label: MultiMap::default(),
            by_port: FxHashMap::default(),
        };
        // INVARIANT: the first, so its key is `EXTERNAL`.
        groups.insert(Kind::External);
        groups
    }

    pub(crate) fn find(
        &self,
        namespace: NamespaceId,
        network: Option<&NetworkName>,
        labels: &Labels,
        ports: &[NamedPort],
    ) -> Option<GroupId> {
        let hash = FxBuildHasher.hash_one((namespace, network, labels, ports));
        let found = self
            .table
            .find(hash, |&index| match &self.entries[GroupId(index)].kind {
                Kind::Pods {
                    namespace: own,
                    network: own_network,
                    labels: own_labels,
                    ports: own_ports,
                } => {
                    *own == namespace
                        && own_network.as_ref() == network
                        && own_labels == labels
                        && **own_ports == *ports
                }
                Kind::External | Kind::Node(_) => false,
            });
        found.map(|&index| GroupId(index))
    }

    pub(crate) fn insert(&mut self, kind: Kind) -> GroupId {
        let id = self.entries.insert(Group {
            kind,
            pods: Vec::new(),
            subjects: [None; 2],
        });
        let entries = &self.entries;
        let kind = &entries[id].kind;
        if let Kind::Pods { labels, ports, .. } = kind {
            self.table.insert_unique(hash(kind), id.index(), |&index| {
                hash(&entries[GroupId(index)].kind)
            });
            for anchor in Anchor::of_labels(labels) {
                self.by_label.insert(anchor, id);
            }
            for port in &**ports {
                let named = self.by_port.entry(port.name.clone()).or_default();
                insert_sorted(named.entry(port.clone()).or_default(), id);
            }
        }
        id
    }

    pub(crate) fn remove(&mut self, id: GroupId) -> Option<Group> {
        let group = self.entries.remove(id)?;
        if let Kind::Pods { labels, ports, .. } = &group.kind {
            if let Ok(entry) = self
                .table
                .find_entry(hash(&group.kind), |&index| index == id.index())
            {
                entry.remove();
            }
            for anchor in Anchor::of_labels(labels) {
                self.by_label.remove(&anchor, id);
            }
            for port in &**ports {
                self.remove_port(port, id);
            }
        }
        Some(group)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        self.entries.iter()
    }

    /// The distinct ports of a name.
    pub(crate) fn ports_named(&self, name: &str) -> Vec<NamedPort> {
        let ports = self.by_port.get(name).into_iter();
        ports.flat_map(BTreeMap::keys).cloned().collect()
    }

    /// The groups with a port, sorted.
    pub(crate) fn with_port(&self, port: &NamedPort) -> &[GroupId] {
        let groups = self.by_port.get(&port.name).and_then(|ports| ports.get(port));
        groups.map_or(&[], Vec::as_slice)
    }

    fn remove_port(&mut self, port: &NamedPort, id: GroupId) {
        let Some(ports) = self.by_port.get_mut(&port.name) else {
            return;
        };
        if let Some(groups) = ports.get_mut(port) {
            remove_sorted(groups, id);
            if groups.is_empty() {
                ports.remove(port);
            }
        }
        if ports.is_empty() {
            self.by_port.remove(&port.name);
        }
    }
}

fn hash(kind: &Kind) -> u64 {
    match kind {
        Kind::Pods {
            namespace,
            network,
            labels,
            ports,
        } => FxBuildHasher.hash_one((*namespace, network.as_ref(), labels, &**ports)),
        Kind::External | Kind::Node(_) => 0,
    }
}

impl Index<GroupId> for Groups {
    type Output = Group;

    fn index(&self, id: GroupId) -> &Group {
        &self.entries[id]
    }
}

impl IndexMut<GroupId> for Groups {
    fn index_mut(&mut self, id: GroupId) -> &mut Group {
        &mut self.entries[id]
    }
}
