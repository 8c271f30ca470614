//! Events in, deltas out.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::{Event, Node, Object, Pod, Semantics, Snapshot};
use picket_net::Prefix;
use picket_policy::{Direction, Networks, ObjectRef, Peer, PodSelector, Policy};

use crate::atom::Holder;
use crate::delta::{Change, Delta, Journal};
use crate::group::Kind;
use crate::multimap::{insert_sorted, remove_sorted};
use crate::policy::{self, LoweredSide, PeerMatch, PolicyEntry};
use crate::program::{NodeEntry, PeerTerm, PodEntry, Program};
use crate::slab::{PodId, PolicyId, TermId};
use crate::{Identity, SubjectId};

/// Compiles objects into a [`Program`], and keeps it current as they change.
///
/// The state that any sequence of events leads to is the one that compiling the objects of its end from nothing gives,
/// but for the numbers of identities and subjects. Those depend on the sequence, and on nothing else.
#[derive(Debug)]
pub struct Engine {
    program: Program,
    /// While a list is being received: what it has named so far.
    listed: Option<BTreeSet<ObjectRef>>,
}

impl Engine {
    /// An engine that knows no objects.
    pub fn new(semantics: Semantics) -> Self {
        let mut program = Program::new(semantics);
        program.journal.recording = true;
        Self {
            program,
            listed: None,
        }
    }

    /// An engine that knows the objects of a snapshot.
    pub fn compile(snapshot: &Snapshot, semantics: Semantics) -> Self {
        let mut program = Program::new(semantics);
        // Policies first: their selectors then meet every group of pods once, when it is made.
        program.atoms.begin_bulk();
        for policy in snapshot.policies.values() {
            program.apply_policy(Arc::clone(policy));
        }
        program.classify_atoms();
        for namespace in snapshot.namespaces.values() {
            program.namespaces.apply(namespace);
        }
        for node in snapshot.nodes.values() {
            program.apply_node(node.clone());
        }
        for pod in snapshot.pods.values() {
            program.apply_pod(Arc::clone(pod));
        }
        program.services.clone_from(&snapshot.services);
        program.sweep();
        program.settle_shared_addresses();
        program.journal = Journal {
            recording: true,
            ..Journal::default()
        };
        Self {
            program,
            listed: None,
        }
    }

    /// The current state.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Takes in one event and says what it changed: nothing, when it says what is known already.
    pub fn apply(&mut self, event: Event) -> Delta {
        match event {
            Event::Init => self.listed = Some(BTreeSet::new()),
            Event::Apply(object) => {
                if let Some(listed) = &mut self.listed {
                    listed.insert(object.object_ref());
                }
                self.program.apply_object(object);
                self.program.sweep();
            }
            Event::Delete(object) => {
                self.program.delete_object(&object);
                self.program.sweep();
            }
            Event::InitDone => {
                if let Some(listed) = self.listed.take() {
                    for object in self.program.objects() {
                        if !listed.contains(&object) {
                            self.program.delete_object(&object);
                            self.program.sweep();
                        }
                    }
                }
            }
        }
        self.program.commit()
    }
}

impl Program {
    fn apply_object(&mut self, object: Object) {
        match object {
            Object::Namespace(namespace) => {
                if let Some(changed) = self.namespaces.apply(&namespace) {
                    self.replace_groups(changed);
                }
            }
            Object::Node(node) => self.apply_node(node),
            Object::Pod(pod) => self.apply_pod(Arc::new(pod)),
            Object::Service(service) => drop(self.services.insert(service.object.clone(), service)),
            Object::Policy(policy) => self.apply_policy(Arc::new(policy)),
        }
    }

    fn delete_object(&mut self, object: &ObjectRef) {
        match object.kind.as_str() {
            "Namespace" => {
                if let Some(changed) = self.namespaces.delete(&object.name) {
                    self.replace_groups(changed);
                }
            }
            "Node" => self.delete_node(&object.name),
            "Service" => drop(self.services.remove(object)),
            _ => {
                // Pods, workloads and policies of every dialect: a kind belongs to one of the two.
                if !self.delete_pod(object) {
                    self.delete_policy(object);
                }
            }
        }
    }

