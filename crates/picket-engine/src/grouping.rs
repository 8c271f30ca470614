//! Writes: pods that join and leave groups, and the subjects that follow.

use std::sync::Arc;

use picket_cluster::{NamedPort, Pod};
use picket_policy::{Direction, NetworkName};
use rustc_hash::FxHashMap;

use crate::group::Kind;
use crate::identify::as_pods;
use crate::label::matches;
use crate::multimap::{insert_sorted, remove_sorted};
use crate::policy::Stance;
use crate::program::{PeerTerm, Program};
use crate::slab::{GroupId, NamespaceId, PodId, PolicyId, TermId};
use crate::subject::{Isolation, SubjectId, SubjectKey};

/// The groups that leave a subject.
struct Leaving {
    groups: u32,
    /// Which of all moves was the first of them.
    first: usize,
    /// Whether the others go where the first goes.
    agree: bool,
}

/// The secondary network of a pod that is an interface there.
pub(crate) fn network_of(pod: &Pod) -> Option<&NetworkName> {
    pod.interface.as_deref().map(|interface| &interface.network)
}

impl Program {
    /// The group of a managed pod, made when it is new.
    pub(crate) fn ensure_group(&mut self, pod: &Pod) -> GroupId {
        let namespace = self.namespaces.ensure(&pod.object.namespace);
        let network = network_of(pod);
        if let Some(group) = self.groups.find(namespace, network, &pod.labels, &pod.ports) {
            return group;
        }
        let group = self.groups.insert(Kind::Pods {
            namespace,
            network: network.cloned(),
            labels: pod.labels.clone(),
            ports: Arc::clone(&pod.ports),
        });
        self.namespaces.add_group(namespace, group);
        for port in &*pod.ports {
            if self.port_names.contains_key(&port.name) {
                self.acquire_port(port.clone());
            }
        }
        self.place_group(group);
        self.resubject(&[group]);
        group
    }

    pub(crate) fn join_group(&mut self, group: GroupId, pod: PodId) {
        insert_sorted(&mut self.groups[group].pods, pod);
    }

    /// Takes a pod, whose addresses are released already, out of its group; a group without pods is gone.
    pub(crate) fn leave_group(&mut self, group: GroupId, pod: PodId) {
        remove_sorted(&mut self.groups[group].pods, pod);
        if self.groups[group].pods.is_empty() {
            self.remove_group(group);
        }
    }

    pub(crate) fn remove_group(&mut self, id: GroupId) {
        self.peers.remove(id);
        self.subject_classes.remove(id);
        let Some(group) = self.groups.remove(id) else {
            return;
        };
        for subject in group.subjects.into_iter().flatten() {
            self.release_subject(subject);
        }
        for port in group.ports() {
            if self.port_names.contains_key(&port.name) {
                self.release_port(port);
            }
        }
        if let Kind::Pods { namespace, .. } = group.kind {
            self.namespaces.remove_group(namespace, id);
        }
    }

    /// Puts a group into the classes of the selectors that match it.
    pub(crate) fn place_group(&mut self, group: GroupId) {
        let (peers, subjects) = match &self.groups[group].kind {
            Kind::External => (Vec::new(), Vec::new()),
            Kind::Node(node) => {
                let labels = &self.nodes[*node].node.labels;
                let terms = self.peer_terms.iter();
                let matching = terms.filter(|(_, term)| match term {
                    PeerTerm::Nodes(selector) => matches(selector, labels),
                    PeerTerm::Pods(_) | PeerTerm::Port(_) => false,
                });
                (matching.map(|(id, _)| id).collect(), Vec::new())
            }
            Kind::Pods {
                namespace,
                network,
                labels,
                ports,
            } => {
                let network = network.as_ref();
                let scopes = &self.namespaces.get(*namespace).scopes;
                let selector_of = |id: TermId| as_pods(&self.peer_terms[id]);
                let mut peers = self.peer_index.matching(scopes, network, labels, selector_of);
                for port in &**ports {
                    let named = self.port_terms(&port.name).find(|(_, named)| *named == port);
                    if let Some((term, _)) = named {
                        insert_sorted(&mut peers, term);
                    }
                }
                let selector_of = |id: TermId| Some(&self.subject_terms[id]);
                let subjects = self.subject_index.matching(scopes, network, labels, selector_of);
                (peers, subjects)
            }
        };
        self.peers.place(group, &peers);
        if !matches!(self.groups[group].kind, Kind::External | Kind::Node(_)) {
            self.subject_classes.place(group, &subjects);
        }
    }

    /// After the labels of a namespace changed: other selectors match its pods.
    pub(crate) fn replace_groups(&mut self, namespace: NamespaceId) {
        let groups = self.namespaces.get(namespace).groups.clone();
        for &group in &groups {
            self.place_group(group);
        }
        self.reidentify_groups(&groups, false);
        self.resubject(&groups);
    }

