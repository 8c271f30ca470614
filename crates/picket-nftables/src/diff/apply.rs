//! What a table is after a plan, operation by operation, refusing what the kernel refuses.

use std::collections::BTreeMap;

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
    for operation in plan.operations() {
        match (operation, &mut table) {
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
    Ok(table.ok_or(Refusal::NoTable)?.check()?)
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
            targets_exist(table, map)?;
            table.maps.push(map.clone());
        }
        Operation::AddElements(name, keys) => {
            let set = find(&mut table.sets, name, Set::name)?;
            if keys.iter().any(|key| set.elements().contains(key)) {
                return Err(Refusal::Exists(name.clone()));
            }
            let elements = set.elements().iter().chain(keys).cloned();
            *set = with_comment(
                Set::new(name.clone(), set.key().to_vec(), set.interval(), elements)?,
                set,
            );
        }
        Operation::AddMapElements(name, added) => {
            let map = find(&mut table.maps, name, Map::name)?;
            let elements = map.elements().clone().into_iter().chain(added.iter().cloned());
            let new = rebuilt(map, elements)?;
            targets_exist(table, &new)?;
            *find(&mut table.maps, name, Map::name)? = new;
        }
        Operation::AddRules(name, rules) => {
            rules.iter().try_for_each(|rule| names_exist(table, rule))?;
            chain(table, name)?.rules.extend(rules.iter().cloned());
        }
        _ => {}
    }
    Ok(())
}

fn with_comment(new: Set, old: &Set) -> Set {
    match old.comment() {
        Some(comment) => new.commented(comment.clone()),
        None => new,
    }
}

fn rebuilt(old: &Map, elements: impl IntoIterator<Item = (Key, Datum)>) -> Result<Map, ModelError> {
    let new = Map::new(
        old.name().clone(),
        old.key().to_vec(),
        old.gives(),
        old.interval(),
        elements,
    )?;
    Ok(match old.comment() {
        Some(comment) => new.commented(comment.clone()),
        None => new,
    })
}

fn delete_elements(table: &mut Draft, name: &Name, keys: &[Key]) -> Result<(), Refusal> {
    if let Ok(set) = find(&mut table.sets, name, Set::name) {
        let mut elements = set.elements().clone();
        if !keys.iter().all(|key| elements.remove(key)) {
            return Err(Refusal::Missing(name.clone()));
        }
        *set = with_comment(
            Set::new(name.clone(), set.key().to_vec(), set.interval(), elements)?,
            set,
        );
        return Ok(());
    }
    let map = find(&mut table.maps, name, Map::name)?;
    let mut elements: BTreeMap<Key, _> = map.elements().clone();
    if !keys.iter().all(|key| elements.remove(key).is_some()) {
        return Err(Refusal::Missing(name.clone()));
    }
    *map = rebuilt(map, elements)?;
    Ok(())
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

fn targets_exist(table: &Draft, map: &Map) -> Result<(), Refusal> {
    for datum in map.elements().values() {
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
