//! Classes of endpoints that the engine cannot tell apart, and what passes between them.

use std::cell::RefCell;

use picket_engine::{AllowSet, Identity, Program, SubjectId};
use picket_net::Family;
use picket_policy::Direction;
use rustc_hash::FxHashMap;

use super::traffic::{TrafficId, Traffics};

/// What decides what an endpoint may exchange, but for its node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Class {
    /// The identities of its addresses, per family; a node may have several.
    pub(super) identities: [Vec<Identity>; 2],
    /// What applies to it as a source; `None` when nothing does.
    pub(super) egress: Option<SubjectId>,
    /// What applies to it as a destination.
    pub(super) ingress: Option<SubjectId>,
    /// Whether it is external: what passes between two such classes is nobody's business.
    pub(super) external: bool,
}

impl Class {
    fn identities(&self, family: Family) -> &[Identity] {
        let [v4, v6] = &self.identities;
        match family {
            Family::Ipv4 => v4,
            Family::Ipv6 => v6,
        }
    }
}

/// What may pass in each family; `None` where the two ends do not both have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) v4: Option<TrafficId>,
    pub(super) v6: Option<TrafficId>,
}

impl Pair {
    /// `traffic` in the families that there are.
    pub(super) fn replaced(self, traffic: TrafficId) -> Self {
        Self {
            v4: self.v4.map(|_| traffic),
            v6: self.v6.map(|_| traffic),
        }
    }
}

/// What an allow set allows with each identity: sorted, disjoint ranges of identities. What is not there is denied.
type Lookup = Vec<(u32, u32, TrafficId)>;

fn find(lookup: &Lookup, identity: Identity) -> TrafficId {
    let number = identity.number();
    let after = lookup.partition_point(|(first, ..)| *first <= number);
    match after.checked_sub(1).and_then(|at| lookup.get(at)) {
        Some((_, last, traffic)) if number <= *last => *traffic,
        _ => TrafficId::NONE,
    }
}

fn lookup(allowed: &AllowSet, traffics: &mut Traffics) -> Lookup {
    let mut lookup: Lookup = Vec::new();
    for (traffic, identities) in allowed.entries() {
        let traffic = traffics.intern(traffic);
        let ranges = identities.intervals().iter();
        lookup.extend(ranges.map(|range| (range.first(), range.last(), traffic)));
    }
    lookup.sort_unstable();
    lookup
}

/// How a class behaves: the same for classes with equal rows and equal columns. A hash of 128 bits of each.
pub(super) type Behaviour = (u128, u128);

/// All classes, and what applies to them.
#[derive(Debug)]
pub(super) struct Classes<'a> {
    program: &'a Program,
    classes: Vec<Class>,
    ids: FxHashMap<Class, usize>,
    lookups: FxHashMap<SubjectId, Lookup>,
    /// The subjects of ingress, and the place of each in [`Rows::ingress`].
    ingress: Vec<SubjectId>,
    ingress_at: FxHashMap<SubjectId, usize>,
    behaviours: Vec<Behaviour>,
}

/// What one class may send to every other, filled anew for each.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Per family and class.
    to: [Vec<Option<TrafficId>>; 2],
    /// Per subject of ingress, for one identity of the source.
    ingress: Vec<TrafficId>,
}

impl Rows {
    pub(super) fn to(&self, class: usize) -> Pair {
        let [v4, v6] = &self.to;
        Pair {
            v4: v4.get(class).copied().flatten(),
            v6: v6.get(class).copied().flatten(),
        }
    }
}

impl<'a> Classes<'a> {
    pub(super) fn new(program: &'a Program, traffics: &RefCell<Traffics>) -> Self {
        let traffics = &mut *traffics.borrow_mut();
        let subjects: Vec<_> = program.subjects().collect();
        let lookups = subjects
            .iter()
            .map(|&(subject, _)| (subject, lookup(&program.allow_set(subject), traffics)));
        let ingress = subjects
            .iter()
            .filter(|(_, direction)| *direction == Direction::Ingress);
        let ingress: Vec<_> = ingress.map(|&(subject, _)| subject).collect();
        Self {
            program,
            classes: Vec::new(),
            ids: FxHashMap::default(),
            lookups: lookups.collect(),
            ingress_at: ingress
                .iter()
                .enumerate()
                .map(|(at, &subject)| (subject, at))
                .collect(),
            ingress,
            behaviours: Vec::new(),
        }
    }

