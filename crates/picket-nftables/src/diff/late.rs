//! What comes to sets by which rules that go drop what is not there.
//!
//! A packet that is just judged goes on by the rules that were, and finds the elements that are. Where those drop what a set does not
//! hold, they would let it pass because of an element that comes, and it does not meet the rules that judge it from then on. Therefore such an
//! element comes when these are in force.

use std::collections::BTreeSet;

use super::Operation;
use crate::model::{End, Match, Name, Relation, Rule, Statement, Table, Verdict};

/// The sets whose new elements come at last: no rule from then on looks them up, or only drops what is not there, so that less passes
/// without them.
pub(super) fn late<'p>(observed: &Table, operations: &'p [Operation]) -> BTreeSet<&'p Name> {
    let added = operations.iter().filter_map(|operation| match operation {
        Operation::AddElements(name, _) => Some(name),
        _ => None,
    });
    let mut late: BTreeSet<&Name> = added.collect();
    let flushed = operations.iter().filter_map(|operation| match operation {
        Operation::Flush(name) => Some(name),
        _ => None,
    });
    let flushed: BTreeSet<&Name> = flushed.collect();
    if late.is_empty() || flushed.is_empty() {
        return BTreeSet::new();
    }
    let (gone, kept): (Vec<_>, Vec<_>) = observed
        .chains()
        .iter()
        .partition(|chain| flushed.contains(&chain.name));
    let gone = gone.into_iter().flat_map(|chain| &chain.rules);
    let asked: BTreeSet<&Name> = gone.flat_map(asked_to_be_without).collect();
    late.retain(|set| asked.contains(set));
    if late.is_empty() {
        return late;
    }
    let kept = kept.into_iter().flat_map(|chain| &chain.rules);
    let made = operations.iter().flat_map(|operation| match operation {
        Operation::AddRules(_, rules) => rules.as_slice(),
        _ => &[],
    });
    for rule in kept.chain(made) {
        for (set, _) in lookups(rule).filter(|(_, relation)| !drops_others(rule, *relation)) {
            late.remove(set);
        }
    }
    late
}

/// The sets in which a rule looks something up, and whether it is to be there.
fn lookups(rule: &Rule) -> impl Iterator<Item = (&Name, Relation)> {
    rule.statements.iter().filter_map(|statement| match statement {
        Statement::Match(Match::Lookup { set, relation, .. }) => Some((set, *relation)),
        _ => None,
    })
}

fn asked_to_be_without(rule: &Rule) -> impl Iterator<Item = &Name> {
    lookups(rule).filter_map(|(set, relation)| drops_others(rule, relation).then_some(set))
}

/// Whether a rule drops what it does not find where it looks it up so.
fn drops_others(rule: &Rule, relation: Relation) -> bool {
    relation == Relation::IsNot && rule.end == End::Verdict(Verdict::Drop)
}
