//! Writes: policies that come, change and go, and what they take into use.

use std::collections::BTreeSet;
use std::sync::Arc;

use picket_policy::{Direction, NamespaceScope, Networks, ObjectRef, Peer, PodSelector, Policy, Tier};

use crate::SubjectId;
use crate::multimap::{insert_sorted, remove_sorted};
use crate::policy::{self, LoweredSide, PeerMatch, PolicyEntry, Subject};
use crate::program::{PeerTerm, Program};
use crate::slab::{PolicyId, TermId};
use crate::term::PodTerm;

impl Program {
    pub(crate) fn apply_policy(&mut self, policy: Arc<Policy>) {
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

    pub(crate) fn delete_policy(&mut self, object: &ObjectRef) {
        let Some(id) = self.policy_ids.remove(object) else {
            return;
        };
        let empty = PolicyEntry {
            policy: Arc::clone(&self.policies[id].policy),
            subject: Subject::Nobody,
            sides: [LoweredSide::default(), LoweredSide::default()],
        };
        let before = std::mem::replace(&mut self.policies[id], empty);
        self.replace_policy(id, Some(before));
        self.policies.remove(id);
    }

    /// After a policy took the place of `before`: moves the subjects that it is about, and drops what only the old one
    /// used.
    fn replace_policy(&mut self, id: PolicyId, before: Option<PolicyEntry>) {
        let old = before.as_ref().and_then(|before| before.subject.term());
        let new = self.policies[id].subject.term();
        let mut groups = self.replace_universal(id, before.as_ref());
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
        self.touch_universal(id, before.as_ref());
        let mut says_else = before.as_ref().is_none_or(|before| {
            before.subject != self.policies[id].subject
                || before.rank() != self.policies[id].rank()
                || before.sides != self.policies[id].sides
        });
        says_else |= !self.policies[id].policy.networks.are_looked_at();
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
        if !policy.networks.are_looked_at() {
            return PolicyEntry {
                policy: Arc::clone(policy),
                subject: Subject::Nobody,
                sides: [LoweredSide::default(), LoweredSide::default()],
            };
        }
        let subject = self.acquire_subject(policy);
        let sides = [&policy.ingress, &policy.egress].map(|side| {
            for peer in policy::peers(side) {
                if let Peer::Block(block) = peer {
                    self.acquire_block(block);
                } else if let Some(term) = peer_term(&policy.networks, peer) {
                    self.acquire_peer(term);
                }
            }
            policy::lower(policy.mode, side, |peer| self.peer_match(&policy.networks, peer))
        });
        for name in policy::port_names(&policy.egress) {
            self.acquire_port_name(name);
        }
        PolicyEntry {
            policy: Arc::clone(policy),
            subject,
            sides,
        }
    }

    /// Gives back what [`Program::lower_policy`] took.
    fn release_policy(&mut self, entry: &PolicyEntry) {
        if entry.subject == Subject::Nobody {
            return;
        }
        for name in policy::port_names(&entry.policy.egress) {
            self.release_port_name(name);
        }
        for side in [&entry.policy.ingress, &entry.policy.egress] {
            for peer in policy::peers(side) {
                match self.peer_match(&entry.policy.networks, peer) {
                    Some(PeerMatch::Selector(term)) => self.release_peer(term),
                    Some(PeerMatch::Block(block)) => self.release_block(block),
                    None => {}
                }
            }
        }
        if let Some(term) = entry.subject.term() {
            self.release_subject_term(term);
        }
    }

    /// What a peer is of a policy with these networks.
    pub(crate) fn peer_match(&self, networks: &Networks, peer: &Peer) -> Option<PeerMatch> {
        if let Peer::Block(block) = peer {
            return self.atoms.find_block(block).map(PeerMatch::Block);
        }
        let term = self.peer_terms.find(&peer_term(networks, peer)?);
        term.map(PeerMatch::Selector)
    }

    fn acquire_subject(&mut self, policy: &Policy) -> Subject {
        let PodSelector { namespaces, pods } = &policy.subject;
        let every_namespace =
            matches!(namespaces, NamespaceScope::Matching(selector) if selector.is_everything());
        let everywhere = policy.networks == Networks::Cluster && policy.tier != Tier::NetworkPolicy;
        if every_namespace && pods.is_everything() && everywhere {
            Subject::Everybody
        } else {
            Subject::Matching(self.acquire_subject_term(PodTerm {
                selector: policy.subject.clone(),
                networks: policy.networks.clone(),
            }))
        }
    }

    fn acquire_subject_term(&mut self, term: PodTerm) -> TermId {
        let (id, new) = self.subject_terms.acquire(term.clone());
        if new {
            let scope = self.namespaces.acquire_scope(&term.selector.namespaces);
            let terms = &self.subject_terms;
            self.subject_index.insert(scope, id, |term| Some(&terms[term]));
            let members = self.groups_selected(&term);
            self.subject_classes.refine(id, members);
        }
        id
    }

    fn release_subject_term(&mut self, id: TermId) {
        if self.subject_terms.is_last_use(id) {
            self.subject_classes.retire(id);
        }
        if let Some(PodTerm { selector, .. }) = self.subject_terms.release(id)
            && let Some(scope) = self.namespaces.find_scope(&selector.namespaces)
        {
            self.subject_index.remove(scope, id, &selector);
            self.namespaces.release_scope(scope);
        }
    }
}

/// The selector that a peer of a policy with these networks is; `None` for blocks and domain names.
fn peer_term(networks: &Networks, peer: &Peer) -> Option<PeerTerm> {
    match peer {
        Peer::Pods(selector) => Some(PeerTerm::Pods(PodTerm {
            selector: selector.clone(),
            networks: networks.clone(),
        })),
        Peer::Nodes(selector) => Some(PeerTerm::Nodes(selector.clone())),
        Peer::Block(_) | Peer::Domain(_) => None,
    }
}
