//! From assertions to how they fared.

use std::collections::BTreeMap;

use picket_cluster::{Semantics, Snapshot};
use picket_engine::Engine;
use picket_policy::{Diagnostic, NetworkName, Severity};

use super::judge::{self, Wrong};
use super::wish::plan;
use super::world::World;
use super::{Assertion, codes, reach, sanity};
use crate::directory::nearest;
use crate::eval::{Answer, Evaluator};

/// How an assertion fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How many endpoints `from` names: pods, workloads that stand for theirs, addresses of nodes, and ranges of
    /// addresses outside that nothing tells apart.
    pub sources: usize,
    /// How many `to` names.
    pub destinations: usize,
    /// How many pairs are otherwise than asserted, once for each thing that is asserted of them; of an assertion about
    /// steps, how many destinations are reached.
    pub failed: usize,
    /// The first of these.
    pub failures: Vec<Failure>,
}

impl Outcome {
    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.failed == 0
    }
}

/// A connection that is otherwise than asserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whether it should be allowed.
    pub expected: bool,
    /// The connections that lead from the source to the destination; one, unless steps are allowed. Each is an answer
    /// of `eval`, with the rules that decide.
    pub steps: Vec<Answer>,
}

/// Judges every assertion, or says what is wrong with some of them. Those that name no network are about the one that
/// `snapshot` is.
///
/// # Errors
/// When an assertion names nothing, can never hold or never fail, or cannot hold together with another. Then none is
/// judged: a file of assertions is one statement.
pub fn run(
    snapshot: &Snapshot,
    semantics: &Semantics,
    assertions: &[Assertion],
) -> Result<Vec<Outcome>, Vec<Diagnostic>> {
    let mut by_network: BTreeMap<Option<&NetworkName>, Vec<usize>> = BTreeMap::new();
    for (at, assertion) in assertions.iter().enumerate() {
        let network = assertion.network.as_ref().map(|(network, _)| network);
        by_network.entry(network).or_default().push(at);
    }
    let known = snapshot.known_networks();
    let mut problems: Vec<_> = assertions
        .iter()
        .filter_map(|assertion| assertion.network.as_ref())
        .filter(|(network, _)| !known.contains(network))
        .map(|(network, span)| unknown_network(network, &known).mark(span.clone(), ""))
        .collect();
    let mut outcomes: Vec<Option<Outcome>> = vec![None; assertions.len()];
    for (network, places) in by_network {
        let own: Vec<_> = places.iter().filter_map(|&at| assertions.get(at)).collect();
        let judged = match network {
            None => on_network(snapshot, semantics, &own),
            Some(network) if known.contains(network) => on_network(&snapshot.on(network), semantics, &own),
            Some(_) => continue,
        };
        match judged {
            Ok(judged) => {
                for (at, outcome) in places.into_iter().zip(judged) {
                    outcomes
                        .get_mut(at)
                        .into_iter()
                        .for_each(|place| *place = Some(outcome.clone()));
                }
            }
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() {
        return Ok(outcomes.into_iter().flatten().collect());
    }
    // A set that names nothing is wrong once, however often it is used.
    problems.sort_by_key(|problem| problem.labels.first().map(|label| label.span.clone()));
    problems.dedup();
    Err(problems)
}

fn unknown_network(network: &NetworkName, known: &std::collections::BTreeSet<NetworkName>) -> Diagnostic {
    let (names, _) = nearest(&network.to_string(), known.iter().map(ToString::to_string), 3);
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let note = match names.len() {
        0 => "nothing in the input is on a secondary network".to_owned(),
        _ => format!("there are {}", names.join(", ")),
    };
    Diagnostic::new(
        codes::NOTHING,
        Severity::Error,
        format!("there is no network `{network}`"),
    )
    .note(note)
}

/// Judges assertions about the network that a snapshot is.
fn on_network(
    snapshot: &Snapshot,
    semantics: &Semantics,
    assertions: &[&Assertion],
) -> Result<Vec<Outcome>, Vec<Diagnostic>> {
    let engine = Engine::compile(snapshot, semantics.clone());
    let world = World::new(snapshot, engine.program(), assertions);
    let evaluator = Evaluator::new(snapshot, engine.program());
    let (mut plans, mut problems) = (Vec::new(), Vec::new());
    for assertion in assertions {
        match plan(&world, evaluator.directory(), assertion) {
            Ok(plan) => {
                problems.extend(sanity::impossible(&world, &plan));
                plans.push(plan);
            }
            Err(found) => problems.extend(found),
        }
    }
    problems.extend(sanity::contradictions(&world, &plans));
    if !problems.is_empty() {
        return Err(problems);
    }
    let answer = |wrong: &Wrong| judge::answer(&world, &evaluator, wrong);
    let judged = judge::judge(&world, &plans);
    let outcomes = plans.iter().zip(judged).map(|(plan, wrongs)| {
        let (failed, failures) = if plan.has_steps() {
            let (reached, ways) = reach::ways(&world, plan);
            let ways = ways.iter().map(|way| Failure {
                expected: false,
                steps: way.steps.iter().filter_map(answer).collect(),
            });
            (reached, ways.collect())
        } else {
            let first = wrongs.first.iter().filter_map(|wrong| {
                let steps = vec![answer(wrong)?];
                Some(Failure {
                    expected: wrong.expected,
                    steps,
                })
            });
            (wrongs.count, first.collect())
        };
        Outcome {
            sources: plan.from.list().len(),
            destinations: plan.to.list().len(),
            failed,
            failures,
        }
    });
    Ok(outcomes.collect())
}
