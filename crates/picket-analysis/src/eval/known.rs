//! What ends said before, so that nothing is judged or written as JSON twice.

use std::sync::Arc;

use picket_cluster::{EndJudgement, Endpoint, Flow, Judgement, Reason, Verdict};
use picket_engine::{AllowSet, Identity, Program, SubjectId};
use picket_net::{Family, Protocol, TrafficSet};
use picket_policy::{Direction, ObjectRef, Tier};
use rustc_hash::FxHashMap;

use super::answer::EndAnswer;
use super::evaluator::{Ends, Evaluator};

/// The JSON text of what one end says, shared by all answers that say the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EndText {
    verdict: Verdict,
    pub(super) text: Arc<str>,
}

impl EndText {
    pub(super) fn new(end: &EndJudgement) -> Self {
        // INVARIANT: an end holds nothing that JSON cannot.
        let text = serde_json::to_string(&EndAnswer::from(end)).unwrap_or_default();
        Self {
            verdict: end.verdict,
            text: text.into(),
        }
    }
}

/// What the engine knows of a pod: its subjects of ingress and egress, and its identities of IPv4 and IPv6.
#[derive(Clone, Copy, Debug)]
struct Terms {
    subjects: [Option<SubjectId>; 2],
    identities: [Option<Identity>; 2],
}

/// Two flows with the same key get the same answer from that end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct EndKey {
    subject: SubjectId,
    peer: Identity,
    protocol: Protocol,
    port: u16,
}

/// What ends said before.
pub(super) struct Known<'a> {
    program: &'a Program,
    pods: FxHashMap<ObjectRef, Option<Terms>>,
    ends: FxHashMap<EndKey, EndText>,
    /// What each subject says to everything that no rule accepts: the policies that isolate it, whoever asks.
    denials: FxHashMap<SubjectId, EndText>,
    allowed: FxHashMap<SubjectId, Arc<AllowSet>>,
    /// Whether every denial is such a one: there are no rules that deny.
    only_isolation: bool,
}

impl<'a> Known<'a> {
    pub(super) fn new(evaluator: &Evaluator<'a>) -> Self {
        let program = evaluator.program();
        Self {
            program,
            pods: FxHashMap::default(),
            ends: FxHashMap::default(),
            denials: FxHashMap::default(),
            allowed: FxHashMap::default(),
            only_isolation: program
                .policies()
                .all(|policy| policy.tier == Tier::NetworkPolicy),
        }
    }

    pub(super) fn judge(&mut self, evaluator: &Evaluator<'_>, flow: &Flow) -> Ends<EndText> {
        let keys = Direction::BOTH.map(|direction| self.key(flow, direction));
        let known = keys.map(|key| self.find(key?));
        if let [Some(ingress), Some(egress)] = known {
            return ends(egress, ingress);
        }
        let Judgement { egress, ingress } = evaluator.judge(flow);
        let [ingress_key, egress_key] = keys;
        let egress = self.learn(egress_key, &egress);
        let ingress = self.learn(ingress_key, &ingress);
        ends(egress, ingress)
    }

    fn find(&mut self, key: EndKey) -> Option<EndText> {
        if let Some(known) = self.ends.get(&key) {
            return Some(known.clone());
        }
        let denial = self.denials.get(&key.subject)?;
        let program = self.program;
        let allowed = self
            .allowed
            .entry(key.subject)
            .or_insert_with(|| program.allow_set(key.subject));
        let accepts = |traffic: &TrafficSet| traffic.contains(key.protocol, key.port);
        (!allowed.traffic(key.peer).is_some_and(accepts)).then(|| denial.clone())
    }

    fn learn(&mut self, key: Option<EndKey>, judgement: &EndJudgement) -> EndText {
        let text = EndText::new(judgement);
        if let Some(key) = key {
            if self.only_isolation && judgement.reason == Reason::NoRuleMatches {
                self.denials.insert(key.subject, text.clone());
            } else {
                self.ends.insert(key, text.clone());
            }
        }
        text
    }

    /// `None` when more than the subject and the identity of the peer counts.
    fn key(&mut self, flow: &Flow, direction: Direction) -> Option<EndKey> {
        let (Endpoint::Pod(source), Endpoint::Pod(destination)) = (&flow.source, &flow.destination) else {
            return None;
        };
        if source == destination {
            return None;
        }
        let (own, peer) = match direction {
            Direction::Egress => (source, destination),
            Direction::Ingress => (destination, source),
        };
        let [ingress, egress] = self.terms(own)?.subjects;
        let [v4, v6] = self.terms(peer)?.identities;
        Some(EndKey {
            subject: match direction {
                Direction::Egress => egress,
                Direction::Ingress => ingress,
            }?,
            // Only managed pods have an identity of their own: where the peer is the network of a node, whose it is
            // counts.
            peer: match flow.family {
                Family::Ipv4 => v4,
                Family::Ipv6 => v6,
            }?,
            protocol: flow.protocol,
            port: flow.port,
        })
    }

    fn terms(&mut self, pod: &ObjectRef) -> Option<Terms> {
        if let Some(known) = self.pods.get(pod) {
            return *known;
        }
        let terms = self.program.pod(pod).map(|entry| Terms {
            subjects: Direction::BOTH.map(|direction| entry.subject(direction)),
            identities: Family::BOTH.map(|family| entry.identity(family)),
        });
        self.pods.insert(pod.clone(), terms);
        terms
    }
}

fn ends(egress: EndText, ingress: EndText) -> Ends<EndText> {
    Ends {
        verdict: egress.verdict.and(ingress.verdict),
        egress,
        ingress,
    }
}
