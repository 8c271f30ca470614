//! The compiled form, as everything above the engine reads it.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::{Namespace, Node, Pod, Semantics, Service};
use picket_net::{AddressSet, Family, Prefix, TrafficSet};
use picket_policy::{
    Action, Direction, Mode, NamespaceScope, Networks, ObjectRef, PodSelector, Policy, Selector, Tier,
};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use crate::allow::{AllowSet, Allowed};
use crate::atom::{Atoms, Holder, View};
use crate::delta::{Journal, PodState};
use crate::group::{Groups, Kind};
use crate::identity::{Identities, Signature};
use crate::multimap::MultiMap;
use crate::namespace::Namespaces;
use crate::partition::Partition;
use crate::policy::{LoweredRule, PolicyEntry, Stance};
use crate::slab::{GroupId, Interner, NodeId, PodId, PolicyId, Slab, TermId};
use crate::subject::{SubjectKey, Subjects};
use crate::term::{PodTerm, SelectorIndex};
use crate::universal::Universal;
use crate::{Identity, SubjectId};

/// A selector that a peer or a port of some rule is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PeerTerm {
    Pods(PodTerm),
    Nodes(Selector),
    /// The port of a pod whose name an egress rule uses.
    Port(picket_cluster::NamedPort),
}

#[derive(Clone, Debug)]
pub(crate) struct PodEntry {
    pub(crate) pod: Arc<Pod>,
    /// That of the pod; here because blocks ask about the pods at all their addresses.
    pub(crate) synthetic: bool,
    /// `None` when policies do not apply to the pod.
    pub(crate) group: Option<GroupId>,
    /// IPv4 and IPv6; only managed pods have identities of their own.
    pub(crate) identities: [Option<Identity>; 2],
}

/// A pod under what identifies it: of many pods that is a lot of text to keep twice.
#[derive(Clone, Debug)]
pub(crate) struct ByObject(pub(crate) Arc<Pod>);

impl Borrow<ObjectRef> for ByObject {
    fn borrow(&self) -> &ObjectRef {
        &self.0.object
    }
}

impl PartialEq for ByObject {
    fn eq(&self, other: &Self) -> bool {
        self.0.object == other.0.object
    }
}

impl Eq for ByObject {}

impl PartialOrd for ByObject {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByObject {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.object.cmp(&other.0.object)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct NodeEntry {
    pub(crate) node: Node,
    pub(crate) group: GroupId,
    pub(crate) identities: BTreeMap<IpAddr, Identity>,
}

/// The uses of a port name by egress rules, and what the pods there are make of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameEntry {
    pub(crate) uses: u32,
    /// Sorted by protocol and number.
    pub(crate) terms: Vec<(picket_cluster::NamedPort, TermId)>,
}

/// The compiled form of a cluster and its policies, independent of any dataplane.
///
/// Read-only: [`crate::Engine`] is what changes it. What may pass between two pods is decided at both ends; each end is
/// a [`SubjectId`] with an [`AllowSet`] over the [`Identity`] of the other. Two rules stand beside the allow sets, since
/// they are about single pods: a pod always reaches itself, and exchanges with its own node what
/// [`Program::own_node_allow_set`] says instead.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) semantics: Semantics,
    pub(crate) namespaces: Namespaces,
    pub(crate) groups: Groups,
    pub(crate) pods: Slab<PodId, PodEntry>,
    pub(crate) pod_ids: BTreeMap<ByObject, PodId>,
    pub(crate) pods_by_node: MultiMap<SmolStr, PodId>,
    pub(crate) nodes: Slab<NodeId, NodeEntry>,
    pub(crate) node_ids: BTreeMap<SmolStr, NodeId>,
    pub(crate) services: BTreeMap<ObjectRef, Service>,
    pub(crate) policies: Slab<PolicyId, PolicyEntry>,
    pub(crate) policy_ids: FxHashMap<ObjectRef, PolicyId>,
    /// What tells identities apart, other than addresses. Members are groups.
    pub(crate) peer_terms: Interner<TermId, PeerTerm>,
    pub(crate) peer_index: SelectorIndex,
    pub(crate) peers: Partition<GroupId, TermId>,
    pub(crate) port_names: FxHashMap<SmolStr, NameEntry>,
    /// What tells subjects apart. Members are groups of pods.
    pub(crate) subject_terms: Interner<TermId, PodTerm>,
    pub(crate) subject_index: SelectorIndex,
    pub(crate) subject_classes: Partition<GroupId, TermId>,
    /// The policies with each subject selector, sorted.
    pub(crate) policies_of: FxHashMap<TermId, Vec<PolicyId>>,
    pub(crate) universal: Universal,
    pub(crate) subjects: Subjects,
    pub(crate) atoms: Atoms,
    pub(crate) identities: Identities,
    /// The identity of the addresses of each atom that nobody has, real and made up.
    pub(crate) regions: FxHashMap<View, Identity>,
    /// The identities of addresses whose owners have several.
    pub(crate) shared: BTreeMap<IpAddr, Identity>,
    pub(crate) journal: Journal,
}

