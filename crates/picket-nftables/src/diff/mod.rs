//! The fewest operations from one table to another, in an order that holds within one transaction.
//!
//! Rules have no names, so the unit of change is a chain: new rules at its end are added, anything else rewrites it.
//! Since nothing holds before the transaction is committed, a rewritten chain is never seen empty.

mod again;
mod apply;
mod course;
mod detour;
mod late;
mod linger;
#[cfg(feature = "client")]
mod mix;
mod portion;
mod references;
mod renumber;
mod stage;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_dataplane::{Objects, Plan};

pub(crate) use again::{ANYTHING, CHANGING};
#[cfg(feature = "client")]
pub(crate) use again::{begun, end, is_end};
pub use apply::Refusal;
#[cfg(feature = "client")]
pub use mix::mixes;
pub use portion::PORTION;
use references::{Reference, References};
pub use stage::Stages;

use crate::model::{
    Base, Chain, Comment, Counter, Datatype, Datum, Key, Map, MapType, Name, Policy, Rule, Set, Table,
};

/// One change to a table, in the order in which a plan has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates the table, or replaces all of it.
    Replace(Arc<Table>),
    /// Removes a table.
    Delete(Name),
    /// Removes all rules of a chain.
    Flush(Name),
    /// Removes elements of a set or map.
    DeleteElements(Name, Vec<Key>),
    /// Removes a map that nothing uses.
    DeleteMap(Name),
    /// Removes a set that nothing uses.
    DeleteSet(Name),
    /// Removes a chain that is empty and that nothing leads to.
    DeleteChain(Name),
    /// Removes a counter that nothing uses.
    DeleteCounter(Name),
    /// Creates a counter.
    AddCounter(Counter),
    /// Creates a chain; its rules come later.
    AddChain {
        /// Its name.
        name: Name,
        /// Where packets enter it by themselves.
        base: Option<Base>,
        /// What it is for.
        comment: Option<Comment>,
    },
    /// Changes what a base chain does with packets that no rule decides.
    SetPolicy(Name, Base),
    /// Creates a set with its elements.
    AddSet(Set),
    /// Creates a map with its elements.
    AddMap(Map),
    /// Adds elements to a set.
    AddElements(Name, Vec<Key>),
    /// Adds elements to a map.
    AddMapElements(Name, Vec<(Key, Datum)>),
    /// Adds rules at the end of a chain.
    AddRules(Name, Vec<Rule>),
}

impl Objects for Table {
    type Operation = Operation;
    type Refusal = Refusal;

    fn difference(observed: Option<&Self>, desired: &Self) -> Plan<Operation> {
        let replace = || Operation::Replace(Arc::new(desired.clone()));
        match observed {
            None => Plan::from_iter([replace()]),
            Some(old) if old.name() != desired.name() => {
                Plan::from_iter([Operation::Delete(old.name().clone()), replace()])
            }
            // The kernel cannot change the comment of a table.
            Some(old) if old.comment() != desired.comment() => Plan::from_iter([replace()]),
            Some(old) => Difference::new(old, desired).plan(),
        }
    }

    fn applied(observed: Option<&Self>, plan: &Plan<Operation>) -> Result<Self, Refusal> {
        apply::applied(observed, plan)
    }
}

