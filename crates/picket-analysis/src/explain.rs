//! Why a connection is allowed or denied: what every policy at both ends says about it, condition by condition, and the
//! smallest change after which the verdict is the other one.
//!
//! The verdict is the engine's. The rest is found by asking every rule of every policy of the two ends, in the words of
//! the API: a property holds that both say the same.

mod answer;
mod build;
mod candidate;
mod change;
mod deny;
mod miss;
mod pod;
mod search;
mod tiers;
mod words;
pub mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use picket_cluster::{Endpoint, Flow, Snapshot};
use picket_net::Family;
use picket_policy::{Direction, NamespaceScope, Policy};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

pub use answer::{
    ChangeAnswer, Explained, ExplainedEnd, ExplainedFlow, ExplainedPeer, ExplainedPolicy, ExplainedPort,
    ExplainedRule, ExplainedTier, Explanation, FlipAnswer, MissAnswer, NearestRule, Place, TierOutcome,
};
pub use change::{Change, RulePlace};
pub use pod::{PodConnection, PodDirection, PodExplanation, PodPolicy, PodRule};
pub use search::Flip;

use crate::eval::{Evaluator, Question};
use miss::End;
use search::Trial;

/// Explains answers about one snapshot.
#[derive(Debug)]
pub struct Explainer<'a> {
    evaluator: &'a Evaluator<'a>,
    /// The policies about one namespace by name.
    of_namespace: FxHashMap<&'a SmolStr, Vec<&'a Arc<Policy>>>,
    /// The policies about namespaces by their labels.
    of_any: Vec<&'a Arc<Policy>>,
}

impl<'a> Explainer<'a> {
    /// Explains what `evaluator` answers.
    pub fn new(evaluator: &'a Evaluator<'a>) -> Self {
        let mut explainer = Self {
            evaluator,
            of_namespace: FxHashMap::default(),
            of_any: Vec::new(),
        };
        let snapshot = evaluator.directory().snapshot();
        let here = snapshot
            .policies
            .values()
            .filter(|policy| policy.networks.are_looked_at());
        for policy in here {
            match &policy.subject.namespaces {
                NamespaceScope::Named(name) => explainer.of_namespace.entry(name).or_default().push(policy),
                NamespaceScope::Matching(_) => explainer.of_any.push(policy),
            }
        }
        explainer
    }

    /// Explains the answer to a question. Of a node with several addresses, and of a port name with several numbers, the
    /// explanation is about those that the answer is about.
    pub fn explain(&self, question: &Question) -> Explanation {
        let explained = |family| {
            let flow = self.evaluator.deciding_flow(question, family)?;
            Some(self.explain_flow(&flow))
        };
        Explanation {
            answer: self.evaluator.answer(question),
            explained: Explained {
                ipv4: explained(Family::Ipv4),
                ipv6: explained(Family::Ipv6),
            },
        }
    }

    /// Explains the verdict about one connection.
    pub fn explain_flow(&self, flow: &Flow) -> ExplainedFlow {
        let judgement = self.evaluator.judge(flow);
        let scene = self.scene(flow);
        let semantics = self.evaluator.program().semantics();
        let end = |direction, judgement| {
            let end = End {
                scene: &scene,
                semantics,
                flow,
                direction,
            };
            build::end(judgement, &tiers::judge(&end))
        };
        let verdict = judgement.verdict();
        let flip = Trial { semantics, flow }.flip(&scene);
        ExplainedFlow {
            verdict,
            egress: end(Direction::Egress, &judgement.egress),
            ingress: end(Direction::Ingress, &judgement.ingress),
            flip: flip.map(|flip| build::flip(&flip, verdict)),
        }
    }

    /// What the two ends say without the engine, and how they are explained: egress, then ingress.
    #[cfg(test)]
    fn judged_alone(
        &self,
        flow: &Flow,
    ) -> [((picket_cluster::Verdict, picket_cluster::Reason), ExplainedEnd); 2] {
        let scene = self.scene(flow);
        let judgement = self.evaluator.judge(flow);
        let ends = [
            (Direction::Egress, &judgement.egress),
            (Direction::Ingress, &judgement.ingress),
        ];
        ends.map(|(direction, judgement)| {
            let judged = tiers::judge(&End {
                scene: &scene,
                semantics: self.evaluator.program().semantics(),
                flow,
                direction,
            });
            let alone = (judged.verdict, judged.reason);
            (alone, build::end(judgement, &judged))
        })
    }

    /// The part of the cluster that the two ends of a connection see.
    fn scene(&self, flow: &Flow) -> Snapshot {
        let snapshot = self.evaluator.directory().snapshot();
        let mut scene = Snapshot::default();
        let mut policies = self.of_any.clone();
        for endpoint in [&flow.source, &flow.destination] {
            let node = snapshot.node_at(endpoint, flow.family);
            scene
                .nodes
                .extend(node.map(|node| (node.name.clone(), node.clone())));
            let Endpoint::Pod(object) = endpoint else {
                continue;
            };
            let Some(pod) = snapshot.pods.get(object) else {
                continue;
            };
            let name = &object.namespace;
            scene.pods.insert(object.clone(), Arc::clone(pod));
            scene
                .namespaces
                .insert(name.clone(), snapshot.namespace(name).into_owned());
            policies.extend(self.of_namespace.get(name).into_iter().flatten());
        }
        let policies = policies.into_iter();
        scene.policies = policies
            .map(|policy| (policy.object.clone(), Arc::clone(policy)))
            .collect();
        scene
    }
}