impl Program {
    pub(crate) fn new(semantics: Semantics) -> Self {
        let mut program = Self {
            semantics,
            namespaces: Namespaces::default(),
            groups: Groups::new(),
            pods: Slab::default(),
            pod_ids: BTreeMap::new(),
            pods_by_node: MultiMap::default(),
            nodes: Slab::default(),
            node_ids: BTreeMap::new(),
            services: BTreeMap::new(),
            policies: Slab::default(),
            policy_ids: FxHashMap::default(),
            peer_terms: Interner::default(),
            peer_index: SelectorIndex::default(),
            peers: Partition::default(),
            port_names: FxHashMap::default(),
            subject_terms: Interner::default(),
            subject_index: SelectorIndex::default(),
            subject_classes: Partition::default(),
            policies_of: FxHashMap::default(),
            universal: Universal::default(),
            subjects: Subjects::default(),
            atoms: Atoms::new(),
            identities: Identities::default(),
            regions: FxHashMap::default(),
            shared: BTreeMap::new(),
            journal: Journal::default(),
        };
        program.peers.place(Groups::EXTERNAL, &[]);
        for atom in program.atoms.iter().map(|(atom, _)| atom).collect::<Vec<_>>() {
            program.enter_region(atom);
        }
        // Always in use, so that the first and the last policy about every pod or node move no address.
        program.acquire_peer(PeerTerm::Pods(PodTerm {
            selector: PodSelector {
                namespaces: NamespaceScope::Matching(Selector::everything()),
                pods: Selector::everything(),
            },
            networks: Networks::Cluster,
        }));
        program.acquire_peer(PeerTerm::Nodes(Selector::everything()));
        program
    }

    /// The choices it was compiled with.
    pub fn semantics(&self) -> &Semantics {
        &self.semantics
    }

    /// The identity of an address: of the pod or node that has it, or of external addresses there.
    ///
    /// An address that several have (clusters reuse them before the old pod is gone) may do only what all may.
    pub fn identity_of(&self, address: IpAddr) -> Identity {
        self.held_identity(address)
            .unwrap_or_else(|| self.region_identity(View::of(self.atoms.find(address), false)))
    }

    /// Every address of a managed pod or a node with its identity, in no order, and as often as somebody has it. Policies see
    /// the other pods by the address of their node, or as anybody with their address.
    pub fn endpoints(&self) -> impl Iterator<Item = (IpAddr, Identity)> {
        self.atoms.held().filter_map(|(address, holder)| {
            let shared = self.shared.get(&address).copied();
            // Unless it is shared, all who have it have one identity.
            let identity = shared.or_else(|| self.holder_identity(holder, address))?;
            Some((address, identity))
        })
    }

    /// The identity of the address of a pod that is not managed, whoever else has the address: that of its node, if it is in
    /// the network of the node, else what blocks give it. If picket made it up, only blocks of every address hold it, and
    /// their exceptions count.
    pub fn identity_by_address(&self, pod: &Pod, address: IpAddr) -> Identity {
        if self.has_address_of_node(pod, address) {
            return self.identity_of(address);
        }
        self.region_identity(self.view_of(pod, address))
    }

