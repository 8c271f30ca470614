//! What a table is after a plan, operation by operation, refusing what the kernel refuses.

use picket_dataplane::Plan;

use super::{Operation, Reference};
use crate::model::{Chain, Draft, Key, Map, ModelError, Name, Set, Table};

/// Why the kernel would refuse an operation; it then refuses the whole transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no table yet.
    #[error("there is no table")]
    NoTable,
    /// An object that does not exist.
    #[error("`{0}` does not exist")]
    Missing(Name),
    /// An object that exists already.
    #[error("`{0}` exists already")]
    Exists(Name),
    /// An object that something else still uses.
    #[error("`{0}` is still in use")]
    Busy(Name),
    /// What came of it is no table.
    #[error(transparent)]
    Model(#[from] ModelError),
}

pub(super) fn applied(observed: Option<&Table>, plan: &Plan<Operation>) -> Result<Table, Refusal> {
    let mut table = observed.cloned().map(Table::into_draft);
    carry_out(&mut table, plan, check)?;
    Ok(table.ok_or(Refusal::NoTable)?.check()?)
}

impl Table {
    /// The table after a plan that the kernel has carried out on it. What it has seen to is not checked again: that names which
    /// are used exist, and that nothing uses what goes.
    ///
    /// # Errors
    /// When the plan changes what is not there, so that it was another table.
    pub fn carried(self, plan: &Plan<Operation>) -> Result<Self, Refusal> {
        let mut table = Some(self.into_draft());
        carry_out(&mut table, plan, |_, _| Ok(()))?;
        table.map(Draft::part).ok_or(Refusal::NoTable)
    }
}

fn carry_out(
    table: &mut Option<Draft>,
    plan: &Plan<Operation>,
    check: impl Fn(&Draft, &Operation) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    for operation in plan.operations() {
        match (operation, &mut *table) {
            (Operation::Replace(new), table) => *table = Some(Table::clone(new).into_draft()),
            (Operation::Delete(name), table) => {
                if table.take().is_none_or(|old| old.name != *name) {
                    return Err(Refusal::Missing(name.clone()));
                }
            }
            (_, None) => return Err(Refusal::NoTable),
            (operation, Some(table)) => {
                check(table, operation)?;
                apply(table, operation)?;
            }
        }
    }
    Ok(())
}

/// Refuses what cannot be because of the other objects of the table.
fn check(table: &Draft, operation: &Operation) -> Result<(), Refusal> {
    match operation {
        Operation::DeleteMap(name) | Operation::DeleteSet(name) => unused(table, Reference::Container(name)),
        Operation::DeleteChain(name) => unused(table, Reference::Chain(name)),
        Operation::DeleteCounter(name) => unused(table, Reference::Counter(name)),
        Operation::AddCounter(counter) => absent(&table.counters, &counter.name, |one| &one.name),
        Operation::AddChain { name, .. } => absent(&table.chains, name, |one| &one.name),
        Operation::AddSet(set) => no_container(table, set.name()),
        Operation::AddMap(map) => {
            no_container(table, map.name())?;
            all_exist(table, map.elements().values().filter_map(Reference::led_to))
        }
        Operation::AddMapElements(_, added) => all_exist(
            table,
            added.iter().filter_map(|(_, datum)| Reference::led_to(datum)),
        ),
        Operation::AddRules(_, rules) => all_exist(table, rules.iter().flat_map(Reference::of)),
        _ => Ok(()),
    }
}

