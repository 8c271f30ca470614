//! Writes: what an event touched, recorded as it was, and the delta at its end.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_cluster::Service;
use picket_net::Prefix;
use picket_policy::ObjectRef;

use crate::atom::{Holder, View};
use crate::delta::{Change, Delta, Journal, Touch};
use crate::program::Program;
use crate::slab::PodId;
use crate::{Identity, SubjectId};

impl Program {
    pub(crate) fn journal_address(&mut self, address: IpAddr) {
        if self.journal.recording {
            let before = self.held_identity(address);
            self.journal.addresses.push(Touch {
                address,
                before,
                holder: None,
            });
        }
    }

    /// As [`Program::journal_address`], for one whose holder has identity `own`; `holder` when it keeps the address.
    pub(crate) fn journal_holder(&mut self, address: IpAddr, own: Option<Identity>, holder: Option<Holder>) {
        if self.journal.recording {
            // Unless it is shared, all its holders had the same identity before the event touched it.
            let before = self.shared.get(&address).copied().or(own);
            self.journal.addresses.push(Touch {
                address,
                before,
                holder,
            });
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

    pub(crate) fn journal_node(&mut self, name: &smol_str::SmolStr) {
        if self.journal.recording {
            self.journal.nodes.insert(name.clone());
        }
    }

    fn journal_service(&mut self, object: &ObjectRef) {
        if self.journal.recording {
            self.journal.services.insert(object.clone());
        }
    }

    pub(crate) fn apply_service(&mut self, service: Service) {
        let object = service.object.clone();
        let addresses = |service: &Service| service.addresses.clone();
        let now = addresses(&service);
        let before = self.services.insert(object.clone(), service);
        if before.as_ref().map(addresses) != Some(now) {
            self.journal_service(&object);
        }
    }

    pub(crate) fn delete_service(&mut self, object: &ObjectRef) {
        if self.services.remove(object).is_some() {
            self.journal_service(object);
        }
    }

    /// Finds the addresses that several share among all there are.
    pub(crate) fn settle_shared_addresses(&mut self) {
        for address in self.atoms.contested() {
            self.settle(address);
        }
    }

    /// Gives an address its joint identity, if its owners have several, and returns what it has now.
    fn settle(&mut self, address: IpAddr) -> Option<Identity> {
        let mut holders = self.atoms.holders_at(address);
        let first = holders.next();
        let first = first.and_then(|holder| self.holder_identity(holder, address));
        let mut holders = holders.peekable();
        if holders.peek().is_none() && !self.shared.contains_key(&address) {
            return first;
        }
        let others = holders.filter_map(|holder| self.holder_identity(holder, address));
        let members: BTreeSet<Identity> = others.chain(first).collect();
        let before = self.shared.remove(&address);
        let mut now = first;
        if members.len() > 1 {
            let (joint, new) = self.identities.acquire_joint(members.into_iter().collect());
            if new && self.journal.recording {
                self.journal.identities.add(joint);
            }
            self.shared.insert(address, joint);
            now = Some(joint);
        }
        if let Some(before) = before {
            self.release_identity(before);
        }
        now
    }

    /// Settles the addresses that the event touched, and says which of them have another identity now.
    fn changed_addresses(&mut self) -> Vec<Change<IpAddr, Identity>> {
        let mut touches = std::mem::take(&mut self.journal.addresses);
        // Stable: the first touch of an address stays the first.
        touches.sort_by_key(|touch| touch.address);
        let mut changes = Vec::with_capacity(touches.len());
        for touches in touches.chunk_by(|one, other| one.address == other.address) {
            let Some(&Touch {
                address,
                before,
                holder,
            }) = touches.first()
            else {
                continue;
            };
            let kept = holder.filter(|_| touches.iter().all(|touch| touch.holder == holder));
            let after = match kept {
                Some(holder) if !self.atoms.is_contested(address) && !self.shared.contains_key(&address) => {
                    self.holder_identity(holder, address)
                }
                _ => self.settle(address),
            };
            if before != after {
                changes.push(Change {
                    key: address,
                    before,
                    after,
                });
            }
        }
        changes
    }

    /// The subjects that were there before and are there still, and whose policies say something else now.
    fn changed_subjects(&self, journal: &Journal) -> Vec<SubjectId> {
        let named = &journal.changed_subjects;
        let mut changed: Vec<_> = if journal.universal.is_empty() {
            let live = named
                .iter()
                .filter(|&&subject| self.subjects.key(subject).is_some());
            live.copied().collect()
        } else {
            let reached = self.subjects.iter().filter(|(subject, key)| {
                journal.universal.iter().any(|reach| reach.includes(key)) || named.contains(subject)
            });
            reached.map(|(subject, _)| subject).collect()
        };
        changed.retain(|&subject| !journal.subjects.is_new(subject));
        changed
    }

    /// Ends an event: settles what it touched and says what changed.
    pub(crate) fn commit(&mut self) -> Delta {
        let addresses = self.changed_addresses();
        let journal = std::mem::replace(
            &mut self.journal,
            Journal {
                recording: true,
                ..Journal::default()
            },
        );
        let changed_subjects = self.changed_subjects(&journal);
        let prefixes = journal.prefixes.into_iter().filter_map(|(prefix, before)| {
            let atom = self.atoms.exact(prefix);
            let after = atom.map(|atom| self.region_identity(View::of(atom, false)));
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
        let delta = Delta {
            addresses,
            prefixes,
            identities: journal.identities.finish(),
            changed_subjects,
            subjects: journal.subjects.finish(),
            pods,
            nodes: journal.nodes.into_iter().collect(),
            services: journal.services.into_iter().collect(),
            policies: journal.policies.into_iter().collect(),
        };
        self.identities.recycle();
        self.subjects.recycle();
        self.pods.recycle();
        delta
    }
}