    /// Every identity there is, ascending.
    pub fn identities(&self) -> impl Iterator<Item = Identity> + '_ {
        self.identities.live().iter().map(Identity)
    }

    /// Every pod and workload, finished and hostNetwork ones included, in the order of their objects.
    pub fn pods(&self) -> impl Iterator<Item = PodRef<'_>> {
        self.pod_ids.values().map(|&id| self.pod_ref(id))
    }

    /// One pod.
    pub fn pod(&self, object: &ObjectRef) -> Option<PodRef<'_>> {
        Some(self.pod_ref(*self.pod_ids.get(object)?))
    }

    /// Every node, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.node_ids.values().map(|&id| &self.nodes[id].node)
    }

    /// One node.
    pub fn node(&self, name: &str) -> Option<&Node> {
        Some(&self.nodes[*self.node_ids.get(name)?].node)
    }

    /// Every namespace whose object exists, in no particular order.
    pub fn namespaces(&self) -> impl Iterator<Item = Namespace> {
        self.namespaces.explicit()
    }

    /// One namespace, if its object exists.
    pub fn namespace(&self, name: &str) -> Option<Namespace> {
        self.namespaces.explicit_one(name)
    }

    /// Every service, in the order of their objects.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        self.services.values()
    }

    /// Every policy, in no particular order.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.policies.iter().map(|(_, entry)| &entry.policy)
    }

    /// One policy.
    pub fn policy(&self, object: &ObjectRef) -> Option<&Arc<Policy>> {
        Some(&self.policies[*self.policy_ids.get(object)?].policy)
    }

    /// The managed pods with an identity, with the family of the address that has it; in the order of their objects.
    pub fn pods_with(&self, identity: Identity) -> Vec<(PodRef<'_>, Family)> {
        let mut found = Vec::new();
        for group in self.groups_with(identity) {
            for &pod in &self.groups[group].pods {
                let identities = self.pods[pod].identities;
                for (family, own) in Family::BOTH.into_iter().zip(identities) {
                    if own == Some(identity) {
                        found.push((self.pod_ref(pod), family));
                    }
                }
            }
        }
        found.sort_by(|(one, family), (other, other_family)| {
            (&one.pod().object, family).cmp(&(&other.pod().object, other_family))
        });
        found
    }

    /// The nodes with an identity, with the address that has it; by name.
    pub fn nodes_with(&self, identity: Identity) -> Vec<(&Node, IpAddr)> {
        let mut found = Vec::new();
        for group in self.groups_with(identity) {
            if let Kind::Node(node) = self.groups[group].kind {
                let entry = &self.nodes[node];
                let own = entry.identities.iter().filter(|(_, own)| **own == identity);
                found.extend(own.map(|(&address, _)| (&entry.node, address)));
            }
        }
        found.sort_by_key(|(node, address)| (&node.name, *address));
        found
    }

    /// The prefixes that decide the identity of addresses that no pod and no node has: the longest one that holds the
    /// address does. 0.0.0.0/0 and ::/0 are always among them. Sorted, so outer prefixes come before inner ones.
    pub fn prefixes(&self) -> Vec<(Prefix, Identity)> {
        let mut prefixes: Vec<_> = self
            .atoms
            .iter()
            .map(|(atom, prefix)| (prefix, self.region_identity(View::of(atom, false))))
            .collect();
        prefixes.sort_unstable();
        prefixes
    }

    /// The addresses with an identity if no pod and no node had any; empty for identities of pods and nodes.
    pub fn region(&self, identity: Identity) -> AddressSet {
        let Some(Signature::Class(selectors, blocks)) = self.identities.signature(identity) else {
            return AddressSet::empty();
        };
        if self.peers.class_of(Groups::EXTERNAL) != Some(*selectors) {
            return AddressSet::empty();
        }
        let atoms = self.atoms.views_in(*blocks).iter();
        let atoms = atoms.filter(|view| !view.is_synthetic() && view.atom() != Atoms::NOWHERE);
        let sets: Vec<_> = atoms.map(|view| self.atoms.addresses(view.atom())).collect();
        sets.iter().flat_map(AddressSet::ranges).collect()
    }

    /// The addresses of all nodes and of all pods that have not finished.
    pub fn taken_addresses(&self) -> AddressSet {
        let nodes = self.nodes().flat_map(|node| node.addresses.iter().copied());
        let live = self.pods().filter(|pod| !pod.pod().finished);
        let pods = live.flat_map(|pod| pod.pod().addresses.iter().collect::<Vec<_>>());
        nodes.chain(pods).collect()
    }

    /// The addresses of a node, and those of the live pods there that have its network.
    pub fn own_addresses(&self, node: &str) -> BTreeSet<IpAddr> {
        let own = self.node(node).into_iter();
        let own = own.flat_map(|node| node.addresses.iter().copied());
        let pods = self.pods_by_node.get(node).iter().map(|&id| &self.pods[id].pod);
        let pods = pods.filter(|pod| pod.host_network && !pod.finished);
        own.chain(pods.flat_map(|pod| pod.addresses.iter())).collect()
    }

    /// What applies to a pod in one direction; `None` when nothing does, or policies do not apply to the pod.
    pub fn subject(&self, pod: &ObjectRef, direction: Direction) -> Option<SubjectId> {
        self.pod(pod)?.subject(direction)
    }

    /// Every subject with its direction, ascending.
    pub fn subjects(&self) -> impl Iterator<Item = (SubjectId, Direction)> + '_ {
        self.subjects.iter().map(|(id, key)| (id, key.direction))
    }

    /// What a subject allows; nothing for one that does not exist.
    ///
    /// Worked out when first asked for. The allocation stays the same as long as the value does.
    pub fn allow_set(&self, subject: SubjectId) -> Arc<AllowSet> {
        self.allowed(subject).in_force.peers
    }

    /// What pods of a subject may exchange with their own node: egress everything that no rule of the Admin tier denies,
    /// ingress everything but what the cluster default of the v1beta1 proposal denies.
    pub fn own_node_allow_set(&self, subject: SubjectId) -> Arc<AllowSet> {
        self.allowed(subject).in_force.own_node
    }

    /// What a subject would allow if policies that are only audited were enforced: never more than it allows. It is the
    /// same allocation where none is audited.
    pub fn allow_set_if_enforced(&self, subject: SubjectId) -> Arc<AllowSet> {
        self.allowed(subject).if_enforced().peers
    }

    /// [`Program::own_node_allow_set`], if policies that are only audited were enforced.
    pub fn own_node_allow_set_if_enforced(&self, subject: SubjectId) -> Arc<AllowSet> {
        self.allowed(subject).if_enforced().own_node
    }

    fn allowed(&self, subject: SubjectId) -> Allowed {
        self.subjects.allowed(subject, self).unwrap_or_default()
    }

    /// The policies that can decide about a subject, in the order in which they are judged. Those that are only audited are
    /// among them.
    pub fn deciding_policies(&self, subject: SubjectId) -> impl Iterator<Item = &Arc<Policy>> {
        let key = self.subjects.key(subject);
        let entries = key.into_iter().flat_map(|key| self.deciding(key));
        entries.map(|entry| &entry.policy)
    }

    /// The policies because of which packets of a subject can be denied.
    pub fn denying_policies(&self, subject: SubjectId) -> impl Iterator<Item = &Arc<Policy>> {
        let key = self.subjects.key(subject);
        key.into_iter().flat_map(|key| {
            let policies = self.deciding(key).map(|entry| &entry.policy);
            policies
                .filter(|policy| key.isolation.lets_deny(policy.tier, Stance::InForce))
                .filter(|policy| policy.can_deny(key.direction))
        })
    }

    /// The policies because of which packets of a subject could be denied if they were not only audited.
    pub fn audited_policies(&self, subject: SubjectId) -> impl Iterator<Item = &Arc<Policy>> {
        let key = self.subjects.key(subject);
        key.into_iter().flat_map(|key| {
            let policies = self.deciding(key).map(|entry| &entry.policy);
            policies.filter(|policy| policy.mode == Mode::Audit && policy.would_deny(key.direction))
        })
    }

    /// What a subject, or a pod without one, allows with one identity.
    pub fn traffic(&self, subject: Option<SubjectId>, peer: Identity) -> TrafficSet {
        match subject {
            None => TrafficSet::all(),
            Some(subject) => self.allow_set(subject).traffic(peer).cloned().unwrap_or_default(),
        }
    }

    /// Works out what every subject allows. Without it that happens one by one, when asked for.
    pub fn expand(&self) {
        for (subject, _) in self.subjects() {
            self.allow_set(subject);
        }
    }

    /// The managed pods on a node, in the order of their objects.
    pub fn pods_on(&self, node: &str) -> Vec<PodRef<'_>> {
        let pods = self.pods_by_node.get(node).iter().map(|&id| self.pod_ref(id));
        let mut managed: Vec<_> = pods.filter(PodRef::is_managed).collect();
        managed.sort_by(|one, other| one.pod().object.cmp(&other.pod().object));
        managed
    }

    pub(crate) fn pod_ref(&self, id: PodId) -> PodRef<'_> {
        let entry = &self.pods[id];
        PodRef {
            entry,
            subjects: entry.group.map_or([None; 2], |group| self.groups[group].subjects),
        }
    }

    /// The identity of an address that pods or nodes have.
    pub(crate) fn held_identity(&self, address: IpAddr) -> Option<Identity> {
        if let Some(&shared) = self.shared.get(&address) {
            return Some(shared);
        }
        let holder = self.atoms.holders_at(address).next()?;
        self.holder_identity(holder, address)
    }

    pub(crate) fn holder_identity(&self, holder: Holder, address: IpAddr) -> Option<Identity> {
        match holder {
            Holder::Pod(pod) => {
                let [v4, v6] = self.pods[pod].identities;
                if address.is_ipv4() { v4 } else { v6 }
            }
            Holder::Node(node) => self.nodes[node].identities.get(&address).copied(),
        }
    }

    pub(crate) fn region_identity(&self, view: View) -> Identity {
        // INVARIANT: both views of every atom in the tree have one.
        self.regions.get(&view).copied().unwrap_or(Identity(0))
    }

    /// The groups of pods and nodes that an identity can have members in.
    fn groups_with(&self, identity: Identity) -> Vec<GroupId> {
        match self.identities.signature(identity) {
            Some(Signature::Class(selectors, _)) => self.peers.class(*selectors).members().to_vec(),
            Some(Signature::Joint(_)) | None => Vec::new(),
        }
    }

    /// How blocks see the address of a pod.
    pub(crate) fn view_of(&self, pod: &Pod, address: IpAddr) -> View {
        if pod.host_network || self.semantics.ipblock_matches_pods {
            View::of(self.atoms.find(address), pod.synthetic)
        } else {
            View::of(Atoms::NOWHERE, false)
        }
    }

    /// What pods make of a port name that egress rules use.
    pub(crate) fn port_terms(
        &self,
        name: &str,
    ) -> impl Iterator<Item = (TermId, &picket_cluster::NamedPort)> {
        let entry = self.port_names.get(name).into_iter();
        entry.flat_map(|entry| entry.terms.iter().map(|(port, term)| (*term, port)))
    }

    /// The policies that can decide about a subject, in the order in which they are judged.
    pub(crate) fn deciding<'a>(
        &'a self,
        subject: &'a SubjectKey,
    ) -> impl Iterator<Item = &'a PolicyEntry> + use<'a> {
        Tier::ALL
            .into_iter()
            .flat_map(|tier| self.deciding_in(subject, tier))
    }

    /// Those of one tier.
    fn deciding_in(&self, subject: &SubjectKey, tier: Tier) -> Vec<&PolicyEntry> {
        let own = subject.policies.iter().map(|&id| &self.policies[id]);
        let universal = self.universal_deciding(subject.direction, subject.isolation);
        let mut entries: Vec<_> = own
            .chain(universal)
            .filter(|entry| entry.policy.tier == tier)
            .collect();
        if tier != Tier::NetworkPolicy {
            entries.sort_by(|one, other| one.rank().cmp(&other.rank()));
        }
        entries
    }

    /// The rules of one tier that decide about a subject, in the order in which they are judged.
    pub(crate) fn rules_of(
        &self,
        subject: &SubjectKey,
        tier: Tier,
        stance: Stance,
    ) -> impl Iterator<Item = &LoweredRule> {
        let direction = subject.direction;
        let may_deny = subject.isolation.lets_deny(tier, stance);
        let entries = self.deciding_in(subject, tier).into_iter();
        let rules = entries.flat_map(move |entry| entry.side(direction).rules_in(stance));
        rules.filter(move |rule| may_deny || rule.action != Action::Deny)
    }

    /// Whether a policy that is only audited can decide about a subject.
    pub(crate) fn is_audited(&self, subject: &SubjectKey) -> bool {
        let mut entries = self.deciding(subject);
        entries.any(|entry| entry.side(subject.direction).mode == Mode::Audit)
    }
}

