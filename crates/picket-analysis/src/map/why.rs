//! Why a pair of classes may exchange what it may: what each end says, cut into parts that rest on the same causes.
//!
//! The engine's judge is asked about one flow of each part, between representatives of the two classes; the answer
//! holds for all members, because a class is what the engine cannot tell apart.

mod party;
mod seam;

use std::hash::Hash;

use picket_cluster::{EndJudgement, Reason, Verdict};
use picket_engine::{Identity, SubjectId};
use picket_net::{Family, Protocol, TrafficSet};
use picket_policy::Direction;
use rustc_hash::FxHashMap;

use crate::directory::Party;
use crate::eval::{CauseAnswer, EndAnswer, Evaluator, PortQuestion, Question};
use crate::map::Map;
use crate::map::traffic::TrafficId;
use party::Parties;
use seam::Seams;

/// Values that occurred, each once, by number.
#[derive(Clone, Debug)]
pub(super) struct Interned<T> {
    values: Vec<T>,
    numbers: FxHashMap<T, usize>,
}

impl<T: Clone + Eq + Hash> Interned<T> {
    pub(super) fn new() -> Self {
        Self {
            values: Vec::new(),
            numbers: FxHashMap::default(),
        }
    }

    pub(super) fn number(&mut self, value: T) -> usize {
        if let Some(&known) = self.numbers.get(&value) {
            return known;
        }
        let number = self.values.len();
        self.values.push(value.clone());
        self.numbers.insert(value, number);
        number
    }

    pub(super) fn values(&self) -> &[T] {
        &self.values
    }
}

/// What one end says: parts of the traffic, each with the number of the judgement on it. The part `None` is everything
/// that no other part names.
pub(super) type End = Vec<(Option<TrafficSet>, usize)>;

/// A judgement, with its causes by number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Said {
    pub(super) verdict: Verdict,
    pub(super) reason: Reason,
    pub(super) causes: Vec<usize>,
}

/// What is remembered of an end: what applies to it, which peers are at the other end as far as that tells them apart,
/// and which part of the two a class alone decides.
type Key = (Direction, Option<SubjectId>, Vec<u32>, TrafficId, bool);

/// Stands for all peers where the causes are the same whoever they are.
const ANYONE: u32 = u32::MAX;

/// One end of a class: what it says to every other class.
#[derive(Debug)]
pub(super) struct Side {
    direction: Direction,
    class: usize,
    subject: Option<SubjectId>,
    is_pod: bool,
    has_order: bool,
    /// By number of identity, what is allowed with it. Empty without a subject: then everything is.
    allowed: Vec<TrafficId>,
    /// By number of identity, its part among those that the subject's rules tell apart.
    parts: Vec<u32>,
    /// Ends known from [`Why::known`], for peers of one part.
    known: FxHashMap<(u32, TrafficId), usize>,
}

impl Side {
    /// What is allowed with a peer of these identities, and the parts of these that can make a difference.
    fn peer(
        &self,
        identities: &[Identity],
        meet: impl Fn(TrafficId, TrafficId) -> TrafficId,
    ) -> (TrafficId, Peers) {
        let of = |identity: &Identity| identity.number() as usize;
        let allowed = identities.iter().map(|identity| match &*self.allowed {
            [] => TrafficId::ALL,
            allowed => allowed.get(of(identity)).copied().unwrap_or(TrafficId::NONE),
        });
        let allowed = allowed.reduce(meet).unwrap_or(TrafficId::ALL);
        // Without ordered tiers what is denied rests on the policies that isolate, whoever is at the other end.
        if self.subject.is_none() || allowed == TrafficId::NONE && !self.has_order {
            return (allowed, Peers::One(ANYONE));
        }
        let part = |identity| self.parts.get(of(identity)).copied().unwrap_or_default();
        let peers = match identities {
            [only] => Peers::One(part(only)),
            several => Peers::Several(several.iter().map(part).collect()),
        };
        (allowed, peers)
    }
}

/// The parts of a peer's identities.
enum Peers {
    One(u32),
    Several(Vec<u32>),
}

/// Asks why.
#[derive(Debug)]
pub(super) struct Why<'m, 'e> {
    map: &'m Map<'m>,
    evaluator: &'e Evaluator<'e>,
    parties: Parties,
    seams: Seams,
    known: FxHashMap<Key, Option<usize>>,
    pub(super) ends: Interned<End>,
    pub(super) said: Interned<Said>,
    pub(super) causes: Interned<CauseAnswer>,
}

/// One end of a question, with what is known of it.
struct Asked<'a> {
    direction: Direction,
    family: Family,
    from: &'a Party,
    to: &'a Party,
}

impl<'m, 'e> Why<'m, 'e> {
    pub(super) fn new(map: &'m Map<'m>, evaluator: &'e Evaluator<'e>) -> Self {
        let snapshot = evaluator.directory().snapshot();
        Self {
            map,
            evaluator,
            parties: Parties::new(map, snapshot, evaluator.program()),
            seams: Seams::new(snapshot),
            known: FxHashMap::default(),
            ends: Interned::new(),
            said: Interned::new(),
            causes: Interned::new(),
        }
    }

    /// Prepares questions about one end of a class.
    pub(super) fn side(&self, direction: Direction, class: usize) -> Side {
        let subject = self.map.classes.subject(direction, class);
        let namespace = self.parties.namespace(class);
        let program = self.evaluator.program();
        Side {
            direction,
            class,
            subject,
            is_pod: namespace.is_some(),
            has_order: namespace.is_some_and(|own| self.seams.has_order(own)),
            allowed: self.map.classes.by_identity(subject),
            parts: subject
                .map(|subject| program.alike_for(subject))
                .unwrap_or_default(),
            known: FxHashMap::default(),
        }
    }

