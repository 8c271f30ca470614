//! The specification as code: the slow, obvious evaluator.
//!
//! Read it next to the API text: networking.k8s.io/v1 `NetworkPolicySpec`, policy.networking.k8s.io
//! `ClusterNetworkPolicySpec`, and `docs/semantics.md` for what those leave open. It is written for the reader, asks
//! every policy about every packet, and shares no evaluation code with `picket-engine`: each is the other's test.

mod matching;
mod tiers;

use picket_cluster::{EndJudgement, Endpoint, Flow, Judgement, Pod, Reason, Semantics, Snapshot, Verdict};
use picket_policy::Direction;

/// Judges one new connection.
///
/// A pod that the snapshot does not hold, or that has finished, is treated as no pod at all.
pub fn judge(snapshot: &Snapshot, semantics: &Semantics, flow: &Flow) -> Judgement {
    // "A Pod cannot block access to itself."
    if is_same_pod(snapshot, &flow.source, &flow.destination) {
        let same_pod = EndJudgement::without_cause(Verdict::Allow, Reason::SamePod);
        return Judgement {
            egress: same_pod.clone(),
            ingress: same_pod,
        };
    }
    Judgement {
        egress: judge_end(snapshot, semantics, flow, Direction::Egress),
        ingress: judge_end(snapshot, semantics, flow, Direction::Ingress),
    }
}

/// Whether both ends are one pod: on a secondary network each of its interfaces is an end.
fn is_same_pod(snapshot: &Snapshot, source: &Endpoint, destination: &Endpoint) -> bool {
    let (Endpoint::Pod(one), Endpoint::Pod(other)) = (source, destination) else {
        return false;
    };
    let pods = snapshot.pods.get(one).zip(snapshot.pods.get(other));
    one == other || pods.is_some_and(|(one, other)| one.is_same_pod(other))
}

/// Judges the source's egress or the destination's ingress.
fn judge_end(snapshot: &Snapshot, semantics: &Semantics, flow: &Flow, direction: Direction) -> EndJudgement {
    let (own, other) = match direction {
        Direction::Egress => (&flow.source, &flow.destination),
        Direction::Ingress => (&flow.destination, &flow.source),
    };
    let Some(pod) = managed_pod(snapshot, own) else {
        return EndJudgement::without_cause(Verdict::Allow, Reason::NotAPod);
    };
    let judge = |if_enforced| {
        tiers::judge_pod(&tiers::Question {
            snapshot,
            semantics,
            flow,
            direction,
            pod,
            peer: other,
            if_enforced,
        })
    };
    let (mut judgement, if_enforced) = (judge(false), judge(true));
    if judgement.verdict.is_allow() && !if_enforced.verdict.is_allow() {
        judgement.audited = if_enforced.causes;
    }
    judgement
}

/// The pod at this end, if policies can apply to it.
fn managed_pod<'a>(snapshot: &'a Snapshot, endpoint: &Endpoint) -> Option<&'a Pod> {
    match endpoint {
        Endpoint::Pod(object) => snapshot
            .pods
            .get(object)
            .map(|pod| &**pod)
            .filter(|pod| pod.is_managed()),
        Endpoint::Node { .. } | Endpoint::External(_) => None,
    }
}