    /// Every object, in an order that deletes what depends on others first.
    fn objects(&self) -> Vec<ObjectRef> {
        let mut policies: Vec<_> = self.policy_ids.keys().cloned().collect();
        policies.sort_unstable();
        let pods = self.pod_ids.keys().cloned();
        let services = self.services.keys().cloned();
        let nodes = self.node_ids.keys().map(|name| ObjectRef::new("Node", "", name));
        let namespaces = self.namespaces.explicit_names().into_iter();
        let namespaces = namespaces.map(|name| ObjectRef::new("Namespace", "", &name));
        let objects = pods.chain(services).chain(nodes).chain(namespaces);
        objects.chain(policies).collect()
    }

    fn apply_pod(&mut self, pod: Arc<Pod>) {
        let Some(&id) = self.pod_ids.get(&pod.object) else {
            let id = self.pods.insert(PodEntry {
                pod: Arc::clone(&pod),
                group: None,
                identities: [None; 2],
            });
            self.pod_ids.insert(pod.object.clone(), id);
            if let Some(node) = &pod.node {
                self.pods_by_node.insert(node.clone(), id);
            }
            self.journal_pod(id);
            self.enter_pod(id);
            return;
        };
        let before = Arc::clone(&self.pods[id].pod);
        if before == pod {
            return;
        }
        self.journal_pod(id);
        if before.node != pod.node {
            if let Some(node) = &before.node {
                self.pods_by_node.remove(node, id);
            }
            if let Some(node) = &pod.node {
                self.pods_by_node.insert(node.clone(), id);
            }
        }
        let same_place = before.object.namespace == pod.object.namespace
            && before.labels == pod.labels
            && before.ports == pod.ports
            && before.is_managed() == pod.is_managed()
            && before.addresses == pod.addresses
            && before.synthetic == pod.synthetic;
        if same_place {
            self.pods[id].pod = pod;
            return;
        }
        // The new group exists before the old one goes, so that what both share stays.
        let kept = pod.is_managed().then(|| self.ensure_group(&pod));
        let Some(group) = self.pods[id].group else {
            self.pods[id].pod = pod;
            self.enter_pod(id);
            return;
        };
        if let Some(kept) = kept
            && kept != group
        {
            self.join_group(kept, id);
        }
        let held: Vec<_> = before
            .addresses
            .iter()
            .map(|address| (address, self.detach_address(address, Holder::Pod(id))))
            .collect();
        self.pods[id].group = kept;
        self.pods[id].pod = pod;
        if kept.is_some() {
            self.hold_pod_addresses(id);
        }
        for (_, identity) in held {
            if let Some(identity) = identity {
                self.release_identity(identity);
            }
        }
        if kept != Some(group) {
            self.leave_group(group, id);
        }
    }

    /// Gives a pod that has none its group and identities, if policies apply to it.
    fn enter_pod(&mut self, id: PodId) {
        let pod = Arc::clone(&self.pods[id].pod);
        if pod.is_managed() {
            let group = self.ensure_group(&pod);
            self.join_group(group, id);
            self.pods[id].group = Some(group);
            self.hold_pod_addresses(id);
        }
    }

    fn hold_pod_addresses(&mut self, id: PodId) {
        for address in self.pods[id].pod.addresses.iter().collect::<Vec<_>>() {
            self.hold(address, Holder::Pod(id));
        }
    }

    /// Whether there was such a pod.
    fn delete_pod(&mut self, object: &ObjectRef) -> bool {
        let Some(&id) = self.pod_ids.get(object) else {
            return false;
        };
        self.journal_pod(id);
        let pod = Arc::clone(&self.pods[id].pod);
        if let Some(group) = self.pods[id].group {
            for address in pod.addresses.iter() {
                self.unhold(address, Holder::Pod(id));
            }
            self.leave_group(group, id);
        }
        if let Some(node) = &pod.node {
            self.pods_by_node.remove(node, id);
        }
        self.pod_ids.remove(object);
        self.pods.retire(id);
        true
    }

