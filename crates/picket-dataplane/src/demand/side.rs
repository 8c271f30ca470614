//! What one end allows, by classes of peers that none of the ends tells apart.

use std::collections::BTreeMap;

use picket_engine::{Identity, IdentitySet, Program, SubjectId};
use picket_net::TrafficSet;
use rustc_hash::FxHashMap;

/// Which allow set of a subject counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// Towards everybody else.
    Peers,
    /// Towards the pod's own node.
    OwnNode,
}

/// The number of no traffic at all.
pub(super) const NOTHING: u32 = 0;

/// The sides of all ends at one place.
#[derive(Debug, Default)]
pub(super) struct Sides {
    /// Every kind of traffic; the first is none.
    pub(super) traffic: Vec<TrafficSet>,
    numbers: BTreeMap<TrafficSet, u32>,
    /// By what it is made of.
    known: BTreeMap<(Role, Vec<SubjectId>), Option<u32>>,
    /// For each side the traffic with each identity.
    allowed: Vec<Vec<(u32, IdentitySet)>>,
    /// For each side the traffic with each profile.
    rows: Vec<Vec<u32>>,
    profiles: FxHashMap<u32, u32>,
}

impl Sides {
    pub(super) fn new() -> Self {
        let nothing = TrafficSet::empty();
        Self {
            traffic: vec![nothing.clone()],
            numbers: BTreeMap::from([(nothing, NOTHING)]),
            ..Self::default()
        }
    }

    fn number(&mut self, traffic: &TrafficSet) -> u32 {
        if let Some(&number) = self.numbers.get(traffic) {
            return number;
        }
        let number = u32::try_from(self.traffic.len()).unwrap_or(u32::MAX);
        self.traffic.push(traffic.clone());
        self.numbers.insert(traffic.clone(), number);
        number
    }

    /// The side of pods to which all of `subjects` apply; `None` when nothing is denied.
    pub(super) fn of(&mut self, program: &Program, role: Role, subjects: &[SubjectId]) -> Option<u32> {
        let key = (role, subjects.to_vec());
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let allowed = subjects.iter().map(|&subject| match role {
            Role::Peers => program.allow_set(subject),
            Role::OwnNode => program.own_node_allow_set(subject),
        });
        let allowed = allowed
            .filter(|allowed| !allowed.is_everything())
            .map(|allowed| allowed.entries().to_vec())
            .reduce(|one, other| common(&one, &other));
        let side = allowed.map(|allowed| {
            let numbered = allowed
                .into_iter()
                .map(|(traffic, peers)| (self.number(&traffic), peers))
                .collect();
            self.allowed.push(numbered);
            u32::try_from(self.allowed.len() - 1).unwrap_or(u32::MAX)
        });
        self.known.insert(key, side);
        side
    }

    /// Once every side is there: gives each of `identities` a profile.
    pub(super) fn classify(&mut self, identities: &IdentitySet) {
        let mut signatures: BTreeMap<u32, Vec<(usize, u32)>> =
            identities.iter().map(|identity| (identity, Vec::new())).collect();
        for (side, allowed) in self.allowed.iter().enumerate() {
            for (traffic, peers) in allowed {
                for peer in peers.intersection(identities).iter() {
                    signatures.entry(peer).or_default().push((side, *traffic));
                }
            }
        }
        let mut numbers: BTreeMap<Vec<(usize, u32)>, u32> = BTreeMap::new();
        for (identity, signature) in signatures {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            let profile = *numbers.entry(signature).or_insert(next);
            self.profiles.insert(identity, profile);
        }
        self.rows = vec![vec![NOTHING; numbers.len()]; self.allowed.len()];
        for (signature, profile) in numbers {
            for (side, traffic) in signature {
                let cell = self
                    .rows
                    .get_mut(side)
                    .and_then(|row| row.get_mut(profile as usize));
                if let Some(cell) = cell {
                    *cell = traffic;
                }
            }
        }
    }

    /// The profile of an identity that was classified.
    pub(super) fn profile(&self, identity: Identity) -> u32 {
        self.profiles.get(&identity.number()).copied().unwrap_or(u32::MAX)
    }

    /// The number of the traffic that a side allows with a profile; none for a profile that was never given.
    #[inline]
    pub(super) fn row(&self, side: u32, profile: u32) -> u32 {
        let row = self.rows.get(side as usize);
        row.and_then(|row| row.get(profile as usize))
            .copied()
            .unwrap_or(NOTHING)
    }
}

/// What both of two sides allow.
fn common(
    one: &[(TrafficSet, IdentitySet)],
    other: &[(TrafficSet, IdentitySet)],
) -> Vec<(TrafficSet, IdentitySet)> {
    let pairs = one
        .iter()
        .flat_map(|(traffic, peers)| other.iter().map(move |other| (traffic, peers, other)));
    pairs
        .map(|(traffic, peers, (other_traffic, other_peers))| {
            (
                traffic.intersection(other_traffic),
                peers.intersection(other_peers),
            )
        })
        .filter(|(traffic, peers)| !traffic.is_empty() && !peers.is_empty())
        .collect()
}
