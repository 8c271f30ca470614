//! A plan in transactions, for the packets that are on their way while one of them comes into force.
//!
//! Such a packet goes on by the rules that were, and
//! finds in sets and maps the elements that are. An element that leads to a chain which came with it leads that packet to a
//! chain which was not, and so has no rules: it falls off the end, and passes. Therefore chains that something old will
//! lead to are made first, with their rules and with what these use, in a transaction of their own. So are the numbers that keep a
//! packet from being taken for somebody else's between two lookups (`renumber.rs`), and the chains that keep it from being judged by
//! what is then said of others (`detour.rs`), and what keeps one from being judged by two states (`again.rs`). What only rules that go
//! would let it pass by comes last (`late.rs`).
//!
//! What is made first and is much comes in several transactions (`portion.rs`).

use picket_dataplane::Plan;

use super::again::Again;
use super::course::Course;
use super::detour::Detours;
use super::late::late;
use super::linger::Lingering;
use super::portion::{portions, weight};
use super::renumber::Renumbering;
use super::{Operation, References};
use crate::model::{Map, Name, Rule, Table};

/// A plan in several transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Make what nothing leads to yet, and change the meaning of nothing that is there.
    pub first: Vec<Plan<Operation>>,
    /// All the rest. When it is in force so is what the plan is for.
    pub rest: Plan<Operation>,
    /// Takes away what nothing leads to any more, and adds what no rule asks for any more.
    pub last: Plan<Operation>,
    /// Ends that sources are judged once more (`again.rs`), when no packet is on its way that was judged before the rest came into
    /// force.
    pub end: Plan<Operation>,
    /// How many transactions of the first stage no packet notices.
    pub unmet: usize,
    /// What takes the numbers back that the first stage gives.
    back: Vec<Operation>,
}

impl Stages {
    /// The stages of a plan for a table that is as `observed`; `None` where one transaction does it. Those of the first stage
    /// make at most `portion` objects, rules and elements each, such as [`super::PORTION`].
    pub fn of(observed: Option<&Table>, plan: &Plan<Operation>, portion: usize) -> Option<Self> {
        let course = observed.map_or_else(Course::default, |table| Course::of(table, plan));
        let (numbers, lingering) = (Renumbering::of(&course), Lingering::of(&course));
        let detours = observed.map(|table| Detours::of(table, &course, &numbers));
        let detours = detours.unwrap_or_default();
        let early = early(plan);
        let operations = plan.operations();
        let again = observed
            .map(|table| Again::of(table, &course, operations))
            .unwrap_or_default();
        let makes = |operation: &&Operation| is_early(&early, operation);
        let comes_first = operations.iter().any(|operation| leads_in(&early, operation))
            || operations.iter().filter(makes).map(weight).sum::<usize>() > portion;
        let is_prepared = comes_first || !numbers.there.is_empty() || !detours.made.is_empty();
        let late = observed.map(|table| late(table, operations)).unwrap_or_default();
        if !is_prepared && lingering.kept.is_empty() && again.ended.is_none() && late.is_empty() {
            return None;
        }
        let (first, rest): (Vec<_>, Vec<_>) = operations
            .iter()
            .cloned()
            .partition(|operation| comes_first && is_early(&early, operation));
        let leads_around = !detours.made.is_empty();
        let mut first = portions(first.into_iter().chain(detours.made), portion);
        let back = [numbers.back, detours.back, again.back()].concat();
        // Who is judged once more is judged at least as before: that alone no packet notices.
        let is_noticed = !numbers.there.is_empty() || !detours.there.is_empty();
        let there = numbers.there.into_iter().chain(detours.there).chain(again.there);
        let mut there = there.peekable();
        if there.peek().is_some() {
            // What leads to a chain comes after it.
            let last = first.pop_if(|_| !leads_around);
            let last = last.iter().flat_map(|plan| plan.operations().iter().cloned());
            first.push(last.chain(there).collect());
        }
        let rest = numbers.freed.into_iter().chain(detours.emptied).chain(rest);
        let rest = rest.chain(lingering.kept).chain(detours.gone);
        let is_late = |operation: &Operation| match operation {
            Operation::AddElements(set, _) => late.contains(set),
            _ => false,
        };
        let (at_last, rest): (Vec<_>, Vec<_>) = rest
            .filter(|operation| Some(operation) != again.ended.as_ref())
            .partition(is_late);
        let rest = rest.into_iter().collect();
        let last = numbers.clean.into_iter().chain(lingering.clean).chain(at_last);
        Some(Self {
            unmet: first.len() - usize::from(is_noticed),
            first,
            rest,
            last: last.collect(),
            end: again.ended.into_iter().collect(),
            back,
        })
    }

