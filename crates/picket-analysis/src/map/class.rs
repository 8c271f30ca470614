//! Classes of endpoints that the engine cannot tell apart, and what passes between them.

use std::cell::RefCell;

use picket_engine::{AllowSet, Identity, Program, SubjectId};
use picket_net::Family;
use picket_policy::Direction;
use rustc_hash::FxHashMap;

use super::traffic::{TrafficId, Traffics};

/// What decides what an endpoint may exchange, but for its node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Class {
    /// The identities of its addresses, per family; a node may have several.
    pub(crate) identities: [Vec<Identity>; 2],
    /// What applies to it as a source; `None` when nothing does.
    pub(crate) egress: Option<SubjectId>,
    /// What applies to it as a destination.
    pub(crate) ingress: Option<SubjectId>,
    /// Whether it is external: what passes between two such classes is nobody's business.
    pub(crate) external: bool,
}

impl Class {
    pub(crate) fn identities(&self, family: Family) -> &[Identity] {
        let [v4, v6] = &self.identities;
        match family {
            Family::Ipv4 => v4,
            Family::Ipv6 => v6,
        }
    }
}

/// What may pass in each family; `None` where the two ends do not both have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pair {
    pub(crate) v4: Option<TrafficId>,
    pub(crate) v6: Option<TrafficId>,
}

impl Pair {
    /// No family.
    pub(crate) const NONE: Self = Self { v4: None, v6: None };

    /// `traffic` in the families that there are.
    pub(crate) fn replaced(self, traffic: TrafficId) -> Self {
        Self {
            v4: self.v4.map(|_| traffic),
            v6: self.v6.map(|_| traffic),
        }
    }
}

/// What an allow set allows with each identity: sorted, disjoint ranges of identities. What is not there is denied.
pub(crate) type Lookup = Vec<(u32, u32, TrafficId)>;

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

/// How a class behaves: the same for classes of the same families with equal rows and equal columns, of each of which
/// this holds a hash of 128 bits.
pub(crate) type Behaviour = ([bool; 2], u128, u128);

/// An identity of a class, as a destination.
#[derive(Clone, Copy, Debug)]
struct Target {
    class: usize,
    identity: usize,
    /// The place of the subject in [`Rows::ingress`]; the last place for none.
    subject: usize,
    /// Whether the class has another identity of this family before this one.
    again: bool,
}

/// All classes, and what applies to them.
#[derive(Debug)]
pub(crate) struct Classes<'a> {
    program: &'a Program,
    classes: Vec<Class>,
    ids: FxHashMap<Class, usize>,
    lookups: FxHashMap<SubjectId, Lookup>,
    /// The place of each subject of ingress in [`Rows::ingress`].
    ingress_at: FxHashMap<SubjectId, usize>,
    /// For each identity what the subjects of ingress accept from it that do not accept the same from everybody.
    accepted: Vec<Vec<(usize, TrafficId)>>,
    /// What the subjects of ingress accept from everybody, and at the end what a class without one does.
    accepted_from_all: Vec<TrafficId>,
    /// Per family every identity of every class that is not external.
    targets: [Vec<Target>; 2],
    /// The same of those that are: nobody asks what passes between two of them.
    outside: [Vec<Target>; 2],
    behaviours: Vec<Behaviour>,
}

/// What one class may send to every other, filled anew for each.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Per family and class.
    to: [Vec<Option<TrafficId>>; 2],
    /// Per subject of ingress, for one identity of the source.
    ingress: Vec<TrafficId>,
    /// Per identity, for the source's egress.
    egress: Vec<TrafficId>,
}

impl Rows {
    pub(crate) fn to(&self, class: usize) -> Pair {
        let [v4, v6] = &self.to;
        Pair {
            v4: v4.get(class).copied().flatten(),
            v6: v6.get(class).copied().flatten(),
        }
    }
}

fn place(identity: Identity) -> usize {
    identity.number() as usize
}