    /// The groups that policies with a subject selector apply to.
    pub(crate) fn groups_of_subject(&self, term: TermId) -> Vec<GroupId> {
        let classes = self.subject_classes.with_term(term);
        let members = classes.flat_map(|class| self.subject_classes.class(class).members());
        members.copied().collect()
    }

    /// Gives groups the subjects that their policies make now. A subject whose groups all go the same way goes with
    /// them.
    pub(crate) fn resubject(&mut self, groups: &[GroupId]) {
        for (at, direction) in Direction::BOTH.into_iter().enumerate() {
            let mut moves = Vec::new();
            let mut leaving: FxHashMap<SubjectId, Leaving> = FxHashMap::default();
            for &group in groups {
                let before = self.subject_of(group, at);
                let wanted = self.subject_key(group, direction);
                if before.and_then(|before| self.subjects.key(before)) != wanted.as_ref() {
                    if let Some(before) = before {
                        let leave = leaving.entry(before).or_insert(Leaving {
                            groups: 0,
                            first: moves.len(),
                            agree: true,
                        });
                        leave.groups += 1;
                        leave.agree &= moves.get(leave.first).is_none_or(|(_, first)| *first == wanted);
                    }
                    moves.push((group, wanted));
                }
            }
            for (group, wanted) in moves {
                let before = self.subject_of(group, at);
                let leave = before.and_then(|before| leaving.get(&before));
                let all = leave.is_some_and(|leave| {
                    leave.agree && before.map(|before| self.subjects.uses(before)) == Some(leave.groups)
                });
                self.move_subject(group, at, wanted, all);
            }
        }
    }

    /// Gives a group another subject; `all` says that all groups of the one it has move the same way.
    fn move_subject(&mut self, group: GroupId, at: usize, wanted: Option<SubjectKey>, all: bool) {
        let before = self.subject_of(group, at);
        if let (Some(before), Some(key)) = (before, &wanted) {
            if self.subjects.key(before) == Some(key) {
                return;
            }
            if all && self.subjects.find(key).is_none() {
                self.subjects.rename(before, key.clone());
                self.journal_subject_change(before);
                return;
            }
        }
        let after = wanted.map(|key| {
            let (id, new) = self.subjects.acquire(key);
            if new && self.journal.recording {
                self.journal.subjects.add(id);
            }
            id
        });
        for pod in self.groups[group].pods.clone() {
            self.journal_pod(pod);
        }
        if let Some(slot) = self.groups[group].subjects.get_mut(at) {
            *slot = after;
        }
        if let Some(before) = before {
            self.release_subject(before);
        }
    }

    fn release_subject(&mut self, id: SubjectId) {
        if self.subjects.release(id) && self.journal.recording {
            self.journal.subjects.remove(id);
        }
    }

    fn subject_of(&self, group: GroupId, at: usize) -> Option<SubjectId> {
        self.groups[group].subjects.get(at).copied().flatten()
    }

    /// What applies to the pods of a group: only what can decide.
    fn subject_key(&self, group: GroupId, direction: Direction) -> Option<SubjectKey> {
        let class = self.subject_classes.class_of(group)?;
        let terms = self.subject_classes.class(class).terms().iter();
        let mut policies: Vec<PolicyId> = terms
            .filter_map(|term| self.policies_of.get(term))
            .flatten()
            .copied()
            .filter(|&id| !self.policies[id].side(direction).says_nothing())
            .collect();
        let isolates = |stance| {
            let mut sides = policies.iter().map(|&id| self.policies[id].side(direction));
            sides.any(|side| side.isolates_in(stance))
        };
        let isolation = match (isolates(Stance::InForce), isolates(Stance::IfEnforced)) {
            (true, _) => Isolation::Enforced,
            (false, true) => Isolation::Audited,
            (false, false) => Isolation::None,
        };
        policies.retain(|&id| isolation.reaches(self.policies[id].policy.tier));
        if policies.is_empty() && !self.universal.speaks(direction) {
            return None;
        }
        policies.sort_unstable_by(|&one, &other| self.policies[one].rank().cmp(&self.policies[other].rank()));
        Some(SubjectKey {
            direction,
            isolation,
            ports: self.ports_named_by(group, direction, isolation, &policies),
            policies: policies.into(),
        })
    }

    /// Ingress: the ports of a group whose names `policies` or those about every pod use.
    fn ports_named_by(
        &self,
        group: GroupId,
        direction: Direction,
        isolation: Isolation,
        policies: &[PolicyId],
    ) -> Box<[NamedPort]> {
        if direction == Direction::Egress {
            return Box::default();
        }
        let own = policies.iter().map(|&id| &self.policies[id]);
        let entries = own.chain(self.universal_deciding(direction, isolation));
        let sides = entries.map(|entry| entry.side(direction));
        let sides: Vec<_> = sides.filter(|side| side.names_ports()).collect();
        let named = self.groups[group].ports().iter().filter(|port| {
            let mut names = sides
                .iter()
                .flat_map(|side| &side.rules)
                .flat_map(|rule| &rule.names);
            names.any(|name| name.means(&port.name, port.protocol))
        });
        named.cloned().collect()
    }
}
