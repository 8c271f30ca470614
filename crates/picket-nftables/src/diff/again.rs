//! Packets that are judged at one end by what was, and at the other by what is.
//!
//! Where a chain judges who sends a packet and then who receives it, a transaction between the two may let one pass that is denied
//! before it and after it: its source might send it before, and its destination receives it now. Therefore such a chain looks at last
//! into the set [`CHANGING`], which holds nothing but while such a transaction comes into force: with an element in it, which comes in a
//! transaction before and goes when no packet from before is on its way any more, the source is judged once more. What passes then one
//! state allows at both ends: the one before, where the destination had been judged already, and else the one that follows.

use std::collections::{BTreeMap, BTreeSet};
#[cfg(feature = "client")]
use std::sync::Arc;

#[cfg(feature = "client")]
use picket_dataplane::Plan;
use picket_net::Family;

use super::Operation;
#[cfg(feature = "client")]
use super::Refusal;
use super::course::{Course, given, number};
use super::detour::asked;
use crate::model::{Chain, Datum, End, Field, Key, Map, Match, Name, Rule, Set, Statement, Table};

/// The set that has sources judged once more while [`ANYTHING`] is in it.
pub(crate) const CHANGING: &str = "changing";

/// What is looked up in it.
pub(crate) const ANYTHING: u32 = 0;

/// What has sources judged again while a plan comes into force.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// What begins it; nothing where that has been done for a plan before.
    pub(super) there: Vec<Operation>,
    /// What ends it.
    pub(super) ended: Option<Operation>,
}

impl Again {
    /// What a plan of these operations needs for a table. What ends it is no part of a plan that has more.
    pub(super) fn of(observed: &Table, course: &Course<'_>, operations: &[Operation]) -> Self {
        let Some(set) = changing(observed) else {
            return Self::default();
        };
        let end = ending(set);
        // With the set goes all that judges anybody.
        let goes = operations.contains(&Operation::DeleteSet(set.name().clone()));
        if goes || operations == std::slice::from_ref(&end) {
            return Self::default();
        }
        match set.elements().is_empty() {
            true if Ends::of(observed, course, set).may_mix(operations) => Self {
                there: vec![Operation::AddElements(set.name().clone(), anything())],
                ended: Some(end),
            },
            // Packets may be on their way that were judged before a change which has just come into force.
            false if operations.contains(&end) => Self {
                there: Vec::new(),
                ended: Some(end),
            },
            _ => Self::default(),
        }
    }

    /// What takes back what has begun it.
    pub(super) fn back(&self) -> Vec<Operation> {
        let ended = self.ended.iter().filter(|_| !self.there.is_empty());
        ended.cloned().collect()
    }
}

fn changing(table: &Table) -> Option<&Set> {
    table.sets().iter().find(|set| set.name().as_str() == CHANGING)
}

fn anything() -> Vec<Key> {
    vec![number(ANYTHING)]
}

fn ending(set: &Set) -> Operation {
    Operation::DeleteElements(set.name().clone(), anything())
}

/// What ends that sources are judged once more in a table, if they are.
#[cfg(feature = "client")]
pub(crate) fn end(table: &Table) -> Option<Plan<Operation>> {
    let set = changing(table).filter(|set| !set.elements().is_empty())?;
    Some(Plan::from_iter([ending(set)]))
}

/// Whether a plan does nothing but end that.
#[cfg(feature = "client")]
pub(crate) fn is_end(plan: &Plan<Operation>) -> bool {
    match plan.operations() {
        [Operation::DeleteElements(name, keys)] => name.as_str() == CHANGING && *keys == anything(),
        _ => false,
    }
}

/// The same table while sources are judged once more in it.
#[cfg(feature = "client")]
pub(crate) fn begun(table: Arc<Table>) -> Result<Arc<Table>, Refusal> {
    let Some(set) = changing(&table).filter(|set| set.elements().is_empty()) else {
        return Ok(table);
    };
    let begin = Operation::AddElements(set.name().clone(), anything());
    let begun = Arc::unwrap_or_clone(table).carried(&Plan::from_iter([begin]));
    begun.map(Arc::new)
}

/// The two ends that a chain judges, and what a plan changes of them.
struct Ends<'a> {
    observed: &'a Table,
    course: &'a Course<'a>,
    /// The maps that lead to what is asked about the source.
    source: BTreeSet<&'a Name>,
    /// The same of the destination.
    destination: BTreeSet<&'a Name>,
}

/// What becomes of what a chain lets pass.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    tightens: bool,
    loosens: bool,
}

impl<'a> Ends<'a> {
    /// Those that are judged before somebody looks into this set.
    fn of(observed: &'a Table, course: &'a Course<'a>, set: &Set) -> Self {
        let (mut source, mut destination) = (BTreeSet::new(), BTreeSet::new());
        for chain in observed.chains() {
            let Some(last) = chain.rules.iter().position(|rule| looks_into(rule, set)) else {
                continue;
            };
            for rule in chain.rules.iter().take(last) {
                match &rule.end {
                    End::VerdictMap { key, map }
                        if matches!(**key, [Field::Ipv4Source | Field::Ipv6Source]) =>
                    {
                        source.insert(map);
                    }
                    End::VerdictMap { map, .. } => drop(destination.insert(map)),
                    _ => {}
                }
            }
        }
        Self {
            observed,
            course,
            source,
            destination,
        }
    }