impl<'a> Classes<'a> {
    pub(crate) fn new(program: &'a Program, traffics: &RefCell<Traffics>) -> Self {
        let traffics = &mut *traffics.borrow_mut();
        let mut classes = Self {
            program,
            classes: Vec::new(),
            ids: FxHashMap::default(),
            lookups: FxHashMap::default(),
            ingress_at: FxHashMap::default(),
            accepted: Vec::new(),
            accepted_from_all: Vec::new(),
            targets: [Vec::new(), Vec::new()],
            outside: [Vec::new(), Vec::new()],
            behaviours: Vec::new(),
        };
        let identities = program.identities().map(place).max().map_or(0, |last| last + 1);
        classes.accepted.resize_with(identities, Vec::new);
        for (subject, direction) in program.subjects() {
            let lookup = lookup(&program.allow_set(subject), traffics);
            if direction == Direction::Ingress {
                classes.take_ingress(subject, &lookup);
            }
            classes.lookups.insert(subject, lookup);
        }
        classes.accepted_from_all.push(TrafficId::ALL);
        classes
    }

    fn take_ingress(&mut self, subject: SubjectId, lookup: &Lookup) {
        let at = self.accepted_from_all.len();
        self.ingress_at.insert(subject, at);
        let from_all = match lookup.as_slice() {
            [(0, u32::MAX, traffic)] => *traffic,
            _ => TrafficId::NONE,
        };
        self.accepted_from_all.push(from_all);
        if from_all == TrafficId::NONE {
            for &(first, last, traffic) in lookup {
                let identities = self.accepted.iter_mut().skip(first as usize);
                for accepted in identities.take((last - first) as usize + 1) {
                    accepted.push((at, traffic));
                }
            }
        }
    }

    /// The number of a class.
    pub(crate) fn intern(&mut self, class: Class) -> usize {
        if let Some(&id) = self.ids.get(&class) {
            return id;
        }
        let id = self.classes.len();
        let none = self.accepted_from_all.len().saturating_sub(1);
        let subject = class.ingress.and_then(|subject| self.ingress_at.get(&subject));
        let subject = subject.copied().unwrap_or(none);
        let all = if class.external {
            &mut self.outside
        } else {
            &mut self.targets
        };
        for (targets, identities) in all.iter_mut().zip(&class.identities) {
            targets.extend(identities.iter().enumerate().map(|(number, &identity)| Target {
                class: id,
                identity: place(identity),
                subject,
                again: number > 0,
            }));
        }
        self.classes.push(class.clone());
        self.ids.insert(class, id);
        id
    }

    pub(crate) fn get(&self, class: usize) -> Option<&Class> {
        self.classes.get(class)
    }

    /// What a subject allows.
    pub(crate) fn lookup(&self, subject: SubjectId) -> Option<&Lookup> {
        self.lookups.get(&subject)
    }

    pub(crate) fn set_behaviours(&mut self, behaviours: Vec<Behaviour>) {
        self.behaviours = behaviours;
    }

    pub(crate) fn behaviour(&self, class: usize) -> Behaviour {
        self.behaviours.get(class).copied().unwrap_or_default()
    }

    /// Works out what `from` may send to every class by what policies say; nothing from one external class to another.
    pub(crate) fn fill(&self, rows: &mut Rows, from: usize, traffics: &RefCell<Traffics>) {
        let traffics = &mut *traffics.borrow_mut();
        let Some(source) = self.get(from) else { return };
        self.fill_egress(&mut rows.egress, source);
        let targets = self.targets.iter().zip(&self.outside);
        for ((family, row), (inside, outside)) in Family::BOTH.into_iter().zip(&mut rows.to).zip(targets) {
            let outside = if source.external { &[] } else { &**outside };
            row.clear();
            row.resize(self.classes.len(), None);
            for (number, &identity) in source.identities(family).iter().enumerate() {
                rows.ingress.clone_from(&self.accepted_from_all);
                for &(subject, traffic) in self.accepted.get(place(identity)).into_iter().flatten() {
                    if let Some(slot) = rows.ingress.get_mut(subject) {
                        *slot = traffic;
                    }
                }
                for target in inside.iter().chain(outside) {
                    let sent = rows
                        .egress
                        .get(target.identity)
                        .copied()
                        .unwrap_or(TrafficId::NONE);
                    let received = rows
                        .ingress
                        .get(target.subject)
                        .copied()
                        .unwrap_or(TrafficId::NONE);
                    let both = traffics.meet(sent, received);
                    if let Some(cell) = row.get_mut(target.class) {
                        *cell = Some(match *cell {
                            Some(before) if number > 0 || target.again => traffics.meet(before, both),
                            _ => both,
                        });
                    }
                }
            }
        }
    }