fn apply(table: &mut Draft, operation: &Operation) -> Result<(), Refusal> {
    match operation {
        // INVARIANT: handled where there may be no table.
        Operation::Replace(_) | Operation::Delete(_) => {}
        Operation::Flush(name) => chain(table, name)?.rules.clear(),
        Operation::DeleteElements(name, keys) => delete_elements(table, name, keys)?,
        Operation::DeleteMap(name) => drop(take(&mut table.maps, name, Map::name)?),
        Operation::DeleteSet(name) => drop(take(&mut table.sets, name, Set::name)?),
        Operation::DeleteChain(name) => {
            let gone = take(&mut table.chains, name, |chain| &chain.name)?;
            if !gone.rules.is_empty() {
                return Err(Refusal::Busy(name.clone()));
            }
        }
        Operation::DeleteCounter(name) => drop(take(&mut table.counters, name, |counter| &counter.name)?),
        Operation::AddCounter(counter) => table.counters.push(counter.clone()),
        Operation::AddChain { name, base, comment } => table.chains.push(Chain {
            name: name.clone(),
            base: *base,
            comment: comment.clone(),
            rules: Vec::new(),
        }),
        Operation::SetPolicy(name, base) => chain(table, name)?.base = Some(*base),
        Operation::AddSet(set) => table.sets.push(set.clone()),
        Operation::AddMap(map) => table.maps.push(map.clone()),
        Operation::AddElements(name, keys) => {
            let are_new = find(&mut table.sets, name, Set::name)?.insert(keys)?;
            new(are_new, name)?;
        }
        Operation::AddMapElements(name, added) => {
            let are_new = find(&mut table.maps, name, Map::name)?.insert(added.iter().cloned())?;
            new(are_new, name)?;
        }
        Operation::AddRules(name, rules) => chain(table, name)?.rules.extend(rules.iter().cloned()),
    }
    Ok(())
}

fn new(are_new: bool, name: &Name) -> Result<(), Refusal> {
    are_new.then_some(()).ok_or_else(|| Refusal::Exists(name.clone()))
}

fn delete_elements(table: &mut Draft, name: &Name, keys: &[Key]) -> Result<(), Refusal> {
    let were_there = match find(&mut table.sets, name, Set::name) {
        Ok(set) => set.remove(keys),
        Err(_) => find(&mut table.maps, name, Map::name)?.remove(keys),
    };
    were_there
        .then_some(())
        .ok_or_else(|| Refusal::Missing(name.clone()))
}

fn chain<'t>(table: &'t mut Draft, name: &Name) -> Result<&'t mut Chain, Refusal> {
    find(&mut table.chains, name, |chain| &chain.name)
}

fn find<'t, T>(objects: &'t mut [T], name: &Name, of: impl Fn(&T) -> &Name) -> Result<&'t mut T, Refusal> {
    objects
        .iter_mut()
        .find(|object| of(object) == name)
        .ok_or_else(|| Refusal::Missing(name.clone()))
}

fn take<T>(objects: &mut Vec<T>, name: &Name, of: impl Fn(&T) -> &Name) -> Result<T, Refusal> {
    let at = objects.iter().position(|object| of(object) == name);
    at.map(|at| objects.remove(at))
        .ok_or_else(|| Refusal::Missing(name.clone()))
}

fn absent<T>(objects: &[T], name: &Name, of: impl Fn(&T) -> &Name) -> Result<(), Refusal> {
    if objects.iter().any(|object| of(object) == name) {
        return Err(Refusal::Exists(name.clone()));
    }
    Ok(())
}

fn unused(table: &Draft, object: Reference<'_>) -> Result<(), Refusal> {
    let mut rules = table.chains.iter().flat_map(|chain| &chain.rules);
    let mut data = table.maps.iter().flat_map(|map| map.elements().values());
    let is_used = rules.any(|rule| Reference::of(rule).any(|used| used == object))
        || data.any(|datum| Reference::led_to(datum) == Some(object));
    match is_used {
        true => Err(Refusal::Busy(object.name().clone())),
        false => Ok(()),
    }
}

fn all_exist<'d>(table: &Draft, mut used: impl Iterator<Item = Reference<'d>>) -> Result<(), Refusal> {
    let missing = used.find(|used| match used {
        Reference::Chain(name) => table.chains.iter().all(|chain| chain.name != **name),
        Reference::Container(name) => !has_container(table, name),
        Reference::Counter(name) => table.counters.iter().all(|counter| counter.name != **name),
    });
    missing.map_or(Ok(()), |used| Err(Refusal::Missing(used.name().clone())))
}

fn has_container(table: &Draft, name: &Name) -> bool {
    table.sets.iter().any(|set| set.name() == name) || table.maps.iter().any(|map| map.name() == name)
}

fn no_container(table: &Draft, name: &Name) -> Result<(), Refusal> {
    match has_container(table, name) {
        true => Err(Refusal::Exists(name.clone())),
        false => Ok(()),
    }
}