/// One pod of a program.
#[derive(Clone, Copy, Debug)]
pub struct PodRef<'a> {
    entry: &'a PodEntry,
    subjects: [Option<SubjectId>; 2],
}

impl<'a> PodRef<'a> {
    /// The object.
    pub fn pod(&self) -> &'a Arc<Pod> {
        &self.entry.pod
    }

    /// Whether policies can apply to it.
    pub fn is_managed(&self) -> bool {
        self.entry.group.is_some()
    }

    /// The identity of its address of one family; `None` without such an address, and for pods that are not managed.
    pub fn identity(&self, family: Family) -> Option<Identity> {
        let [v4, v6] = self.entry.identities;
        match family {
            Family::Ipv4 => v4,
            Family::Ipv6 => v6,
        }
    }

    /// What applies to it in one direction; `None` when nothing does.
    pub fn subject(&self, direction: Direction) -> Option<SubjectId> {
        let [ingress, egress] = self.subjects;
        match direction {
            Direction::Ingress => ingress,
            Direction::Egress => egress,
        }
    }

    /// What a dataplane must know of it; `None` for a pod that is not managed.
    pub(crate) fn state(&self) -> Option<PodState> {
        self.is_managed().then(|| PodState {
            node: self.entry.pod.node.clone(),
            addresses: self.entry.pod.addresses,
            subjects: self.subjects,
        })
    }
}