    /// Whether some packet may lose the permission of its source and get that of its destination at once.
    fn may_mix(&self, operations: &[Operation]) -> bool {
        let rewritten = rewritten(operations);
        let are_touched = |maps: &BTreeSet<&Name>| maps.iter().any(|map| self.course.touches(map));
        let [is_source_led, is_destination_led] = [&self.source, &self.destination].map(are_touched);
        let numbering = self.course.numbering.values();
        let numbered = numbering.flat_map(|map| self.course.touched(map.name()).map(|key| (*map, key)));
        let numbered: Vec<_> = numbered.take(Family::BOTH.len() + 1).collect();
        if !numbered.is_empty() {
            let is_led = is_source_led || is_destination_led || !rewritten.is_empty();
            return is_led || !self.is_about(&numbered);
        }
        let turns = self.turns(&rewritten);
        let led = |maps: &BTreeSet<&Name>| -> BTreeSet<&Name> {
            let maps = maps.iter().filter_map(|map| self.course.leading.get(*map));
            let data = maps.flat_map(|map| map.elements().values());
            let targets = data.filter_map(|datum| match datum {
                Datum::Verdict(verdict) => verdict.target(),
                Datum::Priority(_) | Datum::Mark(_) => None,
            });
            targets.filter(|chain| turns.contains_key(chain)).collect()
        };
        let [source, destination] = [&self.source, &self.destination].map(led);
        let turn = |chain: &&Name| turns.get(*chain).copied().unwrap_or_default();
        // What leads to both is no chain of either.
        let is_common = !rewritten.is_empty() && {
            let all = led(&self.course.leading.keys().copied().collect());
            rewritten.iter().any(|chain| !all.contains(chain))
        };
        let tightens = is_common || is_source_led || source.iter().any(|chain| turn(chain).tightens);
        let loosens = is_common || is_destination_led || destination.iter().any(|chain| turn(chain).loosens);
        tightens && loosens
    }

    /// What becomes of chains.
    fn turns(&self, rewritten: &BTreeSet<&'a Name>) -> BTreeMap<&'a Name, Turn> {
        let turn = |chain: &'a Chain| {
            let is_other = rewritten.contains(&chain.name);
            let mut turn = Turn {
                tightens: is_other,
                loosens: is_other,
            };
            for map in asked(chain) {
                turn.tightens |= self.course.removed(map).next().is_some();
                turn.loosens |= self.course.added(map).next().is_some();
            }
            (&chain.name, turn)
        };
        let chains = self.observed.chains().iter().map(turn);
        chains.filter(|(_, turn)| turn.tightens || turn.loosens).collect()
    }

    /// Whether this is at most one address of each family, and all that numbers come to mean is about these and nobody else. A packet is of one
    /// family: where it is from such an address or to it, nothing changes at its other end.
    fn is_about(&self, numbered: &[(&'a Map, &'a Key)]) -> bool {
        let kinds: BTreeSet<_> = numbered.iter().map(|(map, _)| map.key()).collect();
        if kinds.len() < numbered.len() || numbered.iter().any(|(map, _)| map.interval()) {
            return false;
        }
        let own = numbered
            .iter()
            .flat_map(|&(map, address)| [map.elements().get(address), self.course.after(map, address)]);
        let own: Vec<u32> = own.flatten().filter_map(given).collect();
        let is_own = |key: &Key| own.iter().any(|own| *key == number(*own));
        let has_own = |(address, datum): (&Key, &Datum)| {
            given(datum).is_some_and(|given| own.contains(&given))
                && !numbered.iter().any(|(_, numbered)| *numbered == address)
        };
        let meanings = self.course.meanings.keys();
        let mut touched = meanings.flat_map(|map| self.course.touched(map)).peekable();
        let mut numbering = self.course.numbering.values();
        touched.peek().is_none()
            || touched.all(is_own) && !numbering.any(|map| map.elements().iter().any(has_own))
    }
}

fn looks_into(rule: &Rule, set: &Set) -> bool {
    let mut statements = rule.statements.iter();
    statements.any(|statement| matches!(statement, Statement::Match(Match::Lookup { set: name, .. }) if name == set.name()))
}

/// The chains that are there and get other rules.
fn rewritten(operations: &[Operation]) -> BTreeSet<&Name> {
    let mut made = BTreeSet::new();
    let chains = operations.iter().filter_map(|operation| match operation {
        Operation::AddChain { name, .. } => {
            made.insert(name);
            None
        }
        Operation::Flush(name) | Operation::AddRules(name, _) => Some(name),
        _ => None,
    });
    let mut rewritten: BTreeSet<&Name> = chains.collect();
    rewritten.retain(|chain| !made.contains(chain));
    rewritten
}
