//! The pods of a node by number, so that a name is looked up once for each that happens to a pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use picket_policy::ObjectRef;
use rustc_hash::FxHashMap;

use super::table::Made;
use crate::lists::Lists;

/// The number of a pod, which another has only when this one is gone.
pub(super) type Number = u32;

/// The pods of a node.
#[derive(Debug, Default)]
pub(super) struct Pods {
    numbers: FxHashMap<ObjectRef, Number>,
    /// The same, in the order in which they are told.
    in_order: BTreeMap<ObjectRef, Number>,
    known: Vec<Option<Known>>,
    /// Numbers that nobody has any more.
    free: Vec<Number>,
}

/// What is known of a pod.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) object: ObjectRef,
    pub(super) lists: Option<Arc<Lists>>,
    /// Its table.
    pub(super) made: Option<Made>,
}

impl Pods {
    /// The number of a pod that is known.
    pub(super) fn number(&self, object: &ObjectRef) -> Option<Number> {
        self.numbers.get(object).copied()
    }

    /// The number of a pod, which is known from now on.
    pub(super) fn enter(&mut self, object: &ObjectRef) -> Number {
        if let Some(number) = self.number(object) {
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.known.push(None);
            // INVARIANT: nodes have fewer pods than there are numbers.
            u32::try_from(self.known.len() - 1).unwrap_or(Number::MAX)
        });
        if let Some(known) = self.known.get_mut(number as usize) {
            *known = Some(Known {
                object: object.clone(),
                lists: None,
                made: None,
            });
        }
        self.numbers.insert(object.clone(), number);
        self.in_order.insert(object.clone(), number);
        number
    }

    /// A pod is gone, and nothing is known by its number.
    pub(super) fn leave(&mut self, number: Number) {
        let known = self.known.get_mut(number as usize);
        if let Some(gone) = known.and_then(Option::take) {
            self.numbers.remove(&gone.object);
            self.in_order.remove(&gone.object);
            self.free.push(number);
        }
    }

    /// What is known of a pod.
    pub(super) fn get(&self, number: Number) -> Option<&Known> {
        self.known.get(number as usize)?.as_ref()
    }

    /// The same.
    pub(super) fn get_mut(&mut self, number: Number) -> Option<&mut Known> {
        self.known.get_mut(number as usize)?.as_mut()
    }

    /// A pod has these lists now; those that it had.
    pub(super) fn set_lists(&mut self, number: Number, lists: Option<Arc<Lists>>) -> Option<Arc<Lists>> {
        std::mem::replace(&mut self.get_mut(number)?.lists, lists)
    }

    /// Every pod.
    pub(super) fn each(&self) -> impl Iterator<Item = (&ObjectRef, &Known)> {
        let each = self.in_order.iter();
        each.filter_map(|(object, number)| Some((object, self.get(*number)?)))
    }
}