/// A set or a map: they share their names.
#[derive(Clone, Copy)]
enum Container<'a> {
    Set(&'a Set),
    Map(&'a Map),
}

impl<'a> Container<'a> {
    fn all(table: &'a Table) -> BTreeMap<&'a Name, Self> {
        let sets = table.sets().iter().map(|set| (set.name(), Self::Set(set)));
        sets.chain(table.maps().iter().map(|map| (map.name(), Self::Map(map))))
            .collect()
    }

    /// What can only be changed by making it anew.
    fn header(self) -> (&'a [Datatype], Option<MapType>, bool, Option<&'a Comment>) {
        match self {
            Self::Set(set) => (set.key(), None, set.interval(), set.comment()),
            Self::Map(map) => (map.key(), Some(map.gives()), map.interval(), map.comment()),
        }
    }
}

/// Two tables, and what of the old one must be made anew because the kernel cannot change it.
struct Difference<'a> {
    old: &'a Table,
    new: &'a Table,
    old_chains: BTreeMap<&'a Name, &'a Chain>,
    old_containers: BTreeMap<&'a Name, Container<'a>>,
    new_containers: BTreeMap<&'a Name, Container<'a>>,
    /// What has to go: gone or made anew.
    leaving: References<'a>,
}

impl<'a> Difference<'a> {
    fn new(old: &'a Table, new: &'a Table) -> Self {
        let chains = |table: &'a Table| table.chains().iter().map(|chain| (&chain.name, chain)).collect();
        let (old_chains, new_chains): (BTreeMap<_, &Chain>, BTreeMap<_, &Chain>) = (chains(old), chains(new));
        let (old_containers, new_containers) = (Container::all(old), Container::all(new));
        let new_counters: BTreeMap<_, _> = new
            .counters()
            .iter()
            .map(|counter| (&counter.name, counter))
            .collect();
        let leaving = References {
            chains: old_chains
                .iter()
                .filter(|(name, chain)| {
                    new_chains
                        .get(*name)
                        .is_none_or(|other| !changeable(chain, other))
                })
                .map(|(name, _)| *name)
                .collect(),
            containers: old_containers
                .iter()
                .filter(|(name, one)| {
                    new_containers
                        .get(*name)
                        .is_none_or(|other| one.header() != other.header())
                })
                .map(|(name, _)| *name)
                .collect(),
            counters: old
                .counters()
                .iter()
                .filter(|counter| new_counters.get(&counter.name) != Some(counter))
                .map(|counter| &counter.name)
                .collect(),
        };
        Self {
            old,
            new,
            old_chains,
            old_containers,
            new_containers,
            leaving,
        }
    }

    fn plan(&self) -> Plan<Operation> {
        let (removed_elements, added_elements) = self.elements();
        let (flushed, added_rules) = self.rules();
        let leaving = &self.leaving;
        let stays = |name: &Name, old: &BTreeSet<&Name>, leaving: &BTreeSet<&Name>| {
            old.contains(name) && !leaving.contains(name)
        };
        let old_containers: BTreeSet<&Name> = self.old_containers.keys().copied().collect();
        let old_counters: BTreeSet<&Name> = self.old.counters().iter().map(|counter| &counter.name).collect();
        let mut plan: Vec<Operation> = flushed
            .into_iter()
            .map(|name| Operation::Flush(name.clone()))
            .collect();
        plan.extend(removed_elements);
        let left = |is_map: bool| {
            leaving.containers.iter().filter(move |name| {
                matches!(self.old_containers.get(*name), Some(Container::Map(_))) == is_map
            })
        };
        plan.extend(left(true).map(|&name| Operation::DeleteMap(name.clone())));
        plan.extend(left(false).map(|&name| Operation::DeleteSet(name.clone())));
        plan.extend(
            leaving
                .chains
                .iter()
                .map(|&name| Operation::DeleteChain(name.clone())),
        );
        plan.extend(
            leaving
                .counters
                .iter()
                .map(|&name| Operation::DeleteCounter(name.clone())),
        );
        let counters = self.new.counters().iter();
        plan.extend(
            counters
                .filter(|counter| !stays(&counter.name, &old_counters, &leaving.counters))
                .map(|counter| Operation::AddCounter(counter.clone())),
        );
        plan.extend(self.new.chains().iter().filter_map(|chain| self.chain(chain)));
        let sets = self
            .new
            .sets()
            .iter()
            .filter(|set| !stays(set.name(), &old_containers, &leaving.containers));
        plan.extend(sets.map(|set| Operation::AddSet(set.clone())));
        let maps = self
            .new
            .maps()
            .iter()
            .filter(|map| !stays(map.name(), &old_containers, &leaving.containers));
        plan.extend(maps.map(|map| Operation::AddMap(map.clone())));
        plan.extend(added_elements);
        plan.extend(added_rules);
        plan.into_iter().collect()
    }

    /// What makes a chain, or gives it its policy.
    fn chain(&self, new: &Chain) -> Option<Operation> {
        let old = self
            .old_chains
            .get(&new.name)
            .filter(|_| !self.leaving.chains.contains(&new.name));
        let Some(old) = old else {
            let Chain {
                name, base, comment, ..
            } = new.clone();
            return Some(Operation::AddChain { name, base, comment });
        };
        let base = new.base.filter(|_| old.base != new.base)?;
        Some(Operation::SetPolicy(new.name.clone(), base))
    }

    /// The chains to empty, and the rules to add.
    fn rules(&self) -> (Vec<&'a Name>, Vec<Operation>) {
        let mut flushed = Vec::new();
        for (&name, old) in &self.old_chains {
            if self.leaving.chains.contains(name) && !old.rules.is_empty() {
                flushed.push(name);
            }
        }
        let mut added = Vec::new();
        for new in self.new.chains() {
            let kept = self
                .old_chains
                .get(&new.name)
                .filter(|_| !self.leaving.chains.contains(&new.name));
            let old = kept.map_or([].as_slice(), |old| &old.rules);
            let untouched = old.iter().all(|rule| !self.leaving.used_by(rule));
            let rest = match new.rules.strip_prefix(old) {
                Some(rest) if untouched => rest,
                _ => {
                    flushed.push(&new.name);
                    &new.rules
                }
            };
            if !rest.is_empty() {
                added.push(Operation::AddRules(new.name.clone(), rest.to_vec()));
            }
        }
        (flushed, added)
    }

    /// Whether an element of a map leads to a chain that must be made anew.
    fn leads_to_leaving(&self, map: &Map) -> bool {
        let mut data = map.elements().values();
        !self.leaving.chains.is_empty() && data.any(|datum| self.leaving.targeted_by(datum))
    }

    /// The elements of `map` that `other` has not, or that lead to a chain that must be made anew.
    fn differing<'m>(&self, map: &'m Map, other: &'m Map) -> impl Iterator<Item = (&'m Key, &'m Datum)> {
        // Both are sorted: what `other` has is found in passing.
        let mut others = other.elements().iter().peekable();
        map.elements().iter().filter(move |&(key, datum)| {
            while others.next_if(|(other, _)| *other < key).is_some() {}
            others.peek() != Some(&(key, datum)) || self.leaving.targeted_by(datum)
        })
    }

    /// The elements to remove from sets and maps that stay, and those to add.
    fn elements(&self) -> (Vec<Operation>, Vec<Operation>) {
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        let staying = self
            .old_containers
            .iter()
            .filter(|(name, _)| !self.leaving.containers.contains(*name));
        for (&name, old) in staying {
            match (old, self.new_containers.get(name)) {
                (Container::Set(old), Some(Container::Set(new))) => {
                    let (gone, come) = changed(old.elements(), new.elements());
                    removed.extend((!gone.is_empty()).then(|| Operation::DeleteElements(name.clone(), gone)));
                    added.extend((!come.is_empty()).then(|| Operation::AddElements(name.clone(), come)));
                }
                (Container::Map(old), Some(Container::Map(new)))
                    if old.elements() == new.elements() && !self.leads_to_leaving(old) => {}
                (Container::Map(old), Some(Container::Map(new))) => {
                    let gone = self.differing(old, new).map(|(key, _)| key.clone());
                    let come = self
                        .differing(new, old)
                        .map(|(key, datum)| (key.clone(), datum.clone()));
                    let (gone, come): (Vec<Key>, Vec<_>) = (gone.collect(), come.collect());
                    removed.extend((!gone.is_empty()).then(|| Operation::DeleteElements(name.clone(), gone)));
                    added.extend((!come.is_empty()).then(|| Operation::AddMapElements(name.clone(), come)));
                }
                // INVARIANT: a set that becomes a map has another header, so that it does not stay.
                _ => {}
            }
        }
        (removed, added)
    }
}

/// The elements of `old` alone and those of `new` alone. In one pass, for most are in both.
fn changed(old: &BTreeSet<Key>, new: &BTreeSet<Key>) -> (Vec<Key>, Vec<Key>) {
    let (mut gone, mut come) = (Vec::new(), Vec::new());
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    while let Some((before, now)) = old.peek().zip(new.peek()) {
        match before.cmp(now) {
            Ordering::Less => gone.extend(old.next().cloned()),
            Ordering::Greater => come.extend(new.next().cloned()),
            Ordering::Equal => {
                old.next();
                new.next();
            }
        }
    }
    gone.extend(old.cloned());
    come.extend(new.cloned());
    (gone, come)
}

/// Whether a chain can become another without being made anew: only its rules and its policy may change.
fn changeable(old: &Chain, new: &Chain) -> bool {
    let place = |chain: &Chain| {
        chain.base.map(|base| Base {
            policy: Policy::Accept,
            ..base
        })
    };
    old.comment == new.comment && place(old) == place(new)
}