    /// The transactions, in order.
    pub fn all(&self) -> impl Iterator<Item = &Plan<Operation>> {
        self.before_end()
            .chain([&self.end].into_iter().filter(|stage| !stage.is_empty()))
    }

    /// Those that do not wait for the end.
    pub fn before_end(&self) -> impl Iterator<Item = &Plan<Operation>> {
        let rest = [&self.rest, &self.last].into_iter();
        self.first.iter().chain(rest).filter(|stage| !stage.is_empty())
    }

    /// Takes away again what the first so many transactions of the first stage have made.
    pub fn undo(&self, done: usize) -> Plan<Operation> {
        let made = || self.first.iter().take(done).flat_map(Plan::operations);
        let each = |undo: fn(&Operation) -> Option<Operation>| made().filter_map(undo);
        let rules = each(|operation| match operation {
            Operation::AddRules(name, _) => Some(Operation::Flush(name.clone())),
            _ => None,
        });
        let maps = each(|operation| match operation {
            Operation::AddMap(map) => Some(Operation::DeleteMap(map.name().clone())),
            _ => None,
        });
        let rest = each(|operation| match operation {
            Operation::AddSet(set) => Some(Operation::DeleteSet(set.name().clone())),
            Operation::AddChain { name, .. } => Some(Operation::DeleteChain(name.clone())),
            Operation::AddCounter(counter) => Some(Operation::DeleteCounter(counter.name.clone())),
            _ => None,
        });
        let numbers = self.back.iter().filter(|_| done >= self.first.len()).cloned();
        numbers.chain(rules).chain(maps).chain(rest).collect()
    }
}

/// What of a plan can be made first: counters, sets and maps, and chains that no packet enters by itself, with all that their
/// rules use.
fn early(plan: &Plan<Operation>) -> References<'_> {
    let mut early = References::default();
    let (mut gone, mut made) = (References::default(), References::default());
    let mut rules: Vec<(&Name, &[Rule])> = Vec::new();
    let mut maps: Vec<&Map> = Vec::new();
    for operation in plan.operations() {
        match operation {
            Operation::DeleteMap(name) | Operation::DeleteSet(name) => drop(gone.containers.insert(name)),
            Operation::DeleteChain(name) => drop(gone.chains.insert(name)),
            Operation::DeleteCounter(name) => drop(gone.counters.insert(name)),
            Operation::AddCounter(counter) => drop(made.counters.insert(&counter.name)),
            Operation::AddChain { name, base, .. } => {
                made.chains.insert(name);
                if base.is_none() {
                    early.chains.insert(name);
                }
            }
            Operation::AddSet(set) => drop(made.containers.insert(set.name())),
            Operation::AddMap(map) => {
                made.containers.insert(map.name());
                maps.push(map);
            }
            Operation::AddRules(name, added) => rules.push((name, added)),
            _ => {}
        }
    }
    // What is made anew can only be made once it is gone; and so can what uses it.
    early.containers = made.containers.difference(&gone.containers).copied().collect();
    early.counters = made.counters.difference(&gone.counters).copied().collect();
    early.chains.retain(|name| !gone.chains.contains(name));
    loop {
        let late = References {
            chains: made.chains.difference(&early.chains).copied().collect(),
            containers: made.containers.difference(&early.containers).copied().collect(),
            counters: made.counters.difference(&early.counters).copied().collect(),
        };
        let before = (early.chains.len(), early.containers.len());
        for (name, added) in &rules {
            if added.iter().any(|rule| late.used_by(rule)) {
                early.chains.remove(name);
            }
        }
        for map in &maps {
            if map.elements().values().any(|datum| late.targeted_by(datum)) {
                early.containers.remove(map.name());
            }
        }
        if (early.chains.len(), early.containers.len()) == before {
            return early;
        }
    }
}

/// Whether an operation of a plan leads from what is not made first to a chain that is.
fn leads_in(early: &References<'_>, operation: &Operation) -> bool {
    match operation {
        Operation::AddMapElements(_, pairs) => pairs.iter().any(|(_, datum)| early.targeted_by(datum)),
        Operation::AddMap(map) if !early.containers.contains(map.name()) => {
            map.elements().values().any(|datum| early.targeted_by(datum))
        }
        // A rule is as old or as new as the packet sees its chain; what it looks up is as it is.
        _ => false,
    }
}

fn is_early(early: &References<'_>, operation: &Operation) -> bool {
    match operation {
        Operation::AddCounter(counter) => early.counters.contains(&counter.name),
        Operation::AddChain { name, .. } | Operation::AddRules(name, _) => early.chains.contains(name),
        Operation::AddSet(set) => early.containers.contains(set.name()),
        Operation::AddMap(map) => early.containers.contains(map.name()),
        _ => false,
    }
}