    /// The number of a class.
    pub(super) fn intern(&mut self, class: Class) -> usize {
        if let Some(&id) = self.ids.get(&class) {
            return id;
        }
        let id = self.classes.len();
        self.classes.push(class.clone());
        self.ids.insert(class, id);
        id
    }

    fn get(&self, class: usize) -> Option<&Class> {
        self.classes.get(class)
    }

    pub(super) fn set_behaviours(&mut self, behaviours: Vec<Behaviour>) {
        self.behaviours = behaviours;
    }

    pub(super) fn behaviour(&self, class: usize) -> Behaviour {
        self.behaviours.get(class).copied().unwrap_or_default()
    }

    /// Works out what `from` may send to every class by what policies say.
    pub(super) fn fill(&self, rows: &mut Rows, from: usize, traffics: &RefCell<Traffics>) {
        let traffics = &mut *traffics.borrow_mut();
        let Some(source) = self.get(from) else { return };
        let egress = source.egress.and_then(|subject| self.lookups.get(&subject));
        let Rows { to, ingress } = rows;
        for (family, row) in Family::BOTH.into_iter().zip(to) {
            row.clear();
            row.resize(self.classes.len(), None);
            for (at, &identity) in source.identities(family).iter().enumerate() {
                ingress.clear();
                let lookups = self.ingress.iter().map(|subject| self.lookups.get(subject));
                ingress.extend(
                    lookups.map(|lookup| lookup.map_or(TrafficId::ALL, |lookup| find(lookup, identity))),
                );
                for (cell, class) in row.iter_mut().zip(&self.classes) {
                    let own = class.ingress.and_then(|subject| self.ingress_at.get(&subject));
                    let own = own
                        .and_then(|&at| ingress.get(at))
                        .copied()
                        .unwrap_or(TrafficId::ALL);
                    for (number, &peer) in class.identities(family).iter().enumerate() {
                        let sent = egress.map_or(TrafficId::ALL, |lookup| find(lookup, peer));
                        let both = traffics.meet(sent, own);
                        *cell = Some(match *cell {
                            Some(before) if at > 0 || number > 0 => traffics.meet(before, both),
                            _ => both,
                        });
                    }
                }
            }
        }
    }

    /// What a pod may send to its own node.
    pub(super) fn to_own_node(&self, from: usize, to: usize, traffics: &RefCell<Traffics>) -> Pair {
        let traffics = &mut *traffics.borrow_mut();
        let (Some(source), Some(node)) = (self.get(from), self.get(to)) else {
            return Pair { v4: None, v6: None };
        };
        let allowed = source
            .egress
            .map(|subject| lookup(&self.program.own_node_allow_set(subject), traffics));
        let [v4, v6] = Family::BOTH.map(|family| {
            let peers = node.identities(family);
            if source.identities(family).is_empty() || peers.is_empty() {
                return None;
            }
            let sent = peers.iter().map(|&peer| {
                allowed
                    .as_ref()
                    .map_or(TrafficId::ALL, |lookup| find(lookup, peer))
            });
            Some(sent.fold(TrafficId::ALL, |all, one| traffics.meet(all, one)))
        });
        Pair { v4, v6 }
    }

    /// How each class behaves towards all others.
    pub(super) fn behaviours(&self, traffics: &RefCell<Traffics>) -> Vec<Behaviour> {
        let mut rows = Rows::default();
        let mut sent = vec![FNV_OFFSET; self.classes.len()];
        let mut received = sent.clone();
        for (from, source) in self.classes.iter().enumerate() {
            self.fill(&mut rows, from, traffics);
            let mut row = FNV_OFFSET;
            for (to, (destination, column)) in self.classes.iter().zip(&mut received).enumerate() {
                let word = if source.external && destination.external {
                    0
                } else {
                    let Pair { v4, v6 } = rows.to(to);
                    let word = |traffic: Option<TrafficId>| traffic.map_or(0, |id| u64::from(id.0) + 1);
                    word(v4) << 32 | word(v6)
                };
                row = mixed(row, word);
                *column = mixed(*column, word);
            }
            if let Some(slot) = sent.get_mut(from) {
                *slot = row;
            }
        }
        sent.into_iter().zip(received).collect()
    }
}

/// FNV-1a of 128 bits, over words instead of bytes.
const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

fn mixed(hash: u128, word: u64) -> u128 {
    let mixed = (hash ^ u128::from(word)).wrapping_mul(FNV_PRIME);
    // The prime carries low bits up; this carries high bits down.
    mixed ^ (mixed >> 64)
}