    fn apply_node(&mut self, node: Node) {
        let Some(&id) = self.node_ids.get(&node.name) else {
            let group = self.groups.insert(Kind::External);
            let id = self.nodes.insert(NodeEntry {
                node: node.clone(),
                group,
                identities: std::collections::BTreeMap::new(),
            });
            self.groups[group].kind = Kind::Node(id);
            self.node_ids.insert(node.name.clone(), id);
            self.place_group(group);
            for &address in &node.addresses {
                self.hold(address, Holder::Node(id));
            }
            self.journal_node(&node.name);
            return;
        };
        let before = std::mem::replace(&mut self.nodes[id].node, node);
        let group = self.nodes[id].group;
        if before.labels != self.nodes[id].node.labels {
            self.place_group(group);
        }
        let (old, new) = (&before.addresses, self.nodes[id].node.addresses.clone());
        for &address in new.difference(old) {
            self.hold(address, Holder::Node(id));
        }
        for &address in old.difference(&new) {
            self.unhold(address, Holder::Node(id));
        }
        if *old != new {
            self.journal_node(&before.name);
        }
        if before.labels != self.nodes[id].node.labels {
            self.reidentify_groups(&[group], false);
        }
    }

    fn delete_node(&mut self, name: &str) {
        let Some(id) = self.node_ids.remove(name) else {
            return;
        };
        for address in self.nodes[id].node.addresses.clone() {
            self.unhold(address, Holder::Node(id));
        }
        self.remove_group(self.nodes[id].group);
        if let Some(entry) = self.nodes.remove(id) {
            self.journal_node(&entry.node.name);
        }
    }

    fn apply_policy(&mut self, policy: Arc<Policy>) {
        let known = self.policy_ids.get(&policy.object).copied();
        if known.is_some_and(|id| self.policies[id].policy == policy) {
            return;
        }
        let after = self.lower_policy(&policy);
        let (id, before) = match known {
            Some(id) => (id, Some(std::mem::replace(&mut self.policies[id], after))),
            None => (self.policies.insert(after), None),
        };
        self.policy_ids.insert(policy.object.clone(), id);
        self.replace_policy(id, before);
    }

    fn delete_policy(&mut self, object: &ObjectRef) {
        let Some(id) = self.policy_ids.remove(object) else {
            return;
        };
        let empty = PolicyEntry {
            policy: Arc::clone(&self.policies[id].policy),
            subject: None,
            sides: [LoweredSide::default(), LoweredSide::default()],
        };
        let before = std::mem::replace(&mut self.policies[id], empty);
        self.replace_policy(id, Some(before));
        self.policies.remove(id);
    }

    /// After a policy took the place of `before`: moves the subjects that it is about, and drops what only the old one
    /// used.
    fn replace_policy(&mut self, id: PolicyId, before: Option<PolicyEntry>) {
        let old = before.as_ref().and_then(|before| before.subject);
        let new = self.policies[id].subject;
        let mut groups = Vec::new();
        for term in [old, new].into_iter().flatten() {
            groups.extend(self.groups_of_subject(term));
        }
        groups.sort_unstable();
        groups.dedup();
        if old != new {
            if let Some(old) = old
                && let Some(policies) = self.policies_of.get_mut(&old)
            {
                remove_sorted(policies, id);
                if policies.is_empty() {
                    self.policies_of.remove(&old);
                }
            }
            if let Some(new) = new {
                insert_sorted(self.policies_of.entry(new).or_default(), id);
            }
        }
        self.resubject(&groups);
        let mut says_else = before.as_ref().is_none_or(|before| {
            old != new || before.rank() != self.policies[id].rank() || before.sides != self.policies[id].sides
        });
        says_else |= self.policies[id].policy.networks != Networks::Cluster;
        if says_else && self.journal.recording {
            self.journal
                .policies
                .insert(self.policies[id].policy.object.clone());
        }
        for (at, direction) in Direction::BOTH.into_iter().enumerate() {
            let same = before
                .as_ref()
                .is_some_and(|before| before.side(direction) == self.policies[id].side(direction));
            if same {
                continue;
            }
            let subjects = groups.iter().filter_map(|&group| {
                let subjects = self.groups[group].subjects;
                subjects.get(at).copied().flatten()
            });
            let subjects: BTreeSet<SubjectId> = subjects
                .filter(|&subject| {
                    let key = self.subjects.key(subject);
                    key.is_some_and(|key| key.policies.contains(&id))
                })
                .collect();
            for subject in subjects {
                self.subjects.touch(subject);
                self.journal_subject_change(subject);
            }
        }
        if let Some(before) = before {
            self.release_policy(&before);
        }
    }

