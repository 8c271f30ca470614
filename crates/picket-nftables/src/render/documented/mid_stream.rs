//! TCP in the middle of connections that nobody knows, as those are that have been cut.
//!
//! What arrives so is judged by the policies for ingress like what begins, and passes where its sender may begin. It may belong
//! to a connection that the pod had opened instead, which policies for egress deny now: where there are such policies it is
//! refused. What the pod sends is refused likewise where there are policies for ingress.

use picket_policy::Direction;

use super::policy::interfaces_name;
use super::skeleton::interface_of;
use super::{Hashes, Plan, PodView, hash_of, name, title};
use crate::model::{Chain, Comment, End, Match, Rule, Statement, Verdict};
use crate::render;
use crate::render::drops::mid_stream_counter;

pub(super) const CHAIN: &str = "mid-stream";

/// The chain that refuses it; `None` where nothing is restricted.
pub(super) fn chain(
    view: &PodView,
    directions: &[(Direction, Plan); 2],
    hashes: &Hashes<'_>,
    count: bool,
) -> Option<Chain> {
    let rules: Vec<_> = directions
        .iter()
        .flat_map(|&(direction, plan)| {
            let passing = interface_of(direction.opposite());
            let closing = view.policies.iter();
            let closing = closing.filter(move |policy| plan.closes(policy, direction));
            closing.map(move |policy| {
                let hash = hash_of(hashes, policy);
                let managed = Match::is_in(passing, interfaces_name(hash));
                let count = count.then(|| Statement::Count(mid_stream_counter()));
                let statements = [managed.into()].into_iter().chain(count);
                let drop = Rule::of(statements, End::Verdict(Verdict::Drop));
                drop.commented(Comment::new(&title(&policy.object), hash))
            })
        })
        .collect();
    (!rules.is_empty()).then(|| {
        Chain::regular(name(CHAIN))
            .commented(Comment::of("TCP of no known connection"))
            .with_rules(rules)
    })
}

/// What leads to the chain.
pub(super) fn jump() -> Rule {
    Rule::when(render::mid_stream(), Verdict::Jump(name(CHAIN)))
        .commented(Comment::of("TCP of no known connection"))
}