    /// Why an end says what it says in one family about connections with another class. `None` where the two do not
    /// both have the family, or where no two members are a pair.
    pub(super) fn end(&mut self, side: &mut Side, other: usize, family: Family) -> Option<usize> {
        let (own, peer) = self
            .map
            .classes
            .get(side.class)
            .zip(self.map.classes.get(other))?;
        let identities = peer.identities(family);
        if own.identities(family).is_empty() || identities.is_empty() {
            return None;
        }
        let meet = |one, other| self.map.traffics.borrow_mut().meet(one, other);
        let (allowed, peers) = side.peer(identities, meet);
        let parts = match peers {
            Peers::Several(parts) => parts,
            Peers::One(part) => {
                if let Some(&known) = side.known.get(&(part, allowed)) {
                    return Some(known);
                }
                vec![part]
            }
        };
        let end = self.end_of(side, other, family, parts.clone(), allowed)?;
        if let [part] = *parts {
            side.known.insert((part, allowed), end);
        }
        Some(end)
    }

    /// The same, by what applies and by who is at the other end.
    fn end_of(
        &mut self,
        side: &Side,
        other: usize,
        family: Family,
        parts: Vec<u32>,
        allowed: TrafficId,
    ) -> Option<usize> {
        let key = (side.direction, side.subject, parts, allowed, side.is_pod);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let (from, to) = match side.direction {
            Direction::Egress => (side.class, other),
            Direction::Ingress => (other, side.class),
        };
        let (one, other) = self.parties.pair(from, to, self.evaluator.program())?;
        let asked = Asked {
            direction: side.direction,
            family,
            from: &one,
            to: &other,
        };
        let end = self.ask(&asked, allowed);
        self.known.insert(key, end);
        end
    }

    /// Why one end of two endpoints, of which one is the other's node, says what it says.
    pub(super) fn own_node_end(
        &mut self,
        direction: Direction,
        (from, to): (usize, usize),
        family: Family,
        allowed: TrafficId,
    ) -> Option<usize> {
        let (from, to) = (self.parties.of(from)?, self.parties.of(to)?);
        let asked = Asked {
            direction,
            family,
            from: &from,
            to: &to,
        };
        self.ask(&asked, allowed)
    }

    fn ask(&mut self, asked: &Asked<'_>, allowed: TrafficId) -> Option<usize> {
        let allowed = self.map.traffics.borrow().get(allowed).clone();
        let own = match (asked.direction, asked.from, asked.to) {
            (Direction::Egress, Party::Pod(pod), _) | (Direction::Ingress, _, Party::Pod(pod)) => Some(pod),
            _ => None,
        };
        let namespace = own.map_or("", |pod| pod.object.namespace.as_str());
        let denied = TrafficSet::all().difference(&allowed);
        let mut parts = self.parts(asked, self.seams.cut(namespace, &allowed));
        let denied = if self.seams.has_order(namespace) {
            self.parts(asked, self.seams.cut(namespace, &denied))
        } else {
            let question = first(&denied).map(|question| (question, denied));
            self.parts(asked, question.into_iter().collect())
        };
        let named_by_others = denied.len() == 1 || denied.is_empty() && parts.len() == 1;
        parts.extend(denied);
        let parts = parts.into_iter().map(|(traffic, said)| (Some(traffic), said));
        let mut end: End = parts.collect();
        if let Some((last, _)) = end.last_mut().filter(|_| named_by_others) {
            *last = None;
        }
        Some(self.ends.number(end))
    }

    /// Judges one flow of each piece and puts together what rests on the same.
    fn parts(
        &mut self,
        asked: &Asked<'_>,
        pieces: Vec<(PortQuestion, TrafficSet)>,
    ) -> Vec<(TrafficSet, usize)> {
        let mut parts: Vec<(TrafficSet, usize)> = Vec::new();
        for (port, traffic) in pieces {
            let said = self.judge(asked, port);
            match parts.iter_mut().find(|(_, known)| *known == said) {
                Some((before, _)) => *before = before.union(&traffic),
                None => parts.push((traffic, said)),
            }
        }
        parts
    }

    fn judge(&mut self, asked: &Asked<'_>, port: PortQuestion) -> usize {
        let answer = self.evaluator.answer(&Question {
            from: asked.from.clone(),
            to: asked.to.clone(),
            port,
            family: Some(asked.family),
        });
        let end = match asked.direction {
            Direction::Egress => answer.egress,
            Direction::Ingress => answer.ingress,
        };
        // Of one family both ends always say something.
        let end = end.unwrap_or_else(|| {
            EndAnswer::from(&EndJudgement::without_cause(
                Verdict::Deny,
                Reason::NoCommonFamily,
            ))
        });
        let causes = end
            .causes
            .into_iter()
            .map(|cause| self.causes.number(cause))
            .collect();
        self.said.number(Said {
            verdict: end.verdict,
            reason: end.reason,
            causes,
        })
    }
}

/// A question about something in `traffic`.
fn first(traffic: &TrafficSet) -> Option<PortQuestion> {
    let ports = Protocol::WITH_PORTS.into_iter().find_map(|protocol| {
        let range = traffic.ports(protocol)?.ranges().next()?;
        Some(PortQuestion::Number(protocol, range.first()))
    });
    ports.or_else(|| traffic.portless.iter().next().map(PortQuestion::Portless))
}
