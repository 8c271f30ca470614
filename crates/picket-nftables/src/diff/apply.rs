//! What a table is after a plan, operation by operation, refusing what the kernel refuses.

use picket_dataplane::Plan;

use super::{Operation, References};
use crate::model::{Chain, Datum, Draft, Key, Map, ModelError, Name, Rule, Set, Table};

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
    carry_out(&mut table, plan)?;
    Ok(table.ok_or(Refusal::NoTable)?.check()?)
}

impl Table {
    /// The table after a plan that leads from it to a table, as those of renderers do: each operation is checked, and what
    /// comes of all of them is not.
    ///
    /// # Errors
    /// When the kernel would refuse an operation.
    pub fn carried(self, plan: &Plan<Operation>) -> Result<Self, Refusal> {
        let mut table = Some(self.into_draft());
        carry_out(&mut table, plan)?;
        table.map(Draft::part).ok_or(Refusal::NoTable)
    }
}

fn carry_out(table: &mut Option<Draft>, plan: &Plan<Operation>) -> Result<(), Refusal> {
    for operation in plan.operations() {
        match (operation, &mut *table) {
            (Operation::Replace(new), table) => *table = Some(Table::clone(new).into_draft()),
            (Operation::Delete(name), table) => {
                if table.take().is_none_or(|old| old.name != *name) {
                    return Err(Refusal::Missing(name.clone()));
                }
            }
            (_, None) => return Err(Refusal::NoTable),
            (operation, Some(table)) => apply(table, operation)?,
        }
    }
    Ok(())
}

fn apply(table: &mut Draft, operation: &Operation) -> Result<(), Refusal> {
    match operation {
        // INVARIANT: handled where there may be no table.
        Operation::Replace(_) | Operation::Delete(_) => Ok(()),
        Operation::Flush(_)
        | Operation::DeleteElements(..)
        | Operation::DeleteMap(_)
        | Operation::DeleteSet(_)
        | Operation::DeleteChain(_)
        | Operation::DeleteCounter(_) => remove(table, operation),
        _ => add(table, operation),
    }
}

fn remove(table: &mut Draft, operation: &Operation) -> Result<(), Refusal> {
    let containers = |name| References {
        containers: [name].into(),
        ..References::default()
    };
    match operation {
        Operation::Flush(name) => chain(table, name)?.rules.clear(),
        Operation::DeleteElements(name, keys) => delete_elements(table, name, keys)?,
        Operation::DeleteMap(name) => {
            unused(table, &containers(name), name)?;
            take(&mut table.maps, name, Map::name)?;
        }
        Operation::DeleteSet(name) => {
            unused(table, &containers(name), name)?;
            take(&mut table.sets, name, Set::name)?;
        }
        Operation::DeleteChain(name) => {
            unused(
                table,
                &References {
                    chains: [name].into(),
                    ..References::default()
                },
                name,
            )?;
            if !take(&mut table.chains, name, |chain| &chain.name)?
                .rules
                .is_empty()
            {
                return Err(Refusal::Busy(name.clone()));
            }
        }
        Operation::DeleteCounter(name) => {
            unused(
                table,
                &References {
                    counters: [name].into(),
                    ..References::default()
                },
                name,
            )?;
            take(&mut table.counters, name, |counter| &counter.name)?;
        }
        _ => {}
    }
    Ok(())
}

fn add(table: &mut Draft, operation: &Operation) -> Result<(), Refusal> {
    match operation {
        Operation::AddCounter(counter) => {
            absent(&table.counters, &counter.name, |one| &one.name)?;
            table.counters.push(counter.clone());
        }
        Operation::AddChain { name, base, comment } => {
            absent(&table.chains, name, |one| &one.name)?;
            table.chains.push(Chain {
                name: name.clone(),
                base: *base,
                comment: comment.clone(),
                rules: Vec::new(),
            });
        }
        Operation::SetPolicy(name, base) => chain(table, name)?.base = Some(*base),
        Operation::AddSet(set) => {
            absent(&table.sets, set.name(), Set::name)?;
            absent(&table.maps, set.name(), Map::name)?;
            table.sets.push(set.clone());
        }
        Operation::AddMap(map) => {
            absent(&table.sets, map.name(), Set::name)?;
            absent(&table.maps, map.name(), Map::name)?;
            targets_exist(table, map.elements().values())?;
            table.maps.push(map.clone());
        }
        Operation::AddElements(name, keys) => {
            let are_new = find(&mut table.sets, name, Set::name)?.insert(keys)?;
            new(are_new, name)?;
        }
        Operation::AddMapElements(name, added) => {
            targets_exist(table, added.iter().map(|(_, datum)| datum))?;
            let are_new = find(&mut table.maps, name, Map::name)?.insert(added.iter().cloned())?;
            new(are_new, name)?;
        }
        Operation::AddRules(name, rules) => {
            rules.iter().try_for_each(|rule| names_exist(table, rule))?;
            chain(table, name)?.rules.extend(rules.iter().cloned());
        }
        _ => {}
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

fn unused(table: &Draft, objects: &References<'_>, name: &Name) -> Result<(), Refusal> {
    let by_rule = table
        .chains
        .iter()
        .flat_map(|chain| &chain.rules)
        .any(|rule| objects.used_by(rule));
    let by_element = table
        .maps
        .iter()
        .flat_map(|map| map.elements().values())
        .any(|datum| objects.targeted_by(datum));
    if by_rule || by_element {
        Err(Refusal::Busy(name.clone()))
    } else {
        Ok(())
    }
}

fn targets_exist<'d>(table: &Draft, data: impl Iterator<Item = &'d Datum>) -> Result<(), Refusal> {
    for datum in data {
        if let Datum::Verdict(verdict) = datum
            && let Some(target) = verdict.target()
            && !table.chains.iter().any(|chain| chain.name == *target)
        {
            return Err(Refusal::Missing(target.clone()));
        }
    }
    Ok(())
}

fn names_exist(table: &Draft, rule: &Rule) -> Result<(), Refusal> {
    let used = References::of(rule);
    let container = |name: &Name| {
        table.sets.iter().any(|set| set.name() == name) || table.maps.iter().any(|map| map.name() == name)
    };
    let missing = |name: &Name| Err(Refusal::Missing(name.clone()));
    if let Some(name) = used
        .chains
        .iter()
        .find(|name| !table.chains.iter().any(|chain| chain.name == ***name))
    {
        return missing(name);
    }
    if let Some(name) = used.containers.iter().find(|name| !container(name)) {
        return missing(name);
    }
    if let Some(name) = used
        .counters
        .iter()
        .find(|name| !table.counters.iter().any(|one| one.name == ***name))
    {
        return missing(name);
    }
    Ok(())
}