    /// Takes a policy's selectors, blocks and port names into use.
    fn lower_policy(&mut self, policy: &Arc<Policy>) -> PolicyEntry {
        if policy.networks != Networks::Cluster {
            return PolicyEntry {
                policy: Arc::clone(policy),
                subject: None,
                sides: [LoweredSide::default(), LoweredSide::default()],
            };
        }
        let subject = self.acquire_subject_term(&policy.subject);
        let sides = [&policy.ingress, &policy.egress].map(|side| {
            for peer in policy::peers(side) {
                match peer {
                    Peer::Pods(selector) => drop(self.acquire_peer(PeerTerm::Pods(selector.clone()))),
                    Peer::Nodes(selector) => drop(self.acquire_peer(PeerTerm::Nodes(selector.clone()))),
                    Peer::Block(block) => drop(self.acquire_block(block)),
                }
            }
            policy::lower(side, |peer| self.peer_match(peer))
        });
        for name in policy::port_names(&policy.egress) {
            self.acquire_port_name(name);
        }
        PolicyEntry {
            policy: Arc::clone(policy),
            subject: Some(subject),
            sides,
        }
    }

    /// Gives back what [`Program::lower_policy`] took.
    fn release_policy(&mut self, entry: &PolicyEntry) {
        let Some(subject) = entry.subject else {
            return;
        };
        for name in policy::port_names(&entry.policy.egress) {
            self.release_port_name(name);
        }
        for side in [&entry.policy.ingress, &entry.policy.egress] {
            for peer in policy::peers(side) {
                match self.peer_match(peer) {
                    Some(PeerMatch::Selector(term)) => self.release_peer(term),
                    Some(PeerMatch::Block(block)) => self.release_block(block),
                    None => {}
                }
            }
        }
        self.release_subject_term(subject);
    }

    pub(crate) fn peer_match(&self, peer: &Peer) -> Option<PeerMatch> {
        match peer {
            Peer::Pods(selector) => {
                let term = self.peer_terms.find(&PeerTerm::Pods(selector.clone()));
                term.map(PeerMatch::Selector)
            }
            Peer::Nodes(selector) => {
                let term = self.peer_terms.find(&PeerTerm::Nodes(selector.clone()));
                term.map(PeerMatch::Selector)
            }
            Peer::Block(block) => self.atoms.find_block(block).map(PeerMatch::Block),
        }
    }

    fn acquire_subject_term(&mut self, selector: &PodSelector) -> TermId {
        let (id, new) = self.subject_terms.acquire(selector.clone());
        if new {
            let scope = self.namespaces.acquire_scope(&selector.namespaces);
            let terms = &self.subject_terms;
            self.subject_index.insert(scope, id, |term| Some(&terms[term]));
            let members = self.groups_selected(selector);
            self.subject_classes.refine(id, members);
        }
        id
    }

    fn release_subject_term(&mut self, id: TermId) {
        if self.subject_terms.is_last_use(id) {
            self.subject_classes.retire(id);
        }
        if let Some(selector) = self.subject_terms.release(id)
            && let Some(scope) = self.namespaces.find_scope(&selector.namespaces)
        {
            self.subject_index.remove(scope, id, &selector);
            self.namespaces.release_scope(scope);
        }
    }

