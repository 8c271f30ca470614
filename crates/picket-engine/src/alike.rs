//! Which identities the rules about a subject cannot tell apart.

use picket_policy::Direction;
use rustc_hash::FxHashMap;

use crate::policy::{LoweredRule, PeerMatch};
use crate::subject::SubjectKey;
use crate::{IdentitySet, Program, SubjectId};

impl Program {
    /// For each identity, by its number, the number of its part: every rule about the subject matches either all
    /// identities of a part or none, so that a subject's verdicts about them have the same causes.
    ///
    /// Empty for a subject that does not exist.
    pub fn alike_for(&self, subject: SubjectId) -> Vec<u32> {
        let Some(key) = self.subjects.key(subject) else {
            return Vec::new();
        };
        let joints = self.identities.joints().map(|(joint, _)| joint);
        let last = self
            .identities()
            .chain(joints)
            .map(|identity| identity.number())
            .max();
        let mut parts = Parts {
            of: vec![0; last.map_or(0, |last| last as usize + 1)],
            next: 1,
        };
        let rules = self
            .deciding(key)
            .flat_map(|entry| &entry.side(key.direction).rules);
        for rule in rules {
            self.tell_apart(key, rule, &mut parts);
        }
        // What a joint identity means is what all its members have in common: no rule says it alone.
        for (joint, _) in self.identities.joints() {
            parts.split(&IdentitySet::from_iter([joint.number()]));
        }
        parts.of
    }

    fn tell_apart(&self, key: &SubjectKey, rule: &LoweredRule, parts: &mut Parts) {
        for peer in rule.peers.iter().flatten() {
            parts.split(match peer {
                PeerMatch::Selector(term) => self.identities.with_selector(*term),
                PeerMatch::Block(block) => self.identities.with_block(*block),
            });
        }
        if key.direction == Direction::Egress {
            // What a name means is up to the peer.
            for name in &rule.names {
                for (term, _) in self.port_terms(&name.name) {
                    parts.split(self.identities.with_selector(term));
                }
            }
        }
    }
}

/// A partition of the identities.
struct Parts {
    /// The part of each identity.
    of: Vec<u32>,
    /// The number of the next part.
    next: u32,
}

impl Parts {
    /// Parts what is in a set from what is not.
    fn split(&mut self, set: &IdentitySet) {
        let mut inside: FxHashMap<u32, u32> = FxHashMap::default();
        for range in set.intervals() {
            let (first, last) = (range.first() as usize, range.last() as usize);
            for part in self.of.iter_mut().skip(first).take(last - first + 1) {
                *part = *inside.entry(*part).or_insert_with(|| {
                    let new = self.next;
                    self.next += 1;
                    new
                });
            }
        }
    }
}