    fn fill_egress(&self, egress: &mut Vec<TrafficId>, source: &Class) {
        let lookup = source.egress.and_then(|subject| self.lookups.get(&subject));
        let otherwise = if lookup.is_some() {
            TrafficId::NONE
        } else {
            TrafficId::ALL
        };
        self.fill_from(lookup.map_or(&[], Vec::as_slice), otherwise, egress);
    }

    /// Spreads ranges of identities over all of them.
    fn fill_from(&self, ranges: &[(u32, u32, TrafficId)], otherwise: TrafficId, row: &mut Vec<TrafficId>) {
        row.clear();
        row.resize(self.accepted.len(), otherwise);
        for &(first, last, traffic) in ranges {
            let identities = row.iter_mut().skip(first as usize);
            identities
                .take((last - first) as usize + 1)
                .for_each(|slot| *slot = traffic);
        }
    }

    /// What the egress of `from` lets it send to `to`, and what the ingress of `to` accepts from `from`, by what policies
    /// say. For many pairs [`Classes::fill`] is faster.
    pub(crate) fn ends(&self, from: usize, to: usize, traffics: &RefCell<Traffics>) -> (Pair, Pair) {
        let (Some(source), Some(destination)) = (self.get(from), self.get(to)) else {
            return (Pair::NONE, Pair::NONE);
        };
        let traffics = &mut *traffics.borrow_mut();
        let mut end = |subject: Option<SubjectId>, peer: &Class| {
            let lookup = subject.and_then(|subject| self.lookups.get(&subject));
            let [v4, v6] = Family::BOTH.map(|family| {
                if source.identities(family).is_empty() || destination.identities(family).is_empty() {
                    return None;
                }
                let each = peer
                    .identities(family)
                    .iter()
                    .map(|&peer| lookup.map_or(TrafficId::ALL, |lookup| find(lookup, peer)));
                Some(each.fold(TrafficId::ALL, |all, one| traffics.meet(all, one)))
            });
            Pair { v4, v6 }
        };
        (end(source.egress, destination), end(destination.ingress, source))
    }

    /// What applies to a class in a direction; `None` when nothing does.
    pub(super) fn subject(&self, direction: Direction, class: usize) -> Option<SubjectId> {
        let class = self.get(class)?;
        match direction {
            Direction::Egress => class.egress,
            Direction::Ingress => class.ingress,
        }
    }

    /// What a subject allows with each identity, by its number; empty for none, which allows everything.
    pub(super) fn by_identity(&self, subject: Option<SubjectId>) -> Vec<TrafficId> {
        let mut allowed = Vec::new();
        if let Some(lookup) = subject.and_then(|subject| self.lookups.get(&subject)) {
            self.fill_from(lookup, TrafficId::NONE, &mut allowed);
        }
        allowed
    }

    /// What a pod may send to its own node.
    pub(crate) fn to_own_node(&self, from: usize, to: usize, traffics: &RefCell<Traffics>) -> Pair {
        match (self.get(from), self.get(to)) {
            (Some(pod), Some(node)) => self.with_own_node(pod, pod.egress, node, traffics),
            _ => Pair::NONE,
        }
    }

