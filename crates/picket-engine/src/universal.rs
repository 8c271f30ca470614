//! Policies about every pod, which stand beside what makes a subject: one that comes or goes moves none.

use picket_policy::{Direction, Tier};

use crate::group::Kind;
use crate::policy::{LoweredSide, PolicyEntry, Subject};
use crate::program::Program;
use crate::slab::{GroupId, PolicyId};
use crate::subject::{Isolation, SubjectKey};

/// The policies of the other tiers than NetworkPolicy that are about every pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Universal {
    /// In the order in which they are judged.
    policies: Vec<PolicyId>,
    /// For ingress and egress, whether any of them has a rule.
    speaks: [bool; 2],
    /// For ingress and egress; grows whenever any of them says something else.
    revisions: [u64; 2],
}

impl Universal {
    pub(crate) fn revision(&self, direction: Direction) -> u64 {
        let [ingress, egress] = self.revisions;
        match direction {
            Direction::Ingress => ingress,
            Direction::Egress => egress,
        }
    }

    pub(crate) fn speaks(&self, direction: Direction) -> bool {
        let [ingress, egress] = self.speaks;
        match direction {
            Direction::Ingress => ingress,
            Direction::Egress => egress,
        }
    }
}

/// What an event changed for all subjects of a direction to which a tier can apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    direction: Direction,
    tier: Tier,
}

impl Reach {
    pub(crate) fn includes(self, subject: &SubjectKey) -> bool {
        self.direction == subject.direction && subject.isolation.reaches(self.tier)
    }
}

impl PolicyEntry {
    /// What it says about every pod, if it does.
    fn universal_side(&self, direction: Direction) -> Option<&LoweredSide> {
        let side = self.side(direction);
        (self.subject == Subject::Everybody && !side.says_nothing()).then_some(side)
    }
}

impl Program {
    /// The policies about every pod, in the order in which they are judged.
    pub(crate) fn universal_policies(&self) -> impl Iterator<Item = &PolicyEntry> {
        self.universal.policies.iter().map(|&id| &self.policies[id])
    }

    /// The policies about every pod that can decide about pods that are isolated so.
    pub(crate) fn universal_deciding(
        &self,
        direction: Direction,
        isolation: Isolation,
    ) -> impl Iterator<Item = &PolicyEntry> {
        self.universal_policies().filter(move |entry| {
            isolation.reaches(entry.policy.tier) && entry.universal_side(direction).is_some()
        })
    }

    /// Lists a policy that took the place of `before` if it is about every pod, and returns the groups for which that
    /// makes or unmakes a subject.
    pub(crate) fn replace_universal(&mut self, id: PolicyId, before: Option<&PolicyEntry>) -> Vec<GroupId> {
        let after = &self.policies[id];
        let involved = [before, Some(after)].into_iter().flatten();
        let involved: Vec<_> = involved
            .filter(|entry| entry.subject == Subject::Everybody)
            .collect();
        if involved.is_empty() {
            return Vec::new();
        }
        let sides = involved.iter().map(|entry| entry.side(Direction::Ingress));
        let rules = sides.flat_map(|side| &side.rules);
        let names = rules.flat_map(|rule| &rule.names);
        let mut groups: Vec<_> = names
            .flat_map(|name| self.groups.ports_named(&name.name))
            .flat_map(|port| self.groups.with_port(&port).to_vec())
            .collect();
        let Self {
            policies, universal, ..
        } = self;
        universal.policies.retain(|&other| other != id);
        if policies[id].subject == Subject::Everybody {
            let rank = policies[id].rank();
            let at = universal
                .policies
                .partition_point(|&other| policies[other].rank() < rank);
            universal.policies.insert(at, id);
        }
        for (at, direction) in Direction::BOTH.into_iter().enumerate() {
            let speaks = self
                .universal_policies()
                .any(|entry| entry.universal_side(direction).is_some());
            if self.universal.speaks(direction) != speaks {
                groups.extend(self.groups_without_own(at));
            }
            if let Some(slot) = self.universal.speaks.get_mut(at) {
                *slot = speaks;
            }
        }
        groups
    }

    /// The groups of pods about which no policy says anything in one direction but for those about every pod.
    fn groups_without_own(&self, at: usize) -> Vec<GroupId> {
        let pods = self
            .groups
            .iter()
            .filter(|(_, group)| matches!(group.kind, Kind::Pods { .. }));
        let without = pods.filter(|(_, group)| {
            let subject = group.subjects.get(at).copied().flatten();
            let key = subject.and_then(|subject| self.subjects.key(subject));
            key.is_none_or(|key| key.policies.is_empty())
        });
        without.map(|(id, _)| id).collect()
    }

    /// Notes for which subjects something else is said since a policy took the place of `before`.
    pub(crate) fn touch_universal(&mut self, id: PolicyId, before: Option<&PolicyEntry>) {
        for (at, direction) in Direction::BOTH.into_iter().enumerate() {
            let after = &self.policies[id];
            let said = [before, Some(after)].map(|entry| {
                let entry = entry?;
                Some((entry.rank(), entry.universal_side(direction)?))
            });
            let [old, new] = &said;
            if old == new {
                continue;
            }
            let tiers = said.into_iter().flatten().map(|((tier, ..), _)| tier);
            let reaches: Vec<_> = tiers.map(|tier| Reach { direction, tier }).collect();
            if self.journal.recording {
                self.journal.universal.extend(reaches);
            }
            if let Some(revision) = self.universal.revisions.get_mut(at) {
                *revision += 1;
            }
        }
    }
}
