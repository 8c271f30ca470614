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

/// What is remembered of an end: what applies to it, who is at the other end, and which part of the two a class alone
/// decides.
type Key = (Direction, Option<SubjectId>, Vec<Identity>, TrafficId, bool);

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
            parties: Parties::new(map, snapshot),
            seams: Seams::new(snapshot),
            known: FxHashMap::default(),
            ends: Interned::new(),
            said: Interned::new(),
            causes: Interned::new(),
        }
    }

    /// Why one end of a pair of classes says what it says in one family. `None` where they do not both have the family,
    /// or where no two members are a pair.
    pub(super) fn end(
        &mut self,
        direction: Direction,
        (from, to): (usize, usize),
        family: Family,
    ) -> Option<usize> {
        let allowed = self
            .map
            .classes
            .said(direction, (from, to), family, &self.map.traffics)?;
        let deciding = self.map.classes.deciding(direction, (from, to), family);
        let own = match direction {
            Direction::Egress => from,
            Direction::Ingress => to,
        };
        // Without ordered tiers what is denied rests on the policies that isolate, whoever is at the other end.
        let anyone = deciding.subject.is_none()
            || allowed == TrafficId::NONE
                && !self
                    .parties
                    .namespace(own)
                    .is_some_and(|own| self.seams.has_order(own));
        let peers = if anyone {
            Vec::new()
        } else {
            deciding.peers.to_vec()
        };
        let is_pod = self.parties.namespace(own).is_some();
        let key = (direction, deciding.subject, peers, allowed, is_pod);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let (one, other) = self.parties.pair(from, to, self.evaluator.program())?;
        let asked = Asked {
            direction,
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