    /// What a pod may receive from its own node.
    pub(crate) fn sent_by_own_node(&self, from: usize, to: usize, traffics: &RefCell<Traffics>) -> Pair {
        match (self.get(from), self.get(to)) {
            (Some(node), Some(pod)) => self.with_own_node(pod, pod.ingress, node, traffics),
            _ => Pair::NONE,
        }
    }

    /// Whether nothing is denied between any pod and its own node.
    pub(crate) fn all_reach_own_nodes(&self) -> bool {
        let mut subjects = self.program.subjects();
        subjects.all(|(subject, _)| self.program.own_node_allow_set(subject).is_everything())
    }

    fn with_own_node(
        &self,
        pod: &Class,
        subject: Option<SubjectId>,
        node: &Class,
        traffics: &RefCell<Traffics>,
    ) -> Pair {
        let traffics = &mut *traffics.borrow_mut();
        let allowed = subject.map(|subject| lookup(&self.program.own_node_allow_set(subject), traffics));
        let [v4, v6] = Family::BOTH.map(|family| {
            let peers = node.identities(family);
            if pod.identities(family).is_empty() || peers.is_empty() {
                return None;
            }
            let each = peers.iter().map(|&peer| {
                allowed
                    .as_ref()
                    .map_or(TrafficId::ALL, |lookup| find(lookup, peer))
            });
            Some(each.fold(TrafficId::ALL, |all, one| traffics.meet(all, one)))
        });
        Pair { v4, v6 }
    }

    /// How each class behaves towards all others.
    pub(crate) fn behaviours(&self, traffics: &RefCell<Traffics>) -> Vec<Behaviour> {
        let mut rows = Rows::default();
        let families = |class: &Class| {
            class
                .identities
                .each_ref()
                .map(|identities| !identities.is_empty())
        };
        let mut behaviours: Vec<Behaviour> =
            self.classes.iter().map(|class| (families(class), 0, 0)).collect();
        let inside = self.classes.iter().rposition(|class| !class.external);
        let inside = inside.map_or(0, |last| last + 1);
        for (from, source) in self.classes.iter().enumerate() {
            self.fill(&mut rows, from, traffics);
            let mut sent = 0u128;
            let [v4, v6] = &rows.to;
            let reach = if source.external {
                inside
            } else {
                self.classes.len()
            };
            for (to, (four, six)) in v4.iter().zip(v6).enumerate().take(reach) {
                let number = |traffic: &Option<TrafficId>| traffic.map_or(0, |id| id.0);
                let word = u64::from(number(four)) << 32 | u64::from(number(six));
                // Most pairs may exchange nothing, which adds nothing.
                if word == 0 {
                    continue;
                }
                sent = sent.wrapping_add(mixed(to as u64, word));
                if let Some((_, _, received)) = behaviours.get_mut(to) {
                    *received = received.wrapping_add(mixed(from as u64, word));
                }
            }
            if let Some((_, row, _)) = behaviours.get_mut(from) {
                *row = sent;
            }
        }
        behaviours
    }
}

/// A hash of a place and what stands there. Sums of such hashes are hashes of sets.
pub(crate) fn mixed(place: u64, word: u64) -> u128 {
    // Two rounds of multiply and fold with odd constants of high entropy (as in wyhash), for each half.
    let fold = |one: u64, other: u64| {
        let product = u128::from(one).wrapping_mul(u128::from(other));
        u64::try_from(product & u128::from(u64::MAX)).unwrap_or(0) ^ u64::try_from(product >> 64).unwrap_or(0)
    };
    let half = |a: u64, b: u64, c: u64| fold(fold(place ^ a, word ^ b) ^ c, place.rotate_left(32) ^ word ^ a);
    let high = half(
        0xa076_1d64_78bd_642f,
        0xe703_7ed1_a0b4_28db,
        0x8ebc_6af0_9c88_c6e3,
    );
    let low = half(
        0x5899_65cc_7537_4cc3,
        0x1d8e_4e27_c47d_124f,
        0xeb44_acca_b455_d165,
    );
    u128::from(high) << 64 | u128::from(low)
}
