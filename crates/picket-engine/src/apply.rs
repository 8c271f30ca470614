//! Events in, deltas out; pods and nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use picket_cluster::{Event, Node, Object, Pod, Semantics, Snapshot};
use picket_policy::ObjectRef;

use crate::atom::Holder;
use crate::delta::{Delta, Journal};
use crate::group::Kind;
use crate::grouping::network_of;
use crate::program::{ByObject, NodeEntry, PodEntry, Program};
use crate::slab::PodId;

/// Compiles objects into a [`Program`], and keeps it current as they change.
///
/// The state that any sequence of events leads to is the one that compiling the objects of its end from nothing gives,
/// but for the numbers of identities and subjects. Those depend on the sequence, and on nothing else.
#[derive(Clone, Debug)]
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
        let pods = snapshot.pods.values().map(Arc::clone);
        Self::compile_with(snapshot, pods, semantics)
    }

    /// An engine that knows these pods, and of a snapshot everything else: no map of them is needed.
    pub fn compile_with(
        snapshot: &Snapshot,
        pods: impl IntoIterator<Item = Arc<Pod>>,
        semantics: Semantics,
    ) -> Self {
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
        for pod in pods {
            program.apply_pod(pod);
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
            Object::Pod(pod) => self.apply_pod(pod),
            Object::Service(service) => self.apply_service(service),
            // An engine looks at one network; that others exist says nothing about it.
            Object::Network(_) => {}
            Object::Policy(policy) => self.apply_policy(Arc::new(policy)),
        }
    }

    fn delete_object(&mut self, object: &ObjectRef) {
        match object.kind.as_str() {
            "Namespace" => {
                if let Some(changed) = self.namespaces.delete(&object.name) {
                    self.replace_groups(changed);
                }
                // One that isolates its pods is a policy too.
                self.delete_policy(object);
            }
            "Node" => self.delete_node(&object.name),
            "Service" => self.delete_service(object),
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
        let pods = self.pod_ids.keys().map(|pod| pod.0.object.clone());
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
                synthetic: pod.synthetic,
                group: None,
                identities: [None; 2],
            });
            self.pod_ids.insert(ByObject(Arc::clone(&pod)), id);
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
        if is_alike(&before, &pod) {
            self.replace_pod(id, pod);
            return;
        }
        // The new group exists before the old one goes, so that what both share stays.
        let kept = pod.is_managed().then(|| self.ensure_group(&pod));
        let Some(group) = self.pods[id].group else {
            self.replace_pod(id, pod);
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
        self.replace_pod(id, pod);
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

    /// What is known of a pod is this now.
    fn replace_pod(&mut self, id: PodId, pod: Arc<Pod>) {
        // The old key would keep what the pod was.
        self.pod_ids.remove(&pod.object);
        self.pod_ids.insert(ByObject(Arc::clone(&pod)), id);
        let entry = &mut self.pods[id];
        entry.synthetic = pod.synthetic;
        entry.pod = pod;
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

    fn sweep(&mut self) {
        self.peers.sweep();
        self.subject_classes.sweep();
        self.atoms.sweep();
    }
}

/// Whether policies cannot tell what a pod was from what it is.
fn is_alike(before: &Pod, now: &Pod) -> bool {
    before.object.namespace == now.object.namespace
        && before.labels == now.labels
        && before.ports == now.ports
        && network_of(before) == network_of(now)
        && before.is_managed() == now.is_managed()
        && before.addresses == now.addresses
        && before.synthetic == now.synthetic
}
