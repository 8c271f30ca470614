//! What nothing leads to yet, made in transactions of bounded size: while the kernel takes one in, nobody else in the network
//! namespace can change any ruleset.

use picket_dataplane::Plan;

use super::Operation;

/// How many objects, rules and elements a transaction of [`super::Stages`] makes at most, where they need not come together:
/// more than the table of a node in a cluster of 5,000 pods has, as portions cost the agent more than others win; and what the
/// kernel takes in within some tenth of a second.
pub const PORTION: usize = 32_768;

/// How many objects, rules and elements an operation makes.
pub(super) fn weight(operation: &Operation) -> usize {
    match operation {
        Operation::AddSet(set) => 1 + set.elements().len(),
        Operation::AddMap(map) => 1 + map.elements().len(),
        Operation::AddElements(_, keys) => keys.len(),
        Operation::AddMapElements(_, pairs) => pairs.len(),
        Operation::AddRules(_, rules) => rules.len(),
        _ => 1,
    }
}

/// Operations in transactions that make at most `size` each.
pub(super) fn portions(operations: impl Iterator<Item = Operation>, size: usize) -> Vec<Plan<Operation>> {
    let (mut portions, mut portion, mut room) = (Vec::new(), Vec::new(), size);
    for piece in operations.flat_map(|operation| pieces(operation, size.max(2))) {
        let taken = weight(&piece);
        if taken > room && !portion.is_empty() {
            portions.push(std::mem::take(&mut portion).into_iter().collect());
            room = size;
        }
        room = room.saturating_sub(taken);
        portion.push(piece);
    }
    if !portion.is_empty() {
        portions.push(portion.into_iter().collect());
    }
    portions
}

/// Operations that do the same, and of which none makes more than `size`.
fn pieces(operation: Operation, size: usize) -> Vec<Operation> {
    if weight(&operation) <= size {
        return vec![operation];
    }
    match operation {
        Operation::AddSet(set) => {
            let (set, rest) = set.split(size - 1);
            let name = set.name().clone();
            let rest = rest
                .chunks(size)
                .map(|keys| Operation::AddElements(name.clone(), keys.to_vec()));
            let rest: Vec<_> = rest.collect();
            std::iter::once(Operation::AddSet(set)).chain(rest).collect()
        }
        Operation::AddMap(map) => {
            let (map, rest) = map.split(size - 1);
            let name = map.name().clone();
            let rest = rest
                .chunks(size)
                .map(|pairs| Operation::AddMapElements(name.clone(), pairs.to_vec()));
            let rest: Vec<_> = rest.collect();
            std::iter::once(Operation::AddMap(map)).chain(rest).collect()
        }
        Operation::AddRules(name, rules) => {
            let each = rules.chunks(size);
            each.map(|rules| Operation::AddRules(name.clone(), rules.to_vec()))
                .collect()
        }
        other => vec![other],
    }
}