    fn sweep(&mut self) {
        self.peers.sweep();
        self.subject_classes.sweep();
        self.atoms.sweep();
    }

    pub(crate) fn journal_address(&mut self, address: IpAddr) {
        if self.journal.recording && !self.journal.addresses.contains_key(&address) {
            let before = self.held_identity(address);
            self.journal.addresses.insert(address, before);
        }
    }

    pub(crate) fn journal_prefix(&mut self, prefix: Prefix, before: Option<Identity>) {
        if self.journal.recording {
            self.journal.prefixes.entry(prefix).or_insert(before);
        }
    }

    pub(crate) fn journal_subject_change(&mut self, subject: SubjectId) {
        if self.journal.recording {
            self.journal.changed_subjects.insert(subject);
        }
    }

    pub(crate) fn journal_pod(&mut self, pod: PodId) {
        if self.journal.recording && !self.journal.pods.contains_key(&pod) {
            let before = self.pod_ref(pod).state();
            let object = self.pods[pod].pod.object.clone();
            self.journal.pods.insert(pod, (object, before));
        }
    }

    fn journal_node(&mut self, name: &smol_str::SmolStr) {
        if self.journal.recording {
            self.journal.nodes.insert(name.clone());
        }
    }

    /// Finds the addresses that several share among all there are.
    fn settle_shared_addresses(&mut self) {
        for address in self.atoms.contested() {
            self.settle(address);
        }
    }

    /// Gives an address its joint identity, if its owners have several.
    fn settle(&mut self, address: IpAddr) {
        let holders = self.atoms.holders_at(address);
        let members: BTreeSet<Identity> = holders
            .filter_map(|holder| self.holder_identity(holder, address))
            .collect();
        let before = self.shared.remove(&address);
        if members.len() > 1 {
            let (joint, new) = self.identities.acquire_joint(members.into_iter().collect());
            if new && self.journal.recording {
                self.journal.identities.add(joint);
            }
            self.shared.insert(address, joint);
        }
        if let Some(before) = before {
            self.release_identity(before);
        }
    }

    /// Ends an event: settles what it touched and says what changed.
    fn commit(&mut self) -> Delta {
        let mut touched: Vec<_> = self.journal.addresses.keys().copied().collect();
        touched.sort_unstable();
        for &address in &touched {
            self.settle(address);
        }
        let journal = std::mem::replace(
            &mut self.journal,
            Journal {
                recording: true,
                ..Journal::default()
            },
        );
        let change = |address: IpAddr| {
            let before = journal.addresses.get(&address).copied().flatten();
            let after = self.held_identity(address);
            (before != after).then_some(Change {
                key: address,
                before,
                after,
            })
        };
        let addresses = touched.into_iter().filter_map(change).collect();
        let prefixes = journal.prefixes.into_iter().filter_map(|(prefix, before)| {
            let atom = self.atoms.exact(prefix);
            let after = atom.map(|atom| self.region_identity(atom));
            (before != after).then_some(Change {
                key: prefix,
                before,
                after,
            })
        });
        let prefixes = prefixes.collect();
        let mut pods: Vec<_> = journal
            .pods
            .into_iter()
            .filter_map(|(id, (object, before))| {
                let after = self.pods.get(id).and_then(|_| self.pod_ref(id).state());
                (before != after).then_some(Change {
                    key: object,
                    before,
                    after,
                })
            })
            .collect();
        pods.sort_by(|one, other| one.key.cmp(&other.key));
        let changed = journal.changed_subjects.into_iter();
        let changed = changed
            .filter(|&subject| !journal.subjects.is_new(subject) && self.subjects.key(subject).is_some());
        let delta = Delta {
            addresses,
            prefixes,
            identities: journal.identities.finish(),
            changed_subjects: changed.collect(),
            subjects: journal.subjects.finish(),
            pods,
            nodes: journal.nodes.into_iter().collect(),
            policies: journal.policies.into_iter().collect(),
        };
        self.identities.recycle();
        self.subjects.recycle();
        self.pods.recycle();
        delta
    }
}
